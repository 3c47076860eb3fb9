"""A host or a cluster as its validations see it, built from the few things that a test is about."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import msgspec

from installer.assisted import inventory as inv
from installer.assisted.enums import HostStatus, Role
from installer.rendezvous.settings import Settings
from installer.rendezvous.store.documents import Document, HostInventory
from installer.rendezvous.store.model import Cluster, Host
from installer.rendezvous.validations import requirements as hwreqs
from installer.rendezvous.validations.cluster.networks import ClusterView
from installer.rendezvous.validations.hostview import HostView, Members
from installer.testing.service.rendezvous_kit import inventory

replace = msgspec.structs.replace
AT = datetime(2026, 1, 1, 12, tzinfo=UTC)
SINCE = datetime(2026, 1, 1, tzinfo=UTC)
HOST = Host(
    id="h",
    infra_env_id="e",
    cluster_id="c",
    role=Role.MASTER,
    status=HostStatus.KNOWN,
    requested_hostname="master-0",
    checked_in_at="2026-01-01T11:59:59.000Z",
    installation_disk_id="/dev/disk/by-path/pci-0000:04:00.0",
    installation_disk_path="/dev/disk/by-path/pci-0000:04:00.0",
)
CLUSTER = Cluster(
    id="c",
    name="ostest",
    base_dns_domain="test.node0.example",
    pull_secret="{}",
    machine_networks=[{"cidr": "192.168.111.0/24"}],
    cluster_networks=[{"cidr": "10.128.0.0/14", "host_prefix": 23}],
    service_networks=[{"cidr": "172.30.0.0/16"}],
    api_vips=[{"ip": "192.168.111.5"}],
    ingress_vips=[{"ip": "192.168.111.4"}],
)


def documents(of: type[Host | Cluster], changes: dict[str, Any]) -> dict[str, Any]:
    """Fields of a host or a cluster; texts of those that are documents are made such."""
    kinds = {field.name: type(field.default) for field in msgspec.structs.fields(of)}
    return {
        name: kinds[name](value) if isinstance(value, str) and issubclass(kinds[name], Document) else value
        for name, value in changes.items()
    }


def decoded(**changes: Any) -> inv.Inventory:
    """Return an inventory with these members of its own; enough for a master."""
    return inv.decode(json.dumps(inventory(**{"disk_gb": 120, "ram_mib": 16384, "cpus": 4, **changes})))


def with_inventory(host: Host, **changes: Any) -> Host:
    """Return the host with an inventory of its own, as a peer has one."""
    return replace(host, inventory=HostInventory(json.dumps(inventory(**changes))))


def host_view(
    host: dict[str, Any] | None = None,
    cluster: dict[str, Any] | None = None,
    reported: dict[str, Any] | None = None,
    peers: tuple[Host, ...] = (),
    *,
    settings: dict[str, Any] | None = None,
    needs: dict[str, hwreqs.Requirements] | None = None,
) -> HostView:
    """One host of a cluster, with changes to the host, the cluster, its inventory and the settings."""
    mine = replace(HOST, inventory=HostInventory(json.dumps(inventory(**(reported or {})))))
    mine = replace(mine, **documents(Host, host or {}))
    return HostView(
        host=mine,
        inventory=decoded(**(reported or {})),
        joined=replace(CLUSTER, **documents(Cluster, cluster or {})),
        infra_env=None,
        peers=Members([mine, *peers]),
        requirements=needs or hwreqs.DOCUMENTED,
        settings=Settings(**{"release_image": "mirror/r", **(settings or {})}),
        at=AT,
        service_since=SINCE,
    )


def cluster_host(number: int, **changes: Any) -> Host:
    """Return the cluster's nth control-plane host, known and named."""
    plain = Host(
        id=f"h{number}",
        infra_env_id="e",
        cluster_id="c",
        status=HostStatus.KNOWN,
        role=Role.MASTER,
        requested_hostname=f"master-{number}",
    )
    return replace(plain, **documents(Host, changes))


def cluster_view(
    cluster: dict[str, Any] | None = None,
    hosts: tuple[Host, ...] | None = None,
    settings: dict[str, Any] | None = None,
    manifests: int = 0,
    *,
    inventories: dict[str, Any] | None = None,
) -> ClusterView:
    """Return a cluster of three hosts at .80 to .82 unless other hosts are given; inventories by host id, None for
    none."""
    members = (cluster_host(0), cluster_host(1), cluster_host(2)) if hosts is None else hosts
    pairs = []
    for number, host in enumerate(members):
        changes = {"hostname": host.requested_hostname, "ip": f"192.168.111.{80 + number}/24"}
        changes |= (inventories or {}).get(host.id) or {}
        missing = host.id in (inventories or {}) and (inventories or {})[host.id] is None
        pairs.append((host, None if missing else decoded(**changes)))
    return ClusterView(
        replace(CLUSTER, **documents(Cluster, cluster or {})), pairs, Settings(**(settings or {})), manifests
    )

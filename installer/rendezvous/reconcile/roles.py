"""Suggested roles and the bootstrap host (installer.md §5.8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from installer.assisted.enums import ClusterStatus, Role
from installer.assisted.inventory import Inventory
from installer.rendezvous.store.model import Cluster, Host
from installer.rendezvous.validations import disks
from installer.rendezvous.validations.networks import macs_of
from installer.rendezvous.validations.requirements import Requirements

GIB = 1024**3
RAM_TOLERANCE = 100 * 1024**2
Member = tuple[Host, Inventory]


def weight(inventory: Inventory) -> float:
    """Weigh a host's surplus over the least: (cpu-4) + 0.1 (GiB-16) + 0.004 (GiB of eligible disks-100).

    Whole GiB of memory that can be used and of each disk, as upstream's SortHosts (internal/host/monitor.go).
    """
    storage = sum(disk.size_bytes // GIB for disk in disks.eligible(inventory))
    return (inventory.cpu.count - 4) + 0.1 * (inventory.memory.usable_bytes // GIB - 16) + 0.004 * (storage - 100)


def fits(inventory: Inventory, need: Requirements) -> bool:
    """Return whether the host has CPU and memory for these thresholds. Its disks do not count: their faults can be
    mended in any role."""
    return (
        inventory.cpu.count >= need.cpu_cores
        and inventory.memory.physical_bytes + RAM_TOLERANCE >= need.ram_mib * 1024**2
    )


def suggest(cluster: Cluster, members: Sequence[Member], needs: Mapping[str, Requirements]) -> dict[str, Role]:
    """Suggested role by host id for hosts whose role is left open: the weakest capable become masters first."""
    if cluster.is_sno:
        return {host.id: Role.MASTER for host, _ in members if host.role is Role.AUTO}
    masters = sum(1 for host, _ in members if host.role is Role.MASTER)
    arbiters = sum(1 for host, _ in members if host.role is Role.ARBITER)
    wants_arbiter = cluster.control_plane_count == 2 and cluster.high_availability_mode == "Full"
    chosen: dict[str, Role] = {}
    for host, inventory in sorted(members, key=lambda item: (bool(item[1].gpus), weight(item[1]))):
        if host.role is not Role.AUTO:
            continue
        if masters < cluster.control_plane_count and fits(inventory, needs[Role.MASTER]):
            chosen[host.id], masters = Role.MASTER, masters + 1
        elif wants_arbiter and not arbiters and fits(inventory, needs[Role.ARBITER]):
            chosen[host.id], arbiters = Role.ARBITER, arbiters + 1
        else:
            chosen[host.id] = Role.WORKER
    return chosen


def is_bootstrap(inventory: Inventory, bootstrap_mac: str) -> bool:
    """Return whether this is the rendezvous host. Its MAC is in /etc/assisted/node0 as BOOTSTRAP_HOST_MAC."""
    return bool(bootstrap_mac) and bootstrap_mac.lower() in macs_of(inventory)


def fallback_bootstrap(hosts: Sequence[Host]) -> str | None:
    """Id of the last master when no host was marked; None when one was or none can be."""
    if any(host.bootstrap for host in hosts):
        return None
    masters = [host.id for host in hosts if Role.MASTER in (host.role, host.suggested_role)]
    return masters[-1] if masters else None


def place_in(cluster: Cluster | None) -> dict[str, Any]:
    """Return the fields that a host begins with in a cluster: its role, and whether it is added."""
    if cluster is not None and cluster.status is ClusterStatus.ADDING_HOSTS:
        return {"role": Role.AUTO, "suggested_role": Role.WORKER, "bootstrap": False, "added": True}
    is_sno = cluster is not None and cluster.is_sno
    role = Role.MASTER if is_sno else Role.AUTO
    return {"role": role, "suggested_role": role, "bootstrap": is_sno, "added": False}

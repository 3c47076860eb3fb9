"""Clusters, hosts and events as the page shows them: chosen field by field, so that no secret is among them.

The API's own documents hold more than a stranger in a lab may read (overrides, proxies with passwords).
"""

from __future__ import annotations

from collections.abc import Set
from typing import Any

from installer.assisted import inventory as inv
from installer.assisted.validation_ids import HostValidation
from installer.common.redact import shortened
from installer.rendezvous.reconcile.engine import Engine
from installer.rendezvous.states import host as host_states
from installer.rendezvous.store.documents import Validations
from installer.rendezvous.store.model import Cluster, Host, InfraEnv
from installer.rendezvous.validations import disks
from installer.rendezvous.validations.hostview import hostname_of, inventory_of

LONGEST = 1000
#: Marks that turn the direction of what follows them: a name with one would change how the text around it reads.
TURNING = dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A)), "\N{REPLACEMENT CHARACTER}")
#: Validations of a host that prevent no installation: the states' tables do not ask for them.
WARNINGS = frozenset(HostValidation) - {
    *(*host_states.MIN_HARDWARE, *host_states.SUFFICIENT, HostValidation.MACHINE_CIDR_DEFINED),
    *(HostValidation.CONNECTED, HostValidation.MEDIA_CONNECTED),
}
MIB = 1024**2


def _text(value: object) -> str:
    """Somebody else's text, cut, without secrets and marks of direction."""
    return shortened(str(value or ""), LONGEST).translate(TURNING)


def _validations(info: Validations, warning: Set[str] = frozenset()) -> list[dict[str, Any]]:
    """``warning``: ids of those that prevent nothing."""
    return [
        {
            "group": group.value,
            "id": entry.id,
            "status": entry.status.value,
            "message": _text(entry.message),
            **({"warns": True} if entry.id in warning else {}),
        }
        for group, entries in (info.value or {}).items()
        for entry in entries
    ]


def _disk(disk: inv.Disk, chosen: bool) -> dict[str, Any]:
    return {
        "path": _text(disk.path),
        "size_bytes": disk.size_bytes,
        "type": _text(disk.drive_type),
        "model": _text(disk.model),
        "eligible": disk.installation_eligibility.eligible,
        "reasons": [_text(reason) for reason in disk.installation_eligibility.not_eligible_reasons],
        "chosen": chosen,
    }


def _nic(nic: inv.Interface) -> dict[str, Any]:
    return {
        "name": _text(nic.name),
        "mac": _text(nic.mac_address),
        "addresses": [_text(address) for address in (*nic.ipv4_addresses, *nic.ipv6_addresses)],
        "carrier": nic.has_carrier,
        "speed_mbps": nic.speed_mbps,
    }


def _hardware(inventory: inv.Inventory, host: Host) -> dict[str, Any]:
    vendor, chosen = inventory.system_vendor, disks.installation(host, inventory)
    return {
        "vendor": _text(" ".join(filter(None, (vendor.manufacturer, vendor.product_name)))),
        "serial": _text(vendor.serial_number),
        "cpus": inventory.cpu.count,
        "architecture": _text(inventory.cpu.architecture),
        "cpu_model": _text(inventory.cpu.model_name),
        "ram_mib": inventory.memory.physical_bytes // MIB,
        "boot": _text(inventory.boot.current_boot_mode),
        "disks": [_disk(disk, disk == chosen) for disk in inventory.disks],
        "nics": [_nic(nic) for nic in inventory.interfaces],
    }


def traits(host: Host, cluster: Cluster | None) -> tuple[object, ...]:
    """All that a host's view is made of: hosts with the same traits look the same."""
    return (
        *(host.status, host.status_info, host.progress, host.validations_info, host.inventory, host.bootstrap),
        *(host.role, host.suggested_role, host.user_hostname, host.requested_hostname, host.installation_disk_id),
        *(host.cluster_id, host.logs_collected_at, cluster.is_sno if cluster else False),
    )


def host_view(engine: Engine, host: Host, cluster: Cluster | None) -> dict[str, Any]:
    """One host."""
    inventory = inventory_of(host)
    progress = host.progress
    return {
        "id": host.id,
        "infra_env_id": host.infra_env_id,
        "cluster_id": host.cluster_id,
        "name": _text(hostname_of(host, inventory) or host.id),
        "status": host.status.value,
        "status_info": _text(host.status_info),
        "role": host.effective_role,
        "bootstrap": host.bootstrap,
        "percentage": progress.installation_percentage,
        "stage": progress.current_stage.value if progress.current_stage else "",
        "stage_info": _text(progress.progress_info),
        "stage_since": progress.stage_started_at or "",
        "stage_timed_out": progress.stage_timed_out,
        "stages": [stage.value for stage in engine.stages(host, cluster)] if cluster else [],
        "validations": _validations(host.validations_info, WARNINGS),
        "hardware": _hardware(inventory, host) if inventory else None,
        "logs": host.logs_collected_at is not None,
    }


def cluster_view(engine: Engine, cluster: Cluster) -> dict[str, Any]:
    """One cluster, without its hosts."""
    store = engine.store
    progress = cluster.progress
    hosts = store.hosts(cluster_id=cluster.id)
    return {
        "id": cluster.id,
        "name": cluster.name,
        "domain": _text(cluster.base_dns_domain),
        "version": _text(cluster.openshift_version),
        "platform": _text(cluster.platform.get("type")),
        "control_plane_count": cluster.control_plane_count,
        "status": cluster.status.value,
        "status_info": _text(cluster.status_info),
        "percentage": progress.total_percentage,
        "preparing": progress.preparing_for_installation_stage_percentage,
        "installing": progress.installing_stage_percentage,
        "finalizing": progress.finalizing_stage_percentage,
        "finalizing_stage": _text(progress.finalizing_stage),
        "api_vips": [_text(item.get("ip")) for item in cluster.api_vips],
        "ingress_vips": [_text(item.get("ip")) for item in cluster.ingress_vips],
        "validations": _validations(cluster.validations_info),
        "kubeconfig": "kubeconfig" in store.file_names(cluster.id),
        "logs": cluster.controller_logs_collected_at is not None or any(host.logs_collected_at for host in hosts),
    }


def infra_env_view(infra_env: InfraEnv) -> dict[str, Any]:
    """One infra-env: what tells it apart; its settings are the user's."""
    return {
        "id": infra_env.id,
        "name": _text(infra_env.name),
        "cluster_id": infra_env.cluster_id,
        "cpu_architecture": infra_env.cpu_architecture,
        "updated_at": infra_env.updated_at,
    }


def event_view(number: int, event: dict[str, Any]) -> dict[str, Any]:
    """One event: ``number`` grows with time, ``event`` is as the API shows it."""
    return {
        "number": number,
        "time": event["event_time"],
        "severity": event["severity"],
        "cluster_id": event.get("cluster_id"),
        "host_id": event.get("host_id"),
        "message": _text(event["message"]),
    }

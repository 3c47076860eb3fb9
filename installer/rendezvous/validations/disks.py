"""Which disks may be installed on, and which one is taken (installer.md §5.8)."""

from __future__ import annotations

from ipaddress import ip_address

import msgspec

from installer.assisted.inventory import Disk, Eligibility, Inventory
from installer.rendezvous.store import diskidentity
from installer.rendezvous.store.model import Host
from installer.rendezvous.validations.networks import in_any

GB = 1000**3
ALWAYS = ("HDD", "SSD", "Multipath")
BY_ARCHITECTURE = {"RAID": None, "iSCSI": None, "FC": ("x86_64", "s390x")}
ONLY_S390X = ("ECKD", "ECKD (ESE)", "FBA")


def size_text(size_bytes: int) -> str:
    """Bytes in decimal gigabytes, as disks are sold."""
    return f"{size_bytes / GB:.1f} GB" if size_bytes % GB else f"{size_bytes // GB} GB"


def _type_allowed(disk: Disk, architecture: str) -> bool:
    if disk.drive_type in ALWAYS:
        return True
    if disk.drive_type in BY_ARCHITECTURE:
        only = BY_ARCHITECTURE[disk.drive_type]
        return only is None or architecture in only
    return disk.drive_type in ONLY_S390X and architecture == "s390x"


def _in_multipath(disk: Disk, inventory: Inventory) -> bool:
    holders = {name.strip() for name in disk.holders.split(",") if name.strip()}
    return any(other.drive_type == "Multipath" and other.name in holders for other in inventory.disks)


def service_reasons(disk: Disk, inventory: Inventory, min_gb: int, machine_cidrs: list[str]) -> list[str]:
    """The service's own objections to a disk; each names what was found and what is needed."""
    reasons = []
    if disk.size_bytes < min_gb * GB:
        reasons.append(f"disk is too small: found {size_text(disk.size_bytes)}, at least {min_gb} GB needed")
    architecture = inventory.cpu.architecture or "x86_64"
    if not _type_allowed(disk, architecture):
        reasons.append(f"drive type is {disk.drive_type}, which cannot be installed on ({architecture})")
    if disk.drive_type in ("FC", "iSCSI") and _in_multipath(disk, inventory):
        reasons.append(f"{disk.drive_type} disk is a path of a multipath device: use the multipath device")
    if disk.drive_type == "iSCSI" and disk.iscsi is not None and disk.iscsi.host_ip_address:
        address = ip_address(disk.iscsi.host_ip_address)
        if in_any(address, machine_cidrs):
            reasons.append(f"iSCSI address {address} is in the machine network")
    return reasons


def judge(inventory: Inventory, min_gb: int, machine_cidrs: list[str]) -> Inventory:
    """The inventory with every disk's eligibility: the agent's reasons and the service's together."""
    disks = []
    for disk in inventory.disks:
        known = [
            reason
            for reason in disk.installation_eligibility.not_eligible_reasons
            if not reason.startswith(("disk is too small: ", "drive type is "))
        ]
        reasons = list(dict.fromkeys(known + service_reasons(disk, inventory, min_gb, machine_cidrs)))
        eligibility = Eligibility(eligible=not reasons, not_eligible_reasons=reasons)
        disks.append(msgspec.structs.replace(disk, installation_eligibility=eligibility))
    return msgspec.structs.replace(inventory, disks=disks)


def eligible(inventory: Inventory) -> list[Disk]:
    """Disks that may be installed on, in inventory order."""
    return [disk for disk in inventory.disks if disk.installation_eligibility.eligible]


def _order(disk: Disk) -> tuple[bool, bool, str, int, str]:
    return (not disk.bootable, disk.name.startswith("nvme"), disk.drive_type, disk.size_bytes, disk.hctl)


def choose(inventory: Inventory) -> Disk | None:
    """The disk taken when nobody chose: bootable, not NVMe, HDD before SSD, smallest, HCTL; None when none fits."""
    return min(eligible(inventory), key=_order, default=None)


def find(inventory: Inventory, wanted: str) -> Disk | None:
    """The disk with this id, path, by-id or by-path name."""
    for disk in inventory.disks:
        if wanted and wanted in (disk.id, disk.path, disk.by_id, disk.by_path):
            return disk
    return None


def installation(host: Host, inventory: Inventory) -> Disk | None:
    """The disk that the host is to be installed on, by what it is; None when the inventory has it no more."""
    if host.installation_disk is None:
        return find(inventory, host.installation_disk_id)
    return diskidentity.find(inventory, host.installation_disk)


def skipped(host: Host, inventory: Inventory) -> list[tuple[str, Disk | None]]:
    """What is not to be formatted: each by the name that it was given last, and the disk, None when it is missing."""
    known = {item.id: item for item in host.skipped_disks}
    return [
        (name, diskidentity.find(inventory, known[name]) if name in known else find(inventory, name))
        for name in host.skip_formatting_disks.split(",")
        if name
    ]


def select(host: Host, disk: Disk, inventory: Inventory) -> Host:
    """The host with this disk to be installed on: its name for the API, and by what it is found again."""
    before = host.installation_disk if installation(host, inventory) == disk else None
    identity = diskidentity.identify(disk, inventory, before)
    return msgspec.structs.replace(
        host, installation_disk=identity, installation_disk_id=identity.id, installation_disk_path=identity.id
    )


def skip(host: Host, names: list[str], inventory: Inventory | None) -> Host:
    """The host with these disks not to be formatted, by any of their names."""
    known = {item.id: item for item in host.skipped_disks}
    kept = []
    for name in names:
        before = known.get(name)
        disk = None
        if inventory is not None:
            disk = diskidentity.find(inventory, before) if before else find(inventory, name)
        kept.append(
            diskidentity.identify(disk, inventory, before)
            if disk is not None and inventory is not None
            else before or diskidentity.named(name)
        )
    kept = list({item.id: item for item in kept}.values())
    return msgspec.structs.replace(host, skipped_disks=kept, skip_formatting_disks=",".join(item.id for item in kept))


def registered_again(host: Host) -> Host:
    """The host after its agent started anew, perhaps with the machine: kernel names say nothing of disks any more."""
    return msgspec.structs.replace(
        host,
        installation_disk=diskidentity.restarted(host.installation_disk),
        skipped_disks=[diskidentity.restarted(item) or item for item in host.skipped_disks],
    )

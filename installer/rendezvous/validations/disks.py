"""Disks that may be installed on, and the choice among them (installer.md §5.8)."""

from __future__ import annotations

from ipaddress import ip_address

import msgspec

from installer.assisted.inventory import Disk, Eligibility, Inventory
from installer.rendezvous.store import diskidentity
from installer.rendezvous.store.model import Host
from installer.rendezvous.validations.networks import addresses, best_default_route

GB = 1000**3
ALWAYS = ("HDD", "SSD", "Multipath")
# From OpenShift 4.15 on.
LATER = ("RAID", "iSCSI")
ONLY_S390X = ("FC", "ECKD (ESE)", "ECKD", "FBA")
PATHS = ("FC", "iSCSI")
#: Kinds of disks that other hosts may use, or that are made of others.
NEVER_FORMATTED = ("FC", "iSCSI", "LVM", "Multipath")
# How the service's own objections to a disk begin: they are made anew with each inventory.
TOO_SMALL, WRONG_TYPE = "Disk is too small", "Drive type is"
WRONG_PATHS, MIXED_PATHS = (
    "Multipath device has path of unsupported type",
    "Multipath device has paths of different types",
)
MEMBER, SAME_ADDRESS = "Disk is a member of multipath device", "iSCSI host IP"
BAD_PATHS = "Installation on multipath device is not possible due to errors on at least one iSCSI disk"
NO_ADDRESS, NO_INTERFACE = (
    "Host IP address is not available",
    "Cannot find the network interface behind the default route",
)
BAD_ADDRESS = "Cannot parse iSCSI host IP"
OWN = (
    *(TOO_SMALL, WRONG_TYPE, WRONG_PATHS, MIXED_PATHS, MEMBER, SAME_ADDRESS, BAD_PATHS, NO_ADDRESS, NO_INTERFACE),
    BAD_ADDRESS,
)


def size_text(size_bytes: int) -> str:
    """Bytes in decimal gigabytes, as disks are sold."""
    return f"{size_bytes / GB:.1f}".removesuffix(".0") + " GB"


def types(architecture: str, basic: bool = False) -> list[str]:
    """Drive types that can be installed on; ``basic``: in every release."""
    more = {"s390x": ONLY_S390X, "x86_64": ("FC",)}.get(architecture, ())
    return [*ALWAYS, *(() if basic else LATER), *more]


def paths_of(multipath: Disk, inventory: Inventory, drive_type: str = "") -> list[Disk]:
    """Return the disks that a multipath device is made of, all or those of one type."""
    return [
        disk
        for disk in inventory.disks
        if multipath.name and multipath.name in _holders(disk) and drive_type in ("", disk.drive_type)
    ]


def _holders(disk: Disk) -> list[str]:
    return [name.strip() for name in disk.holders.split(",")]


def _iscsi_reason(disk: Disk, inventory: Inventory) -> str:
    """Return an objection to the address by which an iSCSI disk is reached; empty if there is none.

    The interface of the default route is set up anew while the host boots, which would cut off its disk.
    """
    if disk.iscsi is None or not disk.iscsi.host_ip_address:
        return NO_ADDRESS
    try:
        address = ip_address(disk.iscsi.host_ip_address)
    except ValueError as error:
        return f"{BAD_ADDRESS} {disk.iscsi.host_ip_address}: {error}"
    route = best_default_route(inventory, address.version)
    if route is None:
        return ""
    nic = next((nic for nic in inventory.interfaces if nic.name == route.interface), None)
    if nic is None:
        return NO_INTERFACE
    own = [item.ip for item in addresses(nic.ipv4_addresses if address.version == 4 else nic.ipv6_addresses)]
    if address in own:
        return f"{SAME_ADDRESS} {address} is the same as host IP (of {nic.name}), they must be different"
    return ""


def _multipath_reasons(disk: Disk, inventory: Inventory) -> list[str]:
    every = paths_of(disk, inventory)
    by_type = {kind: [path for path in every if path.drive_type == kind] for kind in PATHS}
    if not any(by_type.values()):
        return [f"{WRONG_PATHS}. It must be {', '.join(PATHS)}"]
    reasons = []
    if any(paths and len(paths) != len(every) for paths in by_type.values()):
        reasons.append(f"{MIXED_PATHS}, but they must all be the same type")
    if any(_iscsi_reason(path, inventory) for path in by_type["iSCSI"]):
        reasons.append(BAD_PATHS)
    return reasons


def service_reasons(disk: Disk, inventory: Inventory, min_gb: int) -> list[str]:
    """Return the service's own objections to a disk; each names what was found and what is needed.

    Upstream's DiskIsEligible (internal/hardware/validator.go).
    """
    reasons = []
    if disk.size_bytes < min_gb * GB:
        shown, needed = size_text(disk.size_bytes), size_text(min_gb * GB)
        if shown == needed:
            shown += f" (short by {min_gb * GB - disk.size_bytes} B)"
        reasons.append(f"{TOO_SMALL} (disk only has {shown}, but {needed} are required)")
    allowed = types(inventory.cpu.architecture)
    if disk.drive_type not in allowed:
        reasons.append(f"{WRONG_TYPE} {disk.drive_type}, it must be one of {', '.join(allowed)}.")
    holders = _holders(disk)
    if holder := next((o.name for o in inventory.disks if o.drive_type == "Multipath" and o.name in holders), ""):
        # Stricter than upstream, which looks at these two types only: what multipathd holds cannot be written to.
        advice = " Use the multipath device instead." if disk.drive_type in PATHS else ""
        reasons.append(f"{MEMBER} {holder} and is not eligible for installation.{advice}")
    if disk.drive_type == "Multipath":
        reasons += _multipath_reasons(disk, inventory)
    if disk.drive_type == "iSCSI" and (wrong := _iscsi_reason(disk, inventory)):
        reasons.append(wrong)
    return reasons


def _is_own(reason: str) -> bool:
    """Tell if this service gave the reason, with an earlier inventory. An agent may find a disk too small as well."""
    return reason.startswith(OWN) and (not reason.startswith(TOO_SMALL) or reason.endswith("are required)"))


def judge(inventory: Inventory, min_gb: int) -> Inventory:
    """Return the inventory with every disk's eligibility: the agent's reasons and the service's together."""
    disks = []
    for disk in inventory.disks:
        agents = [reason for reason in disk.installation_eligibility.not_eligible_reasons if not _is_own(reason)]
        reasons = list(dict.fromkeys(agents + service_reasons(disk, inventory, min_gb)))
        eligibility = Eligibility(eligible=not reasons, not_eligible_reasons=reasons)
        # An agent that has no id for it means its kernel name (upstream's populateDisksId).
        identity = disk.id or f"/dev/{disk.name}"
        disks.append(msgspec.structs.replace(disk, id=identity, installation_eligibility=eligibility))
    return msgspec.structs.replace(inventory, disks=disks)


def eligible(inventory: Inventory) -> list[Disk]:
    """Disks that may be installed on, in inventory order."""
    return [disk for disk in inventory.disks if disk.installation_eligibility.eligible]


def is_formatted(disk: Disk) -> bool:
    """Would a firmware boot from this disk, and is it this machine's alone? What is on a SAN is others' too, and what
    can be taken out was put in by somebody (upstream: internal/common/disk_formatting.go)."""
    return (
        disk.bootable
        and disk.installation_eligibility.eligible
        and not disk.is_installation_media
        and not disk.removable
        and "mmcblk" not in (disk.by_path or "")
        and disk.drive_type not in NEVER_FORMATTED
    )


def choose(inventory: Inventory) -> Disk | None:
    """Return the disk taken when nobody chose: bootable, not NVMe, HDD before SSD, smallest, HCTL; None when none
    fits."""
    return min(
        eligible(inventory),
        key=lambda disk: (
            *(not disk.bootable, disk.name.startswith("nvme"), disk.drive_type),
            *(disk.size_bytes, disk.hctl),
        ),
        default=None,
    )


def find(inventory: Inventory, wanted: str) -> Disk | None:
    """Return the disk that has this name."""
    return next((disk for disk in inventory.disks if wanted and wanted in diskidentity.names(disk)), None)


def listed(inventory: Inventory) -> str:
    """Every disk with all its names, and why it cannot be installed on: for errors about a disk that is not found."""
    lines = []
    for disk in inventory.disks:
        first = disk.path or disk.id
        others = dict.fromkeys(name for name in diskidentity.names(disk) if name not in ("", first))
        reasons = disk.installation_eligibility.not_eligible_reasons or ["can be installed on"]
        lines.append(", ".join((f"{first} ({size_text(disk.size_bytes)})", *others)) + f": {', '.join(reasons)}")
    return "; ".join(lines)


def installation(host: Host, inventory: Inventory) -> Disk | None:
    """Return the disk that the host is to be installed on, found by its identity; None when the inventory no longer has
    it."""
    if host.installation_disk is None:
        return find(inventory, host.installation_disk_id)
    return diskidentity.find(inventory, host.installation_disk)


def skipped(host: Host, inventory: Inventory) -> list[tuple[str, Disk | None]]:
    """Disks that are not to be formatted: (the name that the user gave last, the disk or None when it is missing)."""
    return [(item.id, diskidentity.find(inventory, item)) for item in host.skipped_disks]


def select(host: Host, disk: Disk, inventory: Inventory) -> Host:
    """Return the host with this disk to be installed on: its name for the API, and by what it is found again."""
    before = host.installation_disk if installation(host, inventory) == disk else None
    identity = diskidentity.identify(disk, inventory, before)
    return msgspec.structs.replace(
        host, installation_disk=identity, installation_disk_id=identity.id, installation_disk_path=identity.id
    )


def skip(host: Host, names: list[str], inventory: Inventory | None) -> Host:
    """Return the host with these disks not to be formatted, by any of their names."""
    by_id = {item.id: item for item in host.skipped_disks}
    identities = []
    for name in filter(None, names):
        before = by_id.get(name)
        disk = None
        if inventory is not None:
            disk = diskidentity.find(inventory, before) if before else find(inventory, name)
        identities.append(
            diskidentity.identify(disk, inventory, before)
            if disk is not None and inventory is not None
            else before or diskidentity.named(name)
        )
    return msgspec.structs.replace(host, skipped_disks=list({item.id: item for item in identities}.values()))


def registered_again(host: Host) -> Host:
    """Return the host after its agent started anew, perhaps with the machine: kernel names say nothing of disks any
    more."""
    return msgspec.structs.replace(
        host,
        installation_disk=diskidentity.restarted(host.installation_disk),
        skipped_disks=[diskidentity.restarted(item) or item for item in host.skipped_disks],
    )

"""Disks of the host, with the reasons not to install on them (installer.md §6.2, §5.8)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from installer.agent.host import iscsi
from installer.assisted.inventory import Disk, Eligibility, Iscsi
from installer.hostsys.system import HostSystem

LSBLK = ("lsblk", "-J", "-b", "-O")
# Links under /dev/disk/by-id, the most specific first.
ID_ORDER = ("wwn-", "nvme-eui.", "nvme-uuid.", "scsi-", "ata-", "virtio-", "nvme-", "dm-uuid-", "md-uuid-")
# Names of disks by the kernel's drivers that a firmware can boot from: what is left is pmem, rbd, drbd, bcache and such
# (ghw's diskTypes, which OpenShift's agent asks).
CONTROLLERS = ("sd", "hd", "vd", "xvd", "nvme", "mmc", "dasd")
NO_CONTROLLER = "Disk has unknown storage controller"
# Columns of a multipath device's paths that hold for it too.
OF_PATHS = ("vendor", "model", "serial", "wwn")
# udev's keys of serial numbers: lsblk shows the first that there is. Of a SAS disk ID_SERIAL_SHORT is its WWN.
SERIALS = ("SCSI_IDENT_SERIAL", "ID_SCSI_SERIAL", "ID_SERIAL_SHORT", "ID_SERIAL")
# Where a firmware looks for what it boots: the EFI system partition, also in an MBR, GRUB's in a GPT, and PReP's of
# POWER in both.
BOOT_PARTITIONS = (
    *("c12a7328-f81f-11d2-ba4b-00a0c93ec93b", "0xef", "21686148-6449-6e6f-744e-656564454649"),
    *("9e1a2d38-c612-4316-aa26-8b49521e5a8b", "0x41"),
)
# GPT's "legacy BIOS bootable", and an MBR's active partition.
BOOT_FLAGS = 0x04 | 0x80
# Links that udev makes besides that of ID_PATH: for compatibility, by both ends' names, with the USB revision.
SECOND_PATH = re.compile(r"/by-path/(virtio-|fc-)|-usbv\d")


def _text(value: Any) -> str:
    return "" if value is None else str(value).strip()


def _flag(value: Any) -> bool:
    return value in (True, 1, "1", "true")


def _below(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for child in node.get("children") or []:
        yield child
        yield from _below(child)


def mounts_of(node: dict[str, Any]) -> list[str]:
    """Mount points of a device and of all below it."""
    paths: list[str] = []
    for item in (node, *_below(node)):
        points = item.get("mountpoints") or [item.get("mountpoint")]
        paths += [str(point) for point in points if point]
    return paths


def drive_type(node: dict[str, Any], by_path: str = "") -> str:
    """Return the API's drive type from lsblk's columns, and the link by which udev says where the disk is."""
    kind, transport, name = _text(node.get("type")), _text(node.get("tran")), _text(node.get("name"))
    simple = {"mpath": "Multipath", "lvm": "LVM", "rom": "ODD"}
    if kind in simple:
        return simple[kind]
    if kind.startswith("raid") or name.startswith("md"):
        return "RAID"
    if transport == "iscsi" or "-iscsi-" in by_path:
        return "iSCSI"
    if transport in ("fc", "fcoe") or "-fc-" in by_path or "/fc-" in by_path:
        return "FC"
    if name.startswith("dasd"):
        return "ECKD"
    if name.startswith("fd"):
        return "FDD"
    if kind in ("loop", "zram") or name.startswith(("zram", "ram")):
        return "virtual"
    if kind == "disk" and name.startswith(CONTROLLERS):
        return "HDD" if _flag(node.get("rota")) else "SSD"
    return "Unknown"


def links(host: HostSystem, directory: str) -> dict[str, list[str]]:
    """Names under /dev/disk/<directory> by the kernel name that they lead to."""
    names: dict[str, list[str]] = {}
    base = host.path(f"/dev/disk/{directory}")
    for link in sorted(base.glob("*")) if base.is_dir() else []:
        try:
            target = Path(link.readlink()).name
        except OSError:
            continue
        names.setdefault(target, []).append(f"/dev/disk/{directory}/{link.name}")
    return names


def best_id(names: list[str]) -> str:
    """Return the most specific of several by-id names."""

    def rank(name: str) -> tuple[int, str]:
        plain = name.rsplit("/", 1)[-1]
        return next((index for index, start in enumerate(ID_ORDER) if plain.startswith(start)), len(ID_ORDER)), plain

    return min(names, key=rank, default="")


def _udev(host: HostSystem, node: dict[str, Any], column: str = "maj:min") -> dict[str, str]:
    """Return what udev's database has of a device (systemd: sd-device's db files)."""
    lines = host.read(f"/run/udev/data/b{_text(node.get(column))}").splitlines()
    return dict(line[2:].split("=", 1) for line in lines if line.startswith("E:") and "=" in line)


def best_path(names: list[str], id_path: str = "") -> str:
    """Return the by-path name that OpenShift reports: the link of udev's ID_PATH, else the one that looks most like
    it."""
    named = f"/dev/disk/by-path/{id_path}"
    first = min(names, key=lambda name: (SECOND_PATH.search(name) is not None, -len(name), name), default="")
    return named if named in names else first


def _wwn(names: list[str]) -> str:
    """Return the WWN by a device's by-id links. A multipath device has none else: its UUID is its paths' SCSI id, whose
    first digit says what kind of name follows (3: an NAA)."""
    plain = [name.rsplit("/", 1)[-1] for name in names]
    links = [name.removeprefix("wwn-") for name in plain if name.startswith("wwn-")]
    uuids = [name.removeprefix("dm-uuid-mpath-") for name in plain if name.startswith("dm-uuid-mpath-")]
    return next(iter([*links, *(f"0x{uuid[1:]}" if uuid[0] == "3" else uuid for uuid in uuids if uuid)]), "")


def reasons(node: dict[str, Any], by_path: str = "") -> tuple[list[str], bool]:
    """(agent-side objections, is it the installation media?); in the words of OpenShift's agent.

    Stricter by two: a disk that is mounted as a whole, and one that cannot be written to.
    """
    objections = []
    kind = drive_type(node, by_path)
    media = any(point.endswith("iso") for point in mounts_of(node))
    if kind == "Unknown":
        objections.append(NO_CONTROLLER)
    if kind == "LVM":
        objections.append("Disk is an LVM logical volume")
    if media:
        objections.append("Disk appears to be an ISO installation media (has partition with mountpoint suffix iso)")
    else:
        for item in (node, *_below(node)):
            name, points = _text(item.get("name")), dict.fromkeys(mounts_of({**item, "children": None}))
            objections += [f"Disk has partition '{name}' mounted on '{point}'" for point in points]
    if _flag(node.get("ro")):
        objections.append("Disk is read-only")
    return objections, media or kind == "ODD"


def _bootable(node: dict[str, Any]) -> bool:
    """Tell if the disk has a partition that a firmware would boot."""
    for child in node.get("children") or []:
        flags = _text(child.get("partflags"))
        if _text(child.get("parttype")).lower() in BOOT_PARTITIONS:
            return True
        if re.fullmatch("0[xX][0-9a-fA-F]+", flags) and int(flags, 16) & BOOT_FLAGS:
            return True
    return False


def parse(
    node: dict[str, Any],
    by_id: dict[str, list[str]],
    by_path: dict[str, list[str]],
    udev: Mapping[str, str] | None = None,
) -> Disk:
    """One device of ``lsblk -J -b -O`` as a disk; links by kernel name, and what udev's database has of it."""
    udev = udev or {}
    serial = _text(node.get("serial"))
    name = _text(node.get("kname")) or _text(node.get("name"))
    path = _text(node.get("path")) or f"/dev/{name}"
    ids, paths = by_id.get(name, []), by_path.get(name, [])
    ident, at = best_id(ids), best_path(paths, udev.get("ID_PATH", ""))
    against, media = reasons(node, at)
    types = sorted({_text(child.get("parttypename")) for child in node.get("children") or []} - {""})
    return Disk(
        id=ident or at or path,
        name=name,
        path=path,
        by_path=at,
        by_id=ident,
        aliases=[other for other in (f"/dev/{name}", *paths, *ids) if other not in (path, at, ident)],
        hctl=_text(node.get("hctl")),
        drive_type=drive_type(node, at),
        vendor=_text(node.get("vendor")),
        model=_text(node.get("model")),
        serial=serial,
        serials=sorted({udev.get(key, "").strip() for key in SERIALS} - {serial, ""}),
        wwn=_text(node.get("wwn")) or udev.get("DM_WWN", "") or _wwn(ids),
        size_bytes=int(node.get("size") or 0),
        bootable=_bootable(node),
        removable=_flag(node.get("rm")),
        is_installation_media=media,
        partition_types=", ".join(types),
        has_uuid=bool(ident),
        holders=",".join(
            _text(child.get("kname")) for child in node.get("children") or [] if child.get("type") == "mpath"
        ),
        installation_eligibility=Eligibility(eligible=not against, not_eligible_reasons=against),
    )


def _over_network(host: HostSystem, disk: Disk) -> Disk:
    against = [*disk.installation_eligibility.not_eligible_reasons, *iscsi.reasons(host, disk.name)]
    return msgspec.structs.replace(
        disk,
        iscsi=Iscsi(host_ip_address=iscsi.host_address(host, disk.name)),
        installation_eligibility=Eligibility(eligible=not against, not_eligible_reasons=against),
    )


def disks(host: HostSystem) -> list[Disk]:
    """All disks, also those that cannot be installed on, but no loop devices, RAM disks and empty drives."""
    data = host.run_json(*LSBLK) or {}
    by_id, by_path = links(host, "by-id"), links(host, "by-path")
    nodes = list(data.get("blockdevices") or [])
    for node in list(nodes):
        for child in _below(node):
            if child.get("type") == "mpath":
                # lsblk has nothing of a multipath device itself: it is the disk that its paths lead to.
                of_path = {key: child.get(key) or node.get(key) for key in OF_PATHS}
                nodes.append({**child, **of_path, "path-maj:min": node.get("maj:min")})
            elif "raid" in _text(child.get("type")):
                nodes.append(child)
    by_name: dict[str, Disk] = {}
    for node in nodes:
        kind = drive_type(node)
        if kind in ("virtual", "FDD") or not int(node.get("size") or 0):
            continue
        if _text(node.get("name")).startswith(("loop", "zram", "nbd", "sr")) and kind != "ODD":
            continue
        serials = {key: text for key, text in _udev(host, node, "path-maj:min").items() if key in SERIALS}
        disk = parse(node, by_id, by_path, serials | _udev(host, node))
        if disk.drive_type == "iSCSI":
            disk = _over_network(host, disk)
        by_name.setdefault(disk.name, disk)
    return list(by_name.values())

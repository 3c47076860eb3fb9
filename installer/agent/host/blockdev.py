"""Disks of the host, with the reasons not to install on them (installer.md §6.2, §5.8)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from installer.agent.host import iscsi
from installer.assisted.inventory import Disk, Eligibility, Iscsi
from installer.hostsys.system import HostSystem

LSBLK = ("lsblk", "-J", "-b", "-O")
# Links under /dev/disk/by-id, the most specific first.
ID_ORDER = ("wwn-", "nvme-eui.", "nvme-uuid.", "scsi-", "ata-", "virtio-", "nvme-", "dm-uuid-", "md-uuid-")


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


def drive_type(node: dict[str, Any]) -> str:
    """The API's drive type from lsblk's columns."""
    kind, transport, name = _text(node.get("type")), _text(node.get("tran")), _text(node.get("name"))
    simple = {"mpath": "Multipath", "lvm": "LVM", "rom": "ODD"}
    if kind in simple:
        return simple[kind]
    if kind.startswith("raid") or name.startswith("md"):
        return "RAID"
    if transport in ("iscsi", "fc"):
        return {"iscsi": "iSCSI", "fc": "FC"}[transport]
    if name.startswith("dasd"):
        return "ECKD"
    if name.startswith("fd"):
        return "FDD"
    if kind in ("loop", "zram") or name.startswith(("zram", "ram")):
        return "virtual"
    if kind == "disk":
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
    """The most specific of several by-id names."""

    def rank(name: str) -> tuple[int, str]:
        plain = name.rsplit("/", 1)[-1]
        return next((index for index, start in enumerate(ID_ORDER) if plain.startswith(start)), len(ID_ORDER)), plain

    return min(names, key=rank, default="")


def reasons(node: dict[str, Any]) -> tuple[list[str], bool]:
    """(agent-side objections, is it the installation media?); in the words of OpenShift's agent.

    Stricter by two: a disk that is mounted as a whole, and one that cannot be written to.
    """
    objections = []
    kind = drive_type(node)
    media = any(point.endswith("iso") for point in mounts_of(node))
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
    efi = "c12a7328-f81f-11d2-ba4b-00a0c93ec93b"
    flags = ("0x80", "0x0000000000000004")
    return any(
        _text(child.get("parttype")).lower() == efi or _text(child.get("partflags")) in flags
        for child in node.get("children") or []
    )


def parse(node: dict[str, Any], by_id: dict[str, list[str]], by_path: dict[str, list[str]]) -> Disk:
    """One device of ``lsblk -J -b -O`` as a disk."""
    name = _text(node.get("kname")) or _text(node.get("name"))
    path = _text(node.get("path")) or f"/dev/{name}"
    ident = best_id(by_id.get(name, []))
    at = (by_path.get(name) or [""])[0]
    against, media = reasons(node)
    types = sorted({_text(child.get("parttypename")) for child in node.get("children") or []} - {""})
    return Disk(
        id=ident or at or path,
        name=name,
        path=path,
        by_path=at,
        by_id=ident,
        hctl=_text(node.get("hctl")),
        drive_type=drive_type(node),
        vendor=_text(node.get("vendor")),
        model=_text(node.get("model")),
        serial=_text(node.get("serial")),
        wwn=_text(node.get("wwn")),
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
        nodes += [
            child for child in _below(node) if child.get("type") in ("mpath",) or "raid" in _text(child.get("type"))
        ]
    by_name: dict[str, Disk] = {}
    for node in nodes:
        kind = drive_type(node)
        if kind in ("virtual", "FDD") or not int(node.get("size") or 0):
            continue
        if _text(node.get("name")).startswith(("loop", "zram", "nbd", "sr")) and kind != "ODD":
            continue
        disk = parse(node, by_id, by_path)
        if disk.drive_type == "iSCSI":
            disk = _over_network(host, disk)
        by_name.setdefault(disk.name, disk)
    return list(by_name.values())

"""Root device hints against a host's disks (installer.md §5.8)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

GB = 1000**3
NOT_FOUND = "/dev/not-found-by-hints"
Disk = Mapping[str, Any]
Match = Callable[[Disk, Any], bool]


def _equals(*keys: str) -> Match:
    return lambda disk, value: any(str(disk.get(key) or "") == str(value) for key in keys)


def _spelled(text: str) -> str:
    """Return a model or vendor as udev's ID_MODEL has it, which OpenShift's agents report (systemd:
    udev_replace_chars)."""
    return re.sub(r"[^\w#+\-.:=@/]", "_", re.sub(r"\s+", "_", text.strip()), flags=re.ASCII)


def _contains(key: str) -> Match:
    return lambda disk, value: (
        str(value) in str(disk.get(key) or "")
        or (_spelled(str(value)) or "\0") in _spelled(str(disk.get(key) or ""))  # nothing is left of blanks
    )


def names(disk: Disk) -> frozenset[str]:
    """All names that a disk of an inventory has."""
    own = (disk.get(key) for key in ("path", "by_path", "by_id", "id"))
    return frozenset(str(name) for name in (*own, *(disk.get("aliases") or ())) if name)


def _serial(disk: Disk, value: Any) -> bool:
    return str(value) in (str(disk.get("serial") or ""), *(disk.get("serials") or ()))


TABLE: Mapping[str, Match] = {
    # By more names than upstream's two: a user who names a disk by any of them means that disk.
    "deviceName": lambda disk, value: str(value) in names(disk),
    "hctl": _equals("hctl"),
    "model": _contains("model"),
    "vendor": _contains("vendor"),
    "serialNumber": _serial,
    "wwn": _equals("wwn"),
    "wwnWithExtension": _equals("wwn"),
    "wwnVendorExtension": _equals("wwn"),
    "minSizeGigabytes": lambda disk, value: int(disk.get("size_bytes") or 0) >= int(value) * GB,
    "rotational": lambda disk, value: (disk.get("drive_type") == "HDD") is bool(value),
}


def matches(disk: Disk, hints: Mapping[str, Any]) -> bool:
    """Tell if all hints hold for this disk. An unknown hint never does."""
    return all(
        name in TABLE and TABLE[name](disk, value) for name, value in hints.items() if value is not None and value != ""
    )


def choose(disks: list[Disk], hints: Mapping[str, Any]) -> str:
    """Id of the first eligible matching disk in inventory order; NOT_FOUND when none is."""
    for disk in disks:
        if (disk.get("installation_eligibility") or {}).get("eligible") and matches(disk, hints):
            return str(disk.get("id") or disk.get("path"))
    return NOT_FOUND


def describe(hints: Mapping[str, Any]) -> str:
    """Return the hints in one line."""
    return ", ".join(f"{name}={value}" for name, value in hints.items())

"""A disk that somebody chose, found again in later inventories by what it is and not by its name.

The kernel names disks anew with each boot (``/dev/sda``), and udev's links may come after the first inventory: a name
alone leads to another disk then. So what is known of a disk when it is chosen is kept with the host. In order: its WWN
and serial number (where no other disk of the host has the same), its by-id link, its place (by-path); without any of
them its name, and over a restart of the agent only when size and model tell it from all others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from installer.assisted.inventory import Disk, Inventory

# Fields that tell one disk from all others, whatever its name.
UNMISTAKABLE = ("wwn", "serial", "by_id")


class DiskIdentity(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The known marks of a chosen disk; ``size_bytes`` in bytes, texts empty where the inventory had none.

    ``telling``: fields that no other disk of the host shared. ``alone``: no other had its size and model.
    ``restarted``: the host's agent registered again since the disk was last seen, so kernel names may have changed.
    """

    id: str = ""
    path: str = ""
    by_id: str = ""
    by_path: str = ""
    serial: str = ""
    wwn: str = ""
    model: str = ""
    size_bytes: int = 0
    telling: list[str] = []
    alone: bool = False
    restarted: bool = False

    def called(self, name: str) -> bool:
        """Return whether this is one of its names."""
        return bool(name) and name in (self.id, self.path, self.by_id, self.by_path)


def identify(disk: Disk, inventory: Inventory, before: DiskIdentity | None = None) -> DiskIdentity:
    """Note the marks of a disk of this inventory; those known ``before`` that are missing now are kept."""
    others = [other for other in inventory.disks if other is not disk]
    identity: dict[str, Any] = {}
    for field in ("by_id", "by_path", "serial", "wwn", "model", "size_bytes"):
        identity[field] = getattr(disk, field) or (getattr(before, field) if before else "") or getattr(disk, field)
    return DiskIdentity(
        id=disk.id or disk.path,
        path=disk.path,
        telling=[
            field
            for field in (*UNMISTAKABLE, "by_path")
            if identity[field] and all(getattr(other, field) != identity[field] for other in others)
        ],
        alone=not any((other.size_bytes, other.model) == (disk.size_bytes, disk.model) for other in others),
        **identity,
    )


def names(disk: Disk) -> tuple[str, ...]:
    """All names of a disk."""
    return disk.id, disk.path, disk.by_id, disk.by_path, *disk.aliases


def named(name: str) -> DiskIdentity:
    """Return a disk of which only a name is known: no inventory has it yet."""
    return DiskIdentity(id=name, path=name)


def find(inventory: Inventory, wanted: DiskIdentity) -> Disk | None:
    """Return the wanted disk; None when it is missing, cannot be told from another, or a link that it had is not there
    yet."""
    able = [disk for disk in inventory.disks if _can_be(disk, wanted)]
    keys = [field for field in UNMISTAKABLE if field in wanted.telling]
    if keys:
        matches = [disk for disk in able if any(getattr(disk, field) == getattr(wanted, field) for field in keys)]
        return _one(matches, (lambda disk: disk.by_path == wanted.by_path != "", lambda disk: disk.id == wanted.id))
    if "by_path" in wanted.telling:
        return _one([disk for disk in able if disk.by_path == wanted.by_path])
    if not wanted.restarted:
        return _one([disk for disk in able if any(map(wanted.called, names(disk)))])
    return _one(able) if wanted.alone else None


def restarted(wanted: DiskIdentity | None) -> DiskIdentity | None:
    """Note that the agent registered again: kernel names may have changed."""
    return wanted and msgspec.structs.replace(wanted, restarted=True)


def _can_be(disk: Disk, wanted: DiskIdentity) -> bool:
    if wanted.by_id and not disk.by_id:
        return False  # udev is not ready: nothing that it tells can be relied on yet
    if any(_differs(disk, wanted, field) for field in ("wwn", "serial")):
        return False
    # A logical unit may grow; but without one of these fields to identify it, another size means another disk.
    same = any(getattr(disk, field) == getattr(wanted, field) != "" for field in UNMISTAKABLE)
    return same or not any(_differs(disk, wanted, field) for field in ("size_bytes", "model"))


def _differs(disk: Disk, wanted: DiskIdentity, field: str) -> bool:
    """Return whether both are known, and not the same."""
    value, wanted_value = getattr(disk, field), getattr(wanted, field)
    return bool(value and wanted_value and value != wanted_value)


def _one(disks: Iterable[Disk], narrower: tuple[Callable[[Disk], bool], ...] = ()) -> Disk | None:
    """Return the only disk; where there are several, conditions are applied one after the other until one is left."""
    disks = list(disks)
    for condition in narrower:
        if len(disks) == 1:
            break
        disks = [disk for disk in disks if condition(disk)] or disks
    return disks[0] if len(disks) == 1 else None

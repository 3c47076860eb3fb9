"""Booting the inserted medium: El Torito, the boot loader's configuration, kernel and initrds; the drive."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from lab.machines.container.firmware.errors import BootStopped
from lab.machines.container.firmware.formats import erofs
from lab.machines.container.firmware.formats.iso9660 import BIOS, UEFI, Medium
from lab.machines.container.firmware.loaders import grub, isolinux
from lab.machines.container.firmware.loaders.entry import Entry, NoEntry, Room
from lab.machines.container.firmware.screen import Screen
from lab.machines.container.kernel import loops
from lab.machines.container.spec import Drive


def entry(medium: Medium, firmware: str, screen: Screen, room: Room) -> Entry:
    """What the medium's boot loader starts under ``firmware`` ("uefi" or "bios"). Raises NoEntry, BootStopped."""
    platform = UEFI if firmware == "uefi" else BIOS
    if platform not in medium.platforms:
        raise NoEntry("no boot image for this firmware on the medium")
    configs = grub.CONFIGS if firmware == "uefi" else isolinux.CONFIGS
    path = next((path for path in configs if medium.find(path) is not None), None)
    if path is None:
        raise BootStopped(f"error: no configuration of a boot loader on the medium: {', '.join(configs)}")

    def read(name: str) -> bytes | None:
        found = medium.find(name)
        return medium.read(name) if found is not None and found.length <= room.left else None

    chosen = grub.Grub(read, screen.line).boot(path) if firmware == "uefi" else isolinux.boot(read, path)
    for name in (chosen.kernel, *chosen.initrds):
        if medium.find(name) is None:
            raise BootStopped(f"error: file `{name}' not found.")
    return chosen


def initrds(medium: Medium, chosen: Entry, room: Room) -> list[bytes]:
    """What the boot loader reads for the kernel. Raises BootStopped."""
    found = []
    for name in chosen.initrds:
        extent = medium.find(name)
        room.take(name, extent.length if extent else 0)
        found.append(medium.read(name) or b"")
    return found


DRIVE = "sr0"


def drive(medium: Medium, work: Path, name: str = DRIVE, device: Path | None = None) -> Drive:
    """The medium as a block device of this name, which it is already where ``device`` says so, and an index of it for
    erofs in ``work``, where erofs has a form for it."""
    held: list[int] = []
    if device is None:
        whole = loops.attach(medium.path, read_only=True)
        rdev = whole.rdev
        held.append(whole.descriptor)
    else:
        rdev = device.stat().st_rdev
    numbers = [(os.major(rdev), os.minor(rdev))]
    index = work / f"{name}.erofs"
    with contextlib.suppress(erofs.CannotIndex):
        with medium.path.open("rb") as file:
            # A device's, too.
            size = file.seek(0, os.SEEK_END)
        index.write_bytes(erofs.index(medium.files, medium.directories, size, medium.volume_id))
        indexed = loops.attach(index, read_only=True)
        numbers.append((os.major(indexed.rdev), os.minor(indexed.rdev)))
        held.append(indexed.descriptor)
    own, *more = numbers
    return Drive(name=name, label=medium.volume_id, number=own, index=next(iter(more), None), held=tuple(held))

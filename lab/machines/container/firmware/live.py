"""Booting the inserted medium: El Torito, the boot loader's configuration, kernel and initrds."""

from __future__ import annotations

import os

from lab.machines.container.firmware.errors import BootStopped, NoEntry
from lab.machines.container.firmware.formats import erofs
from lab.machines.container.firmware.formats.errors import CannotIndex
from lab.machines.container.firmware.formats.iso9660 import BIOS, UEFI, Medium
from lab.machines.container.firmware.loaders import grub, isolinux
from lab.machines.container.firmware.loaders.entry import Entry, Room, copy_to_memory
from lab.machines.container.firmware.screen import Screen
from lab.machines.container.spec import FirmwareKind


def entry(medium: Medium, firmware: FirmwareKind, screen: Screen, room: Room) -> Entry:
    """What the medium's boot loader starts under ``firmware`` ("uefi" or "bios"). Raises NoEntry, BootStopped."""
    platform = UEFI if firmware == "uefi" else BIOS
    if platform not in medium.platforms:
        raise NoEntry("no boot image for this firmware on the medium")
    configs = grub.CONFIGS if firmware == "uefi" else isolinux.CONFIGS
    path = next((path for path in configs if medium.find(path) is not None), None)
    if path is None:
        raise BootStopped(f"error: no configuration of a boot loader on the medium: {', '.join(configs)}")

    def read(name: str) -> bytes | None:
        config = medium.find(name)
        return medium.read(name) if config is not None and config.length <= room.left else None

    chosen = grub.Grub(read, screen.line).boot(path) if firmware == "uefi" else isolinux.boot(read, path)
    for name in (chosen.kernel, *chosen.initrds):
        if medium.find(name) is None:
            raise BootStopped(f"error: file `{name}' not found.")
    return chosen


def initrds(medium: Medium, chosen: Entry, room: Room) -> list[int]:
    """What the boot loader reads for the kernel: files in memory. Raises BootStopped."""
    files = []
    for name in chosen.initrds:
        extent = medium.find(name)
        length = extent.length if extent else 0
        room.take(name, length)
        files.append(copy_to_memory(medium.opened(name), length))
    return files


def index(medium: Medium) -> int | None:
    """An index of the medium for erofs: a file in memory; None where erofs has no form for it."""
    try:
        content = erofs.index(medium.files, medium.directories, medium.size, medium.volume_id)
    except CannotIndex:
        return None
    descriptor = os.memfd_create("medium.erofs")
    os.write(descriptor, content)
    return descriptor

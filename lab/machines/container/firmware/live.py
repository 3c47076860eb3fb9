"""Booting the inserted medium: El Torito, the boot loader's configuration, kernel and initrds."""

from __future__ import annotations

import contextlib

from lab.machines.container.firmware import erofs, grub, isolinux, loops
from lab.machines.container.firmware.entry import Entry, NoEntry
from lab.machines.container.firmware.errors import BootStopped
from lab.machines.container.firmware.initramfs import Initramfs
from lab.machines.container.firmware.iso9660 import BIOS, UEFI, Medium
from lab.machines.container.firmware.screen import Screen

DRIVE = "sr0"

#: The medium through an index of erofs: many kernels have no iso9660, and those that have cannot map its owners for the
#: machine. The source keeps the drive's name, by which programs of the machine look for the medium.
_MOUNT_ISO9660 = """\
#!/bin/bash
source=$1 target=$2
if [[ -b /dev/.index ]]; then
    cd /dev || exit
    mv sr0 .medium && mv .index sr0
    mount -i -t erofs -o ro,device=/dev/.medium /dev/sr0 "$target"
    code=$?
    mv sr0 .index && mv .medium sr0
    ((code)) || exit 0
fi
exec mount -i -t iso9660 -o ro "$source" "$target"
"""


def entry(medium: Medium, firmware: str, screen: Screen) -> Entry:
    """What the medium's boot loader starts under ``firmware`` ("uefi" or "bios"). Raises NoEntry, BootStopped."""
    platform = UEFI if firmware == "uefi" else BIOS
    if platform not in medium.platforms:
        raise NoEntry("no boot image for this firmware on the medium")
    configs = grub.CONFIGS if firmware == "uefi" else isolinux.CONFIGS
    path = next((path for path in configs if medium.find(path) is not None), None)
    if path is None:
        raise BootStopped(f"error: no configuration of a boot loader on the medium: {', '.join(configs)}")
    chosen = grub.Grub(medium.read, screen.line).boot(path) if firmware == "uefi" else isolinux.boot(medium.read, path)
    for name in (chosen.kernel, *chosen.initrds):
        if medium.find(name) is None:
            raise BootStopped(f"error: file `{name}' not found.")
    return chosen


def drive(medium: Medium, initramfs: Initramfs) -> None:
    """The CD drive in the initramfs, with the links that udev makes, and a way to mount what is in it."""
    loop = initramfs.hold(loops.attach(medium.path, read_only=True))
    initramfs.node(DRIVE, loop.rdev)
    initramfs.link(f"by-label/{medium.volume_id}", DRIVE)
    initramfs.helper("iso9660", _MOUNT_ISO9660)
    index = initramfs.work / "medium.erofs"
    # A medium that the index has no form for is left to the kernel's iso9660.
    with contextlib.suppress(erofs.CannotIndex):
        size = medium.path.stat().st_size
        index.write_bytes(erofs.index(medium.files, medium.directories, size, medium.volume_id))
        initramfs.node(".index", initramfs.hold(loops.attach(index, read_only=True)).rdev)

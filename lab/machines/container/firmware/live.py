"""Booting the inserted medium: El Torito, the boot loader's configuration, kernel and initrds."""

from __future__ import annotations

from pathlib import Path

from lab.machines.container.firmware import erofs, grub, isolinux, loops
from lab.machines.container.firmware.entry import Entry, NoEntry
from lab.machines.container.firmware.initramfs import Initramfs
from lab.machines.container.firmware.iso9660 import BIOS, UEFI, Medium
from lab.machines.container.firmware.screen import Screen

DRIVE = "sr0"

#: Where the kernel has no iso9660: the medium through an index of erofs. Its source keeps the drive's name, by which
#: programs of the machine look for the medium.
_MOUNT_ISO9660 = """\
#!/bin/bash
set -e
source=$1 target=$2
cd /dev
mv sr0 .medium
mv .index sr0
trap 'mv sr0 .index; mv .medium sr0' EXIT
mount -i -t erofs -o ro,device=/dev/.medium /dev/sr0 "$target"
"""


def entry(medium: Medium, firmware: str, screen: Screen) -> Entry:
    """What the medium's boot loader starts under ``firmware`` ("uefi" or "bios"). Raises NoEntry."""
    platform = UEFI if firmware == "uefi" else BIOS
    if platform not in medium.platforms:
        raise NoEntry("no boot image for this firmware on the medium")
    configs = grub.CONFIGS if firmware == "uefi" else isolinux.CONFIGS
    path = next((path for path in configs if medium.find(path) is not None), None)
    if path is None:
        raise NoEntry(f"no configuration of a boot loader on the medium: {', '.join(configs)}")
    chosen = grub.Grub(medium.read, screen.line).boot(path) if firmware == "uefi" else isolinux.boot(medium.read, path)
    for name in (chosen.kernel, *chosen.initrds):
        if medium.find(name) is None:
            raise NoEntry(f"error: file `{name}' not found.")
    return chosen


def has_iso9660(filesystems: Path = Path("/proc/filesystems")) -> bool:
    """Whether this kernel mounts media by itself."""
    return "iso9660" in filesystems.read_text().split()


def drive(medium: Medium, initramfs: Initramfs) -> None:
    """The CD drive in the initramfs, with the links that udev makes, and a way to mount what is in it."""
    loop = initramfs.hold(loops.attach(medium.path, read_only=True))
    initramfs.node(DRIVE, loop.rdev)
    initramfs.link(f"by-label/{medium.volume_id}", DRIVE)
    if has_iso9660():
        return
    index = initramfs.work / "medium.erofs"
    index.write_bytes(erofs.index(medium.files, medium.directories, medium.path.stat().st_size, medium.volume_id))
    initramfs.node(".index", initramfs.hold(loops.attach(index, read_only=True)).rdev)
    initramfs.helper("iso9660", _MOUNT_ISO9660)

"""Booting a disk: its partition table, its boot loader's configuration, its partitions as devices."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab.machines.container.firmware.errors import BootStopped
from lab.machines.container.firmware.formats.partitions import BIOS_BOOT, ESP, Partition, Table, read_table
from lab.machines.container.firmware.loaders.entry import Entry, NoEntry, Room
from lab.machines.container.firmware.loaders.grub import Grub
from lab.machines.container.firmware.programs import ProgramFailed, run
from lab.machines.container.firmware.screen import Screen
from lab.machines.container.kernel import syscalls

CONFIGS = ("grub/grub.cfg", "grub2/grub.cfg", "boot/grub/grub.cfg", "boot/grub2/grub.cfg")
LOADER = "EFI/BOOT/BOOTX64.EFI"
#: File systems that both GRUB and the kernel read.
_READABLE = ("ext2", "ext3", "ext4", "xfs")


@dataclass(frozen=True)
class Slice:
    """A partition as a block device of the host's; ``facts`` are what blkid knows of it."""

    partition: Partition
    node: Path
    facts: dict[str, str]


def table(device: Path, firmware: str) -> Table:
    """The table of a disk that ``firmware`` would start. Raises NoEntry with the firmware's words."""
    found = read_table(device)
    if found is None:
        raise NoEntry("not a bootable disk")
    if firmware == "bios":
        if not found.boot_code or (found.kind == "gpt" and found.of_kind(BIOS_BOOT) is None):
            raise NoEntry("not a bootable disk")
        return found
    system = found.of_kind(ESP) or found.of_kind("0xef")
    if system is None:
        raise NoEntry("not a bootable disk: it has no EFI system partition")
    try:
        run("mdir", "-b", "-i", f"{device}@@{system.start}", f"::{LOADER}")
    except ProgramFailed:
        raise NoEntry(f"not a bootable disk: no {LOADER} on its EFI system partition") from None
    return found


def slices(target: str, devices: Mapping[str, Path], found: Table) -> list[Slice]:
    """The disk's partitions that are devices: those of the size that the table says."""
    infix = "p" if target[-1].isdigit() else ""
    made = []
    for partition in found.partitions:
        node = devices.get(f"{target}{infix}{partition.number}")
        if node is not None and _size(node) == partition.size:
            made.append(Slice(partition, node, _facts(node)))
    return made


def _size(device: Path) -> int:
    with device.open("rb") as file:
        return file.seek(0, os.SEEK_END)


def _facts(node: Path) -> dict[str, str]:
    try:
        said = run("blkid", "-p", "-o", "export", str(node))
    except ProgramFailed:
        return {}
    return dict(line.split("=", 1) for line in said.splitlines() if "=" in line)


@contextmanager
def mounted(source: Path, place: Path, *options: str) -> Iterator[Path]:
    """A file system, mounted for a while."""
    place.mkdir(parents=True, exist_ok=True)
    run("mount", *options, str(source), str(place))
    try:
        yield place
    finally:
        run("umount", str(place))


def entry(parts: list[Slice], place: Path, screen: Screen, room: Room) -> tuple[Entry, list[bytes]]:
    """What the disk's boot loader starts, and the initrds.

    Raises BootStopped: there is a boot loader, since the firmware found one, and it stops.
    """
    for part in parts:
        if part.facts.get("TYPE") not in _READABLE:
            continue
        # A boot loader replays no journal.
        option = "norecovery" if part.facts["TYPE"] == "xfs" else "noload"
        with mounted(part.node, place, "-o", f"ro,nosuid,nodev,noexec,{option}") as root:
            path = next((name for name in CONFIGS if read(root, name, room.left) is not None), None)
            if path is None:
                continue

            def config(name: str, root: Path = root) -> bytes | None:
                return read(root, name, room.left)

            chosen = Grub(config, screen.line).boot(f"/{path}")
            images = []
            for name in chosen.initrds:
                found = read(root, name, room.left)
                if found is None:
                    raise BootStopped(f"error: file `{name}' not found, or out of memory.")
                room.take(name, len(found))
                images.append(found)
            return chosen, images
    raise BootStopped("error: no such device: no partition has a configuration of GRUB")


def read(root: Path, name: str, most: int) -> bytes | None:
    """A file of a file system that somebody else made; its links lead nowhere but to its own files. None when there is
    none, or a larger one."""
    top = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        descriptor = syscalls.open_in_root(top, name, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None
    finally:
        os.close(top)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        return file.read() if stat.S_ISREG(status.st_mode) and status.st_size <= most else None

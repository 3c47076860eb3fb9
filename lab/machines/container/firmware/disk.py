"""Booting a disk: its partition table, and its boot loader's configuration on one of its partitions."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import BinaryIO, Literal

import msgspec

from lab.machines.container.firmware.errors import BootStopped, NoEntry
from lab.machines.container.firmware.formats import fat
from lab.machines.container.firmware.formats.partitions import BIOS_BOOT, ESP, Partition, Table, read_table
from lab.machines.container.firmware.loaders.entry import Entry, Room, copy_to_memory
from lab.machines.container.firmware.loaders.grub import Grub
from lab.machines.container.firmware.messages import MOUNTED, Mount
from lab.machines.container.firmware.screen import Screen
from lab.machines.container.kernel import syscalls
from lab.machines.container.spec import FirmwareKind

CONFIGS = ("grub/grub.cfg", "grub2/grub.cfg", "boot/grub/grub.cfg", "boot/grub2/grub.cfg")
LOADER = "EFI/BOOT/BOOTX64.EFI"
#: File systems that both GRUB and the kernel read: the kernel's driver, where its magic number lies, and what it is.
_READABLE: tuple[tuple[Literal["ext4", "xfs"], int, bytes], ...] = (
    ("ext4", 1024 + 56, b"\x53\xef"),
    ("xfs", 0, b"XFSB"),
)
#: Mounts a partition, by its name, as a kind of file system: a descriptor of its root. Raises OSError.
Mounter = Callable[[str, Literal["ext4", "xfs"]], int]


@dataclass(frozen=True)
class Slice:
    """A partition that is a device: its name in the machine, and its file system if GRUB can read that here."""

    partition: Partition
    name: str
    kind: Literal["ext4", "xfs"] | None


def table(device: int, firmware: FirmwareKind) -> Table:
    """The table of a disk that ``firmware`` would start. Raises NoEntry with the firmware's words."""
    with os.fdopen(device, "rb", closefd=False) as disk:
        partitions = read_table(disk)
        if partitions is None:
            raise NoEntry("not a bootable disk")
        if firmware == "bios":
            if not partitions.boot_code or (partitions.kind == "gpt" and partitions.of_kind(BIOS_BOOT) is None):
                raise NoEntry("not a bootable disk")
            return partitions
        system = partitions.of_kind(ESP) or partitions.of_kind("0xef")
        if system is None:
            raise NoEntry("not a bootable disk: it has no EFI system partition")
        if not fat.has(disk, system.start, LOADER):
            raise NoEntry(f"not a bootable disk: no {LOADER} on its EFI system partition")
    return partitions


def slices(target: str, blocks: Mapping[str, int], table: Table) -> list[Slice]:
    """The partitions of the disk `target` that are devices, of the size that the table says.

    `blocks` are descriptors of the machine's devices, by their names.
    """
    infix = "p" if target[-1].isdigit() else ""
    devices = []
    for partition in table.partitions:
        name = f"{target}{infix}{partition.number}"
        if name in blocks and os.lseek(blocks[name], 0, os.SEEK_END) == partition.size:
            devices.append(Slice(partition, name, _kind(blocks[name])))
    return devices


def _kind(device: int) -> Literal["ext4", "xfs"] | None:
    kinds = (kind for kind, at, magic in _READABLE if os.pread(device, len(magic), at) == magic)
    return next(kinds, None)


def mounter(line: socket.socket) -> Mounter:
    """Has partitions mounted by the firmware at the other end of `line`."""

    def mount(partition: str, kind: Literal["ext4", "xfs"]) -> int:
        line.send(msgspec.json.encode(Mount(partition, kind)))
        message, descriptors, _, _ = socket.recv_fds(line, 1 << 12, 1)
        if message != MOUNTED:
            raise OSError(message.decode(errors="replace"))
        return descriptors[0]

    return mount


def entry(parts: list[Slice], mount: Mounter, screen: Screen, room: Room) -> tuple[Entry, list[int]]:
    """What the disk's boot loader starts, and the initrds: files in memory.

    Raises BootStopped: there is a boot loader, since the firmware found one, and it stops.
    """
    for part in parts:
        if part.kind is None:
            continue
        try:
            root = mount(part.name, part.kind)
        except OSError as error:
            raise BootStopped(f"error: {part.name} cannot be mounted: {error}") from error
        with contextlib.ExitStack() as held:
            held.callback(os.close, root)
            path = next((name for name in CONFIGS if read(root, name, room.left) is not None), None)
            if path is None:
                continue

            def config(name: str, root: int = root) -> bytes | None:
                return read(root, name, room.left)

            chosen = Grub(config, screen.line).boot(f"/{path}")
            images = []
            for name in chosen.initrds:
                file = _opened(root, name, room.left)
                if file is None:
                    raise BootStopped(f"error: file `{name}' not found, or out of memory.")
                with file:
                    length = os.fstat(file.fileno()).st_size
                    room.take(name, length)
                    images.append(copy_to_memory(file, length))
            return chosen, images
    raise BootStopped("error: no such device: no partition has a configuration of GRUB")


def read(root: int, name: str, most: int) -> bytes | None:
    """A file of a file system that somebody else made; its links lead nowhere but to its own files. None when there is
    none, or a larger one. `root` is a descriptor of its root directory."""
    file = _opened(root, name, most)
    if file is None:
        return None
    with file:
        return file.read()


def _opened(root: int, name: str, most: int) -> BinaryIO | None:
    try:
        descriptor = syscalls.open_in_root(root, name, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_size > most:
        os.close(descriptor)
        return None
    return os.fdopen(descriptor, "rb")

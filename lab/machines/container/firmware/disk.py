"""Disks with the machine OS: the partition table, and the boot partition, which lists what is started.

The image's `grub.cfg` (lab/release/os/data/boot) has values, which `installed.cfg` of the same folder changes for the
disk, and the line that they go into. GRUB itself, which reads the same files, is proven in virtual machines.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import stat
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import BinaryIO, Literal

import msgspec

from lab.machines.container.firmware.entry import BootStopped, Entry, NoEntry, Room, copy_to_memory
from lab.machines.container.firmware.messages import MOUNTED, Mount
from lab.machines.container.firmware.partitions import BIOS_BOOT, ESP, Partition, Table, read_table
from lab.machines.container.kernel import syscalls
from lab.machines.container.spec import FirmwareKind

#: The values' defaults and the line for them; the values of this disk; the stamp of a first boot, with its arguments.
CONFIG, INSTALLED, FIRST_BOOT = "grub/grub.cfg", "grub/installed.cfg", "ignition.firstboot"
_VALUE = re.compile(r'^set (\w+)="([^"$\\\n]*)"$', re.MULTILINE)
_LINUX = re.compile(r"^linux (\S+) (.*)\ninitrd (\S+)$", re.MULTILINE)
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
    """Read the partition table of a disk that ``firmware`` would start. Raises NoEntry with the firmware's words."""
    with os.fdopen(device, "rb", closefd=False) as disk:
        partitions = read_table(disk)
        if partitions is None:
            raise NoEntry("not a bootable disk")
        if firmware == "bios":
            if not partitions.boot_code or (partitions.kind == "gpt" and partitions.of_kind(BIOS_BOOT) is None):
                raise NoEntry("not a bootable disk")
            return partitions
        if not (partitions.of_kind(ESP) or partitions.of_kind("0xef")):
            raise NoEntry("not a bootable disk: it has no EFI system partition")
    return partitions


def slices(target: str, blocks: Mapping[str, int], table: Table) -> list[Slice]:
    """Return the partitions of the disk `target` that are devices, of the size that the table says.

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
    """Make a function that has partitions mounted by the firmware at the other end of `line`."""

    def mount(partition: str, kind: Literal["ext4", "xfs"]) -> int:
        line.send(msgspec.json.encode(Mount(partition, kind)))
        message, descriptors, _, _ = socket.recv_fds(line, 1 << 12, 1)
        if message != MOUNTED:
            raise OSError(message.decode(errors="replace"))
        return descriptors[0]

    return mount


def entry(parts: list[Slice], mount: Mounter, room: Room) -> tuple[Entry, list[int]]:
    """Find what the disk starts, and its initrds: files in memory. Raises BootStopped: it is not the machine OS's."""
    for part in parts:
        if part.kind is None:
            continue
        try:
            root = mount(part.name, part.kind)
        except OSError as error:
            raise BootStopped(f"error: {part.name} cannot be mounted: {error}") from error
        with contextlib.ExitStack() as held:
            held.callback(os.close, root)
            config, installed, stamp = (read(root, name, room.left) for name in (CONFIG, INSTALLED, FIRST_BOOT))
            if config is None:
                continue
            chosen = listed(_text(config), _text(installed), None if stamp is None else _text(stamp))
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
    raise BootStopped(f"error: no such device: no partition has {CONFIG}")


def _text(content: bytes | None) -> str:
    return (content or b"").decode(errors="replace")


def listed(config: str, installed: str, stamp: str | None) -> Entry:
    """Put the values of a disk into its line; `stamp` is that of a first boot. Raises BootStopped."""
    line = _LINUX.search(config)
    if line is None:
        raise BootStopped(
            f"error: {CONFIG} is not the machine OS's: a container's firmware starts no other; use virtual machines."
        )
    values = dict(_VALUE.findall(f"{config}\n{installed}\n{stamp or ''}"))
    values["firstboot"] = "" if stamp is None else f"ignition.firstboot {values.get('ignition_network_kcmdline', '')}"
    arguments = string.Template(line[2]).safe_substitute(values).split()
    return Entry(line[1], (f"BOOT_IMAGE={line[1]}", *arguments), (line[3],))


def read(root: int, name: str, most: int) -> bytes | None:
    """Read a file of a file system that somebody else made, whose links lead to its own files only; None when there is
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

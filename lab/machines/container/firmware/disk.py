"""Disks with the machine OS: the partition table, and the boot partition, which lists what is started.

The image's `grub.cfg` (lab/release/os/data/boot) is run as GRUB runs it, with the files that it sources. What it saves
in its environment block, which counts the boots of a new deployment, is written to the disk by the firmware.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import BinaryIO, Literal

import msgspec

from lab.machines.container.firmware.entry import BootStopped, Entry, NoEntry, Room, copy_to_memory
from lab.machines.container.firmware.grub import NotUnderstood, Script
from lab.machines.container.firmware.messages import MOUNTED, SAVED, Mount, Save
from lab.machines.container.firmware.partitions import BIOS_BOOT, ESP, Partition, Table, read_table
from lab.machines.container.firmware.screen import Screen
from lab.machines.container.kernel import syscalls
from lab.machines.container.spec import FirmwareKind

CONFIG = "grub/grub.cfg"
#: The only file that is written to: by GRUB, too, in its place, since it allocates no blocks.
GRUBENV = "grub/grubenv"
#: File systems that both GRUB and the kernel read: the kernel's driver, where its magic number lies, and what it is.
_READABLE: tuple[tuple[Literal["ext4", "xfs"], int, bytes], ...] = (
    ("ext4", 1024 + 56, b"\x53\xef"),
    ("xfs", 0, b"XFSB"),
)
#: Mounts a partition, by its name, as a kind of file system: a descriptor of its root. Raises OSError.
Mounter = Callable[[str, Literal["ext4", "xfs"]], int]
#: Writes an environment block to a partition, by its name, with such a file system. Raises OSError.
Saver = Callable[[str, Literal["ext4", "xfs"], bytes], None]


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


def saver(line: socket.socket) -> Saver:
    """Make a function that has environment blocks written by the firmware at the other end of `line`."""

    def save(partition: str, kind: Literal["ext4", "xfs"], block: bytes) -> None:
        line.send(msgspec.json.encode(Save(partition, kind, block)))
        message = line.recv(1 << 12)
        if message != SAVED:
            raise OSError(message.decode(errors="replace"))

    return save


def entry(parts: list[Slice], mount: Mounter, room: Room, *, save: Saver, screen: Screen) -> tuple[Entry, list[int]]:
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
            if read(root, CONFIG, room.left) is None:
                continue

            def text(path: str, root: int = root) -> str | None:
                content = read(root, path.lstrip("/"), room.left)
                return None if content is None else content.decode(errors="replace")

            def saved(path: str, block: bytes, part: Slice = part) -> None:
                if path.lstrip("/") != GRUBENV or part.kind is None:
                    raise NotUnderstood(f"save_env {path}")
                try:
                    save(part.name, part.kind, block)
                except OSError as error:
                    # As GRUB does: it says so, and goes on.
                    screen.line(f"error: {path}: {error}.")

            chosen = listed(text, saved)
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


def listed(read_text: Callable[[str], str | None], save: Callable[[str, bytes], None]) -> Entry:
    """Find what a boot partition starts: `read_text` returns a file of its, None where there is none, `save` writes an
    environment block to one. Raises BootStopped."""
    script = Script(read_text, save)
    try:
        script.run(read_text(CONFIG) or "")
        if not script.linux or len(script.initrds) != 1:
            raise NotUnderstood("it starts no kernel with one initrd")
    except NotUnderstood as error:
        raise BootStopped(
            f"error: {CONFIG} is not the machine OS's: {error}: a container's firmware starts no other; use virtual "
            "machines."
        ) from error
    kernel, *arguments = script.linux
    return Entry(kernel, (f"BOOT_IMAGE={kernel}", *arguments), tuple(script.initrds))


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

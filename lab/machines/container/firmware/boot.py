"""Power-on, up to the start of the kernel.

Nothing of an image is read here: a reader does that in a fence (`choose`), and asks for what takes rights.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import stat
import struct
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import BinaryIO

import msgspec

from lab.machines.container.fence import reader
from lab.machines.container.fence.reader import CannotRead
from lab.machines.container.firmware.choose import DRIVE, Devices, choose
from lab.machines.container.firmware.disk import GRUBENV
from lab.machines.container.firmware.entry import BootStopped
from lab.machines.container.firmware.grub import BLOCK_BYTES
from lab.machines.container.firmware.messages import (
    FETCHED,
    MOUNTED,
    SAVED,
    Chosen,
    Fetch,
    Held,
    Lease,
    Message,
    Mount,
    Nothing,
    Save,
    Say,
)
from lab.machines.container.firmware.netboot.dhcp import NoLease
from lab.machines.container.firmware.netboot.nic import Nics, NotFetched
from lab.machines.container.firmware.screen import Screen
from lab.machines.container.kernel import loops, syscalls
from lab.machines.container.spec import Boot, Drive, Early, Fence, MachineSpec, NotBootable

#: The kernel's own environment for its init (Linux, init/main.c).
ENVIRONMENT = {"HOME": "/", "TERM": "linux"}
INIT = "/sbin/init"
#: The class that runs the image's initramfs, within the machine.
STAGE = "lab.machines.container.firmware.early.stage:Stage"
#: By far longer than the longest in any installation: reading a medium takes a second.
READ_SECONDS = 120.0
_MOST_MIB = 1024
_MOST_TEXT = 1 << 20
_MOST_MOUNTS = 64
_MOST_WHY = 1 << 12
# A boot loader replays no journal, and a broken file system is no panic of the host, whatever it says of itself.
_MOUNT_OPTIONS: dict[str, dict[str, str | None]] = {
    "ext4": {"ro": None, "noload": None, "errors": "continue"},
    "xfs": {"ro": None, "norecovery": None},
}
# linux/fiemap.h: FS_IOC_FIEMAP; extents that are no plain blocks (unknown, delayed, encoded, inline, in a tail,
# unwritten).
_FIEMAP, _NOT_IN_PLACE = 0xC020660B, 0x2 | 0x4 | 0x8 | 0x80 | 0x200 | 0x400 | 0x800
_READ_ONLY = syscalls.MOUNT_ATTR_RDONLY | syscalls.MOUNT_ATTR_NOSUID
_READ_ONLY |= syscalls.MOUNT_ATTR_NODEV | syscalls.MOUNT_ATTR_NOEXEC


class _Requests:
    """Carries out what a reader asks for, since it has no right to, and keeps its last message."""

    def __init__(self, spec: MachineSpec, devices: Mapping[str, Path], console: BinaryIO, fence: Fence) -> None:
        self._devices, self._screen, self._users = devices, Screen(console), fence.users
        self._nics = Nics(spec, fence.network)
        self._text, self._mounts = _MOST_TEXT, _MOST_MOUNTS
        self.last_message: Chosen | Nothing | None = None
        self.descriptors: list[int] = []

    def answer(self, message: bytes, descriptors: list[int], line: socket.socket) -> bool:
        """Handle a message; return whether it was the last."""
        # Descriptors of the last message are kept; others were not asked for.
        self.close()
        self.descriptors = descriptors
        try:
            answered = msgspec.json.decode(message, type=Message)
        except (msgspec.DecodeError, RecursionError) as error:
            raise CannotRead(f"its reader says nonsense: {error}") from None
        match answered:
            case Say(text):
                self._screen.line(text[: self._text])
                self._text = max(self._text - len(text), 0)
            case Mount():
                try:
                    tree = self._mount(answered)
                except OSError as error:
                    line.send((error.strerror or "no").encode())
                else:
                    socket.send_fds(line, [MOUNTED], [tree])
                    os.close(tree)
            case Save():
                try:
                    self._save(answered)
                except OSError as error:
                    line.send(_why(error))
                else:
                    line.send(SAVED)
            case Lease():
                self._lease(answered, line)
            case Fetch():
                self._fetch(answered, line)
            case Chosen() if answered.indexes > len(descriptors):
                raise CannotRead("its reader says nonsense: no index")
            case Chosen() | Nothing():
                self.last_message = answered
                return True
        return False

    def _save(self, wanted: Save) -> None:
        """Write a block to the disk in the place of a file's only one, as GRUB does."""
        if len(wanted.block) != BLOCK_BYTES:
            raise OSError(errno.EINVAL, "not an environment block")
        tree = self._mount(Mount(wanted.partition, wanted.kind))
        try:
            file = syscalls.open_in_root(tree, GRUBENV, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
            try:
                start = _only_extent(file)
            finally:
                os.close(file)
        finally:
            os.close(tree)
        device = os.open(self._devices[wanted.partition], os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.pwrite(device, wanted.block, start)
            os.fsync(device)
        finally:
            os.close(device)

    def _lease(self, wanted: Lease, line: socket.socket) -> None:
        try:
            lease = self._nics.lease(wanted.nic, http=wanted.http)
        except (NoLease, OSError) as error:
            line.send(_why(error))
        else:
            line.send(msgspec.json.encode(lease))

    def _fetch(self, wanted: Fetch, line: socket.socket) -> None:
        try:
            file = self._nics.fetch(wanted.url, wanted.most)
        except (NotFetched, OSError) as error:
            line.send(_why(error))
        else:
            socket.send_fds(line, [FETCHED], [file])
            os.close(file)

    def end(self) -> None:
        """Leave the machine's NICs as its kernel is to find them."""
        self._nics.down()

    def close(self) -> None:
        """Close the descriptors that came with the last message."""
        for descriptor in self.descriptors:
            os.close(descriptor)
        self.descriptors = []

    def _mount(self, wanted: Mount) -> int:
        """Open a partition's file system, read-only, with the machine's owners, mounted nowhere."""
        self._mounts -= 1
        device = self._devices.get(wanted.partition)
        if device is None or self._mounts < 0:
            raise FileNotFoundError(2, "no such partition")
        tree = syscalls.new_mount(wanted.kind, str(device), _MOUNT_OPTIONS[wanted.kind])
        try:
            syscalls.set_attributes(tree, _READ_ONLY, users=self._users)
        except OSError:
            os.close(tree)
            raise
        return tree


def boot(spec: MachineSpec, *, devices: Mapping[str, Path], root: Path, console: BinaryIO, fence: Fence) -> Boot:
    """Have a reader find out what a machine boots; see lab.machines.container.spec. ``root`` stays empty.

    Raises NotBootable: no device boots. Raises BootStopped: one did, and its boot loader stopped, or it could not be
    read to its end. The console has what was said.
    """
    with contextlib.ExitStack() as held:
        medium = _opened_medium(spec, held)
        blocks = dict(_opened(devices, held))
        requests = _Requests(spec, devices, console, fence)
        held.callback(requests.close)
        held.callback(requests.end)
        try:
            reader.ask(
                fence,
                partial(choose, spec, Devices(blocks, medium, fence.network >= 0)),
                descriptors=[*blocks.values(), *([medium] if isinstance(medium, int) else [])],
                answer=requests.answer,
                memory_mib=min(spec.memory_mib, _MOST_MIB),
                file_mib=max(spec.memory_mib // 2, 1),
                seconds=READ_SECONDS,
            )
        except CannotRead as error:
            reason = f"error: {error}."
            Screen(console).line(reason)
            raise BootStopped(reason) from error
        message = requests.last_message
        if not isinstance(message, Chosen):
            reason = message.reason if message else ""
            raise BootStopped(reason) if message and message.stopped else NotBootable(reason)
        images = requests.descriptors[: len(requests.descriptors) - message.indexes]
        requests.descriptors = requests.descriptors[len(images) :]
        whole = {spec.stick: devices.get(spec.stick), DRIVE: Path(f"/proc/self/fd/{medium}")}
        indexes = iter(requests.descriptors)
        drives = [
            _drive(held_medium, whole.get(held_medium.name), next(indexes) if held_medium.index else -1)
            for held_medium in message.media
        ]
    init = next((word[5:] for word in message.arguments if word.startswith("init=")), INIT)
    return Boot(
        arguments=list(message.arguments),
        init=[init, *message.arguments],
        environment=dict(ENVIRONMENT),
        early=Early(stage=STAGE, images=tuple(images), drives=tuple(drives)),
    )


def _only_extent(file: int) -> int:
    """Return the byte of its partition at which a file of one block lies. Raises OSError."""
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode) or status.st_size != BLOCK_BYTES:
        raise OSError(errno.EINVAL, "not an environment block")
    answer = fcntl.ioctl(file, _FIEMAP, struct.pack("=QQIIII56x", 0, BLOCK_BYTES, 0, 0, 1, 0))
    mapped, logical, physical, length, flags = struct.unpack_from("=20xI8xQQQ16xI", answer)
    if mapped != 1 or logical or length < BLOCK_BYTES or flags & _NOT_IN_PLACE:
        raise OSError(errno.EINVAL, "the environment block is not a block of the disk")
    return int(physical)


def _why(error: Exception) -> bytes:
    """Return an error's text for the reader; what a peer has said in it may be anything, and long."""
    return (str(error) or type(error).__name__).encode(errors="replace")[:_MOST_WHY]


def _opened_medium(spec: MachineSpec, held: contextlib.ExitStack) -> int | str:
    """Open the medium, as `choose.Devices` has it."""
    if spec.cdrom is None:
        return ""
    try:
        medium = os.open(spec.cdrom, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        return str(error)
    held.callback(os.close, medium)
    return medium


def _opened(devices: Mapping[str, Path], held: contextlib.ExitStack) -> Iterator[tuple[str, int]]:
    for name, path in devices.items():
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        held.callback(os.close, descriptor)
        yield name, descriptor


def _drive(medium: Held, device: Path | None, index: int) -> Drive:
    """Make a medium a block device, which a stick is already, and an index of it for erofs if there is one."""
    if device is None:
        raise BootStopped(f"error: its reader says nonsense: there is no {medium.name}.")
    held = []
    if medium.name == DRIVE:
        whole = loops.attach(device, read_only=True)
        rdev = whole.rdev
        held.append(whole.descriptor)
    else:
        rdev = device.stat().st_rdev
    numbers = [(os.major(rdev), os.minor(rdev))]
    if medium.index:
        indexed = loops.attach(Path(f"/proc/self/fd/{index}"), read_only=True)
        numbers.append((os.major(indexed.rdev), os.minor(indexed.rdev)))
        held.append(indexed.descriptor)
    own, *more = numbers
    return Drive(name=medium.name, label=medium.label, number=own, index=next(iter(more), None), held=tuple(held))

"""Power-on: what a machine boots, up to where its kernel would start.

Nothing of an image is read here: that a reader does (`choose`), behind a fence, and asks for what takes rights.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import BinaryIO

import msgspec

from lab.machines.container.fence import reader
from lab.machines.container.firmware.asked import MOUNTED, Chosen, Message, Mount, Nothing, Say
from lab.machines.container.firmware.choose import Devices, choose
from lab.machines.container.firmware.errors import BootStopped
from lab.machines.container.firmware.screen import Screen
from lab.machines.container.kernel import loops, syscalls
from lab.machines.container.spec import Boot, Drive, Early, Fence, MachineSpec, NotBootable

#: The kernel's own environment for its init (Linux, init/main.c).
ENVIRONMENT = {"HOME": "/", "TERM": "linux"}
INIT = "/sbin/init"
#: What runs the image's initramfs, within the machine.
STAGE = "lab.machines.container.firmware.early.stage:Stage"
#: Beyond an installation's longest, by far: reading a medium takes a second.
READ_SECONDS = 120.0
_MOST_MIB = 1024
_MOST_TEXT = 1 << 20
_MOST_MOUNTS = 64
# A boot loader replays no journal, and a broken file system is no panic of the host, whatever it says of itself.
_MOUNT_OPTIONS: dict[str, dict[str, str | None]] = {
    "ext4": {"ro": None, "noload": None, "errors": "continue"},
    "xfs": {"ro": None, "norecovery": None},
}
_READ_ONLY = syscalls.MOUNT_ATTR_RDONLY | syscalls.MOUNT_ATTR_NOSUID
_READ_ONLY |= syscalls.MOUNT_ATTR_NODEV | syscalls.MOUNT_ATTR_NOEXEC


class _Asked:
    """Does for a reader what it asks for, and keeps what it says at last."""

    def __init__(self, devices: Mapping[str, Path], console: BinaryIO, fence: Fence) -> None:
        self._devices, self._screen, self._users = devices, Screen(console), fence.users
        self._text, self._mounts = _MOST_TEXT, _MOST_MOUNTS
        self.said: Chosen | Nothing | None = None
        self.descriptors: list[int] = []

    def answer(self, message: bytes, descriptors: list[int], line: socket.socket) -> bool:
        """Whether it was the last word."""
        # Those of its last word are kept; others nobody asked for.
        self.close()
        self.descriptors = descriptors
        try:
            said = msgspec.json.decode(message, type=Message)
        except msgspec.DecodeError as error:
            raise reader.CannotRead(f"its reader says nonsense: {error}") from None
        match said:
            case Say(text):
                self._screen.line(text[: self._text])
                self._text = max(self._text - len(text), 0)
            case Mount():
                try:
                    tree = self._mount(said)
                except OSError as error:
                    line.send((error.strerror or "no").encode())
                else:
                    socket.send_fds(line, [MOUNTED], [tree])
                    os.close(tree)
            case Chosen(index=True) if not descriptors:
                raise reader.CannotRead("its reader says nonsense: no index")
            case Chosen() | Nothing():
                self.said = said
                return True
        return False

    def close(self) -> None:
        """Let go of what came with the last word."""
        for descriptor in self.descriptors:
            os.close(descriptor)
        self.descriptors = []

    def _mount(self, wanted: Mount) -> int:
        """A partition's file system, read-only, with the machine's owners, mounted nowhere."""
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
    """Have read what a machine boots; see lab.machines.container.spec. ``root`` stays empty.

    Raises:
        NotBootable: no device boots.
        BootStopped: one did, and its boot loader stopped, or it could not be read to its end. The console has what was
            said.
    """
    with contextlib.ExitStack() as held:
        medium = _opened_medium(spec, held)
        blocks = dict(_opened(devices, held))
        asked = _Asked(devices, console, fence)
        held.callback(asked.close)
        try:
            reader.ask(
                fence,
                partial(choose, spec, Devices(blocks, medium)),
                descriptors=[*blocks.values(), *([medium] if isinstance(medium, int) else [])],
                answer=asked.answer,
                memory_mib=min(spec.memory_mib, _MOST_MIB),
                file_mib=max(spec.memory_mib // 2, 1),
                seconds=READ_SECONDS,
            )
        except reader.CannotRead as error:
            reason = f"error: {error}."
            Screen(console).line(reason)
            raise BootStopped(reason) from error
        said = asked.said
        if not isinstance(said, Chosen):
            reason = said.reason if said else ""
            raise BootStopped(reason) if said and said.stopped else NotBootable(reason)
        *images, index = [*asked.descriptors, -1] if not said.index else asked.descriptors
        drive = _drive(said, medium, index) if said.medium and isinstance(medium, int) else None
        asked.descriptors = [index] if said.index else []
    init = next((word[5:] for word in said.arguments if word.startswith("init=")), INIT)
    return Boot(
        arguments=list(said.arguments),
        init=[init, *said.arguments],
        environment=dict(ENVIRONMENT),
        early=Early(stage=STAGE, images=tuple(images), drive=drive),
    )


def _opened_medium(spec: MachineSpec, held: contextlib.ExitStack) -> int | str:
    """As `choose.Devices` has it."""
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


def _drive(said: Chosen, medium: int, index: int) -> Drive:
    """The medium as a block device, and an index of it for erofs where erofs has a form for it."""
    device = loops.attach(Path(f"/proc/self/fd/{medium}"), read_only=True)
    numbers, held = [(os.major(device.rdev), os.minor(device.rdev))], [device.descriptor]
    if said.index:
        indexed = loops.attach(Path(f"/proc/self/fd/{index}"), read_only=True)
        numbers.append((os.major(indexed.rdev), os.minor(indexed.rdev)))
        held.append(indexed.descriptor)
    own, *more = numbers
    return Drive(label=said.label, number=own, index=next(iter(more), None), held=tuple(held))

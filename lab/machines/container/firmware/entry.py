"""The kernel that a boot loader starts, and the reasons why there is none."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import BinaryIO

from lab.errors import LabError
from lab.machines.container.spec import NotBootable

_CHUNK = 1 << 20


class BootStopped(NotBootable):
    """A boot loader or a kernel was started and stopped: the machine stays on, and tries no other device."""


class BootAgain(BootStopped):
    """An early boot stopped, and asked for a restart of the machine."""

    again = True


class NoEntry(LabError):
    """The firmware finds nothing to start on a device, and goes on to the next; ``str()`` is why."""


@dataclass(frozen=True)
class Entry:
    """A kernel to start: paths within the boot loader's file system, arguments as the kernel gets them."""

    kernel: str
    arguments: tuple[str, ...]
    initrds: tuple[str, ...]


class Room:
    """The memory that a boot loader's files may take, `left` bytes: their reader is no process of the machine's."""

    def __init__(self, count: int) -> None:
        self.left = count

    def take(self, path: str, length: int) -> None:
        """Take some for a file. Raises BootStopped."""
        if length > self.left:
            raise BootStopped(f"error: out of memory: `{path}' has {length} bytes.")
        self.left -= length


def copy_to_memory(file: BinaryIO, length: int) -> int:
    """Copy the next bytes of a file to a file in memory. Raises OSError when there is no memory for it."""
    memory = os.memfd_create("initrd")
    while length > 0 and (data := file.read(min(length, _CHUNK))):
        os.write(memory, data)
        length -= len(data)
    return memory

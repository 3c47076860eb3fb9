"""What a boot loader hands over: the kernel's arguments and its initrds."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO

from lab.machines.container.firmware.errors import BootStopped

#: Reads a file of the boot loader's file system by its path; None when there is none.
Read = Callable[[str], bytes | None]
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Entry:
    """A kernel to start: paths within the boot loader's file system, arguments as the kernel gets them."""

    kernel: str
    arguments: tuple[str, ...]
    initrds: tuple[str, ...]


class Room:
    """What a boot loader's files may take of the memory: their reader is no process of the machine's, and has no
    limit."""

    def __init__(self, count: int) -> None:
        """``count`` bytes."""
        self.left = count

    def take(self, path: str, length: int) -> None:
        """Take some for a file. Raises BootStopped."""
        if length > self.left:
            raise BootStopped(f"error: out of memory: `{path}' has {length} bytes.")
        self.left -= length


def copy_to_memory(file: BinaryIO, length: int) -> int:
    """A file in memory with the next bytes of a file. Raises OSError when there is no memory for it."""
    memory = os.memfd_create("initrd")
    while length > 0 and (data := file.read(min(length, _CHUNK))):
        os.write(memory, data)
        length -= len(data)
    return memory

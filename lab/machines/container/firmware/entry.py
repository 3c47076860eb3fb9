"""What a boot loader hands over: the kernel's arguments and its initrds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

#: A file of the boot loader's file system by its path, or None.
Read = Callable[[str], bytes | None]


@dataclass(frozen=True)
class Entry:
    """A kernel to start: paths within the boot loader's file system, arguments as the kernel gets them."""

    kernel: str
    arguments: tuple[str, ...]
    initrds: tuple[str, ...]


class NoEntry(Exception):
    """The firmware finds nothing to start on a device, and goes on to the next; ``str()`` is why."""

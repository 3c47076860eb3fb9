"""What the warden has read of disks while a machine runs: by a reader behind a fence, since the machine wrote it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from lab.machines.container.fence import reader
from lab.machines.container.fence.errors import CannotRead
from lab.machines.container.firmware.partitions import Table, read_table
from lab.machines.container.hardware.disks import ext4_names
from lab.machines.container.spec import Fence

T = TypeVar("T")
_SECONDS = 60.0


class FencedDiskReader:
    """A DiskReader of one machine's disks."""

    def __init__(self, fence: Fence) -> None:
        self._fence = fence

    def table(self, disk: int) -> Table | None:
        """A disk's partition table; None when it cannot be read, too."""

        def read() -> Table | None:
            with os.fdopen(disk, "rb") as file:
                return read_table(file)

        return self._value(read, Table | None, [disk], None)  # type: ignore[arg-type]

    def names(self, partitions: Sequence[int]) -> list[list[str]]:
        """The names that each partition has by its file system; none where that cannot be read."""

        def read() -> list[list[str]]:
            return [ext4_names(partition) for partition in partitions]

        links = self._value(read, list[list[str]], partitions, [])
        return links if len(links) == len(partitions) else [[] for _ in partitions]

    def _value(self, read: Callable[[], T], kind: type[T], descriptors: Iterable[int], otherwise: T) -> T:
        try:
            return reader.value(self._fence, read, kind, descriptors=descriptors, seconds=_SECONDS)
        except CannotRead as error:
            print(f"a disk cannot be read: {error}", file=sys.stderr, flush=True)
            return otherwise

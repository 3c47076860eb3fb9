"""Whether a FAT file system has a file (Microsoft, FAT32 File System Specification 1.03): what a firmware asks an EFI
system partition. Names are compared as the 8.3 names that every file has, whatever their case."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO

_ENTRY = 32
_DIRECTORY, _VOLUME = 0x10, 0x08
_DELETED, _LAST = 0xE5, 0x00
# Bytes of the directories on the way; the specification's largest directory has 2 MiB.
_MOST = 2 << 20


class _Volume:
    """A file system that begins at byte `start` of a disk. Raises ValueError when there is none."""

    def __init__(self, disk: BinaryIO, start: int) -> None:
        self._disk, self._start, self._left = disk, start, _MOST
        head = self._at(0, 512)
        sector, per_cluster, reserved, fats, entries, small, _, size = struct.unpack_from("<HBHBHHBH", head, 11)
        large, size_32 = struct.unpack_from("<II", head, 32)
        if head[510:] != b"\x55\xaa" or sector not in (512, 1024, 2048, 4096) or not per_cluster or not fats:
            raise ValueError("no FAT file system")
        self._fat = reserved * sector
        self._cluster = per_cluster * sector
        fixed = self._fat + fats * (size or size_32) * sector
        self._data = fixed + -(-entries * _ENTRY // sector) * sector
        # The number of clusters decides the kind, nothing else does.
        clusters = ((small or large) * sector - self._data) // self._cluster
        self._bits = 12 if clusters < 4085 else 16 if clusters < 65525 else 32
        self.root = struct.unpack_from("<I", head, 44)[0] if self._bits == 32 else 0
        self._fixed = (fixed, entries * _ENTRY)

    def _at(self, offset: int, length: int) -> bytes:
        self._disk.seek(self._start + offset)
        data = self._disk.read(length)
        if len(data) < length:
            raise ValueError("it is cut short")
        return data

    def _next(self, cluster: int) -> int:
        if self._bits == 12:
            pair = struct.unpack("<H", self._at(self._fat + cluster * 3 // 2, 2))[0]
            return int(pair >> 4 if cluster % 2 else pair & 0xFFF)
        if self._bits == 16:
            return int(struct.unpack("<H", self._at(self._fat + cluster * 2, 2))[0])
        return int(struct.unpack("<I", self._at(self._fat + cluster * 4, 4))[0]) & 0x0FFFFFFF

    def _blocks(self, cluster: int) -> Iterator[bytes]:
        """A directory's content; 0 is the root's of FAT12 and FAT16."""
        if cluster == 0:
            offset, length = self._fixed
            yield self._at(offset, length)
            return
        end = {12: 0xFF7, 16: 0xFFF7, 32: 0x0FFFFFF7}[self._bits]
        while 2 <= cluster < end:
            self._left -= self._cluster
            if self._left < 0:
                raise ValueError("a directory does not end")
            yield self._at(self._data + (cluster - 2) * self._cluster, self._cluster)
            cluster = self._next(cluster)

    def find(self, directory: int, name: str) -> tuple[bool, int] | None:
        """Whether a name is a directory, and its first cluster; None when there is none."""
        stem, _, suffix = name.upper().partition(".")
        wanted = stem.ljust(8).encode() + suffix.ljust(3).encode()
        for block in self._blocks(directory):
            for at in range(0, len(block), _ENTRY):
                entry = block[at : at + _ENTRY]
                if entry[0] == _LAST:
                    return None
                # Parts of long names have the volume's bit too.
                if entry[0] != _DELETED and not entry[11] & _VOLUME and entry[:11].upper() == wanted:
                    high, low = struct.unpack_from("<H4xH", entry, 20)
                    return bool(entry[11] & _DIRECTORY), (high << 16 if self._bits == 32 else 0) | low
        return None


def has(disk: BinaryIO, start: int, path: str) -> bool:
    """Whether the file system at byte `start` has a file at `path`, whose names are all of the 8.3 kind."""
    *directories, file = path.split("/")
    try:
        volume = _Volume(disk, start)
        place = volume.root
        for name in directories:
            entry = volume.find(place, name)
            if entry is None or not entry[0]:
                return False
            place = entry[1]
        entry = volume.find(place, file)
    except (ValueError, struct.error):
        return False
    return entry is not None and not entry[0]

"""A read-only reader of ISO 9660: where in the image a file's content is. It has only what embedding needs.

Names are looked up in the primary volume, without version suffix and in any case, by their Rock Ridge name where there
is one, and else also as mkisofs mangles them to 8.3 (reference/installer.md §3.1: igninfo.json is IGNINFO.JSO;1).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from installer.errors import NotIso9660

SECTOR = 2048
SYSTEM_AREA = 16 * SECTOR
_MAX_DIRECTORY = 1 << 22
_MAX_DESCRIPTORS = 64
# Types of volume descriptors (ECMA-119 §8).
BOOT, PRIMARY, SUPPLEMENTARY, _END = 0, 1, 2, 255


@dataclass(frozen=True)
class Extent:
    """One file's or directory's place in the image: byte offset and length."""

    name: str
    offset: int
    length: int
    directory: bool

    def slice(self, start: int, length: int) -> Extent:
        """Return the part of this extent from `start`, `length` bytes long."""
        return Extent(self.name, self.offset + start, length, False)


@dataclass(frozen=True)
class Descriptor:
    """A volume descriptor: its byte offset, its type, its sector."""

    position: int
    kind: int
    sector: bytes


def plain_name(name: str) -> str:
    """Return a name as it is compared: upper case, no version, no trailing dot."""
    return name.partition(";")[0].rstrip(".").upper()


def mangled_name(name: str) -> str:
    """Return a name in 8.3 form."""
    stem, dot, extension = plain_name(name).rpartition(".")
    if not dot:
        stem, extension = extension, ""
    stem = "".join(c if c.isalnum() else "_" for c in stem)[:8]
    return f"{stem}.{extension[:3]}" if extension else stem


def rock_ridge_name(system_use: bytes) -> str:
    """Return the NM name in a directory record's system use area, or "" (RRIP 4.1.4)."""
    parts = []
    while len(system_use) >= 5:
        signature, length = system_use[:2], system_use[2]
        if length < 4 or length > len(system_use):
            break
        if signature == b"NM":
            parts.append(system_use[5:length])
        system_use = system_use[length:]
    return b"".join(parts).decode(errors="replace")


class Iso:
    """An open ISO image; `path` is for messages only."""

    def __init__(self, file: BinaryIO, path: Path | str) -> None:
        self._file = file
        self.path = path
        file.seek(0, 2)
        self.size = file.tell()
        descriptor = next((found.sector for found in self.descriptors() if found.kind == PRIMARY), None)
        if descriptor is None:
            raise NotIso9660(path, "not an ISO 9660 image")
        self.volume_id = descriptor[40:72].decode("ascii", errors="replace").rstrip()
        self._root = self._record(descriptor[156:190])[1]

    def read(self, offset: int, length: int) -> bytes:
        """Exactly `length` bytes from `offset`; NotIso9660 where the file is too short."""
        self._file.seek(offset)
        data = self._file.read(length)
        if len(data) != length:
            raise NotIso9660(self.path, f"the image is truncated: it ends before byte {offset + length}")
        return data

    def descriptors(self) -> Iterator[Descriptor]:
        """All volume descriptors, the last one (type 255) left out."""
        for position in range(SYSTEM_AREA, SYSTEM_AREA + _MAX_DESCRIPTORS * SECTOR, SECTOR):
            if position + SECTOR > self.size:
                break
            sector = self.read(position, SECTOR)
            if sector[1:6] != b"CD001" or sector[0] == _END:
                break
            yield Descriptor(position, sector[0], sector)

    def _record(self, raw: bytes) -> tuple[str, Extent]:
        """Return a directory record's Rock Ridge name ("" if none) and its extent under the primary name."""
        if len(raw) < 34 or 33 + raw[32] > len(raw):
            raise NotIso9660(self.path, "damaged directory record")
        sector, length = struct.unpack_from("<I", raw, 2)[0], struct.unpack_from("<I", raw, 10)[0]
        name_length = raw[32]
        name = raw[33 : 33 + name_length].decode("ascii", errors="replace")
        padded = 33 + name_length + (1 - name_length % 2)
        extent = Extent(name, sector * SECTOR, length, bool(raw[25] & 2))
        if extent.offset + extent.length > self.size:
            raise NotIso9660(
                self.path, f"the image is truncated: {plain_name(name) or 'a directory'} lies beyond its end"
            )
        return rock_ridge_name(raw[padded:]), extent

    def entries(self, directory: Extent) -> Iterator[tuple[str, Extent]]:
        """(Rock Ridge name, extent) of all that is in a directory, without . and .."""
        if directory.length > _MAX_DIRECTORY:
            raise NotIso9660(self.path, "damaged directory: too long")
        data = self.read(directory.offset, directory.length)
        position = 0
        while position < len(data):
            length = data[position]
            if length == 0:
                # Records do not cross sectors: the rest of this one is padding.
                position = (position // SECTOR + 1) * SECTOR
                continue
            raw = data[position : position + length]
            if len(raw) < length:
                raise NotIso9660(self.path, "damaged directory record")
            rock_ridge, extent = self._record(raw)
            if extent.name not in ("\x00", "\x01"):
                yield rock_ridge, extent
            position += length

    def find(self, path: str) -> Extent | None:
        """Return the extent of a file or directory, or None; case does not matter."""
        reached = self._root
        for part in [part for part in path.split("/") if part]:
            if not reached.directory:
                return None
            exact: Extent | None = None
            short: Extent | None = None
            for rock_ridge, extent in self.entries(reached):
                if plain_name(part) in (plain_name(rock_ridge), plain_name(extent.name)):
                    exact = extent
                    break
                if short is None and mangled_name(part) == plain_name(extent.name):
                    short = extent
            match = exact or short
            if match is None:
                return None
            reached = match
        return reached

    def file(self, path: str) -> bytes | None:
        """Return the content of a (small) file, or None if there is no such file."""
        extent = self.find(path)
        if extent is None or extent.directory:
            return None
        return self.read(extent.offset, extent.length)

"""ISO 9660 images, read without the kernel's help: the places of files in the image.

Names are looked up in the primary volume, without version suffix and in any case, by their Rock Ridge name where there
is one, and else also as mkisofs mangles them to 8.3 (reference/installer.md §3.1: igninfo.json is IGNINFO.JSO;1).
pycdlib refuses images with duplicate short names, or numbers whose two halves differ, which go-diskfs writes (and
openshift-install with it) and every kernel mounts. Pages: ECMA-119; SUSP and RRIP 1.12; El Torito 1.0.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import BinaryIO

SECTOR = 2048
SYSTEM_AREA = 16 * SECTOR
# Types of volume descriptors (ECMA-119 §8).
BOOT, PRIMARY, SUPPLEMENTARY, _END = 0, 1, 2, 255
# Flags of directory records (§9.1.6).
DIRECTORY, ASSOCIATED, MULTI_EXTENT = 0x02, 0x04, 0x80
_EL_TORITO = b"EL TORITO SPECIFICATION"
_SYMLINK, _FILE_TYPE = 0o120000, 0o170000
# A broken image ends in an error, not in a loop.
MOST_RECORDS, _MOST_DEPTH, _MOST_DESCRIPTORS, _LARGEST = 1 << 20, 64, 64, 1 << 22
# More than any record's system use has, with all areas that continue it: a name needs two, a link seventeen.
_MOST_ENTRIES = 64
_LONGEST_FAULT = 300


class NotIso9660(Exception):
    """The file is not, or not wholly, an ISO 9660 image."""

    def __init__(self, path: Path | str, text: str) -> None:
        super().__init__(f"{path}: {text}")


@dataclass(frozen=True)
class Extent:
    """The place of a file or directory in the image: byte offset and length."""

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


@dataclass(frozen=True)
class Record:
    """A directory record: its own byte offset and length, and the extent that it gives, in bytes too."""

    position: int
    size: int
    offset: int
    length: int
    _: KW_ONLY
    flags: int
    name: bytes = b""
    system_use: bytes = b""

    @property
    def directory(self) -> bool:
        """Return whether it is a directory's."""
        return bool(self.flags & DIRECTORY)


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


class Iso:
    """An open ISO image; `path` is for messages only. `fault` makes the error of a broken image of that and a text."""

    def __init__(
        self, file: BinaryIO, path: Path | str, fault: Callable[[Path | str, str], Exception] = NotIso9660
    ) -> None:
        self._file, self._fault = file, fault
        self.path = path
        self.size = file.seek(0, os.SEEK_END)
        descriptor = next((found.sector for found in self.descriptors() if found.kind == PRIMARY), None)
        if descriptor is None:
            raise self.fault("not an ISO 9660 image")
        self.volume_id = descriptor[40:72].decode("ascii", errors="replace").rstrip("\0 ")
        self._root = self._extent(self._record(descriptor[156:190], 0))

    def fault(self, text: str) -> Exception:
        """Return the error of a broken image: a line, whatever names the image has in it."""
        line = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text[:_LONGEST_FAULT])
        return self._fault(self.path, line)

    def read(self, offset: int, length: int) -> bytes:
        """Return exactly `length` bytes from `offset`; a fault where the file is too short."""
        data = b""
        if 0 <= offset <= self.size - length:
            self._file.seek(offset)
            data = self._file.read(length)
        if len(data) != length:
            raise self.fault(f"the image is truncated: it ends before byte {offset + length}")
        return data

    def descriptors(self) -> Iterator[Descriptor]:
        """Yield all volume descriptors, the last one (type 255) left out."""
        for position in range(SYSTEM_AREA, SYSTEM_AREA + _MOST_DESCRIPTORS * SECTOR, SECTOR):
            if position + SECTOR > self.size:
                break
            sector = self.read(position, SECTOR)
            if sector[1:6] != b"CD001" or sector[0] == _END:
                break
            yield Descriptor(position, sector[0], sector)

    def boot_catalogs(self) -> Iterator[tuple[int, bytes]]:
        """Yield boot catalogs (El Torito §2): byte offset, and the sector with its entries of 32 bytes."""
        for descriptor in self.descriptors():
            if descriptor.kind == BOOT and descriptor.sector[7:30] == _EL_TORITO:
                offset = struct.unpack_from("<I", descriptor.sector, 71)[0] * SECTOR
                yield offset, self.read(offset, SECTOR)

    def records(self, offset: int, length: int) -> Iterator[Record]:
        """Yield the records of a directory, without . and .."""
        if length > _LARGEST:
            raise self.fault("damaged directory: too long")
        data = self.read(offset, length)
        position = 0
        while position < length:
            size = data[position]
            if size == 0:
                # Records do not cross sectors: the rest of this one is padding.
                position = (position // SECTOR + 1) * SECTOR
                continue
            record = self._record(data[position : position + size], offset + position)
            if record.name not in (b"\0", b"\1"):
                yield record
            position += size

    def _record(self, raw: bytes, position: int) -> Record:
        if len(raw) < 34 or len(raw) < raw[0] or 33 + raw[32] > len(raw):
            raise self.fault("damaged directory record")
        sector, length = struct.unpack_from("<I4xI", raw, 2)
        end = 33 + raw[32]
        # A byte fills up a name of even length.
        system_use = raw[end + 1 - raw[32] % 2 :]
        return Record(
            position, len(raw), sector * SECTOR, length, flags=raw[25], name=raw[33:end], system_use=system_use
        )

    def _extent(self, record: Record, before: int = 0) -> Extent:
        """Return the extent of a record; `before` bytes of the file lie before it."""
        name = record.name.decode("ascii", errors="replace")
        extent = Extent(name, record.offset - before, before + record.length, record.directory)
        if extent.offset < 0 or extent.offset + extent.length > self.size:
            raise self.fault(f"the image is truncated: {plain_name(name) or 'a directory'} lies beyond its end")
        return extent

    def entries(self, directory: Extent) -> Iterator[tuple[str, Extent]]:
        """Yield (Rock Ridge name, "" if none; extent) of the files and directories in a directory."""
        before = 0
        for record in self.records(directory.offset, directory.length):
            name, mode = self._rock_ridge(record.system_use)
            if record.flags & ASSOCIATED or mode & _FILE_TYPE == _SYMLINK:
                continue
            # A file of more than 4 GiB has several records, one after the other (ECMA-119 §6.5.1).
            extent = self._extent(record, before)
            before = extent.length if record.flags & MULTI_EXTENT else 0
            if not before:
                yield name, extent

    def _rock_ridge(self, area: bytes) -> tuple[str, int]:
        """Return name (RRIP §4.1.4) and mode (§4.1.1) in a system use area and those that continue it (SUSP §5.1)."""
        parts, mode, left = [], 0, _MOST_ENTRIES
        while True:
            at, further = 0, None
            while left and at + 4 <= len(area) and 4 <= area[at + 2] <= len(area) - at:
                left -= 1
                signature, body = area[at : at + 2], area[at + 4 : at + area[at + 2]]
                if signature == b"NM":
                    parts.append(body[1:])
                elif signature == b"PX" and len(body) >= 4:
                    mode = struct.unpack_from("<I", body)[0]
                elif signature == b"CE" and len(body) >= 24:
                    further = struct.unpack_from("<I4xI4xI", body)
                at += area[at + 2]
            if further is None or further[2] > SECTOR:
                break
            area = self.read(further[0] * SECTOR + further[1], further[2])
        return b"".join(parts).decode(errors="surrogateescape"), mode

    def tree(self) -> dict[str, Extent]:
        """Return all files and directories by their paths, without a leading slash: Rock Ridge's names, else those in
        ISO 9660."""
        found: list[tuple[str, Extent]] = []
        self._walk(self._root, "", found, frozenset())
        return dict(found)

    def _walk(self, directory: Extent, base: str, found: list[tuple[str, Extent]], above: frozenset[int]) -> None:
        if directory.offset in above or len(above) > _MOST_DEPTH:
            raise self.fault(f"/{base} is within itself")
        for rock_ridge, extent in self.entries(directory):
            name = rock_ridge or extent.name.partition(";")[0]
            if "/" in name or name in ("", ".", ".."):
                raise self.fault(f"/{base} has a file named {name!r}")
            if len(found) >= MOST_RECORDS:
                raise self.fault("it has too many files")
            path = f"{base}/{name}".strip("/")
            found.append((path, extent))
            if extent.directory:
                self._walk(extent, path, found, above | {directory.offset})

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
        if extent.length > _LARGEST:
            raise self.fault(f"{path} has {extent.length} bytes: more than {_LARGEST}")
        return self.read(extent.offset, extent.length)

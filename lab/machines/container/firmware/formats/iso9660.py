"""The inserted medium, read without the kernel's help: one that has no iso9660 boots it all the same.

A file is where it lies in the image, which loop devices and the index of :mod:`erofs` point into, so that nothing is
copied. Directories are read as the kernel reads them (fs/isofs), with Rock Ridge's names, else Joliet's: pycdlib
refuses images with duplicate short names, or serial numbers whose two halves differ, which go-diskfs writes (and
openshift-install with it) and every kernel mounts. Pages: ECMA-119; SUSP and RRIP 1.12; El Torito 1.0.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from lab.machines.container.firmware.formats.errors import NotIso

BLOCK = 2048
BIOS, UEFI = 0x00, 0xEF
# Volume descriptors begin at this block; there are never more than a few (ECMA-119, 8).
_DESCRIPTORS, _MOST_DESCRIPTORS = 16, 64
_JOLIET = (b"%/@", b"%/C", b"%/E")
_DIRECTORY, _ASSOCIATED, _MULTI_EXTENT = 0x02, 0x04, 0x80
_SYMLINK = 0o120000
# A broken image ends in an error, not in a loop.
MOST_RECORDS, _MOST_DEPTH, _LARGEST_DIRECTORY = 1 << 20, 64, 64 << 20


@dataclass(frozen=True)
class Extent:
    """A file of the medium: ``length`` bytes at byte ``offset`` of the image."""

    offset: int
    length: int


@dataclass(frozen=True)
class _Record:
    """A directory record: its name in ISO 9660 or Joliet, flags, where its content is, and its system use area."""

    name: bytes
    flags: int
    extent: Extent
    system_use: bytes


class Medium:
    """An ISO image, open for reading. ``files`` are its regular files by their path without a leading slash."""

    def __init__(self, image: Path | BinaryIO) -> None:
        """It closes the image. Raises NotIso or OSError."""
        self._name = str(image) if isinstance(image, Path) else "the medium"
        self._file = image.open("rb") if isinstance(image, Path) else image
        self.size = self._file.seek(0, os.SEEK_END)
        self.files: dict[str, Extent] = {}
        self.directories: list[str] = []
        self.platforms: set[int] = set()
        self.volume_id = ""
        self._records_left = MOST_RECORDS
        try:
            self._read_volume()
        except (struct.error, IndexError, UnicodeDecodeError) as error:
            self._file.close()
            raise self._broken(f"a record is cut off ({error})") from error
        except BaseException:
            self._file.close()
            raise

    def _broken(self, why: str) -> NotIso:
        return NotIso(f"{self._name}: {why}")

    def _at(self, extent: Extent) -> bytes:
        if min(extent.offset, extent.length) < 0 or extent.offset + extent.length > self.size:
            raise self._broken("a directory lies beyond the end of the image")
        self._file.seek(extent.offset)
        return self._file.read(extent.length)

    def _read_volume(self) -> None:
        primary = joliet = None
        for number in range(_DESCRIPTORS, _DESCRIPTORS + _MOST_DESCRIPTORS):
            self._file.seek(number * BLOCK)
            block = self._file.read(BLOCK)
            if len(block) < BLOCK or block[1:6] != b"CD001":
                raise self._broken("no ISO 9660 volume descriptor where one must be")
            match block[0]:
                case 0:
                    if block[7:30] == b"EL TORITO SPECIFICATION":
                        self._read_catalog(struct.unpack_from("<I", block, 71)[0])
                case 1 if primary is None:
                    primary = block
                case 2 if block[88:91] in _JOLIET:
                    joliet = block
                case 255:
                    break
        else:
            raise self._broken("its volume descriptors do not end")
        if primary is None:
            raise self._broken("it has no primary volume descriptor")
        self.volume_id = primary[40:72].decode("latin-1").rstrip("\0 ")
        root = _record(primary[156:190])
        skip = self._rock_ridge(root)
        if skip is None and joliet is not None:
            self._walk(
                _record(joliet[156:190]), "", lambda record: record.name.decode("utf-16-be"), {root.extent.offset}
            )
        elif skip is None:
            self._walk(root, "", lambda record: record.name.decode("latin-1"), set())
        else:
            self._walk(root, "", lambda record: self._rock_ridge_name(record, skip), set())

    def _rock_ridge(self, root: _Record) -> int | None:
        """How many bytes of each system use area belong to somebody else; None without Rock Ridge (SUSP, 5.3)."""
        first = next(self._records(root), None)
        for skip in (0, 14):
            area = first.system_use[skip:] if first is not None else b""
            if area[:2] == b"SP" and area[4:6] == b"\xbe\xef":
                return area[6]
        return None

    def _records(self, directory: _Record) -> Iterator[_Record]:
        if directory.extent.length > _LARGEST_DIRECTORY:
            raise self._broken("a directory is too large")
        data, at = self._at(directory.extent), 0
        while at < len(data):
            length = data[at]
            if length == 0:
                # Records do not cross blocks (ECMA-119, 6.8.1.1).
                at += BLOCK - at % BLOCK
                continue
            self._records_left -= 1
            if self._records_left < 0:
                raise self._broken("it has too many files")
            yield _record(data[at : at + length])
            at += length

    def _entries(self, area: bytes, skip: int) -> Iterator[tuple[bytes, bytes]]:
        """The entries of a system use area and of those that continue it: signature and what follows the version."""
        area, continuations = area[skip:], 0
        while True:
            at, further = 0, None
            while at + 4 <= len(area) and area[at + 2] >= 4:
                name, length = area[at : at + 2], area[at + 2]
                if name == b"ST":
                    break
                if name == b"CE":
                    block, _, offset, _, size, _ = struct.unpack_from("<I4sI4sI4s", area, at + 4)
                    further = Extent(block * BLOCK + offset, size)
                yield name, area[at + 4 : at + length]
                at += length
            continuations += 1
            if further is None or continuations > _MOST_DEPTH or further.length > BLOCK:
                return
            area = self._at(further)

    def _rock_ridge_name(self, record: _Record, skip: int) -> str:
        """The name of NM entries (RRIP, 4.1.4), the ISO one without, nothing for what is no file or directory."""
        parts, mode = [], 0
        for name, body in self._entries(record.system_use, skip):
            if name == b"NM":
                parts.append(body[1:])
            elif name == b"PX":
                mode = struct.unpack_from("<I", body)[0]
        if mode & 0o170000 == _SYMLINK:
            return ""
        return b"".join(parts).decode("utf-8", "surrogateescape") if parts else record.name.decode("latin-1")

    def _walk(self, directory: _Record, base: str, name_of: Callable[[_Record], str], above: set[int]) -> None:
        if directory.extent.offset in above or len(above) > _MOST_DEPTH:
            raise self._broken(f"/{base} is within itself")
        above, whole = above | {directory.extent.offset}, 0
        for record in self._records(directory):
            if record.name in (b"\0", b"\1") or record.flags & _ASSOCIATED or not (name := name_of(record)):
                continue
            if "/" in name or name in (".", ".."):
                raise self._broken(f"/{base} has a file named {name!r}")
            path = f"{base}/{name}".strip("/")
            if record.flags & _DIRECTORY:
                self.directories.append(path)
                self._walk(record, path, name_of, above)
                continue
            # A file of more than 4 GiB has several records, one after the other (ECMA-119, 6.5.1).
            extent = Extent(record.extent.offset - whole, record.extent.length + whole)
            whole = extent.length if record.flags & _MULTI_EXTENT else 0
            if extent.offset + extent.length > self.size:
                raise self._broken(f"{path} lies beyond the end of the image")
            # Without Rock Ridge and Joliet, names have a version.
            self.files[path.partition(";")[0]] = extent

    def _read_catalog(self, block: int) -> None:
        """The platforms of the boot catalog: of its validation entry, and of each section (El Torito, 2.0)."""
        catalog = self._at(Extent(block * BLOCK, BLOCK))
        if catalog[0] != 1 or catalog[30:32] != b"\x55\xaa":
            raise self._broken("its boot catalog is damaged")
        self.platforms.add(catalog[1])
        self.platforms |= {catalog[at + 1] for at in range(64, BLOCK, 32) if catalog[at] in (0x90, 0x91)}

    def find(self, path: str) -> Extent | None:
        """A file by its path, whatever its case: boot loaders do not mind it."""
        wanted = path.strip("/")
        if wanted in self.files:
            return self.files[wanted]
        folded = wanted.casefold()
        return next((extent for name, extent in self.files.items() if name.casefold() == folded), None)

    def read(self, path: str) -> bytes | None:
        """A file's content, or None when the medium has no such file."""
        extent = self.find(path)
        if extent is None:
            return None
        self._file.seek(extent.offset)
        return self._file.read(extent.length)

    def opened(self, path: str) -> BinaryIO:
        """The image, at the first byte of a file. Raises NotIso when the medium has no such file."""
        extent = self.find(path)
        if extent is None:
            raise self._broken(f"it has no {path}")
        self._file.seek(extent.offset)
        return self._file

    def head(self, path: str, count: int) -> bytes:
        """The first bytes of a file that is there."""
        extent = self.files[path]
        self._file.seek(extent.offset)
        return self._file.read(min(count, extent.length))

    def __enter__(self) -> Medium:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()


def _record(data: bytes) -> _Record:
    """A directory record (ECMA-119, 9.1)."""
    block, length, flags, size = struct.unpack_from("<I4xI11xB6xB", data, 2)
    name = data[33 : 33 + size]
    # A byte fills up a name of even length.
    return _Record(name, flags, Extent((block + data[1]) * BLOCK, length), data[33 + size + (size + 1) % 2 :])

"""The directory records and volume descriptors of an ISO, by their own place in the image, to rewrite them.

A file may have several records: one in the primary volume, one in a Joliet volume, one for each further name.
ECMA-119 §8.4 (descriptors), §9.1 (records).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass

from installer.errors import NotIso9660
from installer.image.iso.embed import Patch
from installer.image.iso.iso9660 import BOOT, PRIMARY, SECTOR, SUPPLEMENTARY, Extent, Iso

_MAX_RECORDS = 1 << 20
_MULTI_EXTENT = 0x80


@dataclass(frozen=True)
class Record:
    """A directory record: its byte offset and length, and the extent that it gives (bytes)."""

    position: int
    size: int
    offset: int
    length: int
    _: KW_ONLY
    directory: bool

    def patch(self, offset: int, length: int) -> Patch:
        """Return the patch that makes the record point to another extent; `offset` is a multiple of the sector."""
        return Patch(self.position + 2, both(offset // SECTOR) + both(length))


def both(value: int) -> bytes:
    """Return a 32-bit number in both byte orders (ECMA-119 §7.3.3)."""
    return struct.pack("<I", value) + struct.pack(">I", value)


def _records_in(iso: Iso, offset: int, length: int) -> Iterator[Record]:
    """Yield the records of one directory, without . and .. ; NotIso9660 where they cannot be read."""
    data = iso.read(offset, length)
    position = 0
    while position < length:
        size = data[position]
        if size == 0:  # records do not cross sectors
            position = (position // SECTOR + 1) * SECTOR
            continue
        raw = data[position : position + size]
        if size < 34 or len(raw) < size:
            raise NotIso9660(iso.path, "damaged directory record")
        if raw[32] != 1 or raw[33] > 1:
            if raw[25] & _MULTI_EXTENT:
                raise NotIso9660(iso.path, "a file in several extents, which cannot be rewritten")
            start, count = (struct.unpack_from("<I", raw, at)[0] for at in (2, 10))
            yield Record(offset + position, size, start * SECTOR, count, directory=bool(raw[25] & 2))
        position += size


def records(iso: Iso) -> list[Record]:
    """All records of all volumes. Raises NotIso9660."""
    entries: list[Record] = []
    seen: set[int] = set()
    todo: list[tuple[int, int]] = []
    for descriptor in iso.descriptors():
        if descriptor.kind in (PRIMARY, SUPPLEMENTARY):
            start, length = (struct.unpack_from("<I", descriptor.sector, 156 + at)[0] for at in (2, 10))
            todo.append((start * SECTOR, length))
    while todo:
        offset, length = todo.pop()
        if offset in seen:
            continue
        seen.add(offset)
        for record in _records_in(iso, offset, length):
            entries.append(record)
            if record.directory:
                todo.append((record.offset, record.length))
        if len(entries) > _MAX_RECORDS:
            raise NotIso9660(iso.path, "too many directory records")
    return entries


def records_of(iso: Iso, extent: Extent) -> list[Record]:
    """Return the records of the file that has this extent; at least one. Raises NotIso9660."""
    matching = [r for r in records(iso) if not r.directory and (r.offset, r.length) == (extent.offset, extent.length)]
    if not matching:
        raise NotIso9660(iso.path, f"the directory records of {extent.name} were not found")
    return matching


def boot_images(iso: Iso) -> list[int]:
    """Byte offsets of the boot catalog and of all boot images (El Torito §2), none where the image does not boot."""
    offsets = []
    for descriptor in iso.descriptors():
        sector = descriptor.sector
        if descriptor.kind != BOOT or sector[7:30] != b"EL TORITO SPECIFICATION":
            continue
        catalog = struct.unpack_from("<I", sector, 71)[0] * SECTOR
        offsets.append(catalog)
        # The entries are 32 bytes; bootable ones begin with 0x88, their sector is at 8.
        raw = iso.read(catalog, SECTOR)
        offsets += [
            struct.unpack_from("<I", raw, at + 8)[0] * SECTOR for at in range(32, SECTOR, 32) if raw[at] == 0x88
        ]
    return offsets


def volume_size_patches(iso: Iso, size: int) -> list[Patch]:
    """Return the patches that make the volumes `size` bytes long."""
    blocks = (size + SECTOR - 1) // SECTOR
    return [Patch(d.position + 80, both(blocks)) for d in iso.descriptors() if d.kind in (PRIMARY, SUPPLEMENTARY)]

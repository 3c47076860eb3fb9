"""The directory records and volume descriptors of an ISO, by their own place in the image, to rewrite them.

A file may have several records: one in the primary volume, one in a Joliet volume, one for each further name.
ECMA-119 §8.4 (descriptors), §9.1 (records).
"""

from __future__ import annotations

import struct

from installer.common.iso9660 import MOST_RECORDS, MULTI_EXTENT, PRIMARY, SECTOR, SUPPLEMENTARY, Extent, Iso, Record
from installer.image.iso.embed import Patch


def both(value: int) -> bytes:
    """Return a 32-bit number in both byte orders (ECMA-119 §7.3.3)."""
    return struct.pack("<I", value) + struct.pack(">I", value)


def moved(record: Record, offset: int, length: int) -> Patch:
    """Return the patch that makes the record point to another extent; `offset` is a multiple of the sector."""
    return Patch(record.position + 2, both(offset // SECTOR) + both(length))


def records(iso: Iso) -> list[Record]:
    """Return all records of all volumes. Raises the image's fault."""
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
        for record in iso.records(offset, length):
            if record.flags & MULTI_EXTENT:
                raise iso.fault("a file in several extents, which cannot be rewritten")
            entries.append(record)
            if record.directory:
                todo.append((record.offset, record.length))
        if len(entries) > MOST_RECORDS:
            raise iso.fault("too many directory records")
    return entries


def records_of(iso: Iso, extent: Extent) -> list[Record]:
    """Return the records of the file that has this extent; at least one. Raises the image's fault."""
    matching = [r for r in records(iso) if not r.directory and (r.offset, r.length) == (extent.offset, extent.length)]
    if not matching:
        raise iso.fault(f"the directory records of {extent.name} were not found")
    return matching


def boot_images(iso: Iso) -> list[int]:
    """Return byte offsets of the boot catalog and of all boot images (El Torito §2), if the image boots."""
    offsets = []
    for catalog, raw in iso.boot_catalogs():
        offsets.append(catalog)
        # Bootable entries begin with 0x88, their sector is at 8.
        offsets += [
            struct.unpack_from("<I", raw, at + 8)[0] * SECTOR for at in range(32, SECTOR, 32) if raw[at] == 0x88
        ]
    return offsets


def volume_size_patches(iso: Iso, size: int) -> list[Patch]:
    """Return the patches that make the volumes `size` bytes long."""
    blocks = (size + SECTOR - 1) // SECTOR
    return [Patch(d.position + 80, both(blocks)) for d in iso.descriptors() if d.kind in (PRIMARY, SUPPLEMENTARY)]

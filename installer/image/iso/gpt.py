"""The partition tables of an ISO that can also be written to a USB stick, after the image has changed its size.

UEFI 2.10 §5.3 (GPT), sectors of 512 bytes; MBR partition entries at byte 446.
"""

from __future__ import annotations

import struct
import zlib

from installer.image.iso.overlay import Overlay

SECTOR = 512
_SIGNATURE = b"EFI PART"
_MBR_ENTRIES = 446
_MAX_ARRAY = 1 << 20


def _read(overlay: Overlay, offset: int, length: int) -> bytes:
    overlay.seek(offset)
    return overlay.read(length)


def _resize_mbr(overlay: Overlay, old: int, new: int) -> None:
    """Partitions that reached to the end of the old image reach to the end of the new one."""
    raw = _read(overlay, 0, SECTOR)
    if raw[510:512] != b"\x55\xaa":
        return
    for index in range(4):
        at = _MBR_ENTRIES + 16 * index
        start, count = struct.unpack_from("<II", raw, at + 8)
        if count and start + count > new:
            overlay.write_at(at + 12, struct.pack("<I", max(new - start, 1)))
        elif count and start + count == old:
            overlay.write_at(at + 12, struct.pack("<I", new - start))


def _crc(data: bytes) -> int:
    return zlib.crc32(data) & 0xFFFFFFFF


def resize(overlay: Overlay, old_size: int) -> None:
    """Fit MBR and GPT of an image that was `old_size` bytes long to what it is now; nothing where it has none."""
    new = overlay.size // SECTOR
    _resize_mbr(overlay, old_size // SECTOR, new)
    header = bytearray(_read(overlay, SECTOR, SECTOR))
    # A backup header that was not at the end of the old image stays where it is.
    if header[:8] != _SIGNATURE or struct.unpack_from("<Q", header, 32)[0] != old_size // SECTOR - 1:
        return
    header_size = struct.unpack_from("<I", header, 12)[0]
    entries_lba, count, entry_size = struct.unpack_from("<QII", header, 72)
    length = count * entry_size
    if not 92 <= header_size <= SECTOR or not 0 < length <= _MAX_ARRAY or entry_size < 128:
        return
    array = bytearray(_read(overlay, entries_lba * SECTOR, length))
    array_sectors = (length + SECTOR - 1) // SECTOR
    last_usable = new - array_sectors - 2
    for at in range(0, length, entry_size):
        first, last = struct.unpack_from("<QQ", array, at + 32)
        if any(array[at : at + 16]) and last > last_usable:
            struct.pack_into("<Q", array, at + 40, max(first, last_usable))
    overlay.write_at(entries_lba * SECTOR, bytes(array))
    struct.pack_into("<QQ", header, 24, 1, new - 1)
    struct.pack_into("<Q", header, 48, last_usable)
    struct.pack_into("<I", header, 88, _crc(bytes(array)))
    _put_header(overlay, header, header_size, 1)
    # The backup: the array, then the header in the last sector.
    overlay.write_at((new - 1 - array_sectors) * SECTOR, bytes(array))
    struct.pack_into("<QQ", header, 24, new - 1, 1)
    struct.pack_into("<Q", header, 72, new - 1 - array_sectors)
    _put_header(overlay, header, header_size, new - 1)


def _put_header(overlay: Overlay, header: bytearray, size: int, lba: int) -> None:
    struct.pack_into("<I", header, 16, 0)
    struct.pack_into("<I", header, 16, _crc(bytes(header[:size])))
    overlay.write_at(lba * SECTOR, bytes(header))

"""Partition tables: GPT (UEFI specification 2.10, chapter 5) and the master boot record.

Only what a firmware asks: the table, the places of its partitions, and whether the disk has boot code.
"""

from __future__ import annotations

import os
import struct
import uuid
import zlib
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import BinaryIO

SECTOR = 512
SIGNATURE = b"\x55\xaa"
BIOS_BOOT = "21686148-6449-6e6f-744e-656564454649"
ESP = "c12a7328-f81f-11d2-ba4b-00a0c93ec93b"
_GPT_HEADER = struct.Struct("<8s4sIIIQQQQ16sQIII")
_GPT_ENTRY = struct.Struct("<16s16sQQQ72s")
_MBR_ENTRY = struct.Struct("<B3sB3sII")
_PROTECTIVE = 0xEE
_EXTENDED = (0x05, 0x0F, 0x85)
# What a table may claim at most: 128 entries are usual, and nobody reads gigabytes because a broken disk says so.
_ENTRIES_MAX = 1024
_ENTRY_SIZE_MAX = 4096


@dataclass(frozen=True)
class Partition:
    """A partition. ``start`` and ``size`` are bytes; ``kind`` is GPT's type GUID or the MBR's type ("0x83"), in lower
    case; ``uuid`` what ``PARTUUID=`` names, in lower case."""

    number: int
    start: int
    size: int
    kind: str
    _: KW_ONLY
    uuid: str
    name: str = ""


@dataclass(frozen=True)
class Table:
    """A disk's partition table; ``boot_code`` tells whether a BIOS would start the disk's first sector."""

    kind: str
    partitions: tuple[Partition, ...]
    boot_code: bool

    def of_kind(self, kind: str) -> Partition | None:
        """Return the first partition of a type, or None."""
        return next((partition for partition in self.partitions if partition.kind == kind), None)


def read_table(disk: Path | BinaryIO) -> Table | None:
    """Read the disk's table, None when it has none: an empty disk, or one whose writing was cut short."""
    if isinstance(disk, Path):
        with disk.open("rb") as file:
            return read_table(file)
    size = disk.seek(0, os.SEEK_END)
    first = _read(disk, 0, SECTOR)
    if len(first) < SECTOR or first[510:] != SIGNATURE:
        return None
    boot_code = any(first[:440])
    entries = [_MBR_ENTRY.unpack_from(first, 446 + 16 * index) for index in range(4)]
    if any(entry[2] == _PROTECTIVE for entry in entries):
        partitions = _gpt(disk, SECTOR, size) or _gpt(disk, size // SECTOR * SECTOR - SECTOR, size)
        return None if partitions is None else Table("gpt", partitions, boot_code)
    signature = struct.unpack_from("<I", first, 440)[0]
    return Table("dos", tuple(_primary(entries, signature, size)), boot_code)


def _read(disk: BinaryIO, offset: int, length: int) -> bytes:
    disk.seek(offset)
    return disk.read(length)


def _primary(entries: list[tuple[int, bytes, int, bytes, int, int]], signature: int, size: int) -> Iterator[Partition]:
    """Yield the four partitions of a master boot record; logical ones are left out, nothing of ours boots from them."""
    for number, (_, _, kind, _, start, count) in enumerate(entries, 1):
        if kind and kind not in _EXTENDED and count and (start + count) * SECTOR <= size:
            uuid_ = f"{signature:08x}-{number:02x}"
            yield Partition(number, start * SECTOR, count * SECTOR, f"0x{kind:02x}", uuid=uuid_)


def _gpt(disk: BinaryIO, offset: int, size: int) -> tuple[Partition, ...] | None:
    """Read the partitions of the GPT with its header at ``offset``; None if there is none, or a checksum is wrong."""
    if offset < SECTOR or offset + SECTOR > size:
        return None
    raw = _read(disk, offset, SECTOR)
    magic, _, header_size, header_sum, _, _, _, _, _, _, entries_lba, count, entry_size, entries_sum = (
        _GPT_HEADER.unpack_from(raw)
    )
    if magic != b"EFI PART" or not _GPT_HEADER.size <= header_size <= SECTOR:
        return None
    if zlib.crc32(raw[:16] + bytes(4) + raw[20:header_size]) != header_sum:
        return None
    if count > _ENTRIES_MAX or not _GPT_ENTRY.size <= entry_size <= _ENTRY_SIZE_MAX:
        return None
    if entries_lba * SECTOR + count * entry_size > size:
        return None
    entries = _read(disk, entries_lba * SECTOR, count * entry_size)
    if zlib.crc32(entries) != entries_sum:
        return None
    return tuple(_entries(entries, entry_size, size))


def _entries(raw: bytes, entry_size: int, size: int) -> Iterator[Partition]:
    for index in range(len(raw) // entry_size):
        kind, own, first, last, _, name = _GPT_ENTRY.unpack_from(raw, index * entry_size)
        if kind == bytes(16) or last < first or (last + 1) * SECTOR > size:
            continue
        text = name.decode("utf-16-le", errors="replace").partition("\0")[0]
        start, length = first * SECTOR, (last + 1 - first) * SECTOR
        yield Partition(index + 1, start, length, _guid(kind), uuid=_guid(own), name=text)


def _guid(raw: bytes) -> str:
    return str(uuid.UUID(bytes_le=raw))

"""An LVM2 physical volume with a volume group, written as bytes: no device mapper, loop device or daemon.

The format is that of lib/format_text in LVM2's sources: a label in the second sector that points to the metadata area,
whose header points to the metadata text, which is as in /etc/lvm/backup.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from typing import BinaryIO

SECTOR = 512
_MDA_START = 4096
_DATA_START = 1 << 20
_EXTENT_SECTORS = 8192
_INITIAL_CRC = 0xF597A6CF
_LABEL = struct.Struct("<8sQII8s")
_AREA = struct.Struct("<QQ")
_MDA = struct.Struct("<16sIQQ")
_LOCATION = struct.Struct("<QQII")
_NONE = _AREA.pack(0, 0)
# The second version of the header's extension, with the mark of a volume that is in use.
_EXTENSION = struct.pack("<II", 2, 1) + _NONE


def _crc(data: bytes) -> int:
    """Compute LVM's checksum: CRC-32 with another initial value, and not inverted."""
    return zlib.crc32(data, _INITIAL_CRC ^ 0xFFFFFFFF) ^ 0xFFFFFFFF


def _uuid(*names: str) -> str:
    """Derive a 32-character LVM identifier from names."""
    return hashlib.sha256("/".join(names).encode()).hexdigest()[:32]


def _dashed(uuid: str) -> str:
    """Write an identifier as the text has it: 6-4-4-4-4-4-6."""
    return "-".join(part.decode() for part in struct.unpack("6s4s4s4s4s4s6s", uuid.encode()))


def _text(group: str, volume: str, sectors: int) -> str:
    extents = (sectors - _DATA_START // SECTOR) // _EXTENT_SECTORS
    return f"""\
{group} {{
id = "{_dashed(_uuid(group))}"
seqno = 1
format = "lvm2"
status = ["RESIZEABLE", "READ", "WRITE"]
flags = []
extent_size = {_EXTENT_SECTORS}
max_lv = 0
max_pv = 0
metadata_copies = 0
physical_volumes {{
pv0 {{
id = "{_dashed(_uuid(group, "pv0"))}"
device = "unknown"
status = ["ALLOCATABLE"]
flags = []
dev_size = {sectors}
pe_start = {_DATA_START // SECTOR}
pe_count = {extents}
}}
}}
logical_volumes {{
{volume} {{
id = "{_dashed(_uuid(group, volume))}"
status = ["READ", "WRITE", "VISIBLE"]
flags = []
segment_count = 1
segment1 {{
start_extent = 0
extent_count = {extents}
type = "striped"
stripe_count = 1
stripes = ["pv0", 0]
}}
}}
}}
}}
contents = "Text Format Volume Group"
version = 1
description = ""
creation_host = "old"
creation_time = 1577836800
"""


def write_volume_group(disk: BinaryIO, start: int, size: int, *, group: str, volume: str) -> None:
    """Make the `size` bytes at `start` the physical volume of `group`, with a logical volume that fills it. Only
    metadata is written."""
    text = _text(group, volume, size // SECTOR).encode() + b"\0"
    header = _uuid(group, "pv0").encode() + struct.pack("<Q", size)
    header += _AREA.pack(_DATA_START, 0) + _NONE
    header += _AREA.pack(_MDA_START, _DATA_START - _MDA_START) + _NONE + _EXTENSION
    label = _LABEL.pack(b"LABELONE", 1, 0, _LABEL.size, b"LVM2 001") + header.ljust(SECTOR - _LABEL.size, b"\0")
    checked = label[20:]
    label = label[:16] + struct.pack("<I", _crc(checked)) + checked
    area = _MDA.pack(b" LVM2 x[5A%r0N*>", 1, _MDA_START, _DATA_START - _MDA_START)
    area += _LOCATION.pack(SECTOR, len(text), _crc(text), 0)
    area = area.ljust(SECTOR - 4, b"\0")
    for offset, data in (
        (0, bytes(SECTOR)),
        (SECTOR, label),
        (_MDA_START, struct.pack("<I", _crc(area)) + area),
        (_MDA_START + SECTOR, text),
    ):
        disk.seek(start + offset)
        disk.write(data)

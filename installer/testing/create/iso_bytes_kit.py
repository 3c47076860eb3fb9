"""Images made sector by sector, so that a test knows each byte of them."""

from __future__ import annotations

import io
import json
import struct
from typing import Any

from installer.common.iso9660 import SECTOR, SYSTEM_AREA, Iso
from installer.errors import NotIso9660
from installer.image.iso.overlay import Overlay


def both(value: int) -> bytes:
    """Return a number of 32 bits in both byte orders (ECMA-119 §7.3.3)."""
    return struct.pack("<I", value) + struct.pack(">I", value)


def record(name: bytes, sector: int, length: int, flags: int = 0, *, system_use: bytes = b"") -> bytes:
    """Return a directory record (ECMA-119 §9.1)."""
    padded = name + (b"" if len(name) % 2 else b"\0")
    size = 33 + len(padded) + len(system_use)
    head = bytes([size + size % 2, 0]) + both(sector) + both(length) + bytes(7) + bytes([flags, 0, 0, 1, 0, 1, 0])
    return (head + bytes([len(name)]) + padded + system_use).ljust(size + size % 2, b"\0")


def volume(root_sector: int, root_length: int, blocks: int, kind: int = 1) -> bytes:
    """Return a volume descriptor (ECMA-119 §8.4)."""
    sector = bytearray(SECTOR)
    sector[:8] = bytes([kind]) + b"CD001\x01\0"
    sector[40:72] = b"VOLUME".ljust(32)
    sector[80:88] = both(blocks)
    sector[156:190] = record(b"\0", root_sector, root_length, 2)
    return bytes(sector)


END = b"\xffCD001\x01".ljust(SECTOR, b"\0")


def image(files: dict[str, bytes], *, extra: tuple[bytes, ...] = (), root: bytes | None = None) -> bytearray:
    """Return an ISO with files in its root: descriptors from sector 16, the root directory behind them, then the
    files."""
    at = 16 + 1 + len(extra) + 1
    place, entries, content = at + 1, record(b"\0", at, SECTOR, 2) + record(b"\1", at, SECTOR, 2), b""
    for name, data in files.items():
        entries += record(name.encode(), place, len(data))
        padded = data + bytes(-len(data) % SECTOR)
        content, place = content + padded, place + len(padded) // SECTOR
    directory = (entries if root is None else root).ljust(SECTOR, b"\0")
    return bytearray(bytes(SYSTEM_AREA) + volume(at, SECTOR, place) + b"".join(extra) + END + directory + content)


def opened(data: bytes) -> Iso:
    """Return the image with these bytes."""
    return Iso(io.BytesIO(bytes(data)), "x.iso", NotIso9660)


ROOT = 18 * SECTOR  # where `image` puts the root directory, without extra descriptors
FIRST = 19 * SECTOR  # and the first file


KARGS = "a=1 b"


def live(*, info: dict[str, Any] | None = None, kargs: dict[str, Any] | None = None, text: str = "") -> bytearray:
    """Return an image with an area of 4096 bytes, a place for kernel arguments, and what coreos/ says of both."""
    image_bytes = image(
        {"K.CFG;1": (text or "head" + (KARGS + "\n").ljust(20, "#")).encode(), "IGN.IMG;1": bytes(4096)}
    )
    folder = len(image_bytes) // SECTOR
    entries = content = b""
    for name, value in (("igninfo.json", info), ("kargs.json", kargs)):
        if value is not None:
            data = json.dumps(value).encode()
            long_name = b"NM" + bytes([5 + len(name), 1, 0]) + name.encode()
            place = folder + 1 + len(content) // SECTOR
            entries += record(b"X%d;1" % len(content), place, len(data), 0, system_use=long_name)
            content += data + bytes(-len(data) % SECTOR)
    image_bytes += entries.ljust(SECTOR, b"\0") + content
    end = ROOT  # of the root directory's records
    while image_bytes[end]:
        end += image_bytes[end]
    entry = record(b"COREOS", folder, SECTOR, 2)
    image_bytes[end : end + len(entry)] = entry
    return image_bytes


def whole(overlay: Overlay) -> bytes:
    """All that the overlay shows."""
    overlay.seek(0)
    return overlay.read()

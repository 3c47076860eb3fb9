"""Converts the PPM screenshots of hypervisors to PNG, without a library."""

from __future__ import annotations

import re
import struct
import zlib

from drivers.errors import ScreenshotError

_MAGIC = b"\x89PNG\r\n\x1a\n"
_HEADER = re.compile(rb"P6\s(?:#[^\n]*\n)*\s*(\d+)\s+(\d+)\s+(\d+)\s")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def as_png(picture: bytes) -> bytes:
    """A hypervisor's screenshot as PNG: QEMU from 7.1 on gives one, older ones a PPM."""
    return picture if picture.startswith(_MAGIC) else ppm_to_png(picture)


def ppm_to_png(ppm: bytes) -> bytes:
    """A binary 8-bit PPM (P6) as PNG. Raises ScreenshotError when it is not one."""
    header = _HEADER.match(ppm)
    if header is None or int(header[3]) != 255:
        raise ScreenshotError(f"the screenshot is neither PNG nor 8-bit PPM: {ppm[:16]!r}")
    width, height = int(header[1]), int(header[2])
    pixels = ppm[header.end() :]
    stride = width * 3
    if len(pixels) < stride * height:
        raise ScreenshotError(f"the screenshot is cut off: {len(pixels)} of {stride * height} bytes")
    # Filter type 0 (none) before every row (PNG specification §9.2).
    rows = b"".join(b"\0" + pixels[y * stride : (y + 1) * stride] for y in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return _MAGIC + _chunk(b"IHDR", head) + _chunk(b"IDAT", zlib.compress(rows, 6)) + _chunk(b"IEND", b"")

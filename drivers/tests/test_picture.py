import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivers.errors import ScreenshotError
from drivers.picture import as_png, ppm_to_png


def decode(png):
    """Width, height and pixels of a PNG of ours, with every checksum verified."""
    at, chunks = 8, {}
    while at < len(png):
        (length,) = struct.unpack_from(">I", png, at)
        kind, data = png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        assert struct.unpack_from(">I", png, at + 8 + length) == (zlib.crc32(kind + data),)
        chunks[kind] = data
        at += 12 + length
    width, height = struct.unpack_from(">II", chunks[b"IHDR"])
    rows = zlib.decompress(chunks[b"IDAT"])
    stride = width * 3 + 1
    return width, height, b"".join(rows[y * stride + 1 : (y + 1) * stride] for y in range(height))


@given(st.integers(1, 9), st.integers(1, 9), st.data())
def test_every_pixel_survives(width, height, data):
    pixels = data.draw(st.binary(min_size=width * height * 3, max_size=width * height * 3))
    assert decode(ppm_to_png(b"P6\n%d %d\n255\n" % (width, height) + pixels)) == (width, height, pixels)


def test_a_png_is_left_alone():
    png = ppm_to_png(b"P6 1 1 255 abc")
    assert as_png(png) is png


@pytest.mark.parametrize("bad", [b"", b"GIF89a", b"P6\n2 2\n255\nabc", b"P6\n1 1\n65535\nabcdef"])
def test_what_is_no_picture_is_an_error(bad):
    with pytest.raises(ScreenshotError):
        as_png(bad)

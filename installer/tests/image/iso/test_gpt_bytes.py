"""Partition tables by their bytes, after an image became longer or shorter."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import pytest

from installer.image.iso import minimal
from installer.image.iso.overlay import Overlay


def table(size: int, *, header_size: int = 92, count: int = 4, entry_size: int = 128, mbr: Any = None) -> bytearray:
    """Return a disk image with a GPT over all of it: two partitions, the second up to the last usable sector."""
    data = bytearray(size)
    sectors = size // 512
    for index, (start, length) in enumerate(mbr if mbr is not None else [(1, sectors - 1)]):
        struct.pack_into("<II", data, 446 + 16 * index + 8, start, length)
    data[510:512] = b"\x55\xaa"
    length = count * entry_size
    array = bytearray(max(256, min(length, 1024)))
    usable = max(sectors - (length + 511) // 512 - 2, 41)
    for index, (first, last) in enumerate([(34, 40), (41, usable)]):
        array[index * 128 : index * 128 + 16] = bytes([index + 1]) * 16
        struct.pack_into("<QQ", array, index * 128 + 32, first, last)
    data[1024 : 1024 + len(array)] = array
    struct.pack_into("<8sIII", data, 512, b"EFI PART", 0x10000, header_size, 0)
    struct.pack_into("<QQQQ", data, 512 + 24, 1, sectors - 1, 34, usable)
    struct.pack_into("<QIII", data, 512 + 72, 2, count, entry_size, zlib.crc32(array))
    return data


def resized(data: bytes, new_size: int) -> bytes:
    overlay = Overlay(io.BytesIO(bytes(data)))
    old = overlay.size
    overlay.truncate(new_size)
    minimal.resize_tables(overlay, old)
    overlay.seek(0)
    return overlay.read()


@pytest.mark.parametrize("new", [60, 100, 200])
def test_a_partition_table_after_its_image(new):
    """The primary header, the array and their backups, by their bytes (UEFI 2.10 §5.3.2)."""
    image = resized(table(100 * 512), new * 512)
    assert len(image) == new * 512
    usable = new - 1 - 2
    for at, other, array_at in ((1, new - 1, 2), (new - 1, 1, new - 2)):
        header = bytearray(image[at * 512 : at * 512 + 92])
        crc = struct.unpack_from("<I", header, 16)[0]
        struct.pack_into("<I", header, 16, 0)
        assert crc == zlib.crc32(header)
        assert struct.unpack_from("<QQQQ", header, 24) == (at, other, 34, usable)
        array = image[array_at * 512 : array_at * 512 + 512]
        assert struct.unpack_from("<QIII", header, 72) == (array_at, 4, 128, zlib.crc32(array))
        assert struct.unpack_from("<QQ", array, 32) == (34, 40)
        assert struct.unpack_from("<QQ", array, 128 + 32) == (41, min(97, usable))
        assert array[256:] == bytes(256)
    assert struct.unpack_from("<II", image, 454) == (1, new - 1)


def test_a_partition_that_does_not_fit_any_more_ends_where_it_begins():
    image = resized(table(100 * 512), 38 * 512)
    assert struct.unpack_from("<QQ", image, 1024 + 32) == (34, 35)
    assert struct.unpack_from("<QQ", image, 1024 + 128 + 32) == (41, 41)


@pytest.mark.parametrize(("sizes", "touched"), [
    ({"header_size": 91}, False), ({"header_size": 92}, True), ({"header_size": 512}, True),
    ({"header_size": 513}, False),
    ({"count": 0}, False), ({"entry_size": 127}, False), ({"count": 1, "entry_size": 128}, True),
    ({"count": (1 << 13) + 1}, False),
])  # fmt: skip
def test_a_header_that_cannot_be_one_is_left_alone(sizes, touched):
    data = table(100 * 512, **sizes)
    image = resized(data, 90 * 512)
    assert (image[512:1024] != data[512:1024]) is touched


def test_the_largest_array():
    size = 5000 * 512
    data = table(size, count=1 << 13)  # a mebibyte of entries
    image = resized(data, size - 512)
    assert struct.unpack_from("<Q", image, 512 + 48)[0] == 4999 - 2048 - 2
    assert image[512:1024] != data[512:1024]


def test_partition_tables_of_other_images_are_left_alone():
    data = table(100 * 512)
    assert resized(data, 2 * 512)[512:] == data[512:1024]  # there is no room for it
    outside = struct.pack("<Q", 1 << 40)
    for change in ((512, b"X"), *((512 + 32, struct.pack("<Q", last)) for last in (98, 100)), (512 + 72, outside)):
        other = bytearray(data)
        other[change[0] : change[0] + len(change[1])] = change[1]
        image = resized(other, 90 * 512)
        assert image[512:] == other[512 : 90 * 512]
        assert struct.unpack_from("<II", image, 454) == (1, 89)  # the MBR has no checksum to be wrong
    for at in (510, 511):
        other = bytearray(data)
        other[at] = 0
        assert resized(other, 90 * 512)[:512] == other[:512]


@pytest.mark.parametrize(("entry", "new", "after"), [
    ((10, 90), 80, (10, 70)),  # reached to the end: does so again
    ((10, 90), 120, (10, 110)),
    ((10, 80), 90, (10, 80)),  # ended before the new end
    ((10, 80), 89, (10, 79)),
    ((10, 81), 90, (10, 80)),
    ((10, 89), 120, (10, 89)),  # did not reach to the end
    ((10, 91), 120, (10, 91)),
    ((95, 2), 90, (95, 1)),  # lies after it
    ((90, 10), 90, (90, 1)),
    ((89, 11), 90, (89, 1)),
    ((0, 0), 80, (0, 0)),
    ((5, 0), 3, (5, 0)),
])  # fmt: skip
def test_master_boot_record(entry, new, after):
    data = table(100 * 512, mbr=[(0, 0), (1, 2), (0, 0), entry])
    image = resized(data, new * 512)
    assert struct.unpack_from("<II", image, 446 + 48 + 8) == after
    assert struct.unpack_from("<II", image, 446 + 16 + 8) == (1, min(2, max(new - 1, 1)))

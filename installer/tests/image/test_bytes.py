"""Images by their bytes: every offset, boundary and checksum, on images that are made here, sector by sector."""

from __future__ import annotations

import errno
import gzip
import io
import json
import lzma
import os
import struct
import threading
import zlib
from pathlib import Path
from typing import Any

import pytest

from installer.errors import EmbedTooBig, IsoError, NoEmbedArea, NotIso9660
from installer.image import copy, cpio
from installer.image.copy import clone, copy_range
from installer.image.iso import embed, gpt, grow, iso9660, records
from installer.image.iso.embed import Patch
from installer.image.iso.iso9660 import SECTOR, SYSTEM_AREA, Extent, Iso
from installer.image.iso.overlay import Overlay, Segment


def both(value: int) -> bytes:
    return struct.pack("<I", value) + struct.pack(">I", value)


def record(name: bytes, sector: int, length: int, flags: int = 0, system_use: bytes = b"") -> bytes:
    """A directory record (ECMA-119 §9.1)."""
    padded = name + (b"" if len(name) % 2 else b"\0")
    size = 33 + len(padded) + len(system_use)
    head = bytes([size + size % 2, 0]) + both(sector) + both(length) + bytes(7) + bytes([flags, 0, 0, 1, 0, 1, 0])
    return (head + bytes([len(name)]) + padded + system_use).ljust(size + size % 2, b"\0")


def volume(root_sector: int, root_length: int, blocks: int, kind: int = 1) -> bytes:
    """A volume descriptor (§8.4)."""
    sector = bytearray(SECTOR)
    sector[:8] = bytes([kind]) + b"CD001\x01\0"
    sector[40:72] = b"VOLUME".ljust(32)
    sector[80:88] = both(blocks)
    sector[156:190] = record(b"\0", root_sector, root_length, 2)
    return bytes(sector)


END = b"\xffCD001\x01".ljust(SECTOR, b"\0")


def image(files: dict[str, bytes], *, extra: tuple[bytes, ...] = (), root: bytes | None = None) -> bytearray:
    """An ISO with files in its root: descriptors from sector 16, the root directory behind them, then the files."""
    at = 16 + 1 + len(extra) + 1
    place, entries, content = at + 1, record(b"\0", at, SECTOR, 2) + record(b"\1", at, SECTOR, 2), b""
    for name, data in files.items():
        entries += record(name.encode(), place, len(data))
        padded = data + bytes(-len(data) % SECTOR)
        content, place = content + padded, place + len(padded) // SECTOR
    directory = (entries if root is None else root).ljust(SECTOR, b"\0")
    return bytearray(bytes(SYSTEM_AREA) + volume(at, SECTOR, place) + b"".join(extra) + END + directory + content)


def opened(data: bytes) -> Iso:
    return Iso(io.BytesIO(bytes(data)), "x.iso")


ROOT = 18 * SECTOR  # where `image` puts the root directory, without extra descriptors
FIRST = 19 * SECTOR  # and the first file


# ISO 9660


def test_where_things_are():
    iso = opened(image({"A.TXT;1": b"aaa", "B.;1": b"b" * 3000, "C;1": b"c"}))
    assert (iso.volume_id, iso.size) == ("VOLUME", 23 * SECTOR)
    assert iso.find("a.txt") == Extent("A.TXT;1", FIRST, 3, False)
    assert iso.find("/b") == Extent("B.;1", FIRST + SECTOR, 3000, False)
    assert iso.find("C") == Extent("C;1", FIRST + 3 * SECTOR, 1, False)
    assert iso.find("") == iso.find("/") == Extent("\0", ROOT, SECTOR, True)
    assert iso.find("d") is iso.find("a.txt/b") is None
    assert (iso.file("a.txt"), iso.file("c"), iso.file("d"), iso.file("/")) == (b"aaa", b"c", None, None)
    assert Extent("n", 100, 50, True).slice(7, 9) == Extent("n", 107, 9, False)


def test_reading_to_the_last_byte():
    iso = opened(image({"A;1": b"a"}))
    assert iso.read(iso.size - 1, 1) == b"\0"
    assert iso.read(iso.size, 0) == b""
    with pytest.raises(NotIso9660, match=f"the image is truncated: it ends before byte {iso.size + 1}$"):
        iso.read(iso.size - 1, 2)


def test_a_file_may_end_with_the_image_and_not_behind_it():
    data = image({"A;1": b"a" * 100})
    assert opened(data[: FIRST + 100]).file("a") == b"a" * 100
    with pytest.raises(NotIso9660, match="truncated: A lies beyond its end"):
        opened(data[: FIRST + 99]).find("a")
    with pytest.raises(NotIso9660, match="lies beyond its end"):
        opened(data[: ROOT + SECTOR - 1])  # the root directory itself
    with pytest.raises(NotIso9660, match="not an ISO 9660 image"):
        opened(data[: SYSTEM_AREA + SECTOR - 1])


def test_the_primary_descriptor_is_looked_for():
    primary = volume(16 + 65, SECTOR, 100)
    other = b"\x02CD001\x01".ljust(SECTOR, b"\0")
    tail = bytes(SECTOR) * 4
    assert opened(bytes(SYSTEM_AREA) + other * 63 + primary + END + tail).volume_id == "VOLUME"
    for before in (other * 64, END, other + bytes(SECTOR)):
        with pytest.raises(NotIso9660, match="not an ISO 9660 image"):
            opened(bytes(SYSTEM_AREA) + before + volume(16 + 65, SECTOR, 100) + END + tail + bytes(SECTOR) * 64)


def test_names():
    use = b"NM" + bytes([8, 1, 0]) + b"abc"
    assert iso9660.rock_ridge_name(use) == "abc"
    assert iso9660.rock_ridge_name(b"PX" + bytes([6, 1]) + b"zz" + use + b"NM" + bytes([6, 1, 0]) + b"d") == "abcd"
    assert iso9660.rock_ridge_name(use[:-1]) == ""  # longer than what is there
    assert iso9660.rock_ridge_name(b"NM" + bytes([5, 1, 0])) == ""
    assert iso9660.rock_ridge_name(b"XX" + bytes([4, 1]) + use) == "abc"
    assert iso9660.rock_ridge_name(b"XX" + bytes([3, 1]) + use) == ""
    assert iso9660.rock_ridge_name(b"NM\x08\x01") == ""
    assert [iso9660.plain_name(name) for name in ("a.b;1", "a.;1", "a")] == ["A.B", "A", "A"]
    assert iso9660.mangled_name("igninfo.json") == "IGNINFO.JSO"
    assert iso9660.mangled_name("long-name-here.x") == "LONG_NAM.X"
    assert iso9660.mangled_name("nodots-here") == "NODOTS_H"
    assert iso9660.mangled_name("a.b.json") == "A_B.JSO"


def test_a_name_in_full_comes_before_a_mangled_one():
    use = b"NM" + bytes([5 + 12, 1, 0]) + b"igninfo.json"
    short, full = record(b"IGNINFO.JSO;1", 19, 1), record(b"X.Y;1", 20, 2, 0, use)
    for entries in (short + full, full + short):
        iso = opened(image({"A;1": b"1", "B;1": b"2"}, root=entries))
        assert iso.find("igninfo.json").length == 2
    two = record(b"IGNINFO.JSO;1", 19, 1) + record(b"IGNINFO.JSO;2", 20, 2)
    assert opened(image({"A;1": b"1", "B;1": b"2"}, root=two)).find("igninfo.json").length == 1


def test_directories_to_their_limits():
    # Records do not cross sectors: what follows the padding is in the next one.
    root = record(b"A;1", 21, 1).ljust(SECTOR, b"\0") + record(b"B;1", 21, 2)
    data = image({}, root=root) + bytes(3 * SECTOR)
    struct.pack_into("<I", data, SYSTEM_AREA + 156 + 10, 2 * SECTOR)
    assert [extent.length for _, extent in opened(data).entries(opened(data).find(""))] == [1, 2]
    iso = opened(image({"A;1": b"1"}))
    with pytest.raises(NotIso9660, match="damaged directory: too long"):
        list(iso.entries(Extent("d", 0, (1 << 22) + 1, True)))
    with pytest.raises(NotIso9660, match="the image is truncated"):
        list(iso.entries(Extent("d", 0, 1 << 22, True)))
    for entry in (b"\x21" + bytes(32), b"\x20" + bytes(31)):  # too short for a record
        with pytest.raises(NotIso9660, match="damaged directory record"):
            opened(image({}, root=entry)).find("a")
    longer = bytearray(record(b"A;1", 19, 0))
    longer[32] = len(longer) - 33 + 1  # a name that reaches beyond its record
    with pytest.raises(NotIso9660, match="damaged directory record"):
        opened(image({}, root=bytes(longer))).find("a")
    longer[32] -= 1
    assert opened(image({}, root=bytes(longer))).find("b") is None
    cut = image({}, root=record(b"A;1", 19, 0))
    struct.pack_into("<I", cut, SYSTEM_AREA + 156 + 10, 10)  # the directory ends within the record
    with pytest.raises(NotIso9660, match="damaged directory record"):
        opened(cut).find("a")


# Records and descriptors


def test_records_by_their_bytes():
    assert records.both(0x01020304) == b"\4\3\2\1\1\2\3\4"
    patch = records.Record(1000, 40, 0, 0, False).patch(5 * SECTOR, 77)
    assert patch == Patch(1002, b"\5\0\0\0\0\0\0\5" + b"\x4d\0\0\0\0\0\0\x4d")
    data = image({"A;1": b"aaa", "B;1": b"bb"}, extra=(volume(19, SECTOR, 9, 2),))
    found = records.records(opened(data))
    root = 19 * SECTOR
    size = len(record(b"A;1", 0, 0))
    begin = root + 2 * len(record(b"\0", 0, 0))
    # Both volumes have one root here: it is read once.
    assert found == [
        records.Record(begin, size, root + SECTOR, 3, False),
        records.Record(begin + size, size, root + 2 * SECTOR, 2, False),
    ]
    assert records.records_of(opened(data), Extent("a", root + SECTOR, 3, False)) == found[:1]
    for wrong in (Extent("a", root + SECTOR, 2, False), Extent("a", root, 3, False)):
        with pytest.raises(NotIso9660, match="the directory records of a were not found"):
            records.records_of(opened(data), wrong)
    assert [(one.position, one.kind) for one in records.descriptors(opened(data))] == [
        (SYSTEM_AREA, 1), (SYSTEM_AREA + SECTOR, 2),
    ]  # fmt: skip
    assert records.volume_size_patches(opened(data), 10 * SECTOR + 1) == [
        Patch(SYSTEM_AREA + 80, both(11)), Patch(SYSTEM_AREA + SECTOR + 80, both(11)),
    ]  # fmt: skip
    assert records.volume_size_patches(opened(data), 10 * SECTOR)[0].data == both(10)


def test_records_that_are_not_what_they_seem():
    # A name of one byte is . or .. only when the byte is 0 or 1.
    root = record(b"\0", 18, SECTOR, 2) + record(b"\1", 18, SECTOR, 2) + record(b"\2", 19, 5) + record(b"\0\0", 19, 6)
    assert [one.length for one in records.records(opened(image({"A;1": bytes(9)}, root=root)))] == [5, 6]
    with pytest.raises(NotIso9660, match="in several extents"):
        records.records(opened(image({"A;1": b"a"}, root=record(b"A;1", 19, 1, 0x80))))
    with pytest.raises(NotIso9660, match="damaged directory record"):
        records.records(opened(image({}, root=b"\x21" + bytes(32))))
    # A directory below is looked into, one that holds itself only once.
    below = record(b"SUB", 19, SECTOR, 2)
    inner = (record(b"SUB", 19, SECTOR, 2) + record(b"X;1", 20, 7)).ljust(SECTOR, b"\0")
    found = records.records(opened(image({"S;1": inner, "X;1": bytes(7)}, root=below)))
    assert [(one.directory, one.length) for one in found] == [(True, SECTOR), (True, SECTOR), (False, 7)]


def test_boot_images():
    catalog = bytearray(SECTOR)
    for at, kind, sector in ((0, 1, 5), (32, 0x88, 50), (64, 0x88, 60), (96, 0, 70), (SECTOR - 32, 0x88, 80)):
        catalog[at] = kind
        struct.pack_into("<I", catalog, at + 8, sector)
    boot = bytearray(b"\0CD001\1EL TORITO SPECIFICATION".ljust(SECTOR, b"\0"))
    struct.pack_into("<I", boot, 71, 20)
    other = b"\0CD001\1EL TORITO SPECIFICATIOM".ljust(SECTOR, b"\0")
    data = image({"CAT;1": bytes(catalog)}, extra=(bytes(boot),))
    assert records.boot_images(opened(data)) == [20 * SECTOR, 50 * SECTOR, 60 * SECTOR, 80 * SECTOR]
    assert records.boot_images(opened(image({"CAT;1": bytes(catalog)}, extra=(other,)))) == []
    assert records.boot_images(opened(image({}))) == []


# Partition tables


def table(size: int, *, header_size: int = 92, count: int = 4, entry_size: int = 128, mbr: Any = None) -> bytearray:
    """A disk image with a GPT over all of it: two partitions, the second up to the last usable sector."""
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
    gpt.resize(overlay, old)
    overlay.seek(0)
    return overlay.read()


@pytest.mark.parametrize("new", [60, 100, 200])
def test_a_partition_table_after_its_image(new):
    """The primary header, the array and their backups, by their bytes (UEFI 2.10 §5.3.2)."""
    made = resized(table(100 * 512), new * 512)
    assert len(made) == new * 512
    usable = new - 1 - 2
    for at, other, array_at in ((1, new - 1, 2), (new - 1, 1, new - 2)):
        header = bytearray(made[at * 512 : at * 512 + 92])
        crc = struct.unpack_from("<I", header, 16)[0]
        struct.pack_into("<I", header, 16, 0)
        assert crc == zlib.crc32(header)
        assert struct.unpack_from("<QQQQ", header, 24) == (at, other, 34, usable)
        array = made[array_at * 512 : array_at * 512 + 512]
        assert struct.unpack_from("<QIII", header, 72) == (array_at, 4, 128, zlib.crc32(array))
        assert struct.unpack_from("<QQ", array, 32) == (34, 40)
        assert struct.unpack_from("<QQ", array, 128 + 32) == (41, min(97, usable))
        assert array[256:] == bytes(256)
    assert struct.unpack_from("<II", made, 454) == (1, new - 1)


def test_a_partition_that_does_not_fit_any_more_ends_where_it_begins():
    made = resized(table(100 * 512), 38 * 512)
    assert struct.unpack_from("<QQ", made, 1024 + 32) == (34, 35)
    assert struct.unpack_from("<QQ", made, 1024 + 128 + 32) == (41, 41)


@pytest.mark.parametrize(("sizes", "touched"), [
    ({"header_size": 91}, False), ({"header_size": 92}, True), ({"header_size": 512}, True),
    ({"header_size": 513}, False),
    ({"count": 0}, False), ({"entry_size": 127}, False), ({"count": 1, "entry_size": 128}, True),
    ({"count": (1 << 13) + 1}, False),
])  # fmt: skip
def test_a_header_that_cannot_be_one_is_left_alone(sizes, touched):
    data = table(100 * 512, **sizes)
    made = resized(data, 90 * 512)
    assert (made[512:1024] != data[512:1024]) is touched


def test_the_largest_array():
    size = 5000 * 512
    data = table(size, count=1 << 13)  # a mebibyte of entries
    made = resized(data, size - 512)
    assert struct.unpack_from("<Q", made, 512 + 48)[0] == 4999 - 2048 - 2
    assert made[512:1024] != data[512:1024]


def test_what_is_no_table_for_this_image_is_left_alone():
    data = table(100 * 512)
    for change in ((512, b"X"), (512 + 32, struct.pack("<Q", 98)), (512 + 32, struct.pack("<Q", 100))):
        other = bytearray(data)
        other[change[0] : change[0] + len(change[1])] = change[1]
        made = resized(other, 90 * 512)
        assert made[512:] == other[512 : 90 * 512]
        assert struct.unpack_from("<II", made, 454) == (1, 89)  # the MBR has no checksum to be wrong
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
    ((95, 2), 90, (95, 1)),  # lies behind it
    ((90, 10), 90, (90, 1)),
    ((89, 11), 90, (89, 1)),
    ((0, 0), 80, (0, 0)),
    ((5, 0), 3, (5, 0)),
])  # fmt: skip
def test_master_boot_record(entry, new, after):
    data = table(100 * 512, mbr=[(0, 0), (1, 2), (0, 0), entry])
    made = resized(data, new * 512)
    assert struct.unpack_from("<II", made, 446 + 48 + 8) == after
    assert struct.unpack_from("<II", made, 446 + 16 + 8) == (1, min(2, max(new - 1, 1)))


# cpio


def test_archives_by_their_bytes():
    def header(*fields: int) -> bytes:
        return b"070701" + b"".join(b"%08X" % field for field in fields)

    made = cpio.pack_modes([("a/b", b"xyz", 0o600), ("a/c", b"", 0o644)])
    assert made == (
        header(1, 0o040755, 0, 0, 1, 0, 0, 0, 0, 0, 0, 2, 0) + b"a\0"
        + header(2, 0o100600, 0, 0, 1, 0, 3, 0, 0, 0, 0, 4, 0) + b"a/b\0\0\0" + b"xyz\0"
        + header(3, 0o100644, 0, 0, 1, 0, 0, 0, 0, 0, 0, 4, 0) + b"a/c\0\0\0"
        + header(4, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 11, 0) + b"TRAILER!!!\0\0\0\0"
    )  # fmt: skip
    assert cpio.pack({"b": b"2", "/a/": b"1"}) == cpio.pack_modes([("a", b"1", 0o644), ("b", b"2", 0o644)])
    assert b"".join(cpio.pieces([])) == header(1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 11, 0) + b"TRAILER!!!\0\0\0\0"
    assert cpio.pack_modes([("a/b/c", b"", 0o644)]).count(b"070701") == 4
    assert cpio.unpack(made) == {"a/b": b"xyz", "a/c": b""}
    link = b"".join(cpio.pieces([("l", 0o120777, b"a"), ("d", 0o040755, b""), ("f", 0o100644, b"f")]))
    assert cpio.unpack(link) == {"f": b"f"}


def test_joined():
    assert cpio.joined() == cpio.joined(b"", b"") == b""
    assert cpio.joined(b"abc") == cpio.joined(b"", b"abc", b"") == b"abc"
    assert cpio.joined(b"abc", b"", b"de", b"f") == b"abc\0de\0\0f"
    assert cpio.joined(b"abcd", b"e") == b"abcde"


def test_damaged_archives():
    made = cpio.pack({"a": b"12345"})
    for cut in (0, 109):
        with pytest.raises(ValueError, match="not a newc cpio archive"):
            cpio.unpack(made[:cut])
    with pytest.raises(ValueError, match="not a newc cpio archive"):
        cpio.unpack(b"070702" + made[6:])
    with pytest.raises(ValueError, match="truncated cpio archive"):
        cpio.unpack(made[:116])
    with pytest.raises(ValueError, match="not a newc cpio archive"):
        cpio.unpack(made[:117])  # the content is there, what follows it is not


def test_compression():
    data = bytes(range(256)) * 40
    packed = gzip.compress(data, 9, mtime=0)
    assert cpio.compress(data) == cpio.compress(data, len(packed)) == packed
    smaller = cpio.compress(data, len(packed) - 1)
    assert smaller.startswith(b"\xfd7zXZ\0")
    assert smaller[7] == lzma.CHECK_CRC32
    assert len(smaller) < len(packed)
    assert cpio.compress(b"x", 1) == gzip.compress(b"x", 9, mtime=0)  # xz would be longer still
    for one in (packed, smaller):
        assert cpio.decompress(one + bytes(50)) == data
    assert cpio.decompress(b"070701...") == b"070701..."


# Embed areas

KARGS = "a=1 b"


def live(*, info: dict[str, Any] | None = None, kargs: dict[str, Any] | None = None, text: str = "") -> bytearray:
    """An image with an area of 4096 bytes, a place for kernel arguments, and what coreos/ says of both."""
    made = image({"K.CFG;1": (text or "head" + (KARGS + "\n").ljust(20, "#")).encode(), "IGN.IMG;1": bytes(4096)})
    folder = len(made) // SECTOR
    entries = content = b""
    for name, value in (("igninfo.json", info), ("kargs.json", kargs)):
        if value is not None:
            data = json.dumps(value).encode()
            long_name = b"NM" + bytes([5 + len(name), 1, 0]) + name.encode()
            place = folder + 1 + len(content) // SECTOR
            entries += record(b"X%d;1" % len(content), place, len(data), 0, long_name)
            content += data + bytes(-len(data) % SECTOR)
    made += entries.ljust(SECTOR, b"\0") + content
    end = ROOT  # of the root directory's records
    while made[end]:
        end += made[end]
    entry = record(b"COREOS", folder, SECTOR, 2)
    made[end : end + len(entry)] = entry
    return made


def test_the_area_by_its_description():
    assert embed.ignition_area(opened(live(info={"file": "ign.img"}))) == Extent(
        "IGN.IMG;1", FIRST + SECTOR, 4096, False
    )
    inside = {"file": "ign.img", "offset": 100, "length": 3996}
    assert embed.ignition_area(opened(live(info=inside))) == Extent("IGN.IMG;1", FIRST + SECTOR + 100, 3996, False)
    rest = {"file": "ign.img", "offset": 100}
    assert embed.ignition_area(opened(live(info=rest))).length == 3996
    for wrong, told in (
        ({"file": "ign.img", "offset": 100, "length": 3997}, "beyond the end of ign.img"),
        ({"file": "ign.img", "offset": -1, "length": 1}, "beyond the end of ign.img"),
        ({"file": "ign.img", "offset": 4096}, "the Ignition embed area lies outside the image"),
        ({"file": "ign.img", "length": -1}, "lies outside the image"),
        ({"file": "no.img"}, "names no.img, which is not in the image"),
        ({}, "names no file, which is not in the image"),
        ({"file": "coreos"}, "names coreos, which is not"),
    ):
        with pytest.raises(NotIso9660, match=told):
            embed.ignition_area(opened(live(info=wrong)))


def test_the_area_by_the_header_of_2020():
    plain = image({"A;1": bytes(4096)})
    with pytest.raises(NoEmbedArea, match="this is not a CoreOS live ISO"):
        embed.ignition_area(opened(plain))
    for offset, length, fine in (
        (FIRST, 4096, True),
        (len(plain) - 1, 1, True),
        (len(plain) - 1, 2, False),
        (0, 0, False),
    ):
        struct.pack_into("<8sQQ", plain, SYSTEM_AREA - 24, b"coreiso+", offset, length)
        if fine:
            found = embed.ignition_area(opened(plain))
            assert (found.offset, found.length) == (offset, length)
        else:
            with pytest.raises(NotIso9660, match="lies outside the image"):
                embed.ignition_area(opened(plain))


def test_what_is_embedded_fills_the_area_exactly():
    data = live(info={"file": "ign.img"})
    config = b'{"ignition":{}}'
    patch = embed.ignition_patch(opened(data), config)
    packed = cpio.compress(cpio.pack({"config.ign": config}))
    assert patch == Patch(FIRST + SECTOR, packed + bytes(4096 - len(packed)))
    assert embed.embedded_ignition(opened(data)) is None
    data[patch.offset : patch.offset + 4096] = patch.data
    assert embed.embedded_ignition(opened(data)) == config
    # To the last byte, and not one more.
    noise = os.urandom(3000)
    size = len(cpio.compress(cpio.pack({"config.ign": noise}), 1))
    fits = live(info={"file": "ign.img", "length": size})
    assert len(embed.ignition_patch(opened(fits), noise).data) == size
    with pytest.raises(EmbedTooBig, match=f"needs {size} bytes, its embed area has {size - 1}; hint$") as caught:
        embed.ignition_patch(opened(live(info={"file": "ign.img", "length": size - 1})), noise, "; hint")
    assert (caught.value.size, caught.value.limit) == (size, size - 1)


def test_kernel_arguments_by_their_description():
    entry = {"path": "k.cfg", "offset": 4}
    kargs = {"default": f" {KARGS} ", "size": 20, "files": [entry, {**entry, "pad": "*", "end": "E"}]}
    area = embed.kargs_area(opened(live(kargs=kargs)))
    assert area.areas == (Extent("K.CFG;1", FIRST + 4, 20, False),) * 2
    assert (area.default, area.pad, area.ends) == (KARGS, "*", ("\n", "E"))
    bare = embed.kargs_area(opened(live(kargs={"size": 20, "files": [{"path": "k.cfg"}]})))
    assert (bare.areas[0], bare.default, bare.pad, bare.ends) == (Extent("K.CFG;1", FIRST, 20, False), "", "#", ("\n",))
    one = {**kargs, "files": [entry]}
    iso = opened(live(kargs=one))
    assert embed.current_kargs(iso, embed.kargs_area(iso)) == KARGS
    assert embed.kargs_patches(iso, ()) == []
    assert embed.kargs_patches(iso, ("c",)) == [Patch(FIRST + 4, b"a=1 b c\n############")]
    assert embed.kargs_patches(iso, lambda text: text.upper()) == [Patch(FIRST + 4, b"A=1 B\n##############")]
    # To the last byte, and not one more.
    assert embed.kargs_patches(iso, lambda _: "x" * 19) == [Patch(FIRST + 4, b"x" * 19 + b"\n")]
    with pytest.raises(EmbedTooBig, match="the kernel command line needs 21 bytes, its embed area has 20"):
        embed.kargs_patches(iso, lambda _: "x" * 20)
    for wrong, told in (
        ({**one, "size": 2049}, "kernel argument areas of 2049 bytes for a default of 5|outside"),
        ({**one, "size": 5}, "kernel argument areas of 5 bytes for a default of 5"),
        ({**one, "size": 0}, "the kernel argument area lies outside the image"),
        ({**one, "files": [{"path": "no"}]}, "names no, which is not in the image"),
        ({**one, "files": [{"path": "coreos"}]}, "names coreos, which is not"),
    ):
        with pytest.raises(NotIso9660, match=told):
            embed.kargs_area(opened(live(kargs=wrong) + bytes(4096)))
    assert embed.kargs_area(opened(live(kargs={**one, "size": 6}))).areas[0].length == 6
    assert embed.kargs_area(opened(live(kargs={**one, "size": 2048}) + bytes(4096))).areas[0].length == 2048
    assert embed.kargs_area(opened(live(kargs={**one, "files": []}))) is None


def test_areas_that_differ():
    text = "head" + "a b\n####" + "a c\n####"
    kargs = {"default": "a b", "size": 8, "files": [{"path": "k.cfg", "offset": 4}, {"path": "k.cfg", "offset": 12}]}
    iso = opened(live(kargs=kargs, text=text))
    with pytest.raises(NotIso9660, match="the kernel argument areas differ from each other"):
        embed.current_kargs(iso, embed.kargs_area(iso))


def test_kernel_arguments_by_the_header_of_2021():
    plain = image({"A;1": (KARGS + "\n").ljust(2048, "#").encode() * 2})
    assert embed.kargs_area(opened(plain)) is None
    with pytest.raises(NoEmbedArea, match=r"no kernel argument areas, so x y cannot be added$"):
        embed.kargs_patches(opened(plain), ("x", "y"))
    with pytest.raises(NoEmbedArea, match=r"no kernel argument areas, so they cannot be changed$"):
        embed.kargs_patches(opened(plain), str)

    def header(size: int, *offsets: int) -> Iso:
        struct.pack_into("<8s8Q", plain, SYSTEM_AREA - 96, b"coreKarg", size, *(*offsets, *[0] * 7)[:7])
        return opened(plain)

    area = embed.kargs_area(header(2048, FIRST, FIRST, FIRST + 2048))
    assert [(one.offset, one.length) for one in area.areas] == [(FIRST, 2048), (FIRST + 2048, 2048)]
    assert (area.default, area.pad, area.ends) == (KARGS, "#", ("\n", "\n"))
    assert len(embed.kargs_area(header(2048, *[FIRST] * 7)).areas) == 6
    assert embed.kargs_area(header(2048, FIRST)) is None
    with pytest.raises(NotIso9660, match="kernel argument areas of 2049 bytes: more than 2048"):
        embed.kargs_area(header(2049, FIRST, FIRST))
    with pytest.raises(NotIso9660, match="the kernel argument area lies outside the image"):
        embed.kargs_area(header(100, FIRST, len(plain) - 99))
    assert embed.kargs_area(header(100, FIRST, len(plain) - 100)).areas[0].length == 100


@pytest.mark.parametrize("content", [b"[]", b"x", b"[" * 100_000])
def test_descriptions_that_are_no_json_objects(content):
    data = live(info={"file": "x" * 200_000})
    at = bytes(data).index(b'{"file": "xxx')
    data[at : at + len(content)] = content
    if content != b"[" * 100_000:
        data[at + len(content) : at + 200_012] = b" " * (200_012 - len(content))
    with pytest.raises(NotIso9660, match=r"igninfo\.json is not (JSON|a JSON object)"):
        embed.ignition_area(opened(data))


# Growing


@pytest.mark.parametrize(("area", "content", "length"), [
    (100, 75, 100), (100, 76, 125), (100, 100, 125), (100, 101, 150), (100, 0, 100), (101, 75, 101), (101, 76, 104),
    (4, 3, 4), (4, 4, 5), (4, 5, 6), (1, 0, 1), (1, 1, 2), (262144, 196608, 262144), (262144, 196609, 327680),
])  # fmt: skip
def test_new_lengths(area, content, length):
    assert grow.grown_length(area, content) == length


def grown(content: bytes) -> Overlay:
    overlay = Overlay(io.BytesIO(bytes(live(info={"file": "ign.img"}))))
    assert grow.embed_ignition(overlay, "x.iso", content)
    return overlay


def whole(overlay: Overlay) -> bytes:
    overlay.seek(0)
    return overlay.read()


def test_growth_and_its_record_by_their_bytes():
    base = bytes(live(info={"file": "ign.img"}))
    noise = os.urandom(5000)
    packed = cpio.compress(cpio.pack({"config.ign": noise}))
    overlay = grown(noise)
    data = whole(overlay)
    iso = opened(data)
    length = grow.grown_length(4096, len(packed))
    # The file is behind the old end, at a sector, longer, with the config and zeros in it.
    assert len(base) % SECTOR == 0
    assert embed.ignition_area(iso) == Extent("IGN.IMG;1", len(base), length, False)
    assert data[len(base) : len(base) + length] == packed + bytes(length - len(packed))
    # The undo record is at the very end: magic, length of its text, the old size.
    magic, undo, before = struct.unpack("<16sQQ", data[-32:])
    assert (magic, before) == (b"node0-undo-v1\0\0\0", len(base))
    assert len(data) % SECTOR == 0
    assert json.loads(data[-32 - undo : -32])
    assert data[SYSTEM_AREA + 80 : SYSTEM_AREA + 88] == both(len(data) // SECTOR)
    assert grow.undo_growth(overlay, "x.iso")
    assert whole(overlay) == base
    assert not grow.undo_growth(overlay, "x.iso")
    # What fits with a quarter to spare does not grow.
    small = Overlay(io.BytesIO(base))
    assert not grow.embed_ignition(small, "x.iso", b"{}")
    assert small.size == len(base)


def test_a_record_of_growth_that_lies():
    data = whole(grown(os.urandom(5000)))
    magic, undo, before = struct.unpack("<16sQQ", data[-32:])

    def refused(footer: bytes, text: bytes | None = None) -> bool:
        changed = data[:-32] if text is None else data[: -32 - undo] + text.ljust(undo)
        try:
            grow.undo_growth(Overlay(io.BytesIO(changed + footer)), "x.iso")
        except NotIso9660 as error:
            return "the record of how the image grew is damaged" in str(error)
        return False

    form = struct.Struct("<16sQQ")
    assert not refused(form.pack(magic, undo, before))
    assert refused(form.pack(magic, undo - 1, before))
    room = len(data) - 32 - undo
    assert refused(form.pack(magic, undo, room + 1))
    assert refused(form.pack(magic, 1 << 40, before))
    assert refused(form.pack(magic, undo, 100))  # what it would put back lies behind that
    for text in (
        b"{",
        b"[[1]]",
        b'[["x","eA=="]]',
        b'[[-1,"eA=="]]',
        b"7",
        f'[[{before},"eA=="]]'.encode(),
        b"[" * undo,
    ):
        assert refused(form.pack(magic, undo, before), text), text
    assert not refused(form.pack(magic, undo, before), f'[[{before - 1},"eA=="]]'.encode())
    assert not refused(form.pack(b"x" * 16, undo, before))
    assert not grow.undo_growth(Overlay(io.BytesIO(b"x" * 31)), "x")
    assert not grow.undo_growth(Overlay(io.BytesIO(b"x" * 32)), "x")


def test_the_next_place():
    for size, place in ((0, 0), (1, SECTOR), (SECTOR, SECTOR), (SECTOR + 1, 2 * SECTOR)):
        assert grow.new_place(Overlay(io.BytesIO(bytes(size)))) == place


# Overlays and copies


def test_parts_of_a_segment():
    for source, found in ((100, 103), (b"0123456789", b"34567"), (None, None)):
        one = Segment(50, 10, source)
        assert one.end == 60
        assert one.part(53, 58) == Segment(53, 5, found)
        assert one.part(0, 100) == one
    overlay = Overlay(io.BytesIO(b"0123456789"))
    overlay.write_at(4, b"ab")
    assert list(overlay.parts(3, 5)) == [Segment(3, 1, 3), Segment(4, 1, b"a")]
    assert list(overlay.parts(4, 6)) == [Segment(4, 2, b"ab")]
    assert list(overlay.parts(0, 4)) == [Segment(0, 4, 0)]


def test_reading_an_overlay():
    overlay = Overlay(io.BytesIO(b"0123456789"))
    overlay.zero(12, 2)
    assert (overlay.readable(), overlay.seekable(), overlay.size, overlay.base_size) == (True, True, 14, 10)
    assert (overlay.seek(3), overlay.read(4), overlay.tell()) == (3, b"3456", 7)
    assert (overlay.seek(2, os.SEEK_CUR), overlay.read(2)) == (9, b"9\0")
    assert (overlay.seek(-1, os.SEEK_END), overlay.read(5), overlay.tell()) == (13, b"\0", 14)
    assert (overlay.seek(-9), overlay.read(), overlay.read()) == (0, b"0123456789\0\0\0\0", b"")
    assert (overlay.seek(5), overlay.truncate(), overlay.size) == (5, 5, 5)
    assert overlay.truncate(7) == 7
    assert whole(overlay) == b"01234\0\0"
    empty = Overlay(io.BytesIO(b""))
    assert (empty.size, empty.read(), empty.in_place_possible) == (0, b"", True)


def test_what_can_be_done_in_place(tmp_path):
    base = tmp_path / "base"
    base.write_bytes(b"0123456789")
    for at, possible in ((9, False), (10, True), (11, True)):
        with base.open("rb") as file:
            overlay = Overlay(file)
            overlay.move(at, 2, 1)
            assert overlay.in_place_possible is possible
            if not possible:
                with pytest.raises(IsoError, match="these changes move what is in the image"):
                    overlay.save_in_place(base)
    with base.open("rb") as file:
        overlay = Overlay(file)
        overlay.move(10, 2, 3)
        overlay.write_at(2, b"xyz")  # what is moved is read before it is written over
        overlay.zero(6, 2)
        overlay.zero(13, 3)
        overlay.save_in_place(base)
    assert base.read_bytes() == b"01xyz5\0\x0089234\0\0\0"
    with base.open("rb") as file:
        overlay = Overlay(file)
        overlay.truncate(4)
        overlay.save_in_place(base)
    assert base.read_bytes() == b"01xy"
    with base.open("rb") as file, pytest.raises(IsoError, match="cannot change the image: No such file"):
        Overlay(file).save_in_place(tmp_path / "no")


def drained(fd: int) -> bytes:
    with os.fdopen(fd, "rb") as file:
        return file.read()


def test_zeros_of_any_length(tmp_path):
    base = tmp_path / "base"
    length = (1 << 16) * 2 + 5
    base.write_bytes(b"x" * (length + 2))
    with base.open("rb") as file:
        overlay = Overlay(file)
        overlay.zero(1, length)
        overlay.save(tmp_path / "out")
        overlay.save_in_place(base)
        read, write = os.pipe()
        got: list[bytes] = []
        thread = threading.Thread(target=lambda: got.append(drained(read)))
        thread.start()
        overlay.stream(write)
        os.close(write)
        thread.join()
    want = b"x" + bytes(length) + b"x"
    assert base.read_bytes() == (tmp_path / "out").read_bytes() == got[0] == want


def test_an_image_onto_a_device(tmp_path):
    """What is no plain file is written as it is, and stays what it is."""
    (tmp_path / "base").write_bytes(b"0123456789")
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    got: list[bytes] = []
    thread = threading.Thread(target=lambda: got.append(fifo.read_bytes()))
    thread.start()
    with (tmp_path / "base").open("rb") as file:
        overlay = Overlay(file)
        overlay.write_at(3, b"xx")
        assert overlay.save(fifo) == "device"
        thread.join()
        assert got == [b"012xx56789"]
        assert fifo.is_fifo()
        with pytest.raises(IsoError, match="/dev/full: cannot write the image: No space left on device"):
            overlay.save(Path("/dev/full"))
    assert Path("/dev/full").is_char_device()


def test_a_prepared_image_is_nowhere_until_it_is_committed(tmp_path):
    (tmp_path / "base").write_bytes(b"0123456789")
    with (tmp_path / "base").open("rb") as file:
        partial, how = Overlay(file).prepare(tmp_path / "out", 0o640)
    assert how in ("reflink", "copy_file_range", "sendfile")
    assert not (tmp_path / "out").exists()
    partial.commit()
    assert (tmp_path / "out").read_bytes() == b"0123456789"
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("refused", sorted(copy.NOT_HERE))
def test_copies_where_the_kernel_helps_less(tmp_path, monkeypatch, refused):
    """Each way that a file system may refuse leads to the next one."""

    def no(*_: Any) -> int:
        raise OSError(refused, os.strerror(refused))

    base = tmp_path / "base"
    content = os.urandom(3 * (1 << 20) + 17)
    base.write_bytes(content)
    monkeypatch.setattr(copy, "_CHUNK", 1 << 19)
    monkeypatch.setattr(copy.fcntl, "ioctl", no)
    with base.open("rb") as source, (tmp_path / "a").open("wb") as target:
        assert clone(source.fileno(), target.fileno()) == "copy_file_range"
    monkeypatch.setattr(copy.os, "copy_file_range", no)
    with base.open("rb") as source, (tmp_path / "b").open("wb") as target:
        assert clone(source.fileno(), target.fileno()) == "sendfile"
    with base.open("rb") as source, (tmp_path / "c").open("wb") as target:
        copy_range(source.fileno(), target.fileno(), at=5, to=3, length=len(content) - 6)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes() == content
    assert (tmp_path / "c").read_bytes() == bytes(3) + content[5:-1]


@pytest.mark.parametrize("call", ["ioctl", "copy_file_range"])
def test_other_errors_of_a_copy_are_errors(tmp_path, monkeypatch, call):
    def broken(*_: Any) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    def not_here(*_: Any) -> int:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    (tmp_path / "base").write_bytes(b"x" * 100)
    monkeypatch.setattr(copy.fcntl, "ioctl", broken if call == "ioctl" else not_here)
    monkeypatch.setattr(copy.os, "copy_file_range", broken)
    with (tmp_path / "base").open("rb") as source, (tmp_path / "a").open("wb") as target:
        with pytest.raises(OSError, match="Input/output error"):
            clone(source.fileno(), target.fileno())
        with pytest.raises(OSError, match="Input/output error"):
            copy_range(source.fileno(), target.fileno(), at=0, to=0, length=1)


def test_an_image_that_becomes_shorter_while_it_is_read(tmp_path, monkeypatch):
    base = tmp_path / "base"
    base.write_bytes(b"x" * 100)
    with base.open("rb") as source, (tmp_path / "a").open("wb") as target:
        with pytest.raises(OSError, match="the image became shorter while it was read"):
            copy_range(source.fileno(), target.fileno(), at=90, to=0, length=11)
        copy_range(source.fileno(), target.fileno(), at=90, to=0, length=10)
        overlay = Overlay(source)
        os.truncate(base, 50)
        with pytest.raises(OSError, match="became shorter"):
            overlay.stream(target.fileno())

    def half(*_: Any) -> int:
        return 0

    monkeypatch.setattr(copy.fcntl, "ioctl", lambda *_: (_ for _ in ()).throw(OSError(errno.EXDEV, "")))
    monkeypatch.setattr(copy.os, "copy_file_range", half)
    with (
        base.open("rb") as source, (tmp_path / "a").open("wb") as target,
        pytest.raises(OSError, match="copied 0 of 50 bytes"),
    ):  # fmt: skip
        clone(source.fileno(), target.fileno())

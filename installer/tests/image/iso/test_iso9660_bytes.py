"""ISO 9660 by its bytes: every offset and boundary of descriptors, directories and records."""

from __future__ import annotations

import struct

import pytest

from installer.common import iso9660
from installer.common.iso9660 import SECTOR, SYSTEM_AREA, Extent, Record
from installer.errors import NotIso9660
from installer.image.iso import records
from installer.image.iso.embed import Patch
from installer.testing.create.iso_bytes_kit import END, FIRST, ROOT, both, image, opened, record, volume


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


def test_a_file_may_end_with_the_image_and_not_after_it():
    data = image({"A;1": b"a" * 100})
    assert opened(data[: FIRST + 100]).file("a") == b"a" * 100
    larger = image({"A;1": bytes((1 << 22) + 1)})
    with pytest.raises(NotIso9660, match="a has 4194305 bytes: more than 4194304"):
        opened(larger).file("a")
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


def rock_ridge(use: bytes, more: bytes = b"") -> list[str]:
    """Return the Rock Ridge names of a directory with one file, whose system use area may go on in that file."""
    iso = opened(image({"A;1": more}, root=record(b"A;1", 19, 0, system_use=use)))
    return [name for name, _ in iso.entries(iso.find(""))]


def test_names():
    use = b"NM" + bytes([8, 1, 0]) + b"abc"
    assert rock_ridge(use) == ["abc"]
    assert rock_ridge(b"PX" + bytes([6, 1]) + b"zz" + use + b"NM" + bytes([6, 1, 0]) + b"d") == ["abcd"]
    assert rock_ridge(use[:-2]) == [""]  # longer than what is there
    assert rock_ridge(b"NM" + bytes([5, 1, 0])) == [""]
    assert rock_ridge(b"XX" + bytes([4, 1]) + use) == ["abc"]
    assert rock_ridge(b"XX" + bytes([3, 1]) + use) == [""]
    assert rock_ridge(b"NM\x08\x01") == [""]
    # A link is no file; a long name goes on elsewhere in the image, once or for as long as it says.
    assert rock_ridge(use + b"PX" + bytes([36, 1]) + struct.pack("<I", 0o120777) + bytes(28)) == []
    elsewhere = b"CE" + bytes([28, 1]) + both(19) + both(2) + both(8)
    assert rock_ridge(use + elsewhere, b"??" + b"NM" + bytes([8, 1, 0]) + b"def") == ["abcdef"]
    again = b"CE" + bytes([28, 1]) + both(19) + both(0) + both(28)
    assert rock_ridge(use + again, again) == ["abc"]
    more = b"XX\x04\x01"
    for before, found in ((62, "abcdef"), (63, "abc")):
        # Of a system use area that goes on and on, so many entries are read.
        goes_on = b"CE" + bytes([28, 1]) + both(19) + both(0) + both(4 * (before - 1) + 8)
        assert rock_ridge(use + goes_on, more * (before - 1) + b"NM\x08\x01\0def") == [found]
    with pytest.raises(NotIso9660, match="the image is truncated"):
        rock_ridge(b"CE" + bytes([28, 1]) + both(50) + both(2) + both(8))
    assert [iso9660.plain_name(name) for name in ("a.b;1", "a.;1", "a")] == ["A.B", "A", "A"]
    assert iso9660.mangled_name("igninfo.json") == "IGNINFO.JSO"
    assert iso9660.mangled_name("long-name-here.x") == "LONG_NAM.X"
    assert iso9660.mangled_name("nodots-here") == "NODOTS_H"
    assert iso9660.mangled_name("a.b.json") == "A_B.JSO"


def test_a_name_in_full_comes_before_a_mangled_one():
    use = b"NM" + bytes([5 + 12, 1, 0]) + b"igninfo.json"
    short, full = record(b"IGNINFO.JSO;1", 19, 1), record(b"X.Y;1", 20, 2, 0, system_use=use)
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
    patch = records.moved(Record(1000, 40, 0, 0, flags=0), 5 * SECTOR, 77)
    assert patch == Patch(1002, b"\5\0\0\0\0\0\0\5" + b"\x4d\0\0\0\0\0\0\x4d")
    data = image({"A;1": b"aaa", "B;1": b"bb"}, extra=(volume(19, SECTOR, 9, 2),))
    all_records = records.records(opened(data))
    root = 19 * SECTOR
    size = len(record(b"A;1", 0, 0))
    begin = root + 2 * len(record(b"\0", 0, 0))
    # Both volumes have one root here: it is read once.
    assert all_records == [
        Record(begin, size, root + SECTOR, 3, flags=0, name=b"A;1"),
        Record(begin + size, size, root + 2 * SECTOR, 2, flags=0, name=b"B;1"),
    ]
    assert records.records_of(opened(data), Extent("a", root + SECTOR, 3, False)) == all_records[:1]
    for wrong in (Extent("a", root + SECTOR, 2, False), Extent("a", root, 3, False)):
        with pytest.raises(NotIso9660, match="the directory records of a were not found"):
            records.records_of(opened(data), wrong)
    assert [(found.position, found.kind) for found in opened(data).descriptors()] == [
        (SYSTEM_AREA, 1), (SYSTEM_AREA + SECTOR, 2),
    ]  # fmt: skip
    assert records.volume_size_patches(opened(data), 10 * SECTOR + 1) == [
        Patch(SYSTEM_AREA + 80, both(11)), Patch(SYSTEM_AREA + SECTOR + 80, both(11)),
    ]  # fmt: skip
    assert records.volume_size_patches(opened(data), 10 * SECTOR)[0].data == both(10)


def test_records_that_are_not_what_they_seem():
    # A name of one byte is . or .. only when the byte is 0 or 1.
    root = record(b"\0", 18, SECTOR, 2) + record(b"\1", 18, SECTOR, 2) + record(b"\2", 19, 5) + record(b"\0\0", 19, 6)
    assert [found.length for found in records.records(opened(image({"A;1": bytes(9)}, root=root)))] == [5, 6]
    with pytest.raises(NotIso9660, match="in several extents"):
        records.records(opened(image({"A;1": b"a"}, root=record(b"A;1", 19, 1, 0x80))))
    with pytest.raises(NotIso9660, match="damaged directory record"):
        records.records(opened(image({}, root=b"\x21" + bytes(32))))
    # A directory below is looked into, one that holds itself only once.
    below = record(b"SUB", 19, SECTOR, 2)
    inner = (record(b"SUB", 19, SECTOR, 2) + record(b"X;1", 20, 7)).ljust(SECTOR, b"\0")
    all_records = records.records(opened(image({"S;1": inner, "X;1": bytes(7)}, root=below)))
    assert [(found.directory, found.length) for found in all_records] == [(True, SECTOR), (True, SECTOR), (False, 7)]


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

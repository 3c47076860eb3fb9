"""cpio archives by their bytes."""

from __future__ import annotations

import contextlib
import gzip
import lzma
import tracemalloc

import pytest

from installer.image import cpio


def test_archives_by_their_bytes():
    def header(*fields: int) -> bytes:
        return b"070701" + b"".join(b"%08X" % field for field in fields)

    archive = cpio.pack_modes([("a/b", b"xyz", 0o600), ("a/c", b"", 0o644)])
    assert archive == (
        header(1, 0o040755, 0, 0, 1, 0, 0, 0, 0, 0, 0, 2, 0) + b"a\0"
        + header(2, 0o100600, 0, 0, 1, 0, 3, 0, 0, 0, 0, 4, 0) + b"a/b\0\0\0" + b"xyz\0"
        + header(3, 0o100644, 0, 0, 1, 0, 0, 0, 0, 0, 0, 4, 0) + b"a/c\0\0\0"
        + header(4, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 11, 0) + b"TRAILER!!!\0\0\0\0"
    )  # fmt: skip
    assert cpio.pack({"b": b"2", "/a/": b"1"}) == cpio.pack_modes([("a", b"1", 0o644), ("b", b"2", 0o644)])
    assert b"".join(cpio.pieces([])) == header(1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 11, 0) + b"TRAILER!!!\0\0\0\0"
    assert cpio.pack_modes([("a/b/c", b"", 0o644)]).count(b"070701") == 4
    assert cpio.unpack(archive) == {"a/b": b"xyz", "a/c": b""}
    link = b"".join(cpio.pieces([("l", 0o120777, b"a"), ("d", 0o040755, b""), ("f", 0o100644, b"f")]))
    assert cpio.unpack(link) == {"f": b"f"}


def test_joined():
    assert cpio.joined() == cpio.joined(b"", b"") == b""
    assert cpio.joined(b"abc") == cpio.joined(b"", b"abc", b"") == b"abc"
    assert cpio.joined(b"abc", b"", b"de", b"f") == b"abc\0de\0\0f"
    assert cpio.joined(b"abcd", b"e") == b"abcde"


def test_damaged_archives():
    archive = cpio.pack({"a": b"12345"})
    for cut in (0, 109):
        with pytest.raises(ValueError, match="not a newc cpio archive"):
            cpio.unpack(archive[:cut])
    with pytest.raises(ValueError, match="not a newc cpio archive"):
        cpio.unpack(b"070702" + archive[6:])
    with pytest.raises(ValueError, match="truncated cpio archive"):
        cpio.unpack(archive[:116])
    with pytest.raises(ValueError, match="not a newc cpio archive"):
        cpio.unpack(archive[:117])  # the content is there, what follows it is not


def test_compression():
    data = bytes(range(256)) * 40
    packed = gzip.compress(data, 9, mtime=0)
    assert cpio.compress(data) == cpio.compress(data, len(packed)) == packed
    smaller = cpio.compress(data, len(packed) - 1)
    assert smaller.startswith(b"\xfd7zXZ\0")
    assert smaller[7] == lzma.CHECK_CRC32
    assert len(smaller) < len(packed)
    assert cpio.compress(b"x", 1) == gzip.compress(b"x", 9, mtime=0)  # xz would be longer still
    for item in (packed, smaller):
        assert cpio.decompress(item + bytes(50)) == data
    assert cpio.decompress(b"070701...") == b"070701..."


def test_numbers_that_python_alone_would_take():
    whole = cpio.pack({"a": b"12345"})
    for number in (b"-0000070", b"+0000005", b"0000_005", b"       5", b"0000000g"):
        with pytest.raises(ValueError, match="not a newc cpio archive"):
            cpio.unpack(whole[:54] + number + whole[62:])


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_what_is_packed_is_unpacked_within_a_limit(pack, monkeypatch):
    monkeypatch.setattr(cpio, "UNPACKED_LIMIT", 16 << 20)
    limit = cpio.UNPACKED_LIMIT
    assert len(cpio.decompress(pack(bytes(limit)) + bytes(9))) == limit
    more = pack(bytes(5 * limit))
    tracemalloc.start()
    with pytest.raises(ValueError, match="unpacks to more than"):
        cpio.decompress(more)
    assert tracemalloc.get_traced_memory()[1] < 4 * limit
    tracemalloc.stop()
    packed = pack(bytes(range(256)) * 9)
    for at in range(6, len(packed)):
        damaged = packed[:at] + bytes([packed[at] ^ 0x55]) + packed[at + 1 :]
        with contextlib.suppress(ValueError):
            cpio.decompress(damaged)

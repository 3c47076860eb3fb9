"""cpio archives by their bytes, and as initrds hold them: of our own writer and of cpio(1), packed in each way."""

from __future__ import annotations

import contextlib
import gzip
import lzma
import shutil
import subprocess
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from installer.common import cpio


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
    assert cpio.unpack(b"070702" + archive[6:]) == {"a": b"12345"}
    with pytest.raises(ValueError, match="not a newc cpio archive"):
        cpio.unpack(b"070707" + archive[6:])
    with pytest.raises(ValueError, match="truncated cpio archive"):
        cpio.unpack(archive[:116])
    # A trailer is not asked for; what follows without it is zeros or nothing.
    assert cpio.unpack(archive[:117]) == cpio.unpack(archive[:120] + bytes(8)) == {"a": b"12345"}
    assert len(list(cpio.archives(archive[:120] + bytes(8) + archive, LIMIT))) == 2
    with pytest.raises(ValueError, match="not a newc cpio archive"):
        cpio.unpack(archive[:120] + b"x")


def test_a_compressed_archive_within_a_compressed_one_is_junk():
    archive = gzip.compress(cpio.pack({"a": b"1"}))
    assert len(list(cpio.archives(archive * 2, LIMIT))) == 2
    for _ in range(3000):
        archive = gzip.compress(archive, 0)
    with pytest.raises(cpio.BadArchive, match="junk within a compressed archive"):
        list(cpio.archives(archive, LIMIT))


def test_compression():
    data = bytes(range(256)) * 40
    packed = gzip.compress(data, 9, mtime=0)
    assert cpio.compress(data) == cpio.compress(data, len(packed)) == packed
    smaller = cpio.compress(data, len(packed) - 1)
    assert smaller.startswith(b"\xfd7zXZ\0")
    assert smaller[7] == lzma.CHECK_CRC32
    assert len(smaller) < len(packed)
    assert cpio.compress(b"x", 1) == gzip.compress(b"x", 9, mtime=0)  # xz would be longer still
    for archive in (packed, smaller):
        assert cpio.decompress(archive + bytes(50)) == data
    assert cpio.decompress(b"070701...") == b"070701..."


def test_numbers_that_python_alone_would_take():
    whole = cpio.pack({"a": b"12345"})
    for number in (b"-0000070", b"+0000005", b"0000_005", b"       5", b"0000000g"):
        with pytest.raises(ValueError, match="not a newc cpio archive"):
            cpio.unpack(whole[:54] + number + whole[62:])


@pytest.mark.slow
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


NAMES = st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=1, max_size=40)


@given(NAMES, st.binary(max_size=600), st.sampled_from([4, 16, 512, 4096]))
def test_the_first_member_is_aligned_and_where_it_says(name, data, align):
    raw = b"".join(cpio.pieces([(name, 0o100644, data), ("next", 0o100644, b"n")], align))
    # What the initramfs script computes from the header.
    size, length = int(raw[54:62], 16), int(raw[94:102], 16)
    offset = (110 + length + 3) // 4 * 4
    assert offset % align == 0
    assert raw[offset : offset + size] == data
    assert cpio.unpack(raw) == {name: data} | {"next": b"n"}


PATHS = st.from_regex(r"[a-z]{1,8}(/[a-z.]{1,8}[a-z]){0,3}", fullmatch=True)


@given(st.dictionaries(PATHS, st.binary(max_size=300), max_size=6))
def test_round_trip(files):
    archive = cpio.pack(files)
    assert len(archive) % 4 == 0
    for packed_archive in (archive, cpio.compress(archive) + bytes(99), cpio.compress(archive, 1) + bytes(99)):
        assert cpio.unpack(cpio.decompress(packed_archive)) == files


@pytest.mark.skipif(shutil.which("cpio") is None, reason="no cpio program on this host")
def test_the_cpio_program_reads_what_is_aligned_or_has_folders(tmp_path: Path):
    subprocess.run(["cpio", "-i", "-d", "--quiet"], input=cpio.pack({"a/b": b"x", "c": b""}), cwd=tmp_path, check=True)
    assert ((tmp_path / "a/b").read_bytes(), (tmp_path / "c").read_bytes()) == (b"x", b"")
    members = [("root.squashfs", 0o100644, b"squash"), ("config.ign", 0o100600, b"{}")]
    raw = b"".join(cpio.pieces(members, 4096))
    subprocess.run(["cpio", "-i", "--quiet"], input=raw, cwd=tmp_path, check=True)
    assert (tmp_path / "root.squashfs").read_bytes() == b"squash"
    assert (tmp_path / "config.ign").stat().st_mode & 0o777 == 0o600


# Initrds

LIMIT = 1 << 20


def packed(kind: str, raw: bytes) -> bytes:
    if kind == "plain":
        return raw
    if kind == "gzip":
        return gzip.compress(raw)
    if kind == "xz":
        return lzma.compress(raw, check=lzma.CHECK_CRC32)
    command = {"lz4": ["lz4", "-l", "-c"], "zstd": ["zstd", "-c"]}[kind]
    return subprocess.run(command, input=raw, capture_output=True, check=True, timeout=30).stdout


def contents(image: bytes) -> list[dict[str, bytes]]:
    return [cpio.unpack(bytes(part)) for part in cpio.archives(image, LIMIT)]


@pytest.mark.parametrize("kind", ["plain", "gzip", "xz", "lz4", "zstd"])
def test_every_compression(kind: str) -> None:
    files = {"one": b"1" * 5000, "two": b""}
    assert contents(packed(kind, cpio.pack(files)) + bytes(64)) == [files]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["plain", "gzip", "xz", "lz4"]), st.binary(max_size=300)), max_size=4))
def test_archives_one_after_another(parts: list[tuple[str, bytes]]) -> None:
    image = b""
    for kind, data in parts:
        image += packed(kind, cpio.pack({"file": data}))
        # lz4's legacy form has no end: zeros are it.
        image += bytes(-len(image) % 4) + bytes(8)
    assert contents(image) == [{"file": data} for _, data in parts]


@pytest.mark.parametrize("kind", ["gzip", "xz"])
def test_an_initrd_is_unpacked_within_a_limit(kind: str) -> None:
    with pytest.raises(cpio.BadArchive, match=f"byte 0: it unpacks to more than {LIMIT} bytes"):
        contents(packed(kind, bytes(LIMIT + 1)))


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_broken_archives_are_refused_or_read(data: st.DataObject) -> None:
    raw = bytearray(cpio.pack({"one": b"1" * 50, "two": b"22"}))
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(raw[: data.draw(st.integers(0, len(raw)))])
    with contextlib.suppress(cpio.BadArchive):
        assert all(len(member.data) <= len(cut) for part in cpio.archives(cut, LIMIT) for member in cpio.members(part))

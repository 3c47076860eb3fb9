"""Initrds as boot loaders hand them over: archives of our own writer and of cpio(1), packed in each way."""

from __future__ import annotations

import contextlib
import gzip
import lzma
import os
import stat
import subprocess
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.machines.container.firmware.formats.cpio import archives, members, unpack
from lab.machines.container.firmware.formats.errors import BadArchive
from lab.release.os.media.cpio import Member, header, write_archive


def archive(**files: bytes) -> bytes:
    out = BytesIO()
    write_archive(out, [Member(name, data) for name, data in files.items()])
    return out.getvalue()


def entry(name: str, mode: int, data: bytes = b"", inode: int = 0) -> bytes:
    record = header(name, len(data), mode, inode) + data
    return record + bytes(-len(record) % 4)


END = entry("TRAILER!!!", 0)


def packed(kind: str, raw: bytes) -> bytes:
    if kind == "plain":
        return raw
    if kind == "gzip":
        return gzip.compress(raw)
    if kind == "xz":
        return lzma.compress(raw, check=lzma.CHECK_CRC32)
    command = {"lz4": ["lz4", "-l", "-c"], "zstd": ["zstd", "-c"]}[kind]
    return subprocess.run(command, input=raw, capture_output=True, check=True, timeout=30).stdout


def names(image: bytes) -> list[list[str]]:
    return [[member.name for member in members(part)] for part in archives(image)]


@pytest.mark.parametrize("kind", ["plain", "gzip", "xz", "lz4", "zstd"])
def test_every_compression(kind: str) -> None:
    raw = archive(one=b"1" * 5000, two=b"")
    assert names(packed(kind, raw) + bytes(64)) == [["one", "two"]]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["plain", "gzip", "xz", "lz4"]), st.binary(max_size=300)), max_size=4))
def test_archives_one_behind_another(parts: list[tuple[str, bytes]]) -> None:
    image = b""
    for kind, data in parts:
        image += packed(kind, archive(file=data))
        # lz4's legacy form has no end: zeros are it.
        image += bytes(-len(image) % 4) + bytes(8)
    contents = [bytes(member.data) for part in archives(image) for member in members(part)]
    assert contents == [data for _, data in parts]


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_broken_archives_are_refused_or_read(data: st.DataObject) -> None:
    raw = bytearray(archive(one=b"1" * 50, two=b"22"))
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(raw[: data.draw(st.integers(0, len(raw)))])
    with contextlib.suppress(BadArchive):
        assert all(len(member.data) <= len(cut) for part in archives(cut) for member in members(part))


def test_what_cpio_writes(tmp_path: Path) -> None:
    tree, out = tmp_path / "tree", tmp_path / "out"
    (tree / "etc").mkdir(parents=True)
    (tree / "etc/file").write_text("text")
    (tree / "etc/file").chmod(0o640)
    (tree / "etc/twin").hardlink_to(tree / "etc/file")
    (tree / "link").symlink_to("/etc/file")
    os.mkfifo(tree / "pipe")
    listed = "\n".join([".", "etc", "etc/file", "etc/twin", "link", "pipe"]).encode()
    command = ["cpio", "-o", "-H", "newc", "--quiet"]
    completed = subprocess.run(command, cwd=tree, input=listed, capture_output=True, check=True, timeout=30)
    out.mkdir()
    for part in archives(completed.stdout):
        unpack(part, out)
    assert (out / "etc/file").read_text() == (out / "etc/twin").read_text() == "text"
    assert (out / "etc/file").stat().st_ino == (out / "etc/twin").stat().st_ino
    assert stat.S_IMODE((out / "etc/file").stat().st_mode) == 0o640
    assert os.readlink(out / "link") == "/etc/file"
    assert stat.S_ISFIFO((out / "pipe").stat().st_mode)


def test_a_later_archive_replaces_and_adds(tmp_path: Path) -> None:
    """As an appended initrd does; a directory that is a link in the first archive stays one."""
    first = entry("usr", 0o040755) + entry("usr/lib", 0o040755) + entry("lib", 0o120777, b"usr/lib")
    first += entry("usr/lib/a", 0o100644, b"old") + END
    second = entry("lib/a", 0o100600, b"new") + entry("lib/b", 0o100755, b"more")
    second += entry("gone/c", 0o100644, b"x") + END
    for part in archives(first + second):
        unpack(part, tmp_path)
    assert (tmp_path / "usr/lib/a").read_bytes() == b"new"
    assert (tmp_path / "usr/lib/b").read_bytes() == b"more"
    assert (tmp_path / "lib").is_symlink()
    # Its directory is in no archive: the kernel passes it over.
    assert not (tmp_path / "gone").exists()


@pytest.mark.parametrize("name", ["../out", "a/../../out", "/../out"])
def test_no_name_leads_out(tmp_path: Path, name: str) -> None:
    root = tmp_path / "root"
    root.mkdir()
    with pytest.raises(BadArchive, match="leads out"):
        unpack(memoryview(entry(name, 0o100644, b"x") + END), root)
    assert not (tmp_path / "out").exists()


def test_no_link_leads_out(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    for target in (str(outside), "../outside", "loop"):
        packed = entry("loop", 0o120777, target.encode()) + entry("loop/file", 0o100644, b"x") + END
        unpack(memoryview(packed), root)
        assert not (outside / "file").exists()

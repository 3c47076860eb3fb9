"""Initrds unpacked over each other, as the kernel does it."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from installer.common.cpio import BadArchive, archives, header
from lab.machines.container.firmware.early.initramfs import unpack

LIMIT = 1 << 20


def entry(name: str, mode: int, data: bytes = b"", inode: int = 0) -> bytes:
    record = header(name, len(data), mode, inode) + data
    return record + bytes(-len(record) % 4)


END = entry("TRAILER!!!", 0)


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
    for part in archives(completed.stdout, LIMIT):
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
    for part in archives(first + second, LIMIT):
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

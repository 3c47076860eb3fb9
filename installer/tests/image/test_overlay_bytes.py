"""Overlays and copies by their bytes, also where the kernel helps less."""

from __future__ import annotations

import errno
import io
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from installer.errors import IsoError
from installer.image import copy
from installer.image.copy import clone, copy_range
from installer.image.iso.overlay import Overlay, Segment
from installer.testing.create.iso_bytes_kit import whole


def test_parts_of_a_segment():
    for source, expected in ((100, 103), (b"0123456789", b"34567"), (None, None)):
        segment = Segment(50, 10, source)
        assert segment.end == 60
        assert segment.part(53, 58) == Segment(53, 5, expected)
        assert segment.part(0, 100) == segment
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


def test_changes_that_are_possible_in_place(tmp_path):
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
    """A device or pipe is written as it is, and stays what it is."""
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


def test_a_prepared_image_has_no_name_until_it_is_committed(tmp_path):
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
    monkeypatch.setattr(copy, "CHUNK", 1 << 19)
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

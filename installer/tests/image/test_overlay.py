"""Overlays over images: against a byte array, and how they are written."""

import errno
import os
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from installer.errors import IsoError
from installer.image import copy
from installer.image.copy import PrefetchedCopy, clone
from installer.image.iso.grow import grown_length
from installer.image.iso.overlay import Overlay


@given(st.integers(1, 1 << 20), st.integers(0, 1 << 22))
def test_grown_length_leaves_a_quarter_free(area, content):
    length = grown_length(area, content)
    chunk = (area + 3) // 4
    assert length >= area
    assert length - content >= chunk or length == area
    assert length == area or length % chunk == 0
    assert length - content < 2 * chunk or length == area


operations = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, 400), st.binary(max_size=60)),
        st.tuples(st.just("zero"), st.integers(0, 400), st.integers(0, 60)),
        st.tuples(st.just("truncate"), st.integers(0, 500)),
        st.tuples(st.just("move"), st.integers(0, 400), st.integers(0, 200), st.integers(0, 60)),
    ),
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(st.binary(min_size=1, max_size=300), operations)
def test_overlay_is_a_byte_array(tmp_path_factory, data, steps):
    folder = tmp_path_factory.getbasetemp() / "overlay"
    folder.mkdir(exist_ok=True)
    base, out = folder / "base", folder / "out"
    base.write_bytes(data)
    want = bytearray(data)
    with base.open("rb") as file:
        overlay = Overlay(file)
        for step in steps:
            match step:
                case ("write", at, content) if content:
                    want.extend(bytes(max(0, at - len(want))))
                    want[at : at + len(content)] = content
                    overlay.write_at(at, content)
                case ("zero", at, length) if length:
                    want.extend(bytes(max(0, at - len(want))))
                    want[at : at + length] = bytes(length)
                    overlay.zero(at, length)
                case ("truncate", size):
                    want = want[:size].ljust(size, b"\0")
                    overlay.truncate(size)
                case ("move", at, source, length):
                    content = bytes(want[source : source + length])
                    if content:
                        want.extend(bytes(max(0, at - len(want))))
                        want[at : at + len(content)] = content
                        overlay.move(at, source, length)
        assert overlay.size == len(want)
        overlay.seek(0)
        assert overlay.read() == want
        overlay.save(out)
        assert out.read_bytes() == want
        if overlay.in_place_possible:
            overlay.save_in_place(base)
            assert base.read_bytes() == want


def test_nothing_is_left_when_the_copy_fails(tmp_path):
    base = tmp_path / "base"
    base.write_bytes(b"x" * 100)
    with base.open("rb") as file:
        overlay = Overlay(file)
        overlay.write_at(5, b"y")
        with pytest.raises(IsoError, match="cannot write the image"):
            overlay.save(tmp_path / "no/out")
        (tmp_path / "out").mkdir()
        with pytest.raises(IsoError, match="cannot write the image"):
            overlay.save(tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["base", "out"]


def test_nothing_is_left_when_the_place_is_refused(tmp_path, monkeypatch):
    (tmp_path / "base").write_bytes(b"x" * 5000)

    def refuse(self, other):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(Path, "replace", refuse)
    with (tmp_path / "base").open("rb") as file, pytest.raises(IsoError, match="cannot write the image: Operation not"):
        Overlay(file).save(tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["base"]


@pytest.fixture
def base(tmp_path):
    path = tmp_path / "base"
    path.write_bytes(os.urandom(300_000))
    return path


def test_a_copy_that_was_begun_before(base, tmp_path):
    out = tmp_path / "out"
    with PrefetchedCopy(base, tmp_path / "guess") as prefetched, base.open("rb") as file:
        overlay = Overlay(file)
        overlay.write_at(299_999, b"more")
        assert overlay.save(out, prefetched=prefetched) in ("reflink", "copy_file_range", "sendfile")
        assert not prefetched.partial.path.exists()
    assert out.read_bytes() == base.read_bytes()[:-1] + b"more"
    assert out.stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["base", "out"]


@pytest.mark.parametrize("change", ["other file", "content", "moved"])
def test_a_copy_of_something_else_is_not_used(base, tmp_path, change):
    out, source = tmp_path / "out", base
    with PrefetchedCopy(base, out) as prefetched:
        if change == "other file":
            source = tmp_path / "other"
            source.write_bytes(b"z" * 5000)
        elif change == "content":
            base.write_bytes(b"z" * 5000)
        with source.open("rb") as file:
            overlay = Overlay(file)
            if change == "moved":
                overlay.move(0, 100, 1000)
                overlay.truncate(1000)
            want = Overlay.read(overlay)
            overlay.save(out, prefetched=prefetched)
    assert out.read_bytes() == want
    assert {path.name for path in tmp_path.iterdir()} == {"base", "out"} | ({"other"} & {source.name})


def test_a_copy_that_is_given_up_leaves_nothing(base, tmp_path, monkeypatch):
    with PrefetchedCopy(base, tmp_path / "out"):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["base"]
    stop = threading.Event()
    stop.set()
    monkeypatch.setattr(copy, "FICLONE", 0)
    with base.open("rb") as source, (tmp_path / "copy").open("wb") as target, pytest.raises(InterruptedError):
        clone(source.fileno(), target.fileno(), stop)

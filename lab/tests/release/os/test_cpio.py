"""The cpio writer: aligned data, and archives that cpio(1) reads back."""

from __future__ import annotations

import io
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.release.os.media.cpio import HEADER_LENGTH, Member, header, write_archive

names = st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=1, max_size=40)


@given(names, st.binary(max_size=600), st.sampled_from([4, 16, 512, 4096]))
def test_first_member_is_aligned_and_where_it_says(name, data, align):
    out = io.BytesIO()
    (offset,) = write_archive(out, [Member(name, data)], align)
    raw = out.getvalue()
    assert offset % align == 0
    assert raw[offset : offset + len(data)] == data
    # What the initramfs script computes from the header.
    size, length = int(raw[54:62], 16), int(raw[94:102], 16)
    assert size == len(data)
    assert (HEADER_LENGTH + length + 3) // 4 * 4 == offset


@given(st.lists(st.tuples(names, st.binary(max_size=100)), max_size=5))
def test_every_part_begins_at_a_multiple_of_four(members):
    out = io.BytesIO()
    offsets = write_archive(out, [Member(name, data) for name, data in members])
    assert all(offset % 4 == 0 for offset in offsets)
    assert out.getvalue().rstrip(b"\0").endswith(b"TRAILER!!!")


def test_files_and_bytes_are_the_same(tmp_path):
    source = tmp_path / "data"
    source.write_bytes(b"abcde")
    first, second = io.BytesIO(), io.BytesIO()
    write_archive(first, [Member("x", source)])
    write_archive(second, [Member("x", b"abcde")])
    assert first.getvalue() == second.getvalue()


@pytest.mark.skipif(shutil.which("cpio") is None, reason="no cpio program on this host")
def test_cpio_program_reads_it(tmp_path):
    out = io.BytesIO()
    write_archive(out, [Member("root.squashfs", b"squash"), Member("config.ign", b"{}", 0o600)], 4096)
    subprocess.run(["cpio", "-i", "--quiet"], input=out.getvalue(), cwd=tmp_path, check=True)
    assert (tmp_path / "root.squashfs").read_bytes() == b"squash"
    assert (tmp_path / "config.ign").stat().st_mode & 0o777 == 0o600


def test_alignment_that_cannot_be():
    with pytest.raises(ValueError, match="multiples of 4"):
        header("x", 0, 0, 1, align=6)
    with pytest.raises(ValueError, match="the kernel takes 4096"):
        header("x", 0, 0, 1, align=8192)

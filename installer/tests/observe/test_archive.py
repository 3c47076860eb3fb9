"""Archives of hosts that want more of who unpacks them than they are worth: refused within our limits."""

from __future__ import annotations

import io
import lzma
import tarfile
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from installer.common.redact import Redactor
from installer.gather import remote
from installer.observe import archive


def header(name: str, size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.type = size, kind
    return info.tobuf(tarfile.GNU_FORMAT)


def packed(content: bytes, size: int = 0) -> bytes:
    """gzip of the content and so many zeros."""
    packer = zlib.compressobj(9, wbits=31)
    return packer.compress(content) + packer.compress(bytes(size)) + packer.flush()


def negative() -> bytes:
    raw = bytearray(header("a", 0))
    raw[124:136] = b"\xff" * 10 + b"\xfc\x00"  # -1024, in base 256
    raw[148:156] = b"%06o\0 " % tarfile.calc_chksums(bytes(raw))[0]
    return bytes(raw)


def attributed(name: str, **attributes: str) -> bytes:
    info = tarfile.TarInfo(name)
    info.pax_headers = {key.replace("_", "."): value for key, value in attributes.items()}
    return info.tobuf(tarfile.PAX_FORMAT)


#: Made when a test needs them: two have 64 MiB of zeros.
HOSTILE: dict[str, Callable[[], bytes]] = {
    "sparse files": lambda: packed(attributed("a", GNU_sparse_size=str(600 << 10), GNU_sparse_map="0,0") * 2),
    "a name without an end": lambda: packed(header("x", 1 << 31, tarfile.GNUTYPE_LONGNAME), 64 << 20),
    "attributes without an end": lambda: packed(header("x", 1 << 31, tarfile.XHDTYPE), 64 << 20),
    "a chain of names": lambda: packed((header("x", 10, tarfile.GNUTYPE_LONGNAME) + b"n".ljust(512, b"\0")) * 2000),
    "a file too large": lambda: packed(header("a.log", 2 << 20), 2 << 20),
    "a file that is left out": lambda: packed(header("../a.log", 2 << 20), 2 << 20),
    "a device with content": lambda: packed(header("dev", 2 << 20, tarfile.FIFOTYPE), 2 << 20),
    "files that are packed": lambda: packed(header("a.gz", 2 << 20) + archive.GZIP, 2 << 20),
    "too many files": lambda: packed(header("a", 0) * 200),
    "a size below zero": lambda: packed(negative() + bytes(4096)),
    "damaged gzip": lambda: packed(header("a.log", 9) + b"x" * 4096)[:-40] + b"\xff" * 40,
    "damaged xz": lambda: lzma.compress(header("a.log", 1 << 20) + bytes(1 << 20))[:-60] + b"\xff" * 60,
    "cut short": lambda: packed(header("a.log", 9))[:-9],
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_what_an_archive_may_cost(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in ((archive, "UNPACKED_LIMIT"), (remote, "LARGEST_UNPACKED")):
        monkeypatch.setattr(module, name, 1 << 20)
    monkeypatch.setattr(archive, "MOST_MEMBERS", 100)
    source = tmp_path / "packed"
    source.write_bytes(HOSTILE[kind]())
    tracemalloc.start()
    try:
        # What the callers take for an archive that cannot be unpacked.
        with pytest.raises((tarfile.TarError, EOFError, OSError, ValueError)):
            archive.unpack(source, tmp_path / "target", Redactor())
        with (
            tarfile.open(fileobj=io.BytesIO(), mode="w") as out,
            pytest.raises((tarfile.TarError, EOFError, OSError, ValueError)),
        ):
            remote.add(out, source, "folder", Redactor())
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()
    assert list(tmp_path.iterdir()) == [source]


def test_paths_that_are_too_deep_are_left_out_and_times_without_end_are_none(tmp_path: Path) -> None:
    source, deep = tmp_path / "packed", "a/" * 1900
    content = [attributed("h/a", mtime="inf"), attributed(deep + "file"), header(deep, 0, tarfile.DIRTYPE)]
    source.write_bytes(packed(b"".join(content)))
    assert archive.unpack(source, tmp_path / "target") == [deep[:200]] * 2
    with tarfile.open(fileobj=io.BytesIO(), mode="w") as out:
        assert remote.add(out, source, "folder", Redactor()) == 1
        assert out.getmembers()[0].mtime > 0


def test_names_cost_no_memory(tmp_path: Path) -> None:
    name = header("x", 100 << 10, tarfile.GNUTYPE_LONGNAME) + (b"../" * 34133).ljust(100 << 10, b"\0")
    source = tmp_path / "packed"
    source.write_bytes(packed((name + header("x", 0)) * 300))
    tracemalloc.start()
    try:
        assert len(archive.unpack(source, tmp_path / "target")) == 300
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()

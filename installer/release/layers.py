"""Reading a layer as a stream: decompressed by another process, unpacked member by member, only wanted files kept."""

from __future__ import annotations

import contextlib
import os
import posixpath
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, BinaryIO, cast

from installer.errors import ReleaseError

_MAGICS = ((b"\x28\xb5\x2f\xfd", "zstd"), (b"\x1f\x8b", "gzip"))
_CHUNK = 1 << 20


def decompressor(head: bytes) -> str | None:
    """Return the program that decompresses a layer that starts with `head`; None for a plain tar."""
    for magic, program in _MAGICS:
        if head.startswith(magic):
            return program
    return None


@contextlib.contextmanager
def open_layer(fd: int, image: str) -> Iterator[tarfile.TarFile]:
    """Read a layer from the pipe `fd` as a tar stream; drains `fd` at the end, so that its digest can be checked."""
    head = b""
    while len(head) < 4 and (more := os.read(fd, 4 - len(head))):
        head += more
    program = decompressor(head)
    feeder, target = os.pipe()
    # A pipe cannot seek back: `cat` puts the first bytes, which were read to see the format, in front again.
    pump = subprocess.Popen(["cat", "-", f"/dev/fd/{fd}"], stdin=subprocess.PIPE, stdout=target, pass_fds=[fd])
    os.close(target)
    assert pump.stdin is not None
    pump.stdin.write(head)
    pump.stdin.close()
    unpack: subprocess.Popen[bytes] | None = None
    source: IO[bytes]
    if program is None:
        source = os.fdopen(feeder, "rb")
    else:
        if shutil.which(program) is None:
            os.close(feeder)
            pump.kill()
            pump.wait()
            raise ReleaseError(image, f"cannot read image {image}: its layers need the program {program}")
        unpack = subprocess.Popen([program, "-dc"], stdin=feeder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        os.close(feeder)
        assert unpack.stdout is not None
        source = unpack.stdout
    try:
        with tarfile.open(fileobj=cast(BinaryIO, source), mode="r|", bufsize=_CHUNK) as archive:
            yield archive
        while source.read(_CHUNK):
            pass
        if unpack is not None and unpack.wait() != 0:
            raise ReleaseError(image, f"cannot read image {image}: {program} could not decompress a layer")
        pump.wait()
    except (tarfile.TarError, ValueError, RecursionError) as error:  # tarfile's own, and of numbers and chains of names
        raise ReleaseError(image, f"cannot read image {image}: a layer is not a tar archive ({error})") from error
    finally:
        source.close()
        for process in (unpack, pump):
            if process is not None and process.poll() is None:
                process.kill()
            if process is not None:
                process.wait()


def normal(path: str) -> str:
    """Return a path in a layer without its leading ./ or / and without ..'s."""
    return posixpath.normpath("/" + path).lstrip("/")


def whiteouts(path: str) -> set[str]:
    """Return the names whose presence in a layer hides `path` from the layers below (OCI image spec, whiteouts)."""
    names = set()
    parts = normal(path).split("/")
    for depth in range(len(parts)):
        parent = "/".join(parts[:depth])
        names.add(posixpath.join(parent, f".wh.{parts[depth]}"))
        names.add(posixpath.join(parent, ".wh..wh..opq"))
    return names


def take(
    archive: tarfile.TarFile, wanted: dict[str, Path | None], keep: Callable[[str, IO[bytes], Path | None, int], None]
) -> tuple[set[str], dict[str, str], set[str]]:
    """Call `keep` with every wanted regular file of a layer.

    Returns the paths that were found, links among them (path -> target path), and all paths hidden by whiteouts.
    """
    paths: set[str] = set()
    links: dict[str, str] = {}
    hidden: set[str] = set()
    hiders = {path: whiteouts(path) for path in wanted}
    for member in archive:
        name = normal(member.name)
        hidden |= {path for path, names in hiders.items() if name in names}
        if name not in wanted:
            continue
        if member.isfile():
            data = archive.extractfile(member)
            assert data is not None
            keep(name, data, wanted[name], member.mode)
            paths.add(name)
        elif member.issym():
            links[name] = normal(posixpath.join(posixpath.dirname("/" + name), member.linkname))
        elif member.islnk():
            links[name] = normal(member.linkname)
    return paths, links, hidden


def write_file(data: IO[bytes], dest: Path, mode: int, tell: Callable[[int], None] | None = None) -> None:
    """Write a stream to `dest` whole or not at all; `tell` hears of every piece that was written, in bytes."""
    partial = dest.with_name(f".{dest.name}.{os.getpid()}")
    try:
        with partial.open("wb") as out:
            while piece := data.read(_CHUNK):
                out.write(piece)
                if tell is not None:
                    tell(len(piece))
            out.flush()
        partial.chmod(mode & 0o777 or 0o644)
        partial.replace(dest)
    finally:
        partial.unlink(missing_ok=True)

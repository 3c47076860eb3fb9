"""A unit's evidence as an archive: written by the host that ran it, unpacked by the collector that asked for it."""

from __future__ import annotations

import gzip
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO

#: Bytes of a unit's evidence that are fetched; files that would exceed it are named instead. An archive has headers
#: too, and what is fetched of a host is no more than twice as much, packed or not.
MOST_EVIDENCE = 256 << 20
_MOST_ARCHIVE = 2 * MOST_EVIDENCE


def pack(folder: Path, archive: Path, most: int = MOST_EVIDENCE) -> None:
    """Write a folder into an archive, small files first; those beyond `most` bytes are named in `left-out.txt`."""
    files = sorted((p for p in folder.rglob("*") if p.is_file() and not p.is_symlink()), key=lambda p: p.stat().st_size)
    left_out, total = [], 0
    temporary = archive.with_name(f".{archive.name}")
    with tarfile.open(temporary, "w:gz", compresslevel=1) as tar:
        for path in files:
            size = path.stat().st_size
            if total + size > most:
                left_out.append(f"{path.relative_to(folder)}: {size} bytes\n")
                continue
            total += size
            with suppress(FileNotFoundError):  # what is ending still may have removed it
                tar.add(path, path.relative_to(folder), recursive=False)
        if left_out:
            (folder / "left-out.txt").write_text("".join(left_out))
            tar.add(folder / "left-out.txt", "left-out.txt")
    temporary.replace(archive)


class _Bounded(gzip.GzipFile):
    """A compressed file of which no more than `left` bytes are read. Raises tarfile.ReadError beyond."""

    left = _MOST_ARCHIVE

    def read(self, size: int | None = -1) -> bytes:
        """The next bytes."""
        data = super().read(size)
        self.left -= len(data)
        if self.left < 0:
            raise tarfile.ReadError("it is larger than what is packed")
        return data


def unpack(archive: IO[bytes], folder: Path) -> None:
    """Unpack what a host sent: regular files below the folder, not too large, and nothing else, whoever the host is.

    Raises tarfile.TarError, EOFError, OSError, ValueError, zlib.error. (Python 3.11.2, which Debian 12 has, lacks
    `extractall(filter=)`.)
    """
    with _Bounded(fileobj=archive) as plain, tarfile.open(fileobj=plain, mode="r|") as tar:
        for member in tar:
            place = Path(member.name)
            if not member.isreg() or place.is_absolute() or ".." in place.parts:
                raise tarfile.TarError(f"{member.name!r} is no file below the folder")
            content = tar.extractfile(member)
            assert content is not None
            (folder / place).parent.mkdir(parents=True, exist_ok=True)
            with content, (folder / place).open("wb") as file:
                shutil.copyfileobj(content, file)


def fetch(part: Callable[[int], object], folder: Path, name: str) -> None:
    """Fetch a unit's archive from host `name` into a folder here, as much of it as the host still gives.

    `part(offset)` is what comes from a byte on: nothing beyond the end, None where the host does not answer. If the
    archive is incomplete, `evidence-lost.txt` says so.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile() as archive:
        while piece := part(archive.tell()):
            assert isinstance(piece, bytes)
            archive.write(piece)
            if archive.tell() > _MOST_ARCHIVE:
                break
        whole = piece == b""
        archive.seek(0)
        try:
            unpack(archive, folder)
        except (tarfile.TarError, EOFError, OSError, ValueError, zlib.error):
            whole = False
    if not whole:
        (folder / "evidence-lost.txt").write_text(f"host {name} did not give all of it\n")

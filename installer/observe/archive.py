"""Archives of logs that others have packed: unpacked as far as it is safe, and without secrets."""

from __future__ import annotations

import bz2
import contextlib
import errno
import gzip
import itertools
import lzma
import os
import shutil
import tarfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import IO, Any, TypeVar, cast

from installer.common.redact import Redactor
from installer.files import hidden

T = TypeVar("T")
GZIP = b"\x1f\x8b"
#: In a folder that an archive was unpacked into.
MARK = ".unpacked"
#: The first bytes of files that are packed themselves.
PACKED = (GZIP, b"\xfd7zXZ", b"BZh", b"\x28\xb5\x2f\xfd")
UNPACKED_LIMIT = 4 * 1024**3
#: Bytes that are read to learn of one member: long names and attributes are so much, a chain of them no deeper.
HEADER_LIMIT = 128 * 1024
MOST_MEMBERS = 100_000
#: Characters of a path, and folders inside of each other; characters of the name of what is left out.
LONGEST_PATH, DEEPEST = 4096, 100
LONGEST_NAME = 200
CHUNK = 1024 * 1024
_OPENERS = ((GZIP, gzip.open), (b"\xfd7zXZ", lzma.open), (b"BZh", bz2.open))


class _Unpacked:
    """A tar's bytes as tarfile reads them. ``left``: how many more it may read, None for any number."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.left: int | None = HEADER_LIMIT

    def read(self, size: int) -> bytes:
        if self.left is not None:
            self.left -= size
            if self.left < 0:
                raise ValueError(f"a header in it is longer than {HEADER_LIMIT} bytes")
        return self._checked(self._file.read, size)

    def seek(self, position: int) -> int:
        return self._checked(self._file.seek, position)

    def tell(self) -> int:
        return self._file.tell()

    def seekable(self) -> bool:
        return True

    def _checked(self, call: Callable[[int], T], number: int) -> T:
        try:
            return call(number)
        except (zlib.error, lzma.LZMAError) as error:
            raise tarfile.ReadError(f"it is damaged: {error}") from None


def members(packed: Path, limit: int) -> Iterator[tuple[tarfile.TarInfo, IO[bytes] | None]]:
    """Yield the members of a tar, packed or not, each with its content if it is a plain file at a path of `safe_parts`.

    Whatever their headers say, no more than ``limit`` bytes are unpacked. Raises ValueError past this or another limit,
    tarfile.TarError, EOFError or OSError for a damaged archive.
    """
    with contextlib.ExitStack() as stack:
        raw = stack.enter_context(packed.open("rb"))
        head = raw.read(8)
        raw.seek(0)
        opener = next((opener for start, opener in _OPENERS if head.startswith(start)), None)
        file = _Unpacked(cast(IO[bytes], stack.enter_context(opener(raw, "rb"))) if opener else raw)
        archive = stack.enter_context(tarfile.open(fileobj=cast(Any, file), mode="r:"))
        unpacked = 0
        for count in itertools.count(1):
            file.left = HEADER_LIMIT
            member = archive.next()
            cast(Any, archive).members.clear()  # tarfile keeps each one, with its name and attributes
            file.left = None
            if member is None:
                return
            if count > MOST_MEMBERS:
                raise ValueError(f"it has more than {MOST_MEMBERS} members")
            unpacked += member.size
            # What is left out has to be unpacked as well, to come to the next; a sparse file is not as long in the tar.
            if member.size < 0 or max(unpacked, member.offset_data + member.size) > limit:
                raise ValueError(f"it unpacks to more than {limit} bytes")
            plain = member.isreg() and safe_parts(member.name) is not None
            yield member, archive.extractfile(member) if plain else None


def safe_parts(name: str) -> tuple[str, ...] | None:
    """Return a member's path as parts below the folder of unpacking, or None when it leads elsewhere, or too deep."""
    if len(name) > LONGEST_PATH or "\0" in name or "\\" in name or name.startswith("/"):
        return None
    parts = tuple(part for part in PurePosixPath(name).parts if part != ".")
    return None if not 0 < len(parts) <= DEEPEST or ".." in parts else parts


def _copy(redactor: Redactor, source: IO[bytes], target: IO[bytes]) -> None:
    """Copy a member without its secrets; a host's own archive in the service's stays what it is."""
    head = source.read(8)
    source.seek(0)
    if head.startswith(PACKED):
        shutil.copyfileobj(source, target, CHUNK)
    else:
        redactor.copy(source, target)


def unpack(packed: Path, target: Path, redactor: Redactor | None = None) -> Sequence[str]:
    """Unpack plain files and folders of a tar, packed or not, into a new ``target``; return the names left out.

    What was unpacked at ``target`` before is removed when all is unpacked. Secrets in files that are not packed
    themselves are taken out.

    Links, devices, absolute paths, paths with `..` and those of more than 100 parts are left out. Raises
    tarfile.TarError, EOFError or OSError for a damaged archive, ValueError past 4 GiB, FileExistsError where ``target``
    is no folder that this has made.
    """
    if target.is_symlink() or (target.exists() and not (target / MARK).is_file() and next(target.iterdir(), None)):
        raise FileExistsError(errno.EEXIST, "what is there was not unpacked here; move it away", str(target))
    partial, old = hidden(target), hidden(target)
    partial.mkdir(mode=0o700, parents=True)
    try:
        (partial / MARK).touch(0o600)
        skipped = _unpack(packed, partial, redactor or Redactor())
        with contextlib.suppress(FileNotFoundError):
            target.rename(old)
        partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
    return skipped


def _unpack(packed: Path, target: Path, redactor: Redactor) -> list[str]:
    skipped: list[str] = []
    for member, source in members(packed, UNPACKED_LIMIT):
        parts = safe_parts(member.name)
        if member.isdir() and (parts is not None or member.name in (".", "./")):
            target.joinpath(*(parts or ())).mkdir(mode=0o700, parents=True, exist_ok=True)
            continue
        if parts is None or source is None:
            skipped.append(member.name[:LONGEST_NAME])
            continue
        path = target.joinpath(*parts)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # The folder is ours and holds no links, so a path below it cannot lead out of it.
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(handle, "wb") as file:
            _copy(redactor, source, file)
    return skipped

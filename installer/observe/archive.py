"""Archives of logs that others have packed: unpacked as far as it is safe, and without secrets."""

from __future__ import annotations

import contextlib
import os
import shutil
import tarfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import IO

from installer.files import hidden
from installer.redact import Redactor

GZIP = b"\x1f\x8b"
#: The first bytes of files that are packed themselves.
PACKED = (GZIP, b"\xfd7zXZ", b"BZh", b"\x28\xb5\x2f\xfd")
UNPACKED_LIMIT = 4 * 1024**3
CHUNK = 1024 * 1024


def safe_parts(name: str) -> tuple[str, ...] | None:
    """A member's path as parts below the folder of unpacking, or None when it leads elsewhere."""
    if "\0" in name or "\\" in name or name.startswith("/"):
        return None
    parts = tuple(part for part in PurePosixPath(name).parts if part != ".")
    return None if not parts or ".." in parts else parts


def _copy(redactor: Redactor, source: IO[bytes], target: IO[bytes]) -> None:
    """A member without its secrets; a host's own archive in the service's stays what it is."""
    head = source.read(8)
    source.seek(0)
    if head.startswith(PACKED):
        shutil.copyfileobj(source, target, CHUNK)
    else:
        redactor.copy(source, target)


def unpack(packed: Path, target: Path, redactor: Redactor | None = None) -> Sequence[str]:
    """Unpacks plain files and folders of a tar, packed or not, into a new ``target``; gives the names left out.

    What was at ``target`` before is removed when all is unpacked. Secrets in files that are not packed themselves are
    taken out.

    Links, devices, absolute paths and paths with `..` are left out. Raises tarfile.TarError, EOFError or OSError for
    a damaged archive, ValueError past 4 GiB.
    """
    fresh, old = hidden(target), hidden(target)
    fresh.mkdir(mode=0o700, parents=True)
    try:
        skipped = _unpack(packed, fresh, redactor or Redactor())
        with contextlib.suppress(FileNotFoundError):
            target.rename(old)
        fresh.rename(target)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
    return skipped


def _unpack(packed: Path, target: Path, redactor: Redactor) -> list[str]:
    skipped: list[str] = []
    total = 0
    with tarfile.open(packed, "r:*") as archive:
        for member in archive:
            parts = safe_parts(member.name)
            if member.isdir() and (parts is not None or member.name in (".", "./")):
                target.joinpath(*(parts or ())).mkdir(mode=0o700, parents=True, exist_ok=True)
                continue
            source = archive.extractfile(member) if parts is not None and member.isreg() else None
            if parts is None or source is None:
                skipped.append(member.name)
                continue
            path = target.joinpath(*parts)
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # The folder is ours and holds no links, so a path below it cannot lead out of it.
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
            with os.fdopen(handle, "wb") as file:
                total += member.size
                if total > UNPACKED_LIMIT:
                    raise ValueError(f"it unpacks to more than {UNPACKED_LIMIT} bytes")
                _copy(redactor, source, file)
    return skipped

"""Files that are whole at their name, or not there at all: written under a hidden name beside it, then renamed."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import re
import shutil
from pathlib import Path

from installer.errors import StateError

_numbers = itertools.count()
_HIDDEN = re.compile(r"\..+\.[0-9]+-[0-9]+\.partial")


class Partial:
    """A new file under a hidden name beside `dest`, until `commit` gives it that name. Raises OSError.

    What is written may hold the cluster's secrets, hence the mode.
    """

    def __init__(self, dest: Path, mode: int = 0o600) -> None:
        self.dest = dest
        self.path = hidden(dest)
        if dest.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        self.fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, mode)

    def write(self, data: bytes) -> None:
        """Put `data` on the disk behind what was written. For what is small: it waits for the disk."""
        view = memoryview(data)
        while view:
            view = view[os.write(self.fd, view) :]
        os.fsync(self.fd)

    def commit(self, dest: Path | None = None) -> None:
        """Close it and put it at its place, or at another one in the same directory."""
        self.close()
        self.path.replace(dest or self.dest)

    def discard(self) -> None:
        """Close and remove it, unless it was committed."""
        with contextlib.suppress(OSError):
            self.close()
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)

    def close(self) -> None:
        """No more is written. Raises OSError, where a disk is found to be full only now."""
        if self.fd >= 0:
            fd, self.fd = self.fd, -1
            os.close(fd)


def write_whole(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Write a small file whole or not at all, with `mode` from its first byte on. Raises OSError."""
    partial = Partial(path, mode)
    try:
        partial.write(data)
        partial.commit()
    finally:
        partial.discard()


def write_asset(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Write a file of an asset directory whole. Raises StateError, which names the file."""
    try:
        write_whole(path, data, mode)
    except OSError as error:
        raise StateError(f"failed to write {path}: {error.strerror or error}") from error


def deliver(source: Path, dest: Path) -> None:
    """Put a finished file of the same file system in the place of `dest`; a device or a pipe is written into.

    Raises OSError.
    """
    if is_stream(dest):
        with source.open("rb") as whole, dest.open("wb") as stream:
            shutil.copyfileobj(whole, stream)
    else:
        source.replace(dest)


def is_stream(path: Path) -> bool:
    """Return whether a user's output path is a device, a pipe or a socket, which no file may take the place of."""
    return path.exists() and not path.is_file() and not path.is_dir()


def hidden(dest: Path) -> Path:
    """Return a new name beside `dest` for what is to take its place, which `leftovers` knows."""
    return dest.with_name(f".{dest.name}.{os.getpid()}-{next(_numbers)}.partial")


def leftovers(folder: Path) -> list[Path]:
    """List the leavings of killed commands in a folder. The caller must have the folder to itself."""
    try:
        return [path for path in folder.iterdir() if _HIDDEN.fullmatch(path.name)]
    except OSError:
        return []

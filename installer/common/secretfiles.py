"""Files that hold secrets: for their owner alone; in memory; or in a directory that ends with its process.

Nothing of the latter two is left over: memory goes with the process whatever ends it, a directory is removed at the end
of its block, and a directory of a killed process by the next process that makes one.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

_MAKING = ".new-"


def write_private(path: Path, content: str | bytes) -> None:
    """Write a file that has mode 0600 from its first byte on, whatever it had before; folders above it are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        os.fchmod(fd, 0o600)
        os.ftruncate(fd, 0)
        file.write(content.encode() if isinstance(content, str) else content)


class MemoryFile:
    """A file of this process alone, and of those that inherit ``fd``; ``path`` is the same in them."""

    def __init__(self, name: str, content: bytes) -> None:
        self.fd = os.memfd_create(name)
        try:
            with open(self.fd, "wb", closefd=False) as file:
                file.write(content)
        except BaseException:
            self.close()
            raise

    @property
    def path(self) -> str:
        """Return a path that can be opened any number of times; each time it reads from the beginning."""
        return f"/proc/self/fd/{self.fd}"

    def close(self) -> None:
        """Forget the content."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __enter__(self) -> MemoryFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def runtime_directory() -> Path:
    """Return the user's runtime directory, which is in memory, or else that of temporary files."""
    folder = os.environ.get("XDG_RUNTIME_DIR", "")
    try:
        status = os.stat(folder)
    except OSError:
        return Path(tempfile.gettempdir())
    usable = status.st_uid == os.geteuid() and not status.st_mode & 0o077 and os.access(folder, os.W_OK | os.X_OK)
    return Path(folder) if usable else Path(tempfile.gettempdir())


@contextlib.contextmanager
def private_directory(prefix: str, base: Path | None = None) -> Iterator[Path]:
    """Make a directory (0700) whose name begins with ``prefix``, for the block. Raises OSError.

    It is locked as long as its process lives, which is how those of dead processes are told apart, whatever their ids.
    """
    base = base if base is not None else runtime_directory()
    _sweep(base, prefix)
    folder = Path(tempfile.mkdtemp(prefix=f"{_MAKING}{prefix}", dir=base))
    lock = -1
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Only now may others look at it.
        folder = folder.rename(base / folder.name.removeprefix(_MAKING))
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if lock >= 0:
            os.close(lock)


def _sweep(base: Path, prefix: str) -> None:
    """Remove what processes that were killed have left of theirs."""
    for path in base.glob(f"{prefix}*"):
        try:
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            if os.fstat(lock).st_uid == os.geteuid():
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
        except OSError:
            pass  # its process still runs
        finally:
            os.close(lock)

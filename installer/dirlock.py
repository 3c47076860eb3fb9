"""One process at a time writes into a directory.

The directory itself is locked (flock), so there is no lock file: nothing to be found in a listing, nothing that a
dead process leaves, and all paths that lead to the directory are one lock. NFS cannot lock directories; there the log
file is locked, which every command keeps anyway.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path

from installer.errors import DirectoryBusy, StateError
from installer.logs import FILE as LOG_FILE

log = logging.getLogger(__name__)

NO_LOCKS = {errno.EBADF, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS}
_AGAIN_S = 0.1
_SHOWN = 120


@contextlib.contextmanager
def locked(directory: Path, wait: float = 0.0) -> Iterator[bool]:
    """Hold the directory's lock for the block; somebody else's is waited for `wait` seconds.

    False where the file system knows no locks, which the user is warned of.
    Raises DirectoryBusy, and StateError for a directory that cannot be opened.
    """
    fd = _open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        sure = _take(fd, directory, wait)
        if not sure:
            os.close(fd)
            # O_APPEND: it is for the lock's sake only, but NFS gives locks for writing to those who may write.
            fd = _open(directory / LOG_FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            sure = _take(fd, directory, wait)
            if not sure:
                log.warning("%s cannot be locked: take care that one command at a time writes there", directory)
        yield sure
    finally:
        os.close(fd)


def _open(path: Path, flags: int) -> int:
    try:
        return os.open(path, flags, 0o640)
    except OSError as error:
        raise StateError(f"{path}: cannot be opened: {error.strerror or error}") from error


def _take(fd: int, directory: Path, wait: float) -> bool:
    """Lock it; False where the file system cannot. Raises DirectoryBusy."""
    deadline = time.monotonic() + wait
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            left = deadline - time.monotonic()
            if left <= 0:
                raise DirectoryBusy(
                    f"directory {directory} is in use by {_holder(fd)}: try again when that has ended"
                ) from None
            time.sleep(min(_AGAIN_S, left))
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise StateError(f"{directory}: cannot be locked: {error.strerror or error}") from error
            return False


def _holder(fd: int) -> str:
    """Return the process that has the lock, as far as this machine's kernel tells."""
    status = os.fstat(fd)
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"
    with contextlib.suppress(OSError):
        for line in Path("/proc/locks").read_text().splitlines():
            # 1: FLOCK  ADVISORY  WRITE 1234 fe:00:2146308 0 EOF; one that waits for a lock has -> in second place
            match line.split():
                case [_, "FLOCK", _, _, pid, place, *_]:
                    on, _, inode = place.rpartition(":")
                    if inode == str(status.st_ino) and (on == device or _has_open(pid, status)):
                        return f"process {pid}{_command(pid)}"
    return "another process, perhaps on another machine"


def _has_open(pid: str, status: os.stat_result) -> bool:
    """Return whether the process has the file open: some file systems have other device numbers in /proc/locks."""
    with contextlib.suppress(OSError):
        for entry in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                if os.path.samestat(os.stat(f"/proc/{pid}/fd/{entry}"), status):
                    return True
    return False


def _command(pid: str) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    except OSError:
        return ""
    text = " ".join(word.decode(errors="replace") for word in words)
    text = "".join(char if char.isprintable() else "?" for char in text)
    return f" ({text if len(text) <= _SHOWN else text[: _SHOWN - 3] + '...'})" if text else ""

"""A reader of users' files: regular ones only, and up to a size that no real input reaches.

A pipe would be waited for, and a device read, without end.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path
from typing import BinaryIO

# The most bytes of a file that is read whole: etcd takes no object of more than 1.5 MiB, and a file may hold several
# machine configs.
LARGEST = 32 << 20
# The state holds all files that were consumed, in base64.
LARGEST_STATE = 512 << 20
_CHUNK = 1 << 20
_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}
# What the shell makes of <(...): somebody writes there already, and ends.
_OPEN_ALREADY = re.compile(r"/dev/(?:stdin|fd/[0-9]+)|/proc/self/fd/[0-9]+")


def check_kind(path: Path | str, status: os.stat_result, *, allowed: tuple[int, ...] = ()) -> None:
    """Raise OSError unless it is a regular file, or one of the types of file (S_IFBLK...) that are `allowed`."""
    kind = stat.S_IFMT(status.st_mode)
    if kind == stat.S_IFDIR:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if kind != stat.S_IFREG and kind not in allowed:
        raise OSError(errno.EINVAL, f"it is {_KINDS.get(kind, 'something else')}, not a regular file", str(path))


def open_input(path: Path | str, *, allowed: tuple[int, ...] = ()) -> BinaryIO:
    """Open a file without waiting. Raises OSError, as open does, and for any kind of file that is not `allowed`.

    The text of every error (strerror) can be shown to a user.
    """
    if _OPEN_ALREADY.fullmatch(os.fspath(path)):
        allowed = (*allowed, stat.S_IFIFO, stat.S_IFCHR)
    # Before it is opened, which has effects on some devices; and after that, as it may be another one by then.
    status = os.stat(path)
    check_kind(path, status, allowed=allowed)
    # O_NONBLOCK: opening a drive does not wait for its medium.
    waits = 0 if stat.S_ISBLK(status.st_mode) else os.O_NONBLOCK
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | waits)
    try:
        check_kind(path, os.fstat(fd), allowed=allowed)
        os.set_blocking(fd, True)
        return os.fdopen(fd, "rb")
    except BaseException:
        os.close(fd)
        raise


def read_stream(file: BinaryIO, limit: int = LARGEST) -> bytes:
    """Read all of an open file, such as standard input. Raises OSError, also beyond `limit` bytes."""
    parts = []
    left = limit + 1
    while left > 0 and (part := file.read(min(left, _CHUNK))):
        parts.append(part)
        left -= len(part)
    if left <= 0:
        raise _too_long(limit)
    return b"".join(parts)


def _too_long(limit: int) -> OSError:
    return OSError(errno.EFBIG, f"it has more than {limit} bytes")


def read_input(path: Path | str, limit: int = LARGEST) -> bytes:
    """Read a whole regular file of at most `limit` bytes. Raises OSError, whose strerror names another kind of file."""
    with open_input(path) as file:
        # Not read in vain. In /proc the size is 0.
        if os.fstat(file.fileno()).st_size > limit:
            raise _too_long(limit)
        return read_stream(file, limit)


def read_text(path: Path | str, limit: int = LARGEST) -> str:
    """Read a whole file of UTF-8 text as `read_input` does; other text is an OSError too."""
    data = read_input(path, limit)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise OSError(errno.EILSEQ, f"it is not UTF-8 text at byte {error.start}", str(path)) from None

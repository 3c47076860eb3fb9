"""Copying an image as fast as the file system can: whole at its name, or not there at all."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import threading
from pathlib import Path

from installer.files import Partial

# linux/fs.h: _IOW(0x94, 9, int)
FICLONE = 0x40049409
# Bytes; between chunks a copy that is no longer wanted is given up.
CHUNK = 1 << 26
NOT_HERE = {errno.EOPNOTSUPP, errno.ENOTTY, errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.ETXTBSY, errno.EPERM}

#: Of what web servers and hypervisors, users of their own, serve to hosts; as upstream's, less the caller's umask.
IMAGE_MODE = 0o644


def clone(source: int, target: int, stop: threading.Event | None = None) -> str:
    """Copy all of one open file to an empty other; returns how: "reflink", "copy_file_range" or "sendfile".

    Raises OSError; InterruptedError once `stop` is set.
    """
    try:
        fcntl.ioctl(target, FICLONE, source)
        return "reflink"
    except OSError as error:
        if error.errno not in NOT_HERE:
            raise
    size = os.fstat(source).st_size
    # A full disk shows before a gigabyte has been written, the file lies in one piece, and writing is faster.
    with contextlib.suppress(OSError):
        os.posix_fallocate(target, 0, size)
    how = "copy_file_range"
    done = 0
    while done < size:
        if stop is not None and stop.is_set():
            raise InterruptedError(errno.EINTR, "the copy was given up")
        try:
            if how == "copy_file_range":
                count = os.copy_file_range(source, target, min(CHUNK, size - done), done, done)
            else:
                os.lseek(target, done, os.SEEK_SET)
                count = os.sendfile(target, source, done, min(CHUNK, size - done))
        except OSError as error:
            if how == "copy_file_range" and error.errno in NOT_HERE:
                how = "sendfile"
                continue
            raise
        if count == 0:
            break
        done += count
    if done != size:
        raise OSError(errno.EIO, f"copied {done} of {size} bytes")
    return how


def copy_range(source: int, target: int, *, at: int, to: int, length: int) -> None:
    """Copy `length` bytes from offset `at` of one open file to `to` of another, or of the same if they do not overlap.

    Raises OSError.
    """
    end = at + length
    kernel = True
    while at < end:
        try:
            if kernel:
                count = os.copy_file_range(source, target, min(CHUNK, end - at), at, to)
            else:
                count = os.pwrite(target, os.pread(source, min(1 << 20, end - at), at), to)
        except OSError as error:
            if kernel and error.errno in NOT_HERE:
                kernel = False
                continue
            raise
        if count == 0:
            raise OSError(errno.EIO, "the image became shorter while it was read")
        at, to = at + count, to + count


class PrefetchedCopy:
    """A copy of `base` beside `dest`, made by a thread of its own while its maker does something else.

    A context: what was not taken with `finish` when it ends is given up and leaves nothing.
    """

    def __init__(self, base: Path, dest: Path, mode: int = 0o600) -> None:
        self._how = ""
        self._error: OSError | None = None
        self._stop = threading.Event()
        self._source = os.open(base, os.O_RDONLY)
        try:
            self.partial = Partial(dest, mode)
        except OSError:
            os.close(self._source)
            raise
        self._before = os.fstat(self._source)
        self._thread: threading.Thread | None = threading.Thread(target=self._run, daemon=True, name="copy")
        self._thread.start()

    def __enter__(self) -> PrefetchedCopy:
        return self

    def __exit__(self, *_: object) -> None:
        self.give_up()

    def give_up(self) -> None:
        """End the copy, and remove what was written of it, unless it was committed."""
        self._stop.set()
        self._wait()
        self.partial.discard()

    def _run(self) -> None:
        try:
            self._how = clone(self._source, self.partial.fd, self._stop)
        except OSError as error:
            self._error = error

    def _wait(self) -> None:
        if self._thread is not None:
            self._thread.join()
            self._thread = None
            os.close(self._source)

    def finish(self, fd: int) -> tuple[Partial, str] | None:
        """Wait for the copy; return it and how it was made, None if it is not of the open file `fd` as it is now."""
        now, before = os.fstat(fd), self._before
        self._wait()
        same = os.path.samestat(now, before) and (now.st_size, now.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
        return (self.partial, self._how) if same and self._error is None else None

"""Copying an image as fast as the file system can, and patching the copy: whole at its name, or not there at all."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterable
from pathlib import Path

from installer.errors import IsoError
from installer.image.embed import Patch

# linux/fs.h: _IOW(0x94, 9, int)
_FICLONE = 0x40049409
_CHUNK = 1 << 30
_NOT_HERE = {errno.EOPNOTSUPP, errno.ENOTTY, errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.ETXTBSY, errno.EPERM}


def clone(source: int, target: int) -> str:
    """Copy all of one open file to an empty other; returns how: "reflink", "copy_file_range" or "sendfile"."""
    try:
        fcntl.ioctl(target, _FICLONE, source)
        return "reflink"
    except OSError as error:
        if error.errno not in _NOT_HERE:
            raise
    size = os.fstat(source).st_size
    # Known before a gigabyte has been written, and kept in one piece.
    with contextlib.suppress(OSError):
        os.posix_fallocate(target, 0, size)
    how = "copy_file_range"
    done = 0
    while done < size:
        try:
            if how == "copy_file_range":
                count = os.copy_file_range(source, target, min(_CHUNK, size - done), done, done)
            else:
                os.lseek(target, done, os.SEEK_SET)
                count = os.sendfile(target, source, done, min(_CHUNK, size - done))
        except OSError as error:
            if how == "copy_file_range" and error.errno in _NOT_HERE:
                how = "sendfile"
                continue
            raise
        if count == 0:
            break
        done += count
    if done != size:
        raise OSError(errno.EIO, f"copied {done} of {size} bytes")
    return how


def copy_patched(base: Path, dest: Path, patches: Iterable[Patch], mode: int = 0o600) -> str:
    """Make `dest` the copy of `base` with `patches` written over it; returns how it was copied.

    The copy holds the cluster's secrets, hence its mode. It is made under a temporary name beside `dest`.
    """
    partial = dest.with_name(f".{dest.name}.{os.getpid()}.partial")
    try:
        with base.open("rb") as source:
            target = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_TRUNC, mode)
            try:
                how = clone(source.fileno(), target)
                for patch in patches:
                    os.pwrite(target, patch.data, patch.offset)
                size = os.fstat(target).st_size
            finally:
                os.close(target)
            if size != os.fstat(source.fileno()).st_size:
                raise IsoError(dest, f"the copy of {base} has {size} bytes")
        partial.replace(dest)
    except OSError as error:
        raise IsoError(dest, f"cannot write the image: {error.strerror or error}") from error
    finally:
        partial.unlink(missing_ok=True)
    return how

"""Replaces a folder of pages as a whole: it has the old pages or the new ones, even if the writer is killed.

New pages are written into a folder of their own within it, and take the old ones' place in the end: a rename for each
of a few names, one process at a time. The folder itself stays: it may be a mount, or what a web server was given.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from ci.informer.errors import InformerError

#: The prefix of folders in which pages are being written.
_NEW = ".node0-new-"
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
_libc = ctypes.CDLL(None, use_errno=True)


def names(root: Path) -> list[str]:
    """List what a folder holds besides pages that are being written, or that a killed process was writing."""
    return [path.name for path in root.iterdir() if not path.name.startswith(_NEW)]


@contextmanager
def replacing(root: Path, parts: Sequence[str]) -> Iterator[Path]:
    """Provide a folder to write pages into; then these files and folders of it take the places of those in `root`, in
    this order. Where the block raises, all stays as it is. Raises InformerError where there is no room for both."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            with _held(root):
                _sweep(root)
                new = Path(tempfile.mkdtemp(prefix=_NEW, dir=root))
                stack.callback(shutil.rmtree, new, ignore_errors=True)
                # Held until this process ends, so that others see that the folder is in use.
                stack.enter_context(_held(new))
            yield new
            with _held(root):
                for part in parts:
                    _put(new / part, root / part)
    except OSError as error:
        raise InformerError(f"{root}: {error.strerror or error}") from error


@contextmanager
def _held(folder: Path, wait: bool = True) -> Iterator[bool]:
    """Hold a folder's lock for the block; whether it could be taken. False on a file system without locks."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            locked = True
        except OSError:
            locked = False
        yield locked
    finally:
        os.close(descriptor)


def _sweep(root: Path) -> None:
    """Remove what processes that were killed while they wrote have left."""
    for path in root.glob(f"{_NEW}*"):
        with suppress(OSError), _held(path, wait=False) as left:
            if left:
                shutil.rmtree(path)


def _put(new: Path, old: Path) -> None:
    """Replace a file or folder by a new one."""
    if not old.is_dir():
        new.rename(old)
        return
    exchanged = _libc.renameat2(_AT_FDCWD, os.fsencode(new), _AT_FDCWD, os.fsencode(old), _RENAME_EXCHANGE)
    if exchanged != 0:  # NFS and some others have no such call
        old.rename(new.with_name(f"{new.name}.old"))
        new.rename(old)

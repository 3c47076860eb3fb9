"""The logs of a lab's daemons and of QEMU, kept to a size.

Machines choose how often they ask DNS, DHCP or the registry for something, and each time is a line on the host's disk.
QEMU says what a guest does wrong with a device, each time.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from pathlib import Path

# The most bytes of a log; the longest of an installation of five machines has some MiB.
MOST_BYTES = 64 << 20
# Of a lab's state: its daemons' logs, and what QEMU of each machine says. libvirt limits that by virtlogd only, which
# would cut the serial logs too.
_FOLDERS = "log", "libvirt/log/qemu"
# linux/falloc.h
_COLLAPSE_RANGE = 0x08

_libc = ctypes.CDLL(None, use_errno=True)


def trim_all(state: Path, most: int = MOST_BYTES) -> None:
    """`trim` each folder of logs that a lab with this state directory has."""
    for folder in (state / name for name in _FOLDERS):
        if folder.is_dir():  # QEMU's comes with the first VM
            trim(folder, most)


def trim(folder: Path, most: int = MOST_BYTES) -> None:
    """Cut the older half off each file of the folder that has more than `most` bytes.

    Daemons and QEMU go on writing meanwhile: they all open their logs for appending, so what is cut off moves the end
    for them.
    """
    for path in folder.iterdir():
        # It may have gone, or be no file.
        with contextlib.suppress(OSError):
            if path.is_file() and path.stat().st_size > most:
                _cut(path, path.stat().st_size - most // 2)


def _cut(path: Path, count: int) -> None:
    file = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        block = os.fstatvfs(file).f_bsize
        length = ctypes.c_int64(count // block * block)
        if _libc.fallocate(file, _COLLAPSE_RANGE, ctypes.c_int64(0), length) != 0:
            # ext4 and XFS can take out a file's beginning; where that cannot be done all of it goes.
            os.ftruncate(file, 0)
    finally:
        os.close(file)

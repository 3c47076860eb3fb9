"""Loop devices of a boot's own: a range of a file or device, gone with its last user (linux/loop.h, loop(4))."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import struct
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

CONTROL = "/dev/loop-control"
LOOP_CTL_GET_FREE, LOOP_CONFIGURE = 0x4C82, 0x4C0A
LOOP_SET_STATUS64, LOOP_GET_STATUS64 = 0x4C04, 0x4C05
LO_FLAGS_READ_ONLY, LO_FLAGS_AUTOCLEAR, LO_FLAGS_DIRECT_IO = 1, 4, 16
LOOP_MAJOR = 7
# fd, block size; then struct loop_info64: device, inode, rdevice, offset, sizelimit, number, encryption's three, flags,
# names and key, init; then what is reserved.
_CONFIG = struct.Struct("=II QQQQQ IIII 64s64s32s 2Q 8Q")
# The same loop_info64, of which offset and sizelimit are the fourth and fifth.
_INFO = struct.Struct("=QQQQQ IIII 64s64s32s 2Q")
_BLKFLSBUF = 0x1261
# Others may take the free device that the kernel has named before we open it.
_TAKE_SECONDS = 30.0


@dataclass(frozen=True)
class Loop:
    """A loop device, which ends when this is closed and nothing mounts it any more."""

    number: int
    descriptor: int

    @property
    def path(self) -> Path:
        """Its node in this machine's /dev."""
        return Path(f"/dev/loop{self.number}")

    @property
    def rdev(self) -> int:
        """Its device number, for a node elsewhere."""
        return os.makedev(LOOP_MAJOR, self.number)

    def close(self) -> None:
        """Let go of it."""
        os.close(self.descriptor)

    def __enter__(self) -> Loop:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def attach(backing: Path, *, offset: int = 0, size: int = 0, read_only: bool = False, direct: bool = False) -> Loop:
    """Make a loop device over ``size`` bytes (0: all) at ``offset`` of a file or block device, past its page cache if
    ``direct``.

    Raises OSError: there is no such file, or no loop device within half a minute.
    """
    flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_READ_ONLY * read_only | LO_FLAGS_DIRECT_IO * direct
    mode = (os.O_RDONLY if read_only else os.O_RDWR) | os.O_CLOEXEC
    deadline = time.monotonic() + _TAKE_SECONDS
    file = os.open(backing, mode)
    try:
        while True:
            number = _free()
            device = _open(number, mode)
            if device is not None:
                try:
                    name = os.fsencode(str(backing))[-63:]
                    config = _CONFIG.pack(
                        *(file, 0), *(0, 0, 0, offset, size), *(number, 0, 0, flags), name, b"", b"", *[0] * 10
                    )
                    fcntl.ioctl(device, LOOP_CONFIGURE, config)
                    return Loop(number, device)
                except OSError as error:
                    os.close(device)
                    if error.errno != errno.EBUSY or time.monotonic() > deadline:
                        raise
            elif time.monotonic() > deadline:
                raise OSError(errno.EBUSY, f"no free loop device within {_TAKE_SECONDS:.0f} s")
    finally:
        os.close(file)


def move(loop: Loop, *, offset: int, size: int) -> bool:
    """Change the range of its file that a loop device shows. False when the present range is in use."""
    info = bytearray(_INFO.size)
    fcntl.ioctl(loop.descriptor, LOOP_GET_STATUS64, info)
    fields = list(_INFO.unpack(info))
    fields[3:5] = offset, size
    try:
        fcntl.ioctl(loop.descriptor, _BLKFLSBUF)
        fcntl.ioctl(loop.descriptor, LOOP_SET_STATUS64, _INFO.pack(*fields))
    except OSError as error:
        if error.errno not in (errno.EAGAIN, errno.EBUSY):
            raise
        return False
    return True


def _free() -> int:
    control = os.open(CONTROL, os.O_RDWR | os.O_CLOEXEC)
    try:
        return fcntl.ioctl(control, LOOP_CTL_GET_FREE)
    finally:
        os.close(control)


def _open(number: int, mode: int) -> int | None:
    """Open the device, whose node is made where no devtmpfs does that; None when somebody else has it."""
    path = f"/dev/loop{number}"
    if not os.path.exists(path):
        with contextlib.suppress(FileExistsError):
            os.mknod(path, 0o60600, os.makedev(LOOP_MAJOR, number))
    try:
        return os.open(path, mode)
    except OSError as error:
        if error.errno in (errno.ENXIO, errno.EBUSY, errno.ENODEV):
            return None
        raise

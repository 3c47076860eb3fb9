"""Slow block devices: by cgroup2's `io`, or by cgroup v1's `blkio` where that has the controller.

With v1 a group limits its own processes, not those of groups below it, and the kernel's writeback counts to the root.
So a limit is written into every group, and into new groups later. With cgroup2 it holds for all below a group, and the
root has none: it is written into the groups at the top, so that processes in the root itself, as on a host without
systemd, are as quick as before. A limit outlives the lab and the loop device, whose number is used again: a lab's
limits are noted in /run, for its clean-up.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path

from lab.machines.container.kernel import syscalls

NOTES = Path("/run/node0/slow")
_V1 = ("blkio.throttle.read_bps_device", "blkio.throttle.write_bps_device")
_V2 = "io.max"


def mount(place: Path) -> Path:
    """Mount the host's hierarchy in an empty directory of this mount namespace. Raises OSError where it has none."""
    # First: mounted as v1, an unused controller would be taken away from cgroup2.
    with contextlib.suppress(OSError):
        syscalls.mount("cgroup2", str(place), "cgroup2")
        if limits(place):
            return place
        syscalls.umount(str(place))
    syscalls.mount("cgroup", str(place), "cgroup", 0, data="blkio")
    return place


def _unified(top: Path) -> bool:
    return (top / "cgroup.controllers").exists()


def limits(top: Path) -> bool:
    """Look whether the hierarchy that is mounted at `top` can limit devices."""
    if not _unified(top):
        return (top / _V1[0]).exists()
    return "io" in (top / "cgroup.controllers").read_text().split()


def limit(top: Path, lab: str, device: int, rate: int) -> None:
    """Limit a lab's device to `rate` bytes a second, read and written each; 0 lifts the limit. `top` is the hierarchy.

    Raises OSError."""
    number = f"{os.major(device)}:{os.minor(device)}"
    note = NOTES / lab / number
    if rate:
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(str(rate))
        try:
            _write(top, number, rate)
        except OSError:
            lift(top, lab, number)
            raise
    else:
        _write(top, number, 0)
        note.unlink(missing_ok=True)


def keep(top: Path, lab: str) -> None:
    """Limit new groups too. The others are not written again: a limit starts to count anew when it is written, and a
    request of more than half a second's worth would wait for ever."""
    for note in (NOTES / lab).glob("*:*"):
        _write(top, note.name, int(note.read_text()), only_new=True)


def lift(top: Path, lab: str, numbers: str = "*:*") -> None:
    """Lift all limits of a lab that has ended, or that of one device."""
    for note in (NOTES / lab).glob(numbers):
        _write(top, note.name, 0)
        note.unlink()
    with contextlib.suppress(OSError):
        # Another device's note may be there.
        (NOTES / lab).rmdir()


def put(file: Path, text: str) -> None:
    """Write into a file of a hierarchy, where nobody can make one. Raises OSError."""
    descriptor = os.open(file, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def _write(top: Path, number: str, rate: int, *, only_new: bool = False) -> None:
    """Write a limit (0: none) into all groups, or only into those that have none for the device. Raises OSError where
    no group takes it."""
    written, begins = False, bool(rate) and not only_new
    for file, text in _unified_texts(top, rate) if _unified(top) else _v1_texts(top, rate):
        try:
            if not only_new or not re.search(rf"^{number} ", file.read_text(), re.MULTILINE):
                put(file, f"{number} {text}")
            written = True
        except OSError as error:
            # The group may have ended since, and the device, its limit with it.
            if error.errno != errno.ENOENT and (begins or error.errno != errno.ENODEV):
                raise
    if begins and not written:
        raise OSError(errno.EOPNOTSUPP, "no control group of this host takes a limit of a device")


def _v1_texts(top: Path, rate: int) -> Iterator[tuple[Path, str]]:
    for group, _, _ in os.walk(top):
        for name in _V1:
            yield Path(group, name), str(rate)


def _unified_texts(top: Path, rate: int) -> Iterator[tuple[Path, str]]:
    # A group has the file when the one above passes the controller on (cgroups(7)).
    if rate and "io" not in (top / "cgroup.subtree_control").read_text().split():
        put(top / "cgroup.subtree_control", "+io")
    most = str(rate) if rate else "max"
    for group in top.iterdir():
        if group.is_dir():
            yield group / _V2, f"rbps={most} wbps={most}"

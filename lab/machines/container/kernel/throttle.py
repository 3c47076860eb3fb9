"""Block devices that are slow, by cgroup v1's `blkio`.

There a group limits what its own processes ask for, not those of groups below it, and what the kernel writes back by
itself is the root's. So a limit is written into every group, and again for groups that are new. It outlives the lab and
the loop device, whose number another one gets: what a lab has limited is noted in /run, for whoever cleans up after it.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

from lab.machines.container.kernel import syscalls

NOTES = Path("/run/node0/slow")
_LIMITS = ("blkio.throttle.read_bps_device", "blkio.throttle.write_bps_device")


def mount(place: Path) -> Path:
    """Mount the host's hierarchy in an empty directory of this mount namespace. Raises OSError where it has none."""
    syscalls.mount("cgroup", str(place), "cgroup", 0, data="blkio")
    return place


def limit(top: Path, lab: str, device: int, rate: int) -> None:
    """Let a device of a lab's read and write `rate` bytes a second at most each; with 0, as many as it can. `top` is
    the hierarchy."""
    number = f"{os.major(device)}:{os.minor(device)}"
    note = NOTES / lab / number
    if rate:
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(str(rate))
        _write(top, number, rate)
    else:
        _write(top, number, 0)
        note.unlink(missing_ok=True)


def keep(top: Path, lab: str) -> None:
    """Limit what groups that are new ask for, too.

    Not the others again: a limit that is written starts to count anew, and what is larger than its half second's worth
    would wait for ever.
    """
    for note in (NOTES / lab).glob("*:*"):
        _write(top, note.name, int(note.read_text()), only_new=True)


def lift(top: Path, lab: str) -> None:
    """Lift all limits of a lab that has ended."""
    for note in (NOTES / lab).glob("*:*"):
        _write(top, note.name, 0)
        note.unlink()
    with contextlib.suppress(FileNotFoundError):
        (NOTES / lab).rmdir()


def _write(top: Path, number: str, rate: int, *, only_new: bool = False) -> None:
    """Write the limit into all groups, or only into those that have none for the device."""
    for group, _, _ in os.walk(top):
        for name in _LIMITS:
            file = Path(group, name)
            # The group may have ended since.
            with contextlib.suppress(FileNotFoundError):
                if not only_new or not re.search(rf"^{number} ", file.read_text(), re.MULTILINE):
                    file.write_text(f"{number} {rate}")

"""File systems that programs of a machine answer for, when they answer no more (Linux, filesystems/fuse.rst).

A process that waits for an answer which it should have given itself ends at no signal, and so neither does its
machine: only who aborts the connection ends it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from lab.machines.container.kernel import syscalls

_CONTROL = Path("/sys/fs/fuse/connections")
_UNSHARE = 272


def abort(users: Iterable[int], count: int) -> None:
    """End all connections of these ranges of users: what waits for an answer gets an error. Raises OSError."""
    firsts = set(users)
    if not firsts or not _CONTROL.is_dir():
        return

    def end() -> None:
        syscalls.call("unshare", _UNSHARE, syscalls.CLONE_NEWNS)
        syscalls.mount("none", "/", flags=syscalls.MS_REC | syscalls.MS_PRIVATE)
        syscalls.mount("connections", str(_CONTROL), "fusectl")
        for connection in _CONTROL.iterdir():
            with contextlib.suppress(OSError):
                user = os.stat(connection).st_uid
                if user - user % count in firsts:
                    (connection / "abort").write_text("1")

    syscalls.by_a_child(end)

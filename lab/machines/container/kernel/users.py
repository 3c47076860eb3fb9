"""Machines' users among the host's: a ledger of locks, since ranges that are chosen may be the same; and FUSE.

The ledger is a file in which a byte stands for 65536 users. Whoever has a machine's users holds a lock on their byte
(fcntl(2), open file description locks): the kernel lets go of it when the last process that holds it ends, however.

A process that waits for a FUSE answer which it should have given itself ends at no signal, and so neither does its
machine: only aborting the connection ends it (Linux, filesystems/fuse.rst).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
from collections.abc import Iterable
from pathlib import Path

from lab.errors import LabError
from lab.machines.container.kernel import syscalls

LEDGER = Path("/run/node0/users")
COUNT = 65536
TRIED = 1 << 14
_CONNECTIONS = Path("/sys/fs/fuse/connections")
# struct flock, asm-generic/fcntl.h
_LOCK = struct.Struct("hhqqi")


def claim(first: int, ledger: Path = LEDGER) -> tuple[int, int]:
    """Take the first free range of users from `first` on; returns its first user and the descriptor that keeps it.

    Heirs of the descriptor keep it too. Raises OSError; LabError when there is none.
    """
    ledger.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    held = os.open(ledger, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    for number in range(first // COUNT, first // COUNT + TRIED):
        try:
            fcntl.fcntl(held, fcntl.F_OFD_SETLK, _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, number, 1, 0))
        except (BlockingIOError, PermissionError):
            continue
        return number * COUNT, held
    os.close(held)
    raise LabError(f"all ranges of users from {first} on are taken ({ledger})")


def abort_connections(users: Iterable[int]) -> None:
    """End all FUSE connections of the ranges that begin with these users: what waits for an answer gets an error.

    Raises OSError."""
    firsts = set(users)
    if not firsts or not _CONNECTIONS.is_dir():
        return

    def end() -> None:
        syscalls.own_mounts()
        syscalls.mount("connections", str(_CONNECTIONS), "fusectl")
        for connection in _CONNECTIONS.iterdir():
            with contextlib.suppress(OSError):
                user = os.stat(connection).st_uid
                if user - user % COUNT in firsts:
                    (connection / "abort").write_text("1")

    syscalls.by_a_child(end)

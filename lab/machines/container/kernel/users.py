"""Which users of the host belong to which machine: a ledger of locks, since ranges that are chosen may be the same.

The ledger is a file in which a byte stands for 65536 users. Whoever has a machine's users holds a lock on their byte
(fcntl(2), open file description locks): the kernel lets go of it when the last process that holds it ends, however.
"""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path

from lab.machines.container.kernel.errors import NoUsersError

LEDGER = Path("/run/node0/users")
COUNT = 65536
TRIED = 1 << 14
# struct flock, asm-generic/fcntl.h
_LOCK = struct.Struct("hhqqi")


def claim(first: int, ledger: Path = LEDGER) -> tuple[int, int]:
    """The first user of a range that nobody else has, from `first` on, and the descriptor that keeps it.

    Heirs of the descriptor keep it too. Raises OSError, NoUsersError.
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
    raise NoUsersError(f"all ranges of users from {first} on are taken ({ledger})")

"""The machine's memory, shared by all labs on it: a ledger under flock.

Each entry belongs to a live process (pid and start time); those of dead ones are dropped by whoever looks next. A lab
that asks for more than there will ever be fails at once; one that must wait says so and waits.
"""

from __future__ import annotations

import fcntl
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from lab.errors import BudgetError
from lab.processes import alive

log = logging.getLogger(__name__)

# What the machine needs for itself, and a lab besides its guests' memory.
RESERVE_MIB = 1024
LAB_OVERHEAD_MIB = 256
GUEST_OVERHEAD_MIB = 384
_POLL_SECONDS = 1.0
_REPEAT_SECONDS = 60.0


class Entry(msgspec.Struct, frozen=True):
    """What one lab holds."""

    lab: str
    mib: int
    pid: int
    started: int


def capacity_mib() -> int:
    """What labs may use in all, in MiB: the machine's memory less a reserve, or $NODE0_BUDGET_MIB."""
    chosen = os.environ.get("NODE0_BUDGET_MIB")
    if chosen:
        return int(chosen)
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
    return max(total - RESERVE_MIB, 0)


def need_mib(guests: int, guest_memory_mib: int) -> int:
    """What a lab of that many guests with that much memory in all takes, in MiB."""
    return LAB_OVERHEAD_MIB + guests * GUEST_OVERHEAD_MIB + guest_memory_mib


class Ledger:
    """The ledger in one file."""

    def __init__(self, path: Path, capacity: int) -> None:
        self._path = path
        self._capacity = capacity

    @contextmanager
    def _open(self) -> Iterator[list[Entry]]:
        """The live entries, written back at the end. The lock goes with the descriptor: nobody can leave it behind."""
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            try:
                found = msgspec.json.decode(file.read() or b"[]", type=list[Entry])
            except msgspec.DecodeError:
                log.warning("%s is damaged; starting it anew", self._path)
                found = []
            entries = [entry for entry in found if alive(entry.pid, entry.started)]
            yield entries
            file.seek(0)
            file.truncate()
            file.write(msgspec.json.encode(entries))
            file.flush()

    def entries(self) -> list[Entry]:
        """Who holds what now."""
        with self._open() as entries:
            return list(entries)

    def try_take(self, lab: str, mib: int, owner: tuple[int, int]) -> list[Entry] | None:
        """Take `mib` for a lab, or return the entries in the way."""
        with self._open() as entries:
            if sum(e.mib for e in entries) + mib > self._capacity:
                return list(entries)
            entries.append(Entry(lab, mib, *owner))
            return None

    def take(self, lab: str, mib: int, owner: tuple[int, int], timeout: float) -> None:
        """Take `mib` for a lab, waiting for at most `timeout` seconds. Raises BudgetError."""
        if mib > self._capacity:
            raise BudgetError(
                f"lab {lab} needs {mib} MiB of memory, this machine has {self._capacity} MiB for labs in all",
                wanted_mib=mib,
                capacity_mib=self._capacity,
            )
        deadline = time.monotonic() + timeout
        said = -_REPEAT_SECONDS
        while (others := self.try_take(lab, mib, owner)) is not None:
            now = time.monotonic()
            free = self._capacity - sum(e.mib for e in others)
            holders = ", ".join(f"{e.lab} {e.mib} MiB (pid {e.pid})" for e in others)
            line = f"lab {lab} waits for memory: needs {mib} MiB, free {free} MiB; held by {holders}"
            if now > deadline:
                raise BudgetError(f"{line}; gave up after {timeout:g} s", wanted_mib=mib, capacity_mib=self._capacity)
            if now - said >= _REPEAT_SECONDS:
                log.warning("%s", line)
                said = now
            time.sleep(_POLL_SECONDS)

    def hand_over(self, lab: str, owner: tuple[int, int]) -> None:
        """The entry of a lab belongs to another process from now on."""
        with self._open() as entries:
            entries[:] = [Entry(e.lab, e.mib, *owner) if e.lab == lab else e for e in entries]

    def give_back(self, lab: str) -> None:
        """Drop the entry of a lab."""
        with self._open() as entries:
            entries[:] = [e for e in entries if e.lab != lab]

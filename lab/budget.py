"""What the machine has, shared by all labs on it: a ledger of memory, vCPUs and disk under flock.

Each entry belongs to a live process (pid and start time); those of dead ones are dropped by whoever looks next. A lab
that asks for more than there will ever be fails at once; one that must wait says so and waits its turn.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from lab.errors import BudgetError
from lab.processes import alive
from lab.topology import Topology

log = logging.getLogger(__name__)

# What the machine needs for itself, and a lab besides its guests' memory.
RESERVE_MIB = 1024
LAB_OVERHEAD_MIB = 256
GUEST_OVERHEAD_MIB = 384
# As many as labs side by side may have. On two emulating cores two labs of one node (four vCPUs) are installed sooner
# than one after the other; three take 1.1 times as long, and a compact cluster beside one node (six) was still at its
# bootstrap when both would have been done in turn.
VCPUS_PER_CPU = 2
# Disks are sparse: this is what an installed machine of the lab release has written, with room to spare.
GUEST_DISK_GIB = 3
# Likewise one that holds somebody's data (lab.disks).
FULL_DISK_GIB = 2
_POLL_SECONDS = 1.0
_REPEAT_SECONDS = 60.0


class Amount(msgspec.Struct, frozen=True):
    """Memory in MiB, virtual CPUs, and disk in GiB."""

    mib: int = 0
    vcpu: int = 0
    disk_gib: int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.mib + other.mib, self.vcpu + other.vcpu, self.disk_gib + other.disk_gib)

    def __sub__(self, other: Amount) -> Amount:
        return Amount(self.mib - other.mib, self.vcpu - other.vcpu, self.disk_gib - other.disk_gib)

    def __str__(self) -> str:
        return f"{self.mib} MiB of memory, {self.vcpu} vCPU, {self.disk_gib} GiB of disk"

    def short(self, free: Amount) -> list[str]:
        """Of what `free` does not have enough for this."""
        wanted = (("memory", self.mib > free.mib), ("vCPUs", self.vcpu > free.vcpu))
        return [name for name, lacks in (*wanted, ("disk", self.disk_gib > free.disk_gib)) if lacks]


class Entry(msgspec.Struct, frozen=True):
    """What one lab holds or, while `waiting`, would like to hold."""

    lab: str
    mib: int
    pid: int
    started: int
    vcpu: int = 0
    disk_gib: int = 0
    waiting: bool = False

    @property
    def amount(self) -> Amount:
        """How much."""
        return Amount(self.mib, self.vcpu, self.disk_gib)


def capacity(labs: Path) -> Amount:
    """What labs may use in all: the machine's memory less a reserve, its CPUs several times over (a lab with more runs
    alone), and of the file system of `labs` what is free or theirs. $NODE0_BUDGET_MIB and $NODE0_BUDGET_VCPU say
    otherwise."""
    memory = (os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20) - RESERVE_MIB
    cpus = len(os.sched_getaffinity(0)) * VCPUS_PER_CPU
    theirs = sum(disk.stat().st_blocks * 512 for disk in labs.glob("*/disks/*"))
    return Amount(
        int(os.environ.get("NODE0_BUDGET_MIB") or max(memory, 0)),
        int(os.environ.get("NODE0_BUDGET_VCPU") or cpus),
        (shutil.disk_usage(labs).free + theirs) >> 30,
    )


def need(guests: int, memory_mib: int, vcpu: int, full_disks: int = 0) -> Amount:
    """What a lab takes of that many guests, with that much memory and that many vCPUs in all, and that many disks which
    are full of data before."""
    memory = LAB_OVERHEAD_MIB + guests * GUEST_OVERHEAD_MIB + memory_mib
    return Amount(memory, vcpu, guests * GUEST_DISK_GIB + full_disks * FULL_DISK_GIB)


def need_of(topology: Topology) -> Amount:
    """What a lab of that topology takes."""
    nodes = topology.nodes
    full = sum(disk.holds == "data" for node in nodes for disk in node.disks)
    return need(len(nodes), topology.memory_mib, sum(node.vcpu for node in nodes), full)


class Ledger:
    """The ledger in one file."""

    def __init__(self, path: Path, capacity: Amount) -> None:
        self._path = path
        self.capacity = capacity

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
        """Who holds what now, and who waits for what, the longest first."""
        with self._open() as entries:
            return list(entries)

    def free(self, entries: list[Entry]) -> Amount:
        """What these entries leave."""
        return self.capacity - sum((e.amount for e in entries if not e.waiting), Amount())

    def try_take(self, lab: str, wanted: Amount, owner: tuple[int, int]) -> list[Entry] | None:
        """Take `wanted` for a lab, or note that it waits and return the other entries.

        Who came first has the first choice; who came later may take what is left when that does not do for the first.
        """
        with self._open() as entries:
            others = [e for e in entries if e.lab != lab]
            queue = [e.lab for e in entries if e.waiting]
            free = self.free(others)
            ahead = queue[: queue.index(lab)] if lab in queue else queue
            fits_ahead = any(not e.amount.short(free) for e in others if e.lab in ahead)
            waits = bool(wanted.short(free)) or fits_ahead
            entry = Entry(lab, wanted.mib, *owner, wanted.vcpu, wanted.disk_gib, waiting=waits)
            if waits and lab in queue:
                return others
            entries[:] = [*others, entry]
            return others if waits else None

    def take(self, lab: str, wanted: Amount, owner: tuple[int, int], timeout: float) -> None:
        """Take `wanted` for a lab, waiting for at most `timeout` seconds. Raises BudgetError.

        Too few vCPUs make a lab slow, not impossible: one that has more than there are takes them all.
        """
        if wanted.vcpu > self.capacity.vcpu:
            log.warning("lab %s has %d vCPUs where %d may be busy: alone", lab, wanted.vcpu, self.capacity.vcpu)
            wanted = msgspec.structs.replace(wanted, vcpu=self.capacity.vcpu)
        if lacking := wanted.short(self.capacity):
            raise BudgetError(
                f"lab {lab} needs {wanted}; this machine has {self.capacity} for labs in all: too little "
                f"{' and '.join(lacking)}",
                wanted_mib=wanted.mib,
                capacity_mib=self.capacity.mib,
            )
        deadline = time.monotonic() + timeout
        said = -_REPEAT_SECONDS
        try:
            while (others := self.try_take(lab, wanted, owner)) is not None:
                now = time.monotonic()
                free = self.free(others)
                line = (
                    f"lab {lab} waits for {' and '.join(wanted.short(free)) or 'its turn'}: needs {wanted}; free {free}"
                )
                line += "; held by " + ", ".join(f"{e.lab} {e.mib} MiB (pid {e.pid})" for e in others if not e.waiting)
                if now > deadline:
                    raise BudgetError(
                        f"{line}; gave up after {timeout:g} s", wanted_mib=wanted.mib, capacity_mib=self.capacity.mib
                    )
                if now - said >= _REPEAT_SECONDS:
                    log.warning("%s", line)
                    said = now
                time.sleep(_POLL_SECONDS)
        except BaseException:
            self.give_back(lab)
            raise

    def hand_over(self, lab: str, owner: tuple[int, int]) -> None:
        """The entry of a lab belongs to another process from now on."""
        pid, started = owner
        with self._open() as entries:
            entries[:] = [msgspec.structs.replace(e, pid=pid, started=started) if e.lab == lab else e for e in entries]

    def give_back(self, lab: str) -> None:
        """Drop the entry of a lab."""
        with self._open() as entries:
            entries[:] = [e for e in entries if e.lab != lab]

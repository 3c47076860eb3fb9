"""What the machine has, shared by all labs on it: a ledger of memory, vCPUs and disk under flock.

Each entry belongs to a live process (pid, start time, boot); those of dead ones are dropped by whoever looks next. A
lab that asks for more than there will ever be fails at once; one that must wait says so and waits its turn.

The file belongs to all checkouts on the machine. What another version has put into it is kept as it is: entries that
cannot be read hold nothing that could be counted, but they are not ours to drop, nor are fields unknown here.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import msgspec

from lab.cleanup import finish
from lab.errors import BudgetError, LabError
from lab.host.identity import alive, boot_id
from lab.numbers import MEMORY_MIB, whole
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
# Likewise one that holds somebody's data (lab.machines.disks).
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


NotNegative = Annotated[int, msgspec.Meta(ge=0)]


class Entry(msgspec.Struct, frozen=True):
    """What one lab holds or, while `waiting`, would like to hold."""

    lab: str
    mib: NotNegative
    pid: int
    started: int
    vcpu: NotNegative = 0
    disk_gib: NotNegative = 0
    waiting: bool = False
    boot: str = ""

    @property
    def lives(self) -> bool:
        """Whether the process that it belongs to does."""
        return self.boot in ("", boot_id()) and alive(self.pid, self.started)

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
        _given("NODE0_BUDGET_MIB", MEMORY_MIB, max(memory, 0)),
        _given("NODE0_BUDGET_VCPU", 1 << 16, cpus),
        (shutil.disk_usage(labs).free + theirs) >> 30,
    )


def _given(name: str, most: int, otherwise: int) -> int:
    """A number of the environment. Raises LabError."""
    text = os.environ.get(name)
    try:
        return whole(text, 1, most) if text else otherwise
    except ValueError as error:
        raise LabError(f"{name}: {error}") from None


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


def _entry(raw: Any) -> Entry | None:
    """An entry of the file; None when this version cannot read it."""
    try:
        return msgspec.convert(raw, Entry)
    except (msgspec.ValidationError, UnicodeEncodeError):
        return None


class Ledger:
    """The ledger in one file."""

    def __init__(self, path: Path, capacity: Amount) -> None:
        self._path = path
        self._foreign = 0
        self.capacity = capacity

    @contextmanager
    def _open(self) -> Iterator[list[Entry]]:
        """The live entries, written back at the end. The lock goes with the descriptor: nobody can leave it behind.

        Raises BudgetError when the file is another version's throughout.
        """
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            kept = self._read(fd)
            known = {id(raw): entry for raw in kept if (entry := _entry(raw)) is not None}
            entries = [entry for entry in known.values() if entry.lives]
            foreign = [raw for raw in kept if id(raw) not in known]
            self._foreign = len(foreign)
            yield entries
            # What was not changed is written as it was, with all that it says.
            same = {entry: raw for raw in kept if (entry := known.get(id(raw))) is not None}
            text = json.dumps([*foreign, *(same.get(e) or msgspec.to_builtins(e) for e in entries)]).encode()
            # Over the old text first: whoever is killed before the file is cut leaves a whole list, and a rest of the
            # old one behind it.
            os.pwrite(fd, text, 0)
            os.ftruncate(fd, len(text))
        finally:
            os.close(fd)

    def _read(self, fd: int) -> list[Any]:
        """The list in the file; an empty one, with the damaged file put aside, when there is none."""
        data = os.pread(fd, os.fstat(fd).st_size, 0)
        if not data.strip():
            return []
        try:
            found, _ = json.JSONDecoder().raw_decode(data.decode())
        except (ValueError, RecursionError) as error:
            aside = self._path.with_name(f"{self._path.name}.damaged")
            aside.write_bytes(data)
            log.warning("%s is damaged (%s): put aside as %s and started anew", self._path, error, aside.name)
            return []
        if not isinstance(found, list):
            raise BudgetError(
                f"{self._path} is another version's ledger: wait for its labs to end, or say what labs may use of the "
                "machine in a ledger of your own, with NODE0_BUDGET=FILE and NODE0_BUDGET_MIB=N",
                wanted_mib=0,
                capacity_mib=self.capacity.mib,
            )
        return found

    def entries(self) -> list[Entry]:
        """Who holds what now, and who waits for what, the longest first."""
        with self._open() as entries:
            return list(entries)

    def foreign(self) -> int:
        """How many entries this version cannot read."""
        with self._open():
            return self._foreign

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
            entry = Entry(lab, wanted.mib, *owner, wanted.vcpu, wanted.disk_gib, waits, boot_id())
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
        except BaseException as error:
            finish(("take the lab out of the ledger", lambda: self.give_back(lab)), cause=error)
            raise

    def hand_over(self, lab: str, owner: tuple[int, int]) -> None:
        """The entry of a lab belongs to another process from now on."""
        pid, started = owner
        with self._open() as entries:
            other = {"pid": pid, "started": started, "boot": boot_id()}
            entries[:] = [msgspec.structs.replace(e, **other) if e.lab == lab else e for e in entries]

    def give_back(self, lab: str) -> None:
        """Drop the entry of a lab."""
        with self._open() as entries:
            entries[:] = [e for e in entries if e.lab != lab]

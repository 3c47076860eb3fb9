"""The machine's memory, vCPUs and disk, shared by all labs on it through a ledger file under flock.

Each entry belongs to a live process (pid, start time, boot); entries of dead processes are dropped by the next reader.
A lab that asks for more than the machine has fails at once; one that has to wait says so and waits its turn. The first
in the queue has its turn when its request fits the budget that its own process was given. A lab whose process no longer
checks for its turn (it is stopped, or hangs) keeps its place in the queue, but the others do not wait for it.

All checkouts on the machine share the file. What another version has put into it is kept as it is: entries that this
version cannot read are not counted, but they are not dropped either, and unknown fields are preserved.
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

from installer.common.numbers import whole
from lab.cleanup import finish
from lab.errors import BudgetError, LabError
from lab.host.identity import alive, boot_id
from lab.topology import Topology

log = logging.getLogger(__name__)

MEMORY_MIB = 1 << 24  # upper bound of one machine, or of all: 16 TiB
# Memory for the machine itself, and for a lab beside its guests' memory.
RESERVE_MIB = 1024
LAB_OVERHEAD_MIB = 256
# The three daemons of a hub with node0's custom resources and a few hundred objects: 690 MiB measured.
HUB_MIB = 800
GUEST_OVERHEAD_MIB = 384
# A container machine's memory is a limit and not set aside, and there is no QEMU beside it. Installations took a third
# of it at most: one node 1.4 of 4 GiB, compact 2.5 of 12, HA 3.2 of 18 (2026-11-25, ci/bench/run machines). Half is
# counted, with what the machine's daemons take.
CONTAINER_PART = 2
CONTAINER_OVERHEAD_MIB = 96
# vCPUs per core that labs running side by side may have. On two emulating cores, two single-node labs (four vCPUs) are
# installed sooner side by side than in turn; three take 1.1 times as long, and a compact cluster beside one node (six
# vCPUs) was still at its bootstrap when both would have been done in turn.
VCPUS_PER_CPU = 2
# Disks are sparse: installing the lab release writes 1.2 GiB to a master's and 0.9 to a worker's; with room to spare.
GUEST_DISK_GIB = 2
# GiB that a disk with somebody's data takes (lab.machines.disks).
FULL_DISK_GIB = 2
_POLL_SECONDS = 1.0
# A lab that waits checks for its turn each second; on an overloaded machine, some seconds late.
_LOOKS_SECONDS = 30.0
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
        """Describe the resources of which `free` does not have enough."""
        rows = (("memory", self.mib, free.mib), ("vCPUs", self.vcpu, free.vcpu), ("disk", self.disk_gib, free.disk_gib))
        return [name for name, wanted, left in rows if wanted > left]


NotNegative = Annotated[int, msgspec.Meta(ge=0)]


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """An amount that a lab holds or, while `waiting`, asks for.

    Of one that waits: `budget` is what all labs together may use as its process was told, and `looked` when it last
    checked for its turn, in seconds since the machine's start; older versions of node0 write neither.
    """

    lab: str
    mib: NotNegative
    pid: int
    started: int
    vcpu: NotNegative = 0
    disk_gib: NotNegative = 0
    waiting: bool = False
    boot: str = ""
    budget: Amount | None = None
    looked: float | None = None

    @property
    def looks(self) -> bool:
        """Return whether its process still checks for its turn."""
        return self.looked is None or time.monotonic() - self.looked < _LOOKS_SECONDS

    @property
    def lives(self) -> bool:
        """Return whether the process that it belongs to is alive."""
        return self.boot in ("", boot_id()) and alive(self.pid, self.started)

    @property
    def amount(self) -> Amount:
        """Return the amount that it holds or asks for."""
        return Amount(self.mib, self.vcpu, self.disk_gib)


def capacity(labs: Path) -> Amount:
    """Return the amount that all labs together may use.

    The machine's memory less a reserve, its CPUs several times over (a lab with more vCPUs runs alone), and what is
    free on the file system of `labs` or used by them. $NODE0_BUDGET_MIB and $NODE0_BUDGET_VCPU override it.
    """
    memory = (os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20) - RESERVE_MIB
    cpus = len(os.sched_getaffinity(0)) * VCPUS_PER_CPU
    theirs = sum(disk.stat().st_blocks * 512 for disk in labs.glob("*/disks/*"))
    return Amount(
        _from_environment("NODE0_BUDGET_MIB", MEMORY_MIB, max(memory, 0)),
        _from_environment("NODE0_BUDGET_VCPU", 1 << 16, cpus),
        (shutil.disk_usage(labs).free + theirs) >> 30,
    )


def _from_environment(name: str, most: int, otherwise: int) -> int:
    """Return a number from the environment. Raises LabError."""
    text = os.environ.get(name)
    try:
        return whole(text, 1, most) if text else otherwise
    except ValueError as error:
        raise LabError(f"{name}: {error}") from None


def need(guests: int, memory_mib: int, vcpu: int, full_disks: int = 0, *, contained: bool = False) -> Amount:
    """Return a lab's amount: number of guests, memory (MiB) and vCPUs in all, how many of the disks are full of data
    beforehand, and whether they are containers."""
    if contained:
        guest, memory_mib = CONTAINER_OVERHEAD_MIB, memory_mib // CONTAINER_PART
    else:
        guest = GUEST_OVERHEAD_MIB
    memory = LAB_OVERHEAD_MIB + guests * guest + memory_mib
    return Amount(memory, vcpu, guests * GUEST_DISK_GIB + full_disks * FULL_DISK_GIB)


def need_of(topology: Topology) -> Amount:
    """Return the amount that a lab of that topology needs."""
    nodes = topology.nodes
    full = sum(disk.holds == "data" for node in nodes for disk in node.disks)
    vcpus = sum(node.vcpu for node in nodes)
    amount = need(len(nodes), topology.memory_mib, vcpus, full, contained=topology.machine == "container")
    return amount + Amount(HUB_MIB) if topology.hub else amount


def _entry(raw: Any) -> Entry | None:
    """Return an entry of the file; None when this version cannot read it."""
    try:
        return msgspec.convert(raw, Entry)
    except (msgspec.ValidationError, UnicodeEncodeError):
        return None


def _held(entries: list[Entry]) -> Amount:
    return sum((e.amount for e in entries if not e.waiting), Amount())


class Ledger:
    """The ledger in one file."""

    def __init__(self, path: Path, capacity: Amount) -> None:
        self._path = path
        self._foreign = 0
        self.capacity = capacity

    @contextmanager
    def _open(self) -> Iterator[list[Entry]]:
        """Provide the live entries, written back at the end. The lock ends with the descriptor, so it cannot be left
        behind.

        Raises BudgetError when the whole file is of another version.
        """
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            raw_entries = self._read(fd)
            readable = {id(raw): entry for raw in raw_entries if (entry := _entry(raw)) is not None}
            entries = [entry for entry in readable.values() if entry.lives]
            foreign = [raw for raw in raw_entries if id(raw) not in readable]
            self._foreign = len(foreign)
            yield entries
            # Unchanged entries are written back as they were, unknown fields included.
            same = {entry: raw for raw in raw_entries if (entry := readable.get(id(raw))) is not None}
            text = json.dumps([*foreign, *(same.get(e) or msgspec.to_builtins(e) for e in entries)]).encode()
            # Overwrite, then truncate: a process killed in between leaves a whole list, followed by the end of the
            # old one.
            os.pwrite(fd, text, 0)
            os.ftruncate(fd, len(text))
        finally:
            os.close(fd)

    def _read(self, fd: int) -> list[Any]:
        """Return the list in the file; an empty list, with the damaged file put aside, when it cannot be parsed."""
        data = os.pread(fd, os.fstat(fd).st_size, 0)
        if not data.strip():
            return []
        try:
            entries, _ = json.JSONDecoder().raw_decode(data.decode())
        except (ValueError, RecursionError) as error:
            aside = self._path.with_name(f"{self._path.name}.damaged")
            aside.write_bytes(data)
            log.warning("%s is damaged (%s): moved to %s; starting a new one", self._path, error, aside.name)
            return []
        if not isinstance(entries, list):
            raise BudgetError(
                f"{self._path} is another version's ledger: wait for its labs to end, or set what labs may use of the "
                "machine in a ledger of your own, with NODE0_BUDGET=FILE and NODE0_BUDGET_MIB=N",
                wanted_mib=0,
                capacity_mib=self.capacity.mib,
            )
        return entries

    def entries(self) -> list[Entry]:
        """List what labs hold now, and what others wait for, the longest-waiting first."""
        with self._open() as entries:
            return list(entries)

    def foreign(self) -> int:
        """Count the entries that this version cannot read."""
        with self._open():
            return self._foreign

    def free(self, entries: list[Entry]) -> Amount:
        """Return the amount that these entries leave free."""
        left = self.capacity - _held(entries)
        # The host may have become smaller, or fuller, since.
        return Amount(max(left.mib, 0), max(left.vcpu, 0), max(left.disk_gib, 0))

    def try_take(self, lab: str, wanted: Amount, owner: tuple[int, int]) -> list[Entry] | None:
        """Take `wanted` for a lab, or enter it as waiting and return the other entries.

        First come, first served; a later lab may take what is left when that is too little for an earlier one, by that
        one's own budget.
        """
        with self._open() as entries:
            others = [e for e in entries if e.lab != lab]
            queue = [e.lab for e in entries if e.waiting]
            ahead = queue[: queue.index(lab)] if lab in queue else queue
            held = _held(others)
            turns = (e for e in others if e.lab in ahead and e.looks)
            comes_first = any(not e.amount.short((e.budget or self.capacity) - held) for e in turns)
            waits = comes_first or bool(wanted.short(self.capacity - held))
            pid, started = owner
            entry = Entry(
                lab=lab,
                mib=wanted.mib,
                pid=pid,
                started=started,
                vcpu=wanted.vcpu,
                disk_gib=wanted.disk_gib,
                waiting=waits,
                boot=boot_id(),
            )
            if waits:
                entry = msgspec.structs.replace(entry, budget=self.capacity, looked=time.monotonic())
            # A lab that waits keeps its place in the queue.
            entries[:] = [entry if e.lab == lab else e for e in entries] if lab in queue and waits else [*others, entry]
            return others if waits else None

    def take(self, lab: str, wanted: Amount, owner: tuple[int, int], timeout: float) -> None:
        """Take `wanted` for a lab, waiting for at most `timeout` seconds. Raises BudgetError.

        Too few vCPUs make a lab slow, not impossible: one that needs more than the capacity takes them all.
        """
        if wanted.vcpu > self.capacity.vcpu:
            log.warning(
                "lab %s has %d vCPUs, more than the %d that may be busy: it runs alone",
                lab,
                wanted.vcpu,
                self.capacity.vcpu,
            )
            wanted = msgspec.structs.replace(wanted, vcpu=self.capacity.vcpu)
        if lacking := wanted.short(self.capacity):
            way_out = "; free some, or point NODE0_STATE at another file system" if "disk" in lacking else ""
            raise BudgetError(
                f"lab {lab} needs {wanted}; this machine has {self.capacity} for all labs: too little "
                f"{' and '.join(lacking)}{way_out}",
                wanted_mib=wanted.mib,
                capacity_mib=self.capacity.mib,
            )
        deadline = time.monotonic() + timeout
        last_said = -_REPEAT_SECONDS
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
                if now - last_said >= _REPEAT_SECONDS:
                    log.warning("%s", line)
                    last_said = now
                time.sleep(_POLL_SECONDS)
        except BaseException as error:
            finish(("take the lab out of the ledger", lambda: self.give_back(lab)), cause=error)
            raise

    def hand_over(self, lab: str, owner: tuple[int, int]) -> None:
        """Make a lab's entry belong to another process from now on."""
        pid, started = owner
        with self._open() as entries:
            other = {"pid": pid, "started": started, "boot": boot_id()}
            entries[:] = [msgspec.structs.replace(e, **other) if e.lab == lab else e for e in entries]

    def shrink(self, lab: str, amount: Amount) -> None:
        """Give back the memory and vCPUs that a lab holds beyond `amount`; disks stay until the lab ends."""
        with self._open() as entries:
            for index, e in enumerate(entries):
                if e.lab == lab:
                    mib, vcpu = min(e.mib, amount.mib), min(e.vcpu, amount.vcpu)
                    entries[index] = msgspec.structs.replace(e, mib=mib, vcpu=vcpu)

    def give_back(self, lab: str) -> None:
        """Drop a lab's entry."""
        with self._open() as entries:
            entries[:] = [e for e in entries if e.lab != lab]

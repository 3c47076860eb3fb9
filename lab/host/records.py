"""The record of each lab on this machine, in LABS/<id>/, and the removal of dead ones.

LABS/<id>/alive     locked (flock) by the lab's process, since before the directory has its name; the kernel releases
                    the lock when that process ends, however it ends. Its first line is WHAT PID START BOOT: `owner`
                    while the lab is being made, then `supervisor`; the process's start in clock ticks; the boot's id.
                    The file's format is the same in every version.
LABS/<id>/lab.json  what else this version records.

Only labs that are proven dead are removed: their lock can be taken or, for a lab from before there were locks, the
process in the record is gone. A record that this version cannot read proves nothing: another checkout's lab may run.
"""

from __future__ import annotations

import contextlib
import enum
import fcntl
import os
import secrets
import select
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from lab.errors import LabError, UnknownLabError, WaitTimeout
from lab.host.identity import alive, boot_id, this_process
from lab.host.paths import labs_dir
from lab.topology import Topology

_FILE = "lab.json"
_ALIVE = "alive"
# Directories being made, by a process that holds the lock of all labs, or being removed.
_NEW, _DEAD = ".new-", ".dead-"


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One lab. Processes are (pid, start time in clock ticks); `supervisor` is None while the lab is being made;
    `init` is the pid, as the machine sees it, of its namespaces' first process; `machines` maps names to UUIDs,
    `mirrors` the release's repositories to their paths on the lab's registry, `components` its tags to images.
    `cluster` is `installing` from when machines have booted what `deploy` made, then `installed`."""

    id: str
    topology: Topology
    owner: tuple[int, int]
    created: float
    artifacts: str
    supervisor: tuple[int, int] | None = None
    init: int = 0
    kept: bool = False
    machines: dict[str, str] = {}
    mirrors: tuple[tuple[str, str], ...] = ()
    components: dict[str, str] = {}
    cluster: Literal["", "installing", "installed"] = ""

    @property
    def root(self) -> Path:
        """The lab's directory."""
        return labs_dir() / self.id

    @property
    def runs(self) -> bool:
        """Return whether its supervisor is alive, or its owner is still making it."""
        return look_at(self.root).state is State.RUNS

    def save(self, folder: Path | None = None) -> None:
        """Write it into its directory, atomically."""
        place = folder or self.root
        temporary = place / f"{_FILE}.new"
        temporary.write_bytes(msgspec.json.encode(self))
        temporary.replace(place / _FILE)


class State(enum.Enum):
    """A lab's state as far as it can be proven."""

    RUNS = "runs"
    ENDED = "ended"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class LabDirectory:
    """A lab's directory: its proven state, and its record or the reason why this version cannot read it."""

    root: Path
    state: State
    record: Record | None
    problem: str

    @property
    def id(self) -> str:
        """The lab's name."""
        return self.root.name

    @property
    def line(self) -> str:
        """A message about a lab that this version does not understand; empty for one that it does."""
        if self.record is not None:
            return ""
        what = {
            State.RUNS: "runs",
            State.ENDED: "has ended",
            State.UNKNOWN: f"is kept, since nothing proves it dead (to remove it: rm -r {self.root})",
        }[self.state]
        return f"lab {self.id} {what}; {self.problem}"


@contextmanager
def _locked() -> Iterator[None]:
    fd = os.open(labs_dir() / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def new_id(topology: Topology) -> str:
    """Return a name for a new lab, which no other one here has."""
    while (labs_dir() / (name := f"{topology.name[:16]}-{secrets.token_hex(2)}")).exists():
        continue
    return name


def create(record: Record) -> int:
    """Make the directory of a new lab, with its record in it. Returns the locked descriptor of `alive`: the lab has
    ended when no process has it open any more."""
    with _locked():
        temporary = labs_dir() / f"{_NEW}{record.id}"
        temporary.mkdir(mode=0o700)
        fd = os.open(temporary / _ALIVE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            claim(fd, "owner")
            record.save(temporary)
            # Atomic: the directory appears with its lock and its record.
            temporary.rename(record.root)
        except BaseException:
            os.close(fd)
            shutil.rmtree(temporary, ignore_errors=True)
            raise
    return fd


def claim(fd: int, what: str) -> None:
    """Write this process into a lab's `alive` file; `what` is `owner` or `supervisor`."""
    pid, started = this_process()
    line = f"{what} {pid} {started} {boot_id()}\n".encode()
    os.pwrite(fd, line, 0)
    os.ftruncate(fd, len(line))


def look_at(root: Path) -> LabDirectory:
    """Read a lab's directory."""
    record, problem = None, ""
    try:
        record = msgspec.json.decode((root / _FILE).read_bytes(), type=Record)
    except OSError as error:
        problem = f"its record cannot be read: {error.strerror}"
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        problem = f"its record is not one of this version: {' '.join(str(error).split())}"
    try:
        return LabDirectory(root, _state_of(root, record), record, problem)
    except OSError as error:
        return LabDirectory(root, State.UNKNOWN, record, problem or f"{_ALIVE} cannot be read: {error.strerror}")


def _state_of(root: Path, record: Record | None) -> State:
    try:
        fd = os.open(root / _ALIVE, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        # Made by a version without locks; its record may prove the state.
        if record is None:
            return State.UNKNOWN
        return State.RUNS if alive(*(record.supervisor or record.owner)) else State.ENDED
    try:
        # Shared, so that a reader is not taken for a running lab.
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return State.RUNS
    finally:
        os.close(fd)
    return State.ENDED


def look() -> list[LabDirectory]:
    """Every lab's directory, the oldest record first, those without one at the end."""
    folders = [path for path in labs_dir().iterdir() if path.is_dir() and not path.name.startswith(".")]
    lab_dirs = [look_at(path) for path in sorted(folders)]
    return sorted(lab_dirs, key=lambda f: f.record.created if f.record else float("inf"))


def read(lab_id: str) -> Record:
    """Return the record of a lab. Raises UnknownLabError."""
    lab_dir = look_at(labs_dir() / lab_id)
    if lab_dir.record is not None:
        return lab_dir.record
    if lab_dir.root.is_dir():
        raise UnknownLabError(lab_dir.line)
    names = ", ".join(r.id for r in all_labs()) or "none"
    raise UnknownLabError(f"no lab {lab_id!r} here; there are: {names}")


def all_labs() -> list[Record]:
    """Every lab with a readable record, the oldest first."""
    return [lab_dir.record for lab_dir in look() if lab_dir.record is not None]


def reap(besides: Callable[[str], str] = lambda lab_id: "") -> list[str]:
    """Remove what dead labs left behind; returns one line for each.

    ``besides`` is called with each one's name, before its directory goes, for what it left elsewhere; a text that it
    returns is why it could not, and the directory stays, so that the next one tries again.
    """
    lines = []
    with _locked():
        # Whoever makes one of these holds this lock, so nobody is making one now; removing one twice does no harm.
        for half in (path for path in labs_dir().iterdir() if path.name.startswith((_NEW, _DEAD))):
            shutil.rmtree(half, ignore_errors=True)
        for lab_dir in look():
            if lab_dir.state is not State.ENDED:
                continue
            age = (time.time() - lab_dir.root.stat().st_mtime) / 60
            problem = besides(lab_dir.id)
            if problem:
                lines.append(f"lab {lab_dir.id} has ended and is kept: {problem}")
                continue
            remove(lab_dir.root)
            lines.append(f"removed the remains of lab {lab_dir.id}, which ended {age:.0f} min ago or more")
    return lines


def remove(root: Path) -> None:
    """Remove the directory of a lab that has ended."""
    doomed = root.with_name(f"{_DEAD}{root.name}")
    # Renamed first: a half-removed lab would prove nothing.
    with contextlib.suppress(FileNotFoundError):
        root.rename(doomed)
    shutil.rmtree(doomed, ignore_errors=True)


def unclear() -> list[str]:
    """Return a line for each lab that this version does not understand; it may be another checkout's, and is left
    alone."""
    return [lab_dir.line for lab_dir in look() if lab_dir.line]


def supervisor_of(root: Path) -> tuple[int, int] | None:
    """Return a running lab's supervisor (pid, start), whatever version made it; None while it is being made or has
    ended."""
    lab_dir = look_at(root)
    if lab_dir.state is not State.RUNS:
        return None
    with contextlib.suppress(OSError, ValueError):
        what, pid, started, boot, *_ = (root / _ALIVE).read_text().split()
        return (int(pid), int(started)) if what == "supervisor" and boot == boot_id() else None
    return lab_dir.record.supervisor if lab_dir.record else None


def end(lab_id: str, timeout: float) -> None:
    """End a lab that runs, of whatever version, and wait until it is gone. Raises UnknownLabError, WaitTimeout after
    `timeout` seconds, and LabError while the lab is being made."""
    root = labs_dir() / lab_id
    if not root.is_dir():
        read(lab_id)
    supervisor = supervisor_of(root)
    if supervisor is None:
        if look_at(root).state is State.RUNS:
            raise LabError(f"lab {lab_id} is still being made; end the process that makes it")
        return
    try:
        fd = os.pidfd_open(supervisor[0])
    except ProcessLookupError:
        return
    try:
        if not alive(*supervisor):
            return
        signal.pidfd_send_signal(fd, signal.SIGTERM)
        if not select.select([fd], [], [], timeout)[0]:
            raise WaitTimeout(f"end of lab {lab_id}", timeout, f"its supervisor, pid {supervisor[0]}, still runs")
    finally:
        os.close(fd)

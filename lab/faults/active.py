"""The faults that somebody has begun by hand and not ended, in a file of the lab's: LAB/faults.json."""

from __future__ import annotations

import fcntl
import os
import posixpath
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from drivers.errors import DriverError
from lab.errors import LabError
from lab.faults import (
    BlackHole,
    ClockJump,
    Corrupted,
    DiskErrors,
    DiskFull,
    DiskSlow,
    Duplicated,
    Fault,
    Flapping,
    GuestHung,
    GuestStarved,
    Kill,
    Latency,
    LinkDown,
    Loss,
    MemoryTaken,
    Partition,
    PowerCut,
    Reordered,
    Reset,
    RogueDhcp,
    Swapped,
    Throttle,
    WrongVlan,
)
from lab.faults.machines import ENDS_WITH_POWER, LOGS_IN, LOGS_IN_AGAIN, check_login
from lab.faults.network import is_off, nics
from lab.machines import failing
from lab.running import RunningLab
from lab.waiting import wait_until

# Faults that are over as soon as they have begun: there is nothing to end, and they may happen again.
AT_ONCE = (ClockJump, Kill, Reset)
# So long another command may take to begin or end a fault: a login and a wait for a process, a minute each.
_LOCK_SECONDS, _LOCK_POLL_SECONDS = 150.0, 0.1


class Begun(msgspec.Struct, frozen=True):
    """A fault that lasts: its number in this lab, and since when (UTC)."""

    number: int
    since: str
    fault: Fault


class _File(msgspec.Struct):
    """The file: the next number, and what lasts."""

    next: int = 1
    begun: list[Begun] = []


def _path(root: Path) -> Path:
    return root / "faults.json"


def _read(root: Path) -> _File:
    try:
        return msgspec.json.decode(_path(root).read_bytes(), type=_File)
    except FileNotFoundError:
        return _File()
    except msgspec.MsgspecError as error:
        raise LabError(f"{_path(root)}: {error}; is the lab another version's?") from error


def _write(root: Path, file: _File) -> None:
    partial = _path(root).with_suffix(".new")
    partial.write_bytes(msgspec.json.encode(file))
    partial.replace(_path(root))


@contextmanager
def _alone(root: Path) -> Iterator[None]:
    """Keep other commands from beginning and ending faults in this lab. Raises LabError when one takes too long."""
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)

    def locked() -> bool:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True

    try:
        wait_until(locked, _LOCK_SECONDS, "another `node0-lab fault` in this lab to end", poll=_LOCK_POLL_SECONDS)
        yield
    finally:
        os.close(folder)


def begin(lab: RunningLab, fault: Fault) -> Begun | None:
    """Begin it, and remember it; None for one that is over at once. Raises LabError, where it lasts already
    or its host takes no login, too."""
    root = lab.layout.root
    if isinstance(fault, AT_ONCE):
        _refuse_beside(lab, lasting(root), fault)
        begin_now(lab, fault)
        return None
    with _alone(root):
        file = _read(root)
        _refuse_beside(lab, file.begun, fault)
        begun = Begun(file.next, datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), fault)
        # First: what is interrupted while it begins may have begun, and can be ended.
        _write(root, _File(file.next + 1, [*file.begun, begun]))
        try:
            begin_now(lab, fault)
        except Exception:
            _write(root, file)
            raise
    return begun


def _refuse_beside(lab: RunningLab, lasting: Iterable[Begun], fault: Fault) -> None:
    """Raise LabError where one that lasts is the same, or has changed what this one would."""
    for begun in lasting:
        ends = f"`node0-lab fault end {begun.number}` ends it"
        if begun.fault == fault:
            raise LabError(f"that lasts since {begun.since}: {ends}")
        if _changed(lab, begun.fault) & _changed(lab, fault):
            raise LabError(f"fault {begun.number} has changed the same since {begun.since}: {ends}")


def _changed(lab: RunningLab, fault: Fault) -> set[tuple[str, str]]:
    """Return the changes that have no measure: the end of one such fault would be the end of the other's, too."""
    match fault:
        case PowerCut() | Reset():
            return {("power", fault.node)}
        case LinkDown():
            return {("cable", f"{fault.node} {name}") for name in nics(lab, fault.node, fault.nic)}
        case Partition():
            return {("cable", f"{node} {name}") for node in fault.nodes for name in nics(lab, node)}
        case (
            BlackHole() | Corrupted() | Duplicated() | Flapping() | Latency() | Loss() | Reordered() | Throttle()
        ):  # fmt: skip
            names = list(nics(lab, fault.node, fault.nic)) if fault.node else [""]
            return {(f"{type(fault).__name__} {fault.way}", f"{fault.node} {name}") for name in names}
        case WrongVlan() | Swapped():
            return {("port", fault.node)}
        case RogueDhcp():
            return {("rogue-dhcp", "")}
        case GuestHung() | GuestStarved():
            return {(type(fault).__name__, fault.node)}
        case DiskFull():
            return {("room", f"{fault.node} {posixpath.normpath(fault.path)}")}
        case MemoryTaken():
            return {("memory", fault.node)}
        case DiskErrors() | DiskSlow():
            node = lab.nodes[fault.node].name
            return {(type(fault).__name__, failing.place(lab.layout, node, fault.disk).device)}
    return set()


def begin_now(lab: RunningLab, fault: Fault) -> None:
    """Begin it on a lab, where its host takes logins if it needs them. Raises LabError otherwise."""
    if isinstance(fault, LOGS_IN):
        check_login(lab, fault.node)
    fault.begin(lab)


def _end(lab: RunningLab, fault: Fault) -> None:
    if isinstance(fault, (*ENDS_WITH_POWER, GuestHung, GuestStarved)) and is_off(lab, fault.node):
        return
    if isinstance(fault, LOGS_IN_AGAIN):
        check_login(lab, fault.node)
    fault.end(lab)


def lasting(root: Path) -> list[Begun]:
    """List the faults that last in the lab whose files are there, the oldest first. Raises LabError."""
    return _read(root).begun


def end(lab: RunningLab, number: int | None = None) -> Iterator[Begun]:
    """End the fault with that number, without one all, the latest first; yields each that was ended. One that cannot be
    ended keeps none of the others from it. Raises LabError in the end, and where its host takes no login at once."""
    root, failed = lab.layout.root, []
    with _alone(root):
        file = _read(root)
        chosen = [begun for begun in reversed(file.begun) if number in (None, begun.number)]
        if number is not None and not chosen:
            raise LabError(f"no fault {number} lasts in this lab; `node0-lab fault ls` lists them")
        for begun in chosen:
            try:
                _end(lab, begun.fault)
            except (LabError, DriverError, OSError) as error:
                failed.append(f"fault {begun.number} lasts: {error}")
                continue
            file.begun.remove(begun)
            _write(root, file)
            yield begun
    if failed:
        raise LabError("; ".join(failed))

"""The faults that somebody has begun by hand and not ended, in a file of the lab's: LAB/faults.json."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import msgspec

from lab.errors import LabError
from lab.faults import Fault
from lab.running import RunningLab


class Begun(msgspec.Struct, frozen=True):
    """A fault that lasts: its number in this lab, and since when (UTC)."""

    number: int
    since: str
    fault: Fault


class _File(msgspec.Struct):
    """The file: the next number, and what lasts."""

    next: int = 1
    begun: list[Begun] = []


def _path(lab: RunningLab) -> Path:
    return lab.layout.root / "faults.json"


def _read(lab: RunningLab) -> _File:
    try:
        return msgspec.json.decode(_path(lab).read_bytes(), type=_File)
    except FileNotFoundError:
        return _File()


def _write(lab: RunningLab, file: _File) -> None:
    fresh = _path(lab).with_suffix(".new")
    fresh.write_bytes(msgspec.json.encode(file))
    fresh.replace(_path(lab))


def begin(lab: RunningLab, fault: Fault) -> Begun:
    """Begin it, and remember it. Raises LabError."""
    file = _read(lab)
    fault.begin(lab)
    begun = Begun(file.next, datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), fault)
    _write(lab, _File(file.next + 1, [*file.begun, begun]))
    return begun


def lasting(lab: RunningLab) -> list[Begun]:
    """What lasts, the oldest first."""
    return _read(lab).begun


def end(lab: RunningLab, number: int | None = None) -> list[Begun]:
    """End the fault with that number, without one all, the latest first; those that were ended. Raises LabError."""
    file = _read(lab)
    chosen = [one for one in reversed(file.begun) if number in (None, one.number)]
    if number is not None and not chosen:
        raise LabError(f"no fault {number} lasts in this lab; `node0-lab fault ls` lists them")
    for one in chosen:
        one.fault.end(lab)
        file.begun.remove(one)
        _write(lab, file)
    return chosen

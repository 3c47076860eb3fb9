"""What is known of each lab on this machine, in LABS/<id>/lab.json, and the reaping of those that are dead."""

from __future__ import annotations

import fcntl
import logging
import os
import secrets
import select
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from lab.errors import UnknownLabError, WaitTimeout
from lab.paths import labs_dir
from lab.processes import alive
from lab.topology import Topology

log = logging.getLogger(__name__)

_FILE = "lab.json"


class Record(msgspec.Struct, frozen=True):
    """One lab. Processes are (pid, start time in clock ticks); `supervisor` is None while the lab is being made;
    `init` is the pid, as the machine sees it, of its namespaces' first process; `machines` maps names to UUIDs."""

    id: str
    topology: Topology
    owner: tuple[int, int]
    created: float
    artifacts: str
    supervisor: tuple[int, int] | None = None
    init: int = 0
    kept: bool = False
    machines: dict[str, str] = {}

    @property
    def root(self) -> Path:
        """The lab's directory."""
        return labs_dir() / self.id

    @property
    def runs(self) -> bool:
        """Whether its supervisor lives, or its owner is still making it."""
        return alive(*(self.supervisor or self.owner))

    def save(self) -> None:
        """Write it, whole or not at all."""
        fresh = self.root / f"{_FILE}.new"
        fresh.write_bytes(msgspec.json.encode(self))
        fresh.replace(self.root / _FILE)


@contextmanager
def _locked() -> Iterator[None]:
    fd = os.open(labs_dir() / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def new_id(topology: Topology) -> str:
    """A name for a new lab."""
    return f"{topology.name[:16]}-{secrets.token_hex(2)}"


def create(record: Record) -> None:
    """Make the directory of a new lab, with its record in it."""
    with _locked():
        record.root.mkdir(mode=0o700)
        record.save()


def read(lab_id: str) -> Record:
    """The record of a lab. Raises UnknownLabError."""
    try:
        return msgspec.json.decode((labs_dir() / lab_id / _FILE).read_bytes(), type=Record)
    except (OSError, msgspec.DecodeError) as error:
        known = ", ".join(r.id for r in all_labs()) or "none"
        raise UnknownLabError(f"no lab {lab_id!r} here; there are: {known}") from error


def all_labs() -> list[Record]:
    """Every lab with a readable record, the oldest first."""
    found = []
    for path in labs_dir().glob(f"*/{_FILE}"):
        try:
            found.append(msgspec.json.decode(path.read_bytes(), type=Record))
        except (OSError, msgspec.DecodeError):
            continue
    return sorted(found, key=lambda r: r.created)


def reap() -> list[str]:
    """Remove what dead labs left behind; returns one line for each."""
    lines = []
    with _locked():
        living = {record.id for record in all_labs() if record.runs}
        for folder in labs_dir().iterdir():
            if folder.is_dir() and folder.name not in living:
                age = (time.time() - folder.stat().st_mtime) / 60
                shutil.rmtree(folder, ignore_errors=True)
                lines.append(f"removed the remains of lab {folder.name}, which ended {age:.0f} min ago or more")
    return lines


def end(record: Record, timeout: float) -> None:
    """End a lab that runs and wait until it is gone. Raises WaitTimeout after `timeout` seconds."""
    if record.supervisor is None or not alive(*record.supervisor):
        return
    pid = record.supervisor[0]
    fd = os.pidfd_open(pid)
    try:
        if not alive(*record.supervisor):
            return
        signal.pidfd_send_signal(fd, signal.SIGTERM)
        if not select.select([fd], [], [], timeout)[0]:
            raise WaitTimeout(f"end of lab {record.id}", timeout, f"its supervisor, pid {pid}, still runs")
    finally:
        os.close(fd)

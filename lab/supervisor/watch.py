"""Notice that a lab itself fails while something is tested in it: one of its daemons ends, or the whole lab.

The lab's first process learns by waitpid that a daemon has ended unexpectedly, and writes that to STATE/ended.jsonl at
once; its own end is written there by the supervisor. Users of the lab read that file and hold the supervisor's pidfd:
what they notice is logged at once, and makes void whatever is being tested.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import threading
import time
from pathlib import Path

import msgspec

from lab.errors import DaemonEndedError, LabError, LabGoneError
from lab.host import records
from lab.supervisor.plan import Ended

log = logging.getLogger(__name__)

FILE = "ended.jsonl"
# In place of a service's name when the whole lab has ended.
ALL = "the lab"
_LOOK_SECONDS = 0.5
TAIL_LINES = 15
# A daemon may write gigabytes without a new line, and a lab's first process has to go on.
_TAIL_BYTES = 16 << 10


def note(state: Path, ended: Ended) -> None:
    """Note that a part of a lab has ended."""
    with (state / FILE).open("ab", buffering=0) as file:
        file.write(msgspec.json.encode(ended) + b"\n")


def noted(state: Path) -> list[Ended]:
    """Parts of a lab that have ended unexpectedly, the earliest first."""
    try:
        lines = (state / FILE).read_bytes().splitlines(keepends=True)
    except OSError:
        return []
    # A line without a newline is still being written.
    return [_ended(line) for line in lines if line.endswith(b"\n")]


def _ended(line: bytes) -> Ended:
    try:
        return msgspec.json.decode(line, type=Ended)
    except (ValueError, RecursionError):
        # Written by another version: something has ended all the same.
        return Ended("a daemon", 0, "an unknown time", line.decode(errors="replace").strip()[:200])


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"  # a real-time signal; few of these have names


def tail_of(path: Path) -> str:
    """Return the last lines of a daemon's log, or as much of them as 16 KiB hold."""
    try:
        with path.open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - _TAIL_BYTES))
            end = log.read(_TAIL_BYTES)
    except FileNotFoundError:
        return ""
    return "\n".join(end.decode(errors="replace").splitlines()[-TAIL_LINES:])


def described(ended: Ended) -> str:
    """One line: what has ended, how and when."""
    if ended.code < 0:
        how = f"was killed by {_signal(-ended.code)}"
    else:
        how = f"ended with exit code {ended.code}" if ended.code else "ended by itself"
    return f"{ended.service} {how} at {ended.time}"


def running(lab_id: str) -> records.Record:
    """Return the record of a lab that runs. Raises UnknownLabError, LabGoneError, and LabError while it comes up."""
    record = records.read(lab_id)
    if record.runs and not record.init:
        raise LabError(f"lab {lab_id} is still coming up; `node0-lab ls` lists its machines once it is there")
    if not record.runs or record.supervisor is None:
        reasons = "; ".join(described(ended) for ended in noted(record.root))
        raise LabGoneError(
            f"lab {lab_id} has ended{f': {reasons}' if reasons else ''}; `node0-lab gc` removes its remains"
        )
    return record


def _now() -> str:
    return time.strftime("%H:%M:%S", time.gmtime())


class Watch:
    """Watches a lab that this process uses, and logs at once what fails (logger `lab.supervisor.watch`)."""

    def __init__(self, lab_id: str, state: Path, supervisor: int) -> None:
        """`supervisor` is the pid of a live process. Raises ProcessLookupError when there is none."""
        self._lab_id = lab_id
        self._state = state
        self._logged = 0
        self._seen: list[Ended] = []
        self._supervisor: int = os.pidfd_open(supervisor)
        self._lock = threading.Lock()
        self._stop_read, self._stop_write = os.pipe()
        self._thread = threading.Thread(target=self._run, name=f"watch-{lab_id}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:
            ready = select.select([self._stop_read, self._supervisor], [], [], _LOOK_SECONDS)[0]
            if self._stop_read in ready:
                return
            self.ended()
            if self._supervisor in ready:
                return

    def ended(self) -> list[Ended]:
        """Parts of the lab, or the whole lab, that have ended unexpectedly; new ones are logged."""
        with self._lock:
            entries = noted(self._state)
            # An ended lab's directory is removed: what was in the file before still holds.
            self._seen = entries if len(entries) >= len(self._seen) else self._seen
            whole_lab = [e for e in self._seen if e.service == ALL]
            if not whole_lab and self._supervisor >= 0 and select.select([self._supervisor], [], [], 0)[0]:
                self._seen = [*self._seen, Ended(ALL, 0, _now(), "its supervisor is no longer there")]
            for ended in self._seen[self._logged :]:
                text = "\n".join(f"    {line}" for line in ended.tail.splitlines())
                log.error(
                    "lab %s: %s; whatever is tested in it is void. Its last lines:\n%s",
                    self._lab_id,
                    described(ended),
                    text or "    (it logged nothing)",
                )
            self._logged = len(self._seen)
            return list(self._seen)

    def check(self) -> None:
        """Raise DaemonEndedError when something has ended."""
        if ended := self.ended():
            raise DaemonEndedError(self._lab_id, [described(e) for e in ended], ended[0].tail)

    def close(self) -> None:
        """Stop watching: what ends from now on ends on request."""
        if self._supervisor < 0:
            return
        os.write(self._stop_write, b"x")
        self._thread.join()
        with self._lock:
            for fd in (self._stop_read, self._stop_write, self._supervisor):
                os.close(fd)
            self._supervisor = -1

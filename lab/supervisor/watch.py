"""Noticing that a lab itself fails while something is tested in it: a daemon of it ends, or all of it.

The lab's first process sees by waitpid that a daemon has ended which nobody stopped, and writes it into
STATE/ended.jsonl at once; that it ends itself, its supervisor writes there. Who uses the lab reads that file and holds
the supervisor's pidfd: what has been noticed is said at once, and makes void whatever is tested.
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

from lab.errors import DaemonEndedError
from lab.supervisor.plan import Ended

log = logging.getLogger(__name__)

FILE = "ended.jsonl"
# Stands for a service where all of the lab has ended.
ALL = "the lab"
_LOOK_SECONDS = 0.5
TAIL_LINES = 15


def note(state: Path, ended: Ended) -> None:
    """Write down that something of a lab has ended."""
    with (state / FILE).open("ab", buffering=0) as file:
        file.write(msgspec.json.encode(ended) + b"\n")


def noted(state: Path) -> list[Ended]:
    """What of a lab has ended without being stopped, the first first."""
    try:
        lines = (state / FILE).read_bytes().splitlines(keepends=True)
    except OSError:
        return []
    # A line without its end is still being written.
    return [_ended(line) for line in lines if line.endswith(b"\n")]


def _ended(line: bytes) -> Ended:
    try:
        return msgspec.json.decode(line, type=Ended)
    except (ValueError, RecursionError):
        # Another version's: something has ended all the same.
        return Ended("a daemon", 0, "a time unknown", line.decode(errors="replace").strip()[:200])


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"  # one of the realtime signals, of which few have names


def tail_of(path: Path) -> str:
    """The last lines of a daemon's log."""
    return "\n".join(path.read_text(errors="replace").splitlines()[-TAIL_LINES:]) if path.exists() else ""


def described(ended: Ended) -> str:
    """One line: what has ended, how and when."""
    if ended.code < 0:
        how = f"was killed by {_signal(-ended.code)}"
    else:
        how = f"ended with exit code {ended.code}" if ended.code else "ended by itself"
    return f"{ended.service} {how} at {ended.time}"


def _now() -> str:
    return time.strftime("%H:%M:%S", time.gmtime())


class Watch:
    """Looks after a lab that this process uses: says what fails, at once, by the logger `lab.supervisor.watch`."""

    def __init__(self, lab_id: str, state: Path, supervisor: int) -> None:
        """`supervisor` is the pid of a process that lives. Raises ProcessLookupError when it does not."""
        self._lab_id = lab_id
        self._state = state
        self._told = 0
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
        """What of the lab has ended, all of it included, without being asked to; news is logged."""
        with self._lock:
            found = noted(self._state)
            # The directory goes with a lab that was ended: what was in the file before still holds.
            self._seen = found if len(found) >= len(self._seen) else self._seen
            gone = [e for e in self._seen if e.service == ALL]
            if not gone and self._supervisor >= 0 and select.select([self._supervisor], [], [], 0)[0]:
                self._seen = [*self._seen, Ended(ALL, 0, _now(), "its supervisor is no longer there")]
            for ended in self._seen[self._told :]:
                text = "\n".join(f"    {line}" for line in ended.tail.splitlines())
                log.error(
                    "lab %s: %s; whatever is tested in it is void. Its last lines:\n%s",
                    self._lab_id,
                    described(ended),
                    text or "    (it has logged nothing)",
                )
            self._told = len(self._seen)
            return list(self._seen)

    def check(self) -> None:
        """Raises DaemonEndedError when something has ended."""
        if ended := self.ended():
            raise DaemonEndedError(self._lab_id, [described(e) for e in ended], ended[0].tail)

    def close(self) -> None:
        """Look no more: what ends from now on was ended."""
        if self._supervisor < 0:
            return
        os.write(self._stop_write, b"x")
        self._thread.join()
        with self._lock:
            for fd in (self._stop_read, self._stop_write, self._supervisor):
                os.close(fd)
            self._supervisor = -1

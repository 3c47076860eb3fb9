"""The machine's effort while something runs: its processors and memory, looked at twice a second."""

from __future__ import annotations

import re
import threading
import time
from bisect import bisect_left
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from ci.bench.measure import busy

_EVERY_SECONDS = 0.5
_AVAILABLE = re.compile(r"^MemAvailable:\s+(\d+) kB$", re.MULTILINE)


@dataclass(frozen=True)
class Sample:
    """`at` by the monotonic clock, `busy` seconds of all processors up to then, memory that programs could have."""

    at: float
    busy: float
    available_mib: int


def sample(at: float, stat: str, meminfo: str) -> Sample:
    """From the texts of /proc/stat and /proc/meminfo."""
    available = _AVAILABLE.search(meminfo)
    if available is None:
        raise ValueError("no MemAvailable in /proc/meminfo")
    return Sample(at, busy(stat), int(available[1]) >> 10)


class Sampler(AbstractContextManager["Sampler"]):
    """Samples, for as long as it is entered."""

    def __init__(self) -> None:
        self.samples: list[Sample] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def look(self) -> None:
        """Take one sample now."""
        stat, meminfo = Path("/proc/stat").read_text(), Path("/proc/meminfo").read_text()
        self.samples.append(sample(time.monotonic(), stat, meminfo))

    def _run(self) -> None:
        while not self._stop.wait(_EVERY_SECONDS):
            self.look()

    def __enter__(self) -> Sampler:
        self.look()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()
        self.look()

    def work(self, begin: float, end: float) -> float:
        """Seconds that all processors worked between two times of the monotonic clock."""
        return self._busy(end) - self._busy(begin)

    def _busy(self, at: float) -> float:
        place = bisect_left(self.samples, at, key=lambda sample: sample.at)
        if place == 0:
            return self.samples[0].busy
        if place == len(self.samples):
            return self.samples[-1].busy
        before, after = self.samples[place - 1], self.samples[place]
        part = (at - before.at) / (after.at - before.at)
        return before.busy + part * (after.busy - before.busy)

    @property
    def peak_mib(self) -> int:
        """The most memory that was in use beyond what was at the start, in MiB."""
        return max(0, self.samples[0].available_mib - min(sample.available_mib for sample in self.samples))

"""Small tools of the benchmarks: timing a step, shares, a table."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

TICK = os.sysconf("SC_CLK_TCK")


@dataclass
class Clock:
    """The time of a `with timed() as clock` block, and the work of all processors meanwhile: both
    in seconds."""

    seconds: float = 0.0
    work: float = 0.0


def busy(stat: str) -> float:
    """Seconds that all processors have worked since the machine's start, by the text of /proc/stat (proc(5))."""
    user, nice, system, _idle, _iowait, irq, softirq = (int(word) for word in stat.split("\n", 1)[0].split()[1:8])
    return (user + nice + system + irq + softirq) / TICK


def busy_now() -> float:
    """As `busy`, of this machine."""
    return busy(Path("/proc/stat").read_text())


@contextmanager
def timed() -> Iterator[Clock]:
    """Time a block."""
    clock, begin, worked = Clock(), time.monotonic(), busy_now()
    try:
        yield clock
    finally:
        clock.seconds, clock.work = time.monotonic() - begin, busy_now() - worked


def clock_of(action: Callable[[], object]) -> Clock:
    """Time an action, and the processors' work meanwhile."""
    with timed() as clock:
        action()
    return clock


def seconds_of(action: Callable[[], object]) -> float:
    """Time an action."""
    return clock_of(action).seconds


def share(part: int, whole: int) -> str:
    """As in `7 of 8 (87.5 %)`."""
    return f"{part:5} of {whole:5} ({100 * part / whole:5.1f} %)" if whole else "none to compare"


def table(title: str, rows: Sequence[tuple[str, str]]) -> None:
    """Print rows of name and figure under a title."""
    width = max((len(name) for name, _ in rows), default=0)
    print(f"\n{title}")
    for name, figure in rows:
        print(f"  {name:<{width}}  {figure}", flush=True)

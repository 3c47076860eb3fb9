"""Small tools of the benchmarks: timing a step, medians, a table."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass
class Clock:
    """How long a `with timed() as clock` block took, in seconds."""

    seconds: float = 0.0


@contextmanager
def timed() -> Iterator[Clock]:
    """Time a block by the wall clock."""
    clock, begin = Clock(), time.monotonic()
    try:
        yield clock
    finally:
        clock.seconds = time.monotonic() - begin


def seconds_of(action: Callable[[], object]) -> float:
    """How long an action takes."""
    with timed() as clock:
        action()
    return clock.seconds


def pairs(a: Callable[[], object], b: Callable[[], object], rounds: int) -> tuple[float, float, float]:
    """Run A and B in turn: median seconds of A, of B, and the median of the ratios A/B pair by pair."""
    taken = [(seconds_of(a), seconds_of(b)) for _ in range(rounds)]
    ratios = [x / y for x, y in taken]
    return statistics.median(x for x, _ in taken), statistics.median(y for _, y in taken), statistics.median(ratios)


def table(title: str, rows: Sequence[tuple[str, str]]) -> None:
    """Print rows of name and figure under a title."""
    width = max((len(name) for name, _ in rows), default=0)
    print(f"\n{title}")
    for name, figure in rows:
        print(f"  {name:<{width}}  {figure}", flush=True)

"""The event loop's turns, during which it answers nobody: measured, and kept short.

They are measured where the loop waits, in its selector: exact, without a task that would wake up for it.

Garbage would be collected in one long turn: with 2,000 hosts and their connections the collector would go through half
a million objects, for a tenth of a second, to find a few that a closed connection has left. So survivors are set aside,
and looked at again only now and then. New objects are looked at early: by itself the collector waits until there are a
quarter more objects than last time.
"""

from __future__ import annotations

import asyncio
import gc
import math
import selectors
import time
from collections.abc import Mapping

# Turns are counted by size: STEPS sizes for each doubling, the first one for all below a microsecond.
STEPS = 4
_SIZES = 128
# How many events a turn handles. Each may cost some milliseconds: a report that is judged at once, and a write.
AT_A_TIME = 8

# A full look at what was set aside each so often (s): until then a closed connection among it costs about 3 KiB.
THOROUGH = 6 * 3600.0
# No full look unless objects set aside have grown by this factor. (Counting them means going through them all.)
GROWTH = 1.25
# How often (s) is checked whether many objects are new, and how many collections of the middle generation mean that:
# each is of 7,000 objects more, by the collector's own thresholds.
PERIOD = 0.25
MIDDLE = 2


class Sizes:
    """Lengths of turns (s): the ``longest``, and quantiles."""

    def __init__(self) -> None:
        self._counts = [0] * _SIZES
        self.turns = 0
        self.longest = 0.0

    def note(self, seconds: float) -> None:
        """One turn."""
        self.turns += 1
        size = int(math.log2(seconds * 1e6) * STEPS) if seconds > 1e-6 else 0
        self._counts[min(size, _SIZES - 1)] += 1
        self.longest = max(self.longest, seconds)

    def share(self, part: float) -> float:
        """Return the quantile ``part`` (0 to 1): that part of all turns took so long (s) or less; at most a fifth too
        much."""
        left = math.ceil(self.turns * part)
        for size, count in enumerate(self._counts):
            left -= count
            if left <= 0:
                return float(min(2 ** ((size + 1) / STEPS) / 1e6, self.longest))
        return self.longest


class Lag:
    """The loop's turns: how long they took, and what its own thread computed of that.

    The rest is others': a busy machine, a slow disk, threads that hold the interpreter.
    """

    def __init__(self) -> None:
        self.wall, self.cpu = Sizes(), Sizes()


class Selector(selectors.DefaultSelector):
    """A selector that notes how long it was until it was asked again, and hands out a few events at a time.

    When many connections are ready at once, whatever else waits for the loop (timers, streams, the page) has its turn
    between them, not after all of them.
    """

    def __init__(self, lag: Lag) -> None:
        super().__init__()
        self._lag = lag
        self._left: list[tuple[selectors.SelectorKey, int]] = []
        self._back, self._cpu = time.monotonic(), time.thread_time()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """As the selector's own; those that have not been handed out yet come first."""
        self._lag.wall.note(time.monotonic() - self._back)
        self._lag.cpu.note(time.thread_time() - self._cpu)
        # What was closed since, or is watched otherwise, is out: its number may be another connection's by now, whose
        # reader the loop would take away. Whatever is still ready is found again.
        watched = self.get_map()
        ready = [event for event in self._left if watched.get(event[0].fd) is event[0]] or super().select(timeout)
        self._left = ready[AT_A_TIME:]
        self._back, self._cpu = time.monotonic(), time.thread_time()
        return ready[:AT_A_TIME]


def set_aside(phase: str, info: Mapping[str, int]) -> None:
    """Keep the next full collection from looking at what has survived this one (a callback of the collector)."""
    if phase == "stop" and info["generation"] == 2:
        gc.freeze()


def _middle() -> int:
    return int(gc.get_stats()[1]["collections"])


async def freeze_survivors() -> None:
    """Set aside what survives, and look through all of it now and then, for ever."""
    gc.freeze()
    gc.callbacks.append(set_aside)
    try:
        frozen, collections_before, due = gc.get_freeze_count(), _middle(), time.monotonic() + THOROUGH
        while True:
            await asyncio.sleep(min(PERIOD, THOROUGH))
            if _middle() - collections_before >= MIDDLE:
                gc.collect()
                collections_before = _middle()
            if time.monotonic() >= due:
                due = time.monotonic() + THOROUGH
                if gc.get_freeze_count() > GROWTH * frozen:
                    gc.unfreeze()
                    gc.collect()
                    frozen = gc.get_freeze_count()
    finally:
        gc.callbacks.remove(set_aside)
        gc.unfreeze()

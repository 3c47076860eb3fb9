"""How long the event loop is busy at a time: for that long it answers nobody.

Measured where the loop waits, in its selector: exact, without a task that would wake up for it.
"""

from __future__ import annotations

import math
import selectors
import time

# Turns are counted by size: STEPS sizes for each doubling, the first one for all below a microsecond.
STEPS = 4
_SIZES = 128
# How many events a turn handles. Each may cost some milliseconds: a report that is judged at once, and a write.
AT_A_TIME = 8


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
        """The quantile ``part`` (0 to 1): that part of all turns took so long (s) or less; at most a fifth too much."""
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

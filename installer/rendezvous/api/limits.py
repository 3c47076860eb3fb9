"""How much one caller may ask for: a token bucket for each."""

from __future__ import annotations

import time
from collections.abc import Callable

from installer.assisted.errors import TooMany

REMEMBERED = 4096


class Bucket:
    """``rate`` a second in the long run, ``burst`` at once; per caller."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        # (tokens left, at which time) by caller, the one not seen for longest first.
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, caller: str) -> None:
        """Count one. Raises TooMany; what is refused costs nothing, so that the rate holds however many ask."""
        now = self._clock()
        left, then = self._left.pop(caller, (self._burst, now))
        left = min(self._burst, left + (now - then) * self._rate)
        allowed = left >= 1
        self._left[caller] = (left - 1 if allowed else left, now)
        if len(self._left) > REMEMBERED:
            del self._left[next(iter(self._left))]
        if not allowed:
            raise TooMany(f"too many requests from {caller or 'this address'}, try again in a second")

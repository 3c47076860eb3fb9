"""How much one address may ask for: a token bucket for each."""

from __future__ import annotations

import time
from collections.abc import Callable

from installer.rendezvous.errors import TooMany

REMEMBERED = 4096


class Bucket:
    """``rate`` a second in the long run, ``burst`` at once; per address."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        # (what is left, when that was) by address, the one not seen for longest first.
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, address: str) -> None:
        """Count one. Raises TooMany."""
        now = self._clock()
        left, then = self._left.pop(address, (self._burst, now))
        left = min(self._burst, left + (now - then) * self._rate)
        self._left[address] = (max(left - 1, 0.0), now)
        if len(self._left) > REMEMBERED:
            del self._left[next(iter(self._left))]
        if left < 1:
            raise TooMany(f"too many requests from {address or 'this address'}, try again in a second")

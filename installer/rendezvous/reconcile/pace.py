"""When clusters are judged: small ones at once, big ones as often as leaves most of the processor to requests."""

from __future__ import annotations

import time
from collections.abc import Callable

# A cluster of so many hosts or fewer is judged with every change: that costs less than the request that brought it.
AT_ONCE = 10
# One of more than so many is judged a few at a time (slices.py), never within a request.
IN_ONE_GO = 16
# After judging a bigger one for t seconds nothing is judged for REST * t ...
REST = 2.0
# ... unless something has been waiting for so long (s): then only requests that have come in go first.
LONGEST = 5.0


class Pace:
    """Clusters that wait to be judged, oldest first. Times are monotonic seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # Called when somebody begins to wait.
        self.wake: Callable[[], None] = lambda: None
        self._waiting: dict[str, float] = {}
        self._rested = 0.0

    def may(self, cluster_id: str, hosts: int) -> bool:
        """May this cluster be judged now? If not, it is noted, and judged later."""
        rested = hosts <= IN_ONE_GO and not self._waiting and self._clock() >= self._rested
        if hosts <= AT_ONCE or rested:
            return True
        self._waiting.setdefault(cluster_id, self._clock())
        self.wake()
        return False

    def waits(self, cluster_id: str) -> bool:
        """Has something changed that has not been judged?"""
        return cluster_id in self._waiting

    def judged(self, cluster_id: str, hosts: int, seconds: float) -> None:
        """All of the cluster is judged; that took so long."""
        self._waiting.pop(cluster_id, None)
        if hosts > AT_ONCE:
            self._rested = self._clock() + REST * seconds

    def drop(self, cluster_id: str) -> None:
        """There is nothing to judge, or judging failed."""
        self._waiting.pop(cluster_id, None)

    def next(self) -> tuple[str, float] | None:
        """The cluster to be judged next, and in how many seconds; None when none waits."""
        for cluster_id, since in self._waiting.items():
            return cluster_id, max(0.0, min(self._rested, since + LONGEST) - self._clock())
        return None

"""The pace of judging: small clusters at once, big ones a few hosts at a time, with most of the processor for requests.

What a slice has judged stands (judging.py), so the whole that follows in one change has only those hosts left for which
something has changed meanwhile.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from installer.rendezvous.reconcile.engine import Engine

# A cluster of so many hosts or fewer is judged with every change: that costs less than the request that brought it.
AT_ONCE = 10
# One of more than so many is judged so many at a time, never within a request: a host takes about a millisecond.
SLICE = 16
# After judging a bigger one for t seconds nothing is judged for REST * t ...
REST = 2.0
# ... unless something has been waiting for so long (s): then only requests that have come in go first.
LONGEST = 5.0
# A round lets one status change lead to the next; real chains are at most five long.
MAX_ROUNDS = 8


class Pace:
    """Clusters that wait to be judged, oldest first. Times are monotonic seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # Called when somebody begins to wait.
        self.wake: Callable[[], None] = lambda: None
        self._waiting: dict[str, float] = {}
        self._rested = 0.0

    def may(self, cluster_id: str, hosts: int) -> bool:
        """Return whether this cluster may be judged now. If not, it is noted, and judged later."""
        rested = hosts <= SLICE and not self._waiting and self._clock() >= self._rested
        if hosts <= AT_ONCE or rested:
            return True
        self._waiting.setdefault(cluster_id, self._clock())
        self.wake()
        return False

    def waits(self, cluster_id: str) -> bool:
        """Return whether something has changed that has not been judged."""
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
        """Return the cluster to be judged next, and in how many seconds; None when none waits."""
        for cluster_id, since in self._waiting.items():
            return cluster_id, max(0.0, min(self._rested, since + LONGEST) - self._clock())
        return None


class Slices:
    """Reconciles clusters of an engine; whoever asks for one that is being reconciled waits for that."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.under_way: dict[str, asyncio.Task[None]] = {}

    async def reconcile(self, cluster_id: str) -> None:
        """Reconcile a cluster in changes of its own. Raises NotFound."""
        store = self._engine.store
        if len(store.hosts(cluster_id=cluster_id)) <= SLICE:
            with store.change():
                self._engine.reconcile(cluster_id)
            return
        task = self.under_way.get(cluster_id)
        if task is None:
            task = self.under_way[cluster_id] = asyncio.create_task(self._reconcile(cluster_id))
            task.add_done_callback(lambda done: self.under_way.pop(cluster_id, None))
        # A caller that is cancelled must not cancel it for the others.
        await asyncio.shield(task)

    async def _reconcile(self, cluster_id: str) -> None:
        engine, store, busy = self._engine, self._engine.store, 0.0
        for _ in range(MAX_ROUNDS):
            moved, took = await self._round(cluster_id)
            busy += took
            if not moved:
                break
        with store.change():
            begin = time.monotonic()
            engine.reconcile(cluster_id)
            busy += time.monotonic() - begin
        engine.pace.judged(cluster_id, len(store.hosts(cluster_id=cluster_id)), busy)

    async def _round(self, cluster_id: str) -> tuple[bool, float]:
        """Judge every host once: did any change its status, and how long did it take (s)?"""
        engine, store, moved, busy = self._engine, self._engine.store, False, 0.0
        keys = [(host.infra_env_id, host.id) for host in store.hosts(cluster_id=cluster_id)]
        for first in range(0, len(keys), SLICE):
            begin = time.monotonic()
            with store.change():
                cluster = store.cluster(cluster_id) if first else engine.refresh_groups(cluster_id)
                peers = engine.judgements.peers(cluster, engine.settings)
                for key in keys[first : first + SLICE]:
                    host = store.find_host(*key)
                    if host is not None and host.cluster_id == cluster_id:
                        moved |= engine.refresh_host(host, peers).status is not host.status
            busy += time.monotonic() - begin
            await asyncio.sleep(0)
        return moved, busy

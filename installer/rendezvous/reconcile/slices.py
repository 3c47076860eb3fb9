"""Big clusters judged a few hosts at a time, so that requests have their turn in between.

What a slice has judged stands (judging.py), so the whole that follows in one change has only those left for which
something has changed meanwhile.
"""

from __future__ import annotations

import asyncio
import time

from installer.rendezvous.reconcile.engine import MAX_ROUNDS, Engine
from installer.rendezvous.reconcile.pace import IN_ONE_GO

# Judging a host and writing what came of it takes about a millisecond.
SLICE = IN_ONE_GO


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

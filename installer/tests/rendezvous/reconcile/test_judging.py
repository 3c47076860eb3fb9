"""A big cluster is judged between requests, and what happens to it meanwhile is no trouble."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any
from unittest import mock

from installer.rendezvous.reconcile.pace import SLICE, Slices
from installer.testing.engine.fleet_kit import Fleet, discovered
from installer.testing.service.lag_kit import in_turns


def fleet_of(directory: Path, count: int) -> Fleet:
    """Return a cluster of hosts that have reported everything, and nothing since: all must be judged anew."""
    fleet = discovered(directory, count)
    fleet.world.wait(1000)
    return fleet


def test_a_big_cluster_is_judged_between_requests(tmp_path: Path) -> None:
    """The verdicts of one piece, in pieces of which none is long."""
    whole, sliced = fleet_of(tmp_path / "whole", 4 * SLICE), fleet_of(tmp_path / "sliced", 4 * SLICE)
    begin = time.thread_time()
    whole.tick()
    took = time.thread_time() - begin
    others = 0

    async def judge() -> None:
        nonlocal others
        task = asyncio.create_task(Slices(sliced.world.engine).reconcile(sliced.cluster_id))
        while not task.done():
            await asyncio.sleep(0)
            others += 1
        await task

    turns = in_turns(judge)
    assert set(sliced.statuses()) == {"disconnected"}
    assert sliced.judgements() == whole.judgements()
    assert others > 4
    assert turns.cpu.longest < took / 2, (turns.cpu.longest, took)
    for fleet in (whole, sliced):
        fleet.world.store.close()


def test_requests_for_a_cluster_share_one_round_of_judging(tmp_path: Path) -> None:
    fleet = fleet_of(tmp_path, 3 * SLICE)
    slices = Slices(fleet.world.engine)
    judged = 0
    original = fleet.world.engine.refresh_host

    def count(*args: Any) -> Any:
        nonlocal judged
        judged += 1
        return original(*args)

    async def ask() -> None:
        first, *others = (asyncio.create_task(slices.reconcile(fleet.cluster_id)) for _ in range(5))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.gather(*others)

    with mock.patch.object(fleet.world.engine, "refresh_host", count):
        asyncio.run(ask())
    assert set(fleet.statuses()) == {"disconnected"}
    # A round that moves them, one that does not, and the last one in one piece; not five times that.
    assert judged <= 4 * 3 * SLICE
    assert not slices.under_way
    fleet.world.store.close()


def test_hosts_that_come_and_go_while_it_is_judged_are_no_trouble(tmp_path: Path) -> None:
    fleet = fleet_of(tmp_path, 3 * SLICE)
    store, slices = fleet.world.store, Slices(fleet.world.engine)

    async def use() -> None:
        task = asyncio.create_task(slices.reconcile(fleet.cluster_id))
        await asyncio.sleep(0)
        with store.change():
            store.delete_host(fleet.infra_env_id, fleet.machines[-1].id)
        await asyncio.sleep(0)
        fleet.poll(fleet.machines[-2])
        await task

    asyncio.run(use())
    statuses = {host.id: host.status.value for host in store.hosts()}
    assert len(statuses) == 3 * SLICE - 1
    assert statuses.pop(fleet.machines[-2].id) != "disconnected"
    assert set(statuses.values()) == {"disconnected"}
    store.close()

"""A big cluster is judged between requests, and what happens to it meanwhile is no trouble."""

from __future__ import annotations

import asyncio
import re
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest import mock

from installer.rendezvous.reconcile.slices import SLICE, Slices
from installer.testing.engine.fleet_kit import Fleet, Machine, Network
from installer.testing.engine.world_kit import World
from installer.testing.service.lag_kit import in_turns


def fleet_of(directory: Path, count: int, at: datetime | None = None) -> Fleet:
    """A cluster of hosts that have reported everything, and nothing since: all must be judged anew."""
    world = World(directory)
    world.clock.at = at or world.clock.at
    network = Network()
    machines = [Machine(number, network) for number in range(count)]
    fleet = Fleet(world, machines)
    fleet.discover()
    world.wait(1000)
    return fleet


def test_a_big_cluster_is_judged_between_requests(tmp_path: Path) -> None:
    """The verdicts of one piece, in pieces of which none is long."""
    at = datetime.now(UTC)
    whole, sliced = fleet_of(tmp_path / "whole", 120, at), fleet_of(tmp_path / "sliced", 120, at)
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
    statuses, *rest = sliced.judgements()
    assert set(statuses) == {"disconnected"}
    # Each fleet called in at its own moment.
    moment = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")
    assert moment.sub("then", repr((statuses, *rest))) == moment.sub("then", repr(whole.judgements()))
    assert others > 120 // SLICE
    assert turns.cpu.longest < took / 2, (turns.cpu.longest, took)
    for fleet in (whole, sliced):
        fleet.world.store.close()


def test_who_asks_for_a_cluster_that_is_being_judged_waits_for_that(tmp_path: Path) -> None:
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

"""A service whose clocks are the test's, and how its time passes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from installer.rendezvous.api.context import Service
from installer.rendezvous.clock import SteadyClock
from installer.rendezvous.reconcile.engine import Engine
from installer.rendezvous.store.database import Store
from installer.testing.engine.fleet_kit import Fleet, discovered
from installer.testing.engine.world_kit import Clock, World
from installer.testing.service.api_kit import service_of

Installing = tuple[World, Fleet]
JUMPS = [305.0, -7 * 3600.0, 400 * 86400.0]


def tick(world: World, running: Service | None = None) -> None:
    """Give the service's monitor its turn."""
    asyncio.run((running or service_of(world)).tick())


@pytest.fixture
def installing(tmp_path: Path) -> Iterator[Installing]:
    """Three hosts of which each is at its first stage."""
    fleet = discovered(tmp_path)
    fleet.prepare()
    for machine in fleet.machines:
        assert fleet.progress(machine, "Starting installation")
    yield fleet.world, fleet
    fleet.world.store.close()


def go(world: World, fleet: Fleet, seconds: float, every: float = 5.0) -> None:
    """Time passes as it does for a service: everybody polls, the monitor ticks."""
    left = seconds
    while left > 0:
        step = min(every, left)
        world.clock.go(step)
        left -= step
        for machine in fleet.machines:
            fleet.poll(machine)
        tick(world)


def clock_messages(world: World) -> list[str]:
    """Events about a clock that was set."""
    return [event.message for event in world.store.events() if event.name == "service_clock_set"]


def restart(world: World, clock: Clock | None = None) -> None:
    """End the service and start it anew, with the clocks as they are unless another is given."""
    settings, needs = world.engine.settings, world.engine.requirements
    world.store.close()
    world.clock = clock or revived(world.clock)
    world.store = Store(settings.db_path)
    world.engine = Engine(world.store, settings, needs, world.clock)


def revived(old: Clock, passed: float | None = None) -> Clock:
    """Return a new process' clock on the same wall and monotonic clocks."""
    clock = Clock()
    clock.at, clock.passed = old.at, old.passed if passed is None else passed
    SteadyClock.__init__(clock, lambda: clock.at, lambda: clock.passed)
    return clock

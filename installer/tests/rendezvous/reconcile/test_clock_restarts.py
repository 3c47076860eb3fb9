"""The clock while the service is away: set, drawn or begun anew. And the clock itself."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from installer.rendezvous import clock as clocks
from installer.rendezvous.clock import SteadyClock, age, moved, to_text
from installer.rendezvous.reconcile.engine import Engine
from installer.rendezvous.resources import clusters, hosts
from installer.rendezvous.store.database import Store
from installer.testing.engine.clock_kit import JUMPS, Installing, clock_messages, go, restart, revived
from installer.testing.engine.store_kit import locked
from installer.testing.engine.world_kit import World


@pytest.mark.parametrize("rate", [-0.083, 0.083, 0.0])
def test_a_clock_that_is_slewed_for_long_is_no_jump_after_a_restart(world: World, rate: float) -> None:
    """chrony draws a clock by up to 83 ms a second, for half an hour when it was some minutes wrong."""
    cluster_id, infra_env_id = world.known_host()
    for _ in range(390):
        world.clock.go(5)
        world.clock.jump(5 * rate)
        world.engine.keep_time()
        world.poll(infra_env_id)
    clusters.install(world.engine, cluster_id)
    for _ in range(66):
        world.clock.go(5)
        world.engine.keep_time()
        world.poll(infra_env_id)
    before = age(world.host(infra_env_id).status_updated_at, world.clock())
    assert before == pytest.approx(330, abs=2)
    restart(world)
    assert age(world.host(infra_env_id).status_updated_at, world.clock()) == pytest.approx(before, abs=2)
    assert clock_messages(world) == []


def test_a_service_starts_without_an_anchor_that_cannot_be_read(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.known_host()
    world.store.db.execute("INSERT OR REPLACE INTO anchor VALUES (1, '{')")
    caplog.clear()
    restart(world)
    [line] = caplog.messages
    assert line.startswith("the time cannot be noted: the service's database ")
    assert caplog.records[0].exc_info is None


@pytest.mark.parametrize("jump", [*JUMPS, 0.0])
def test_a_clock_that_is_set_while_the_service_is_away(installing: Installing, jump: float) -> None:
    world, fleet = installing
    go(world, fleet, 10 * 60, every=30)
    world.clock.go(60)
    world.clock.jump(jump)
    restart(world)
    assert len(clock_messages(world)) == (1 if jump else 0)
    fleet.tick()
    assert set(fleet.statuses()) == {"installing-in-progress"}
    # 11 of the 30 minutes are over.
    go(world, fleet, 19 * 60 - 60, every=30)
    assert set(fleet.statuses()) == {"installing-in-progress"}
    go(world, fleet, 90, every=30)
    assert set(fleet.statuses()) == {"error"}


def test_a_clock_slewed_for_hours_is_not_taken_for_set(installing: Installing) -> None:
    world, _ = installing
    world.clock.go(10 * 3600)
    world.clock.jump(18)
    restart(world)
    assert clock_messages(world) == []
    world.clock.go(10 * 3600)
    world.clock.jump(60)
    restart(world)
    assert clock_messages(world) == ["The service's clock was set forward by 60 s; time-outs count on as before"]


@pytest.mark.parametrize("jump", JUMPS)
def test_a_restart_does_not_report_a_set_clock_again(installing: Installing, jump: float) -> None:
    world, fleet = installing
    go(world, fleet, 60, every=30)
    world.clock.jump(jump)
    world.engine.keep_time()
    before = fleet.judgements()
    world.clock.go(30)
    restart(world)
    assert len(clock_messages(world)) == 1
    fleet.tick()
    assert fleet.judgements() == before


@pytest.mark.parametrize("boot", ["another", ""])
def test_after_the_machines_own_start_no_time_is_in_the_future(
    tmp_path: Path, installing: Installing, boot: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, fleet = installing
    go(world, fleet, 60, every=30)
    (tmp_path / "boot_id").write_text(boot)
    monkeypatch.setattr(clocks, "BOOT_ID", tmp_path / "boot_id")
    world.clock.jump(-3600)
    restart(world, revived(world.clock, passed=20.0))
    latest = max(fleet.host(machine).checked_in_at or "" for machine in fleet.machines)
    assert age(latest, world.clock.at) == pytest.approx(0, abs=0.002)
    # The last that was written before; polls are not.
    [words] = clock_messages(world)
    assert words == "The service's clock was set back by 3540 s; time-outs count on as before"
    # Forward it may be right: the machine was off.
    world.clock.jump(600)
    restart(world, revived(world.clock, passed=5.0))
    assert len(clock_messages(world)) == 1


def test_a_service_starts_where_the_time_cannot_be_noted(installing: Installing) -> None:
    world, _ = installing
    settings, needs = world.engine.settings, world.engine.requirements
    with locked(world.store):
        other = Store(settings.db_path)
        other.db.execute("PRAGMA busy_timeout=10")
        engine = Engine(other, settings, needs, revived(world.clock))
        assert engine.since == engine.clock()
        other.close()


# the clock itself


def test_the_steady_clock() -> None:
    wall, steady = [datetime(2026, 1, 1, tzinfo=UTC)], [5.0]
    clock = SteadyClock(lambda: wall[0], lambda: steady[0])
    assert clock() == wall[0]
    steady[0] += 10
    assert clock() == datetime(2026, 1, 1, 0, 0, 10, tzinfo=UTC)
    assert clock.ahead() == -10
    wall[0] += timedelta(seconds=40)
    assert clock.ahead() == 30
    assert clock() == datetime(2026, 1, 1, 0, 0, 10, tzinfo=UTC)
    clock.follow(30)
    assert (clock(), clock.ahead()) == (wall[0], 0)
    assert clock.monotonic() == 15.0
    # It waits for its next tick from the first one on.
    assert clock.tick(10) == 0
    steady[0] += 10
    assert clock() == wall[0] + timedelta(seconds=10)
    steady[0] += 100
    assert clock() == wall[0] + timedelta(seconds=10)
    assert clock.tick(20) == 100
    assert clock() == wall[0] + timedelta(seconds=10)
    steady[0] += 15
    assert clock() == wall[0] + timedelta(seconds=25)
    assert clock.tick(1) == 0
    real = SteadyClock()
    assert abs(real.ahead()) < 5
    assert real.boot == Path("/proc/sys/kernel/random/boot_id").read_text().strip()


@pytest.mark.parametrize(
    ("text", "seconds", "expected"),
    [
        ("2026-01-01T00:00:00.000Z", 1.5, "2026-01-01T00:00:01.500Z"),
        ("2026-01-01T00:00:00.000Z", -86400, "2025-12-31T00:00:00.000Z"),
        ("", 5, ""),
        (None, 5, None),
    ],
)
def test_moved(text: str | None, seconds: float, expected: str | None) -> None:
    assert moved(text, seconds) == expected


def test_ages() -> None:
    at = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
    assert age("2026-01-01T00:00:00.000Z", at) == 60
    assert age("2026-01-01T00:02:00.000Z", at) == -60
    assert age(None, at) == age("", at) == float("inf")


def test_hosts_register_by_the_services_time(world: World) -> None:
    _, infra_env_id = world.cluster()
    world.clock.jump(9999)
    host: Any = hosts.register(world.engine, infra_env_id, "00000000-0000-4000-8000-000000000009", "")
    steady = to_text(world.clock())
    assert (host.checked_in_at, host.registered_at, host.status_updated_at, host.created_at) == (steady,) * 4

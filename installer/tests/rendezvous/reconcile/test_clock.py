"""Time-outs and the clock: the wall clock is set to and fro, the service stands still or starts anew."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from installer.assisted.auth import Authenticator
from installer.assisted.enums import ClusterStatus
from installer.rendezvous import clock as clocks
from installer.rendezvous.api.context import Service
from installer.rendezvous.clock import SteadyClock, age, moved, to_text
from installer.rendezvous.reconcile.engine import Engine
from installer.rendezvous.resources import clusters, hosts
from installer.rendezvous.store.database import Store
from installer.testing.service.fleet_kit import Fleet, Machine, Network
from installer.testing.service.rendezvous_kit import make_keys
from installer.testing.service.store_kit import locked
from installer.testing.service.world_kit import Clock, World

JUMPS = [305.0, -305.0, 7 * 3600.0, -7 * 3600.0, 400 * 86400.0]


def service(world: World) -> Service:
    auth = Authenticator("agent-installer-local", make_keys().public_base64)
    return Service(world.engine, world.engine.settings, auth, lambda job: {})


def tick(world: World, made: Service | None = None) -> None:
    asyncio.run((made or service(world)).tick())


def installing(directory: Path) -> tuple[World, Fleet]:
    """Three hosts of which each is at its first stage."""
    world = World(directory)
    network = Network()
    fleet = Fleet(world, [Machine(number, network) for number in range(3)])
    fleet.discover()
    fleet.prepare()
    for machine in fleet.machines:
        assert fleet.progress(machine, "Starting installation")
    return world, fleet


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


def told(world: World) -> list[str]:
    return [event.message for event in world.store.events() if event.name == "service_clock_set"]


@pytest.mark.parametrize("jump", JUMPS)
def test_a_clock_that_is_set_fails_no_installation(tmp_path: Path, jump: float) -> None:
    world, fleet = installing(tmp_path)
    go(world, fleet, 20)
    before = fleet.judgements()
    world.clock.jump(jump)
    tick(world)
    assert fleet.judgements() == before
    assert set(fleet.statuses()) == {"installing-in-progress"}
    way = "forward" if jump > 0 else "back"
    assert told(world) == [f"The service's clock was set {way} by {abs(jump):.0f} s; time-outs count on as before"]
    assert {event.severity for event in world.store.events() if event.name == "service_clock_set"} == {"warning"}
    go(world, fleet, 30)
    assert fleet.judgements() == before
    assert len(told(world)) == 1
    # What the API shows is the wall clock's time.
    wall = to_text(world.clock.at)
    assert 0 <= age(fleet.host(fleet.machines[0]).checked_in_at, world.clock.at) < 10
    assert abs(age(world.store.cluster(fleet.cluster_id).status_updated_at, datetime.fromisoformat(wall))) < 200
    world.store.close()


@pytest.mark.parametrize("jump", JUMPS)
def test_silence_is_counted_on(tmp_path: Path, jump: float) -> None:
    """180 s, 120 more for the bootstrap host: neither sooner nor later, whatever the wall clock says meanwhile."""
    world, fleet = installing(tmp_path)
    made = service(world)
    tick(world, made)
    for passed in range(5, 181, 5):
        world.clock.go(5)
        if passed == 90:
            world.clock.jump(jump)
        tick(world, made)
        assert set(fleet.statuses()) == {"installing-in-progress"}, passed
    world.clock.go(5)
    tick(world, made)
    assert lost(fleet) == 2
    world.store.close()


def test_a_preparation_does_not_count_what_the_service_slept(world: World) -> None:
    """Neither when it wakes up nor later, and what is asked before its first look has no other answer."""
    cluster_id, infra_env_id = world.known()
    clusters.install(world.engine, cluster_id)

    def judged() -> tuple[ClusterStatus, str]:
        with world.store.change():
            world.engine.reconcile(cluster_id)
        return world.store.cluster(cluster_id).status, world.host(infra_env_id).status.value

    def wait(seconds: int) -> None:
        for _ in range(seconds // 5):
            world.clock.go(5)
            world.engine.keep_time()
            world.poll(infra_env_id)

    wait(430)
    preparing = (ClusterStatus.PREPARING, "preparing-for-installation")
    assert judged() == preparing
    world.clock.go(490)
    assert judged() == preparing
    # A step that is asked for now must not lie in the future later.
    world.poll(infra_env_id)
    world.engine.keep_time()
    assert judged() == preparing
    assert world.clock.ahead() == pytest.approx(0, abs=1e-3)
    host = world.host(infra_env_id)
    for text in (host.status_updated_at, host.checked_in_at, *host.sent_steps.values()):
        assert age(text, world.clock()) >= -0.001
    events = [event for event in world.store.events() if event.name == "service_stood_still"]
    assert [event.message for event in events] == ["The service stood still for 485 s, which no time-out counts"]
    assert told(world) == []
    wait(45)
    assert judged() == preparing
    # 430, 5 and 45 s are 480.
    wait(10)
    assert judged() == (ClusterStatus.READY, "known")
    assert "within 480 s" in "".join(event.message for event in world.store.events())


def test_a_sleep_that_cannot_be_noted_is_noted_later(world: World) -> None:
    cluster_id, infra_env_id = world.known()
    clusters.install(world.engine, cluster_id)
    world.engine.keep_time()
    for seconds in (490, 5, 5):
        world.clock.go(seconds)
        with locked(world.store):
            world.engine.keep_time()
    assert told(world) == []
    world.clock.go(5)
    world.engine.keep_time()
    with world.store.change():
        world.engine.reconcile(cluster_id)
    assert world.host(infra_env_id).status.value == "preparing-for-installation"
    assert age(world.host(infra_env_id).status_updated_at, world.clock()) == pytest.approx(20, abs=0.01)
    assert world.clock.ahead() == pytest.approx(0, abs=1e-3)
    assert [event.name for event in world.store.events()].count("service_stood_still") == 1
    assert told(world) == []


@pytest.mark.parametrize("jump", JUMPS)
def test_a_service_may_sleep_while_the_clock_is_set(world: World, jump: float) -> None:
    cluster_id, infra_env_id = world.known()
    clusters.install(world.engine, cluster_id)
    world.engine.keep_time()
    world.clock.go(490)
    world.clock.jump(jump)
    world.engine.keep_time()
    assert len(told(world)) == 1
    assert world.clock.ahead() == pytest.approx(0, abs=1e-3)
    assert age(world.host(infra_env_id).status_updated_at, world.clock()) == pytest.approx(5, abs=0.01)
    # A restart tells neither again.
    restart(world)
    assert len(told(world)) == 1
    assert [event.name for event in world.store.events()].count("service_stood_still") == 1


def lost(fleet: Fleet) -> int:
    """How many are in error for their silence; the bootstrap host, which has two minutes more, for the others."""
    assert set(fleet.statuses()) == {"error"}
    said = [fleet.host(machine).status_info for machine in fleet.machines]
    assert said.count("Host is part of a cluster that failed to install") == 1
    return said.count("Host lost its connection to the service at stage Starting installation")


@pytest.mark.parametrize("jump", JUMPS)
def test_stages_and_statuses_are_counted_on(tmp_path: Path, jump: float) -> None:
    world, fleet = installing(tmp_path)
    go(world, fleet, 15 * 60, every=30)
    world.clock.jump(jump)
    go(world, fleet, 15 * 60 - 30, every=30)
    assert set(fleet.statuses()) == {"installing-in-progress"}
    go(world, fleet, 60, every=30)
    assert set(fleet.statuses()) == {"error"}
    assert "took longer than expected (1800 s)" in fleet.host(fleet.machines[0]).status_info
    world.store.close()


@pytest.mark.parametrize("jump", JUMPS)
def test_a_preparation_has_its_ten_minutes(world: World, jump: float) -> None:
    cluster_id, infra_env_id = world.known()
    clusters.install(world.engine, cluster_id)

    def wait(seconds: float) -> ClusterStatus:
        for _ in range(int(seconds / 10)):
            world.clock.go(10)
            world.poll(infra_env_id)
            with world.store.change():
                world.engine.reconcile(cluster_id)
            world.engine.keep_time()
        return world.store.cluster(cluster_id).status

    assert wait(240) is ClusterStatus.PREPARING
    world.clock.jump(jump)
    assert wait(230) is ClusterStatus.PREPARING
    # The host's own eight minutes end first.
    assert wait(20) is ClusterStatus.READY
    assert "within 480 s" in "".join(event.message for event in world.store.events())


def test_steps_are_asked_for_again_in_their_own_time(world: World) -> None:
    _, infra_env_id = world.known()
    assert "inventory" in world.poll(infra_env_id)
    world.clock.jump(3600)
    world.engine.keep_time()
    assert world.poll(infra_env_id) == []
    world.wait(59)
    assert world.poll(infra_env_id) == []
    world.wait(2)
    assert "inventory" in world.poll(infra_env_id)
    world.clock.jump(-86400)
    world.engine.keep_time()
    world.wait(61)
    assert "inventory" in world.poll(infra_env_id)


@pytest.mark.parametrize("draw", [0.004, -0.004, 1.9, -1.9])
def test_a_clock_that_is_drawn_is_followed_without_a_word(world: World, draw: float) -> None:
    cluster_id, _ = world.known()
    version = world.store.version(cluster_id)
    for _ in range(3):
        world.clock.go(5)
        world.clock.jump(draw)
        world.engine.keep_time()
        assert abs(world.clock.ahead()) < 1e-6
    assert told(world) == []
    assert world.store.version(cluster_id) == version
    world.clock.jump(2.1)
    world.engine.keep_time()
    assert len(told(world)) == 1


def test_a_jump_that_cannot_be_noted_is_noted_later(tmp_path: Path) -> None:
    world, fleet = installing(tmp_path)
    go(world, fleet, 10)
    before = fleet.judgements()
    world.clock.jump(3600)
    with locked(world.store):
        world.engine.keep_time()
    assert told(world) == []
    assert world.clock.ahead() == pytest.approx(3600)
    world.clock.go(5)
    tick(world)
    assert told(world) == ["The service's clock was set forward by 3600 s; time-outs count on as before"]
    assert fleet.judgements() == before
    assert world.clock.ahead() == pytest.approx(0)
    world.store.close()


def test_a_service_that_stood_still_blames_nobody(tmp_path: Path) -> None:
    """Stopped with its machine for 305 s, of which the monotonic clock knows."""
    world, fleet = installing(tmp_path)
    made = service(world)
    tick(world, made)
    world.clock.go(305)
    tick(world, made)
    assert set(fleet.statuses()) == {"installing-in-progress"}
    for _ in range(36):
        world.clock.go(5)
        tick(world, made)
    assert set(fleet.statuses()) == {"installing-in-progress"}
    world.clock.go(5)
    tick(world, made)
    assert lost(fleet) == 2
    world.store.close()


@pytest.mark.parametrize(("late", "kept"), [(34.0, True), (36.0, False)])
def test_how_long_is_standing_still(world: World, late: float, kept: bool) -> None:
    since = world.engine.since
    world.clock.go(late)
    world.engine.keep_time()
    assert (world.engine.since == since) is kept


# across restarts


@pytest.mark.parametrize("rate", [-0.083, 0.083, 0.0])
def test_a_clock_that_is_drawn_for_long_is_no_jump_after_a_restart(world: World, rate: float) -> None:
    """chrony draws a clock by up to 83 ms a second, for half an hour when it was some minutes wrong."""
    cluster_id, infra_env_id = world.known()
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
    assert told(world) == []


def restart(world: World, clock: Clock | None = None) -> None:
    settings, needs = world.engine.settings, world.engine.requirements
    world.store.close()
    world.clock = clock or revived(world.clock)
    world.store = Store(settings.db_path)
    world.engine = Engine(world.store, settings, needs, world.clock)


def revived(old: Clock, passed: float | None = None) -> Clock:
    """A new process' clock on the same wall and monotonic clocks."""
    clock = Clock()
    clock.at, clock.passed = old.at, old.passed if passed is None else passed
    SteadyClock.__init__(clock, lambda: clock.at, lambda: clock.passed)
    return clock


@pytest.mark.parametrize("jump", [*JUMPS, 0.0])
def test_a_clock_that_is_set_while_the_service_is_away(tmp_path: Path, jump: float) -> None:
    world, fleet = installing(tmp_path)
    go(world, fleet, 10 * 60, every=30)
    world.clock.go(60)
    world.clock.jump(jump)
    restart(world)
    assert len(told(world)) == (1 if jump else 0)
    fleet.tick()
    assert set(fleet.statuses()) == {"installing-in-progress"}
    # 11 of the 30 minutes are over.
    go(world, fleet, 19 * 60 - 60, every=30)
    assert set(fleet.statuses()) == {"installing-in-progress"}
    go(world, fleet, 90, every=30)
    assert set(fleet.statuses()) == {"error"}
    world.store.close()


def test_drawn_for_hours_is_not_set(tmp_path: Path) -> None:
    world, _ = installing(tmp_path)
    world.clock.go(10 * 3600)
    world.clock.jump(18)
    restart(world)
    assert told(world) == []
    world.clock.go(10 * 3600)
    world.clock.jump(60)
    restart(world)
    assert told(world) == ["The service's clock was set forward by 60 s; time-outs count on as before"]
    world.store.close()


@pytest.mark.parametrize("jump", JUMPS)
def test_what_was_told_once_is_not_told_again(tmp_path: Path, jump: float) -> None:
    world, fleet = installing(tmp_path)
    go(world, fleet, 60, every=30)
    world.clock.jump(jump)
    world.engine.keep_time()
    before = fleet.judgements()
    world.clock.go(30)
    restart(world)
    assert len(told(world)) == 1
    fleet.tick()
    assert fleet.judgements() == before
    world.store.close()


@pytest.mark.parametrize("boot", ["another", ""])
def test_after_the_machines_own_start_no_time_is_in_the_future(
    tmp_path: Path, boot: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, fleet = installing(tmp_path)
    go(world, fleet, 60, every=30)
    (tmp_path / "boot_id").write_text(boot)
    monkeypatch.setattr(clocks, "BOOT_ID", tmp_path / "boot_id")
    world.clock.jump(-3600)
    restart(world, revived(world.clock, passed=20.0))
    latest = max(fleet.host(machine).checked_in_at or "" for machine in fleet.machines)
    assert age(latest, world.clock.at) == pytest.approx(0, abs=0.002)
    # The last that was written before; polls are not.
    [words] = told(world)
    assert words == "The service's clock was set back by 3540 s; time-outs count on as before"
    # Forward it may be right: the machine was off.
    world.clock.jump(600)
    restart(world, revived(world.clock, passed=5.0))
    assert len(told(world)) == 1
    world.store.close()


def test_a_service_starts_where_the_time_cannot_be_noted(tmp_path: Path) -> None:
    world, _ = installing(tmp_path)
    settings, needs = world.engine.settings, world.engine.requirements
    with locked(world.store):
        other = Store(settings.db_path)
        other.db.execute("PRAGMA busy_timeout=10")
        engine = Engine(other, settings, needs, revived(world.clock))
        assert engine.since == engine.clock()
        other.close()
    world.store.close()


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
    ("text", "seconds", "found"),
    [
        ("2026-01-01T00:00:00.000Z", 1.5, "2026-01-01T00:00:01.500Z"),
        ("2026-01-01T00:00:00.000Z", -86400, "2025-12-31T00:00:00.000Z"),
        ("", 5, ""),
        (None, 5, None),
    ],
)
def test_moved(text: str | None, seconds: float, found: str | None) -> None:
    assert moved(text, seconds) == found


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

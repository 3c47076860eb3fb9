"""Time-outs and the clock: the wall clock is set to and fro, or the service stands still."""

from __future__ import annotations

from datetime import datetime

import pytest

from installer.assisted.enums import ClusterStatus
from installer.rendezvous.clock import age, to_text
from installer.rendezvous.resources import clusters
from installer.testing.engine.clock_kit import JUMPS, Installing, clock_messages, go, restart, tick
from installer.testing.engine.fleet_kit import Fleet
from installer.testing.engine.store_kit import locked
from installer.testing.engine.world_kit import World
from installer.testing.service.api_kit import service_of


@pytest.mark.parametrize("jump", JUMPS)
def test_a_clock_that_is_set_fails_no_installation(installing: Installing, jump: float) -> None:
    world, fleet = installing
    go(world, fleet, 20)
    before = fleet.judgements()
    world.clock.jump(jump)
    tick(world)
    assert fleet.judgements() == before
    assert set(fleet.statuses()) == {"installing-in-progress"}
    way = "forward" if jump > 0 else "back"
    assert clock_messages(world) == [
        f"The service's clock was set {way} by {abs(jump):.0f} s; time-outs count on as before"
    ]
    assert {event.severity for event in world.store.events() if event.name == "service_clock_set"} == {"warning"}
    go(world, fleet, 30)
    assert fleet.judgements() == before
    assert len(clock_messages(world)) == 1
    # What the API shows is the wall clock's time.
    wall = to_text(world.clock.at)
    assert 0 <= age(fleet.host(fleet.machines[0]).checked_in_at, world.clock.at) < 10
    assert abs(age(world.store.cluster(fleet.cluster_id).status_updated_at, datetime.fromisoformat(wall))) < 200


@pytest.mark.parametrize("jump", JUMPS)
def test_a_hosts_silence_is_counted_across_a_set_clock(installing: Installing, jump: float) -> None:
    """180 s, 120 more for the bootstrap host: neither sooner nor later, whatever the wall clock says meanwhile."""
    world, fleet = installing
    new_service = service_of(world)
    tick(world, new_service)
    for passed in range(5, 181, 5):
        world.clock.go(5)
        if passed == 90:
            world.clock.jump(jump)
        tick(world, new_service)
        assert set(fleet.statuses()) == {"installing-in-progress"}, passed
    world.clock.go(5)
    tick(world, new_service)
    assert lost(fleet) == 2


def test_a_preparation_does_not_count_what_the_service_slept(world: World) -> None:
    """Neither when it wakes up nor later, and what is asked before its first look has no other answer."""
    cluster_id, infra_env_id = world.known_host()
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
    assert clock_messages(world) == []
    wait(45)
    assert judged() == preparing
    # 430, 5 and 45 s are 480.
    wait(10)
    assert judged() == (ClusterStatus.READY, "known")
    assert "within 480 s" in "".join(event.message for event in world.store.events())


def test_a_sleep_that_cannot_be_noted_is_noted_later(world: World) -> None:
    cluster_id, infra_env_id = world.known_host()
    clusters.install(world.engine, cluster_id)
    world.engine.keep_time()
    for seconds in (490, 5, 5):
        world.clock.go(seconds)
        with locked(world.store):
            world.engine.keep_time()
    assert clock_messages(world) == []
    world.clock.go(5)
    world.engine.keep_time()
    with world.store.change():
        world.engine.reconcile(cluster_id)
    assert world.host(infra_env_id).status.value == "preparing-for-installation"
    assert age(world.host(infra_env_id).status_updated_at, world.clock()) == pytest.approx(20, abs=0.01)
    assert world.clock.ahead() == pytest.approx(0, abs=1e-3)
    assert [event.name for event in world.store.events()].count("service_stood_still") == 1
    assert clock_messages(world) == []


@pytest.mark.parametrize("jump", JUMPS)
def test_a_service_may_sleep_while_the_clock_is_set(world: World, jump: float) -> None:
    cluster_id, infra_env_id = world.known_host()
    clusters.install(world.engine, cluster_id)
    world.engine.keep_time()
    world.clock.go(490)
    world.clock.jump(jump)
    world.engine.keep_time()
    assert len(clock_messages(world)) == 1
    assert world.clock.ahead() == pytest.approx(0, abs=1e-3)
    assert age(world.host(infra_env_id).status_updated_at, world.clock()) == pytest.approx(5, abs=0.01)
    # A restart tells neither again.
    restart(world)
    assert len(clock_messages(world)) == 1
    assert [event.name for event in world.store.events()].count("service_stood_still") == 1


def lost(fleet: Fleet) -> int:
    """Count the hosts in error for their silence; the bootstrap host, with two minutes more, is so for the others."""
    assert set(fleet.statuses()) == {"error"}
    infos = [fleet.host(machine).status_info for machine in fleet.machines]
    assert infos.count("Host is part of a cluster that failed to install") == 1
    return infos.count("Host lost its connection to the service at stage Starting installation")


@pytest.mark.parametrize("jump", JUMPS)
def test_time_outs_are_counted_across_a_set_clock(installing: Installing, jump: float) -> None:
    world, fleet = installing
    go(world, fleet, 15 * 60, every=30)
    world.clock.jump(jump)
    go(world, fleet, 15 * 60 - 30, every=30)
    assert set(fleet.statuses()) == {"installing-in-progress"}
    go(world, fleet, 60, every=30)
    assert set(fleet.statuses()) == {"error"}
    assert "took longer than expected (1800 s)" in fleet.host(fleet.machines[0]).status_info


@pytest.mark.parametrize("jump", JUMPS)
def test_a_preparation_has_its_ten_minutes(world: World, jump: float) -> None:
    cluster_id, infra_env_id = world.known_host()
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
    _, infra_env_id = world.known_host()
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
def test_a_clock_that_is_slewed_is_followed_without_an_event(world: World, draw: float) -> None:
    cluster_id, _ = world.known_host()
    version = world.store.version(cluster_id)
    for _ in range(3):
        world.clock.go(5)
        world.clock.jump(draw)
        world.engine.keep_time()
        assert abs(world.clock.ahead()) < 1e-6
    assert clock_messages(world) == []
    assert world.store.version(cluster_id) == version
    world.clock.jump(2.1)
    world.engine.keep_time()
    assert len(clock_messages(world)) == 1


def test_a_jump_that_cannot_be_noted_is_noted_later(installing: Installing) -> None:
    world, fleet = installing
    go(world, fleet, 10)
    before = fleet.judgements()
    world.clock.jump(3600)
    with locked(world.store):
        world.engine.keep_time()
    assert clock_messages(world) == []
    assert world.clock.ahead() == pytest.approx(3600)
    world.clock.go(5)
    tick(world)
    assert clock_messages(world) == ["The service's clock was set forward by 3600 s; time-outs count on as before"]
    assert fleet.judgements() == before
    assert world.clock.ahead() == pytest.approx(0)


def test_a_service_that_stood_still_blames_nobody(installing: Installing) -> None:
    """Stopped with its machine for 305 s, of which the monotonic clock knows."""
    world, fleet = installing
    new_service = service_of(world)
    tick(world, new_service)
    world.clock.go(305)
    tick(world, new_service)
    assert set(fleet.statuses()) == {"installing-in-progress"}
    for _ in range(36):
        world.clock.go(5)
        tick(world, new_service)
    assert set(fleet.statuses()) == {"installing-in-progress"}
    world.clock.go(5)
    tick(world, new_service)
    assert lost(fleet) == 2


@pytest.mark.parametrize(("late", "kept"), [(34.0, True), (36.0, False)])
def test_a_late_look_counts_as_standing_still_from_35_seconds(world: World, late: float, kept: bool) -> None:
    since = world.engine.since
    world.clock.go(late)
    world.engine.keep_time()
    assert (world.engine.since == since) is kept

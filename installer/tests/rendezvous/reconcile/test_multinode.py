"""Three and five hosts through the service's engine: discovery, verdicts, roles, stages, and what goes wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from installer.assisted.enums import ClusterStatus, HostStatus, Role, StepType
from installer.rendezvous.resources import clusters
from installer.testing.engine.fleet_kit import API_VIP, INGRESS_VIP, Fleet, Machine, Network
from installer.testing.engine.world_kit import World

BOOTSTRAP = 1
Make = Callable[..., Fleet]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    worlds = []

    def build(count: int, network: Network | None = None, env: dict[str, str] | None = None, **cluster: Any) -> Fleet:
        network = network or Network()
        machines = [Machine(number, network) for number in range(count)]
        world = World(tmp_path, BOOTSTRAP_HOST_MAC=machines[BOOTSTRAP].mac if count > 1 else "", **(env or {}))
        worlds.append(world)
        return Fleet(world, machines, **cluster)

    yield build
    for world in worlds:
        world.store.close()


def finish(fleet: Fleet) -> None:
    """Every host goes through all of its stages, in an order as it happens: node0 last of the control plane."""
    order = sorted(fleet.machines, key=lambda machine: fleet.host(machine).bootstrap)
    for machine in order:
        for stage in fleet.stages(machine):
            assert fleet.progress(machine, stage), (machine.number, stage)
            assert not fleet.progress(machine, fleet.stages(machine)[0]) or stage == fleet.stages(machine)[0]


@pytest.mark.parametrize("count", [3, 5])
def test_from_discovery_to_finalizing(make: Make, count: int) -> None:
    fleet = make(count)
    fleet.discover()
    assert fleet.all_known(), [fleet.host(machine).status_info for machine in fleet.machines]
    assert fleet.status() is ClusterStatus.READY, fleet.cluster.status_info
    hosts = [fleet.host(machine) for machine in fleet.machines]
    assert [host.suggested_role for host in hosts].count(Role.MASTER) == 3
    assert [host.bootstrap for host in hosts] == [number == BOOTSTRAP for number in range(count)]
    assert hosts[BOOTSTRAP].role is Role.MASTER
    fleet.prepare()
    assert fleet.status() is ClusterStatus.INSTALLING, fleet.cluster.status_info
    assert set(fleet.statuses()) == {"installing"}
    assert all(asked.count("install") == 1 for asked in fleet.asked.values())
    finish(fleet)
    assert set(fleet.statuses()) == {"installed"}
    assert fleet.status() is ClusterStatus.FINALIZING
    assert fleet.cluster.progress.installing_stage_percentage == 100


def test_install_requests_name_the_roles(make: Make) -> None:
    fleet = make(5)
    fleet.discover()
    from installer.rendezvous.resources import clusters
    from installer.rendezvous.steps import instructions as steps

    clusters.install(fleet.world.engine, fleet.cluster_id)
    fleet.go(10)
    fleet.world.prepared(fleet.cluster_id, {})
    roles = []
    for machine in fleet.machines:
        plan = steps.plan(fleet.world.engine.view(fleet.host(machine)))
        roles += [json.loads(args[0])["role"] for kind, args in plan.steps if kind == "install"]
    assert sorted(roles) == ["bootstrap", "master", "master", "worker", "worker"]


def test_steps_are_asked_for_once_in_a_minute_and_at_once_when_peers_change(make: Make) -> None:
    fleet = make(3)
    first, second, third = fleet.machines
    for machine in (first, second):
        fleet.register(machine)
        fleet.poll(machine)
    fleet.world.wait(5)
    assert "connectivity-check" in fleet.poll(first)
    fleet.world.wait(5)
    assert fleet.poll(first) == []
    fleet.register(third)
    fleet.poll(third)
    fleet.world.wait(10)
    # The third host's addresses are new: asked again before the minute is over.
    assert fleet.poll(first) == ["connectivity-check"]
    fleet.world.wait(5)
    for machine in fleet.machines:
        fleet.poll(machine)
    fleet.asked = {machine.id: [] for machine in fleet.machines}
    fleet.go(120)
    for asked in fleet.asked.values():
        for kind in ("connectivity-check", "inventory", "ntp-synchronizer", "verify-vips", "domain-resolution"):
            assert 1 <= asked.count(kind) <= 3, (kind, asked)
        assert asked.count("free-network-addresses") <= 1


@pytest.mark.parametrize(("count", "soon"), [(3, 1), (25, 2)])
def test_a_host_calls_in_again_soon_after_its_status_has_changed(make: Make, count: int, soon: int) -> None:
    from installer.rendezvous.steps import instructions as steps

    fleet = make(count)
    for machine in fleet.machines:
        fleet.register(machine)

    def pause() -> int:
        return steps.plan(fleet.world.engine.view(fleet.host(fleet.machines[0]))).wait

    assert pause() == soon
    fleet.world.wait(16)
    assert pause() == 5
    # Its inventory makes another status of it.
    before = fleet.host(fleet.machines[0]).status
    fleet.poll(fleet.machines[0])
    fleet.tick()
    assert fleet.host(fleet.machines[0]).status != before
    assert pause() == soon


def test_polls_of_hosts_at_rest_write_nothing(make: Make) -> None:
    fleet = make(3)
    fleet.discover()
    before = fleet.world.store.version(fleet.cluster_id)
    checked_in = fleet.host(fleet.machines[0]).checked_in_at
    fleet.world.wait(1)
    assert [fleet.poll(machine) for machine in fleet.machines] == [[], [], []]
    fleet.tick()
    assert fleet.world.store.version(fleet.cluster_id) == before
    assert (fleet.host(fleet.machines[0]).checked_in_at or "") > (checked_in or "")


@pytest.mark.parametrize("vip", [API_VIP, INGRESS_VIP])
def test_a_taken_vip_is_named_and_accepted_once_it_is_free(make: Make, vip: str) -> None:
    network = Network(taken={vip})
    fleet = make(3, network)
    fleet.discover()
    kind = "api" if vip == API_VIP else "ingress"
    assert fleet.status() is ClusterStatus.INSUFFICIENT
    assert f"{kind} vips <{vip}> is already in use in cidr 192.168.111.0/24, as host host-" in fleet.cluster.status_info
    network.taken.clear()
    fleet.go(65)
    assert fleet.status() is ClusterStatus.READY, fleet.cluster.status_info


def test_free_addresses_alone_judge_vips(make: Make) -> None:
    network = Network(taken={API_VIP})
    fleet = make(3, network, env={"DISABLED_STEPS": "verify-vips"})
    fleet.discover()
    assert f"api vips <{API_VIP}> is already in use" in fleet.cluster.status_info


def test_a_vip_of_the_users_own_load_balancer_may_be_in_use(make: Make) -> None:
    fleet = make(3, Network(taken={API_VIP, INGRESS_VIP}), load_balancer={"type": "user-managed"})
    fleet.discover()
    assert fleet.status() is ClusterStatus.READY, fleet.cluster.status_info
    assert "verify-vips" not in fleet.asked[fleet.machines[0].id]


def test_one_address_on_two_hosts(make: Make) -> None:
    fleet = make(3)
    fleet.machines[2] = Machine(2, fleet.machines[0].network, ip=f"{fleet.machines[0].ip}/24")
    fleet.discover()
    assert f"IP address: {fleet.machines[0].ip} (also host host-2" in (fleet.host(fleet.machines[0]).status_info)


def test_a_link_that_is_broken_leaves_a_host_out_of_the_majority(make: Make) -> None:
    network = Network()
    fleet = make(5, network)
    lonely = fleet.machines[4]
    network.broken = {frozenset((lonely.id, machine.id)) for machine in fleet.machines[:2]}
    fleet.discover()
    assert fleet.statuses() == ["known"] * 4 + ["insufficient"]
    assert "No connectivity to the majority of hosts" in fleet.host(lonely).status_info
    network.broken.clear()
    fleet.go(65)
    assert fleet.all_known()


def test_a_disk_that_cannot_be_measured_and_a_missing_image_end_the_preparation(make: Make) -> None:
    fleet = make(3)
    fleet.discover()
    fleet.machines[2].images = "failure"
    fleet.prepare()
    assert fleet.status() is ClusterStatus.READY
    texts = [event.message for event in fleet.world.store.events()]
    assert any("Failed to prepare the installation: host-2: Failed to fetch container images" in text for text in texts)
    fleet.machines[2].images = "success"
    fleet.machines[0].speed_ms = None
    fleet.forget_disk_speed()
    clusters.install(fleet.world.engine, fleet.cluster_id)
    fleet.go(10)
    broken = fleet.machines[0].id
    fleet.world.reply(fleet.infra_env_id, StepType.DISK_SPEED, "fio: exit code 1", -1, host_id=broken)
    fleet.go(5)
    assert fleet.status() is ClusterStatus.INSUFFICIENT
    assert "disk speed measurement failed" in fleet.host(fleet.machines[0]).status_info


def test_a_host_that_loses_power_while_its_disk_is_written(make: Make) -> None:
    fleet = make(3)
    fleet.discover()
    fleet.prepare()
    victim = fleet.machines[0]
    for machine in fleet.machines:
        fleet.progress(machine, "Starting installation")
        fleet.progress(machine, "Installing")
    fleet.progress(victim, "Writing image to disk", "40%")
    # It boots the ISO again, which registers it.
    fleet.register(victim)
    assert fleet.host(victim).status is HostStatus.ERROR
    assert "unexpectedly restarted" in fleet.host(victim).status_info
    assert fleet.status() is ClusterStatus.ERROR
    assert "host-0: The host unexpectedly restarted during the installation" in fleet.cluster.status_info


def test_a_worker_too_many_to_lose_and_one_that_may_be_lost(make: Make) -> None:
    fleet = make(6)
    fleet.discover()
    fleet.prepare()
    workers = [machine for machine in fleet.machines if fleet.host(machine).role is Role.WORKER]
    assert len(workers) == 3
    for machine in fleet.machines:
        fleet.progress(machine, "Starting installation")
    fleet.progress(workers[0], "Failed", "disk is broken")
    assert fleet.status() is ClusterStatus.INSTALLING
    fleet.progress(workers[1], "Failed", "disk is broken")
    assert fleet.status() is ClusterStatus.ERROR

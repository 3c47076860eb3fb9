"""Values that the service sets by itself: a user's choice stays, and contradictions are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from installer.assisted.enums import ClusterStatus, Role
from installer.assisted.errors import BadRequest
from installer.testing.engine import sent_kit
from installer.testing.engine.disks_kit import named, tell, three
from installer.testing.engine.fleet_kit import Fleet, Machine, Network
from installer.testing.engine.world_kit import HOST_ID, World


def test_a_name_that_the_user_gave_stays(world: World) -> None:
    _, infra_env_id = world.known_host()
    sent_kit.update_host(world.engine, infra_env_id, HOST_ID, {"host_name": "mine"})
    tell(world, infra_env_id, three(), hostname="localhost")
    assert world.host(infra_env_id).requested_hostname == "mine"
    assert named(world, "host_installation_disk_changed") != []


@pytest.mark.parametrize("role", ["worker", "arbiter"])
def test_the_rendezvous_host_keeps_a_role_that_it_cannot_have(tmp_path: Path, role: str) -> None:
    world = World(tmp_path, BOOTSTRAP_HOST_MAC="52:54:00:00:01:01")
    network = Network()
    fleet = Fleet(world, [Machine(number, network) for number in range(4)])
    fleet.register(fleet.machines[1])
    sent_kit.update_host(world.engine, fleet.infra_env_id, fleet.machines[1].id, {"host_role": role})
    fleet.discover()
    host = fleet.host(fleet.machines[1])
    assert (host.bootstrap, host.role, host.suggested_role) == (True, Role(role), Role(role))
    assert fleet.status() is ClusterStatus.INSUFFICIENT
    words = f"The rendezvous host must be a control plane node, it has another role: host-1 ({role})"
    assert words in fleet.cluster.status_info
    sent_kit.update_host(world.engine, fleet.infra_env_id, fleet.machines[1].id, {"host_role": "master"})
    fleet.go(30)
    assert words not in fleet.cluster.status_info
    assert fleet.host(fleet.machines[1]).role is Role.MASTER
    world.store.close()


@pytest.mark.parametrize(("mode", "count"), [("None", 3), ("Full", 1), ("None", 2)])
def test_what_contradicts_itself_is_refused(world: World, mode: str, count: int) -> None:
    body = {"high_availability_mode": mode, "control_plane_count": count}
    with pytest.raises(BadRequest, match=rf"high.availability.mode {mode}.* {count}$"):
        world.cluster(**body)
    assert world.store.clusters() == []


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"high_availability_mode": "None", "control_plane_count": 1}, ("None", 1)),
        ({"high_availability_mode": "Full", "control_plane_count": 3}, ("Full", 3)),
        ({"high_availability_mode": "None", "control_plane_count": None}, ("None", 1)),
        ({"control_plane_count": 1}, ("None", 1)),
        ({"control_plane_count": 5}, ("Full", 5)),
    ],
)
def test_mode_and_count_follow_from_each_other(world: World, body: dict[str, Any], expected: tuple[str, int]) -> None:
    cluster = world.store.cluster(world.cluster(**{"platform": {"type": "none"}, **body})[0])
    assert (cluster.high_availability_mode, cluster.control_plane_count) == expected

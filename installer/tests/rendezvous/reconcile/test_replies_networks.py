"""A single node's routes and addresses bring its machine network."""

from __future__ import annotations

from typing import Any

from installer.assisted.enums import StepType
from installer.rendezvous.resources import hosts
from installer.testing.engine.events_kit import messages
from installer.testing.engine.world_kit import HOST_ID, World
from installer.testing.service.rendezvous_kit import inventory

T = StepType
# Not to everywhere, without a gateway, of IPv6, and one that others are better than: the last is taken.
ROUTES = [
    {"interface": "a", "gateway": "192.168.5.9", "destination": "10.7.0.0/16"},
    {"interface": "a", "gateway": "", "destination": "0.0.0.0"},
    {"interface": "a", "gateway": "fd00::1", "destination": "::", "family": 10},
    {"interface": "a", "gateway": "192.168.5.1", "destination": "0.0.0.0", "metric": 200},
    {"interface": "b", "gateway": "10.1.0.1", "destination": "0.0.0.0", "metric": 100},
]
NICS = [
    {"name": "a", "ipv4_addresses": ["192.168.5.2/24"], "ipv6_addresses": ["fd00::2/64"]},
    {"name": "b", "ipv4_addresses": ["10.1.2.3/16"]},
]


def reported(world: World, cluster: dict[str, Any], kind: StepType = T.INVENTORY, code: int = 0) -> list[Any]:
    """Machine networks of a cluster whose one host has reported routes and addresses."""
    cluster_id, infra_env_id = world.cluster(**{"machine_networks": [], **cluster})
    hosts.register(world.engine, infra_env_id, HOST_ID, "")
    world.poll(infra_env_id)
    world.reply(infra_env_id, kind, inventory(routes=ROUTES, interfaces=NICS), code)
    return world.store.cluster(cluster_id).machine_networks


def test_a_single_node_brings_its_machine_network(world: World) -> None:
    (network,) = reported(world, {})
    assert network["cidr"] == "10.1.0.0/16"
    assert set(network) == {"cidr", "cluster_id"}
    assert network["cluster_id"] == world.store.clusters()[0].id
    assert messages(world, "cluster_machine_network_set") == [
        "The machine network is 10.1.0.0/16 now, as the VIPs or the single node's addresses tell"
    ]


def test_a_machine_network_that_was_given_stays(world: World) -> None:
    assert [item["cidr"] for item in reported(world, {"machine_networks": [{"cidr": "10.9.0.0/16"}]})] == [
        "10.9.0.0/16"
    ]


def test_a_step_that_failed_brings_no_machine_network(world: World) -> None:
    assert reported(world, {}, T.INVENTORY, 1) == []


def test_several_hosts_give_no_machine_network(world: World) -> None:
    assert reported(world, {"control_plane_count": 3, "platform": {"type": "baremetal"}}) == []

"""The machine networks that nobody gave: of the VIPs, or of the single node."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from installer.assisted import inventory as inv
from installer.assisted.enums import ClusterStatus
from installer.rendezvous.store.model import Cluster
from installer.rendezvous.validations.machinenetworks import computed
from installer.testing.engine.verdict_kit import CLUSTER

OPEN = (ClusterStatus.PENDING_FOR_INPUT, ClusterStatus.INSUFFICIENT)


def host(*nics: tuple[str, ...], routes: list[dict[str, Any]] | None = None) -> inv.Inventory:
    """Return a host with one interface for each tuple of addresses."""
    interfaces = [
        {
            "name": f"eno{number}",
            "ipv4_addresses": [text for text in addresses if ":" not in text],
            "ipv6_addresses": [text for text in addresses if ":" in text],
        }
        for number, addresses in enumerate(nics)
    ]
    return inv.decode(json.dumps({"interfaces": interfaces, "routes": routes or []}))


def cluster(*cidrs: str, **changes: Any) -> Cluster:
    return msgspec.structs.replace(CLUSTER, machine_networks=[{"cidr": cidr} for cidr in cidrs], **changes)


NEAR = host(("10.9.0.7/16", "192.168.111.80/24"))
FAR = host(("10.8.0.7/16",))


def test_the_first_network_that_a_vip_lies_in() -> None:
    assert computed(cluster(), [FAR, NEAR]) == ["192.168.111.0/24"]
    # The Ingress VIP tells it too.
    assert computed(cluster(api_vips=[]), [FAR, NEAR]) == ["192.168.111.0/24"]
    # What was given and is another subnet is replaced, as upstream does.
    assert computed(cluster("192.168.111.0/25"), [NEAR]) == ["192.168.111.0/24"]
    assert computed(cluster("192.168.111.9/24"), [NEAR]) == ["192.168.111.9/24"]


def test_a_network_in_which_no_vip_lies_is_none() -> None:
    """As upstream: it comes of the VIPs alone, once there are hosts to tell it."""
    assert computed(cluster("192.168.111.0/24"), [FAR]) == []
    assert computed(cluster("192.168.111.0/24", api_vips=[], ingress_vips=[]), [NEAR]) == []


def test_both_families() -> None:
    both = {
        "api_vips": [{"ip": "192.168.111.5"}, {"ip": "fd00::5"}],
        "ingress_vips": [{"ip": "192.168.111.4"}, {"ip": "fd00::4"}],
    }
    dual = host(("192.168.111.80/24", "fd00::80/64"))
    assert computed(cluster(**both), [dual]) == ["192.168.111.0/24", "fd00::/64"]
    # A second network that the hosts do not tell is not taken away.
    assert computed(cluster("192.168.111.0/24", "fd00::/64", **both), [NEAR]) == ["192.168.111.0/24", "fd00::/64"]
    assert computed(cluster("192.168.111.0/24", "fd00::/64", **both), [FAR]) == ["192.168.111.0/24", "fd00::/64"]


@pytest.mark.parametrize("status", ClusterStatus)
def test_only_before_the_installation(status: ClusterStatus) -> None:
    assert computed(cluster(status=status), [NEAR]) == (["192.168.111.0/24"] if status in OPEN else [])


@pytest.mark.parametrize(
    "changes",
    [{"user_managed_networking": True}, {"load_balancer": {"type": "user-managed"}}, {"vip_dhcp_allocation": True}],
)
def test_where_vips_tell_nothing(changes: dict[str, Any]) -> None:
    assert computed(cluster(**changes), [NEAR]) == []
    assert computed(cluster("10.0.0.0/8", **changes), [NEAR]) == ["10.0.0.0/8"]


def test_machine_networks_stay_while_there_are_no_hosts() -> None:
    assert computed(cluster("10.0.0.0/8"), []) == ["10.0.0.0/8"]


def test_a_single_node_has_its_own() -> None:
    def alone(*nics: tuple[str, ...], routes: list[dict[str, Any]] | None = None, **changes: Any) -> list[str]:
        return computed(cluster(control_plane_count=1, **changes), [host(*nics, routes=routes)])

    assert alone(("10.9.0.7/16",)) == ["10.9.0.0/16"]
    assert alone(()) == []
    two = (("10.9.0.7/16",), ("10.8.0.7/16",))
    assert alone(*two) == []
    way = {"interface": "eno1", "gateway": "10.8.0.1", "destination": "0.0.0.0"}
    assert alone(*two, routes=[way]) == ["10.8.0.0/16"]
    assert alone(*two, routes=[way, {**way, "gateway": "10.9.0.1", "metric": -1}]) == ["10.9.0.0/16"]
    both = {
        "cluster_networks": [{"cidr": "10.128.0.0/14"}, {"cidr": "fd01::/48"}],
        "service_networks": [{"cidr": "172.30.0.0/16"}, {"cidr": "fd02::/112"}],
    }
    assert alone(("10.9.0.7/16", "fe80::1/64", "fd00::7/64"), **both) == ["10.9.0.0/16", "fd00::/64"]
    assert alone(("10.9.0.7/16", "fe80::1/64"), **both) == []
    assert alone(("10.9.0.7/16",), **{**both, "service_networks": [{"cidr": "172.30.0.0/16"}]}) == []
    before = cluster("10.0.0.0/8", control_plane_count=1)
    assert computed(before, [NEAR]) == ["10.0.0.0/8"]

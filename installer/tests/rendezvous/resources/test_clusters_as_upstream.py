"""Upstream's answers to values of a cluster, at its registration and at a change of it.

Recorded from the real assisted-service (one release, 4.19.0 for x86_64, no hosts). docs/rendezvous.md has those that
are answered otherwise.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from installer.assisted.errors import ServiceError
from installer.common.redact import redact
from installer.testing.engine import sent_kit
from installer.testing.engine.world_kit import World
from installer.testing.service.rendezvous_kit import PULL_SECRET

BODY = {"name": "c1", "openshift_version": "4.19", "pull_secret": PULL_SECRET, "base_dns_domain": "example.com"}
RELEASE = '[{"version": "4.19.0", "url": "r.example/r@sha256:0", "cpu_architecture": "x86_64"}]'
# Field, value, status of POST /clusters with it, status of PATCH /clusters/ID with it.
VALUES: list[list[Any]] = json.loads(Path(__file__).with_name("values_as_upstream.json").read_text())
# VIPs of the API, of the ingress, what else is sent, the same two.
VIPS: list[tuple[list[str], list[str], dict[str, Any], int, int]] = [
    (["192.168.1.5"], ["192.168.1.6"], {}, 201, 400),
    (["192.168.1.5"], ["192.168.1.6"], {"machine_networks": [{"cidr": "192.168.1.0/24"}]}, 201, 400),
    (["192.168.1.5"], ["192.168.1.5"], {}, 400, 400),
    (["192.168.1.5"], ["192.168.1.5"], {"machine_networks": [{"cidr": "192.168.1.0/24"}]}, 400, 400),
    (["192.168.1.5"], [], {}, 400, 400),
    ([], ["192.168.1.5"], {}, 400, 400),
    (["192.168.1.5", "fd00::5"], ["192.168.1.6"], {}, 400, 400),
    (
        ["192.168.1.5", "fd00::5"],
        ["192.168.1.6", "fd00::6"],
        {"machine_networks": [{"cidr": "192.168.1.0/24"}, {"cidr": "fd00::/64"}]},
        201,
        400,
    ),
    (["192.168.1.5", "192.168.1.7"], ["192.168.1.6", "192.168.1.8"], {}, 400, 400),
    (["192.168.1.5", "fd00::5", "fd00::7"], ["192.168.1.6", "fd00::6", "fd00::8"], {}, 400, 400),
    (["10.0.0.5"], ["10.0.0.6"], {"machine_networks": [{"cidr": "192.168.1.0/24"}]}, 400, 400),
    (["192.168.1.255"], ["192.168.1.6"], {"machine_networks": [{"cidr": "192.168.1.0/24"}]}, 400, 400),
    (["192.168.1.0"], ["192.168.1.6"], {"machine_networks": [{"cidr": "192.168.1.0/24"}]}, 201, 400),
    (["x"], ["192.168.1.6"], {}, 400, 400),
    (["192.168.1.5"], ["192.168.1.6"], {"user_managed_networking": True}, 400, 400),
    (["192.168.1.5"], ["192.168.1.6"], {"platform": {"type": "none"}}, 201, 400),
    (
        ["192.168.1.5"],
        ["192.168.1.6"],
        {"platform": {"type": "baremetal"}, "machine_networks": [{"cidr": "192.168.1.0/24"}]},
        201,
        400,
    ),
    (["192.168.1.5"], ["192.168.1.6"], {"high_availability_mode": "None"}, 201, 400),
    (["192.168.1.5"], ["192.168.1.6"], {"control_plane_count": 1}, 201, 400),
    (
        ["192.168.1.5"],
        ["192.168.1.6"],
        {"machine_networks": [{"cidr": "192.168.1.0/24"}], "service_networks": [{"cidr": "192.168.0.0/16"}]},
        201,
        400,
    ),
    (
        ["192.168.1.5"],
        ["192.168.1.5"],
        {"machine_networks": [{"cidr": "192.168.1.0/24"}], "load_balancer": {"type": "user-managed"}},
        201,
        201,
    ),
]
# A cluster, a change of it, and what is answered to that.
CHANGES: list[tuple[dict[str, Any], dict[str, Any], int]] = [
    ({}, {"load_balancer": {"type": "user-managed"}}, 201),
    ({"platform": {"type": "none"}}, {"load_balancer": {"type": "user-managed"}}, 400),
    ({"high_availability_mode": "None"}, {"load_balancer": {"type": "user-managed"}}, 400),
    ({"user_managed_networking": True}, {"load_balancer": {"type": "user-managed"}}, 400),
    ({"platform": {"type": "vsphere"}}, {"load_balancer": {"type": "user-managed"}}, 201),
    ({"platform": {"type": "vsphere"}}, {"control_plane_count": 5}, 201),
    ({}, {"platform": {"type": "vsphere"}}, 201),
    ({"user_managed_networking": True}, {"platform": {"type": "nutanix"}}, 400),
    ({}, {"machine_network_cidr": "192.168.1.0/24"}, 201),
    ({}, {"machine_networks": [{"cidr": "192.168.1.0/24"}]}, 400),
]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("world"), RELEASE_IMAGES=RELEASE)


def statuses(world: World, body: dict[str, Any]) -> tuple[int, int]:
    """Return the statuses of a registration with these fields, and of a change to them."""

    def status(call: Any, *args: Any) -> int:
        before = [*world.store.clusters()]
        try:
            call(world.engine, *args)
        except ServiceError as error:
            assert [*world.store.clusters()] == before
            return error.status
        return 201

    posted = status(sent_kit.register_cluster, {**BODY, **body})
    cluster = sent_kit.register_cluster(world.engine, BODY)
    return posted, status(sent_kit.update_cluster, cluster.id, body)


@pytest.mark.parametrize(("field", "value", "posted", "patched"), VALUES)
def test_a_value_of_a_cluster(world: World, field: str, value: Any, posted: int, patched: int) -> None:
    assert statuses(world, {field: value}) == (posted, patched)


@pytest.mark.parametrize(("api", "ingress", "more", "posted", "patched"), VIPS)
def test_virtual_addresses(
    world: World, api: list[str], ingress: list[str], more: dict[str, Any], posted: int, patched: int
) -> None:
    body = {"api_vips": [{"ip": ip} for ip in api], "ingress_vips": [{"ip": ip} for ip in ingress], **more}
    assert statuses(world, body) == (posted, patched)


@pytest.mark.parametrize("other", ["FD00::5", "fd00:0::5", "fd00:0:0:0:0:0:0:5"])
def test_a_virtual_address_in_two_spellings_is_one(world: World, other: str) -> None:
    networks = {"cluster_networks": [{"cidr": "fd01::/48"}], "service_networks": [{"cidr": "fd02::/112"}]}
    body = {"api_vips": [{"ip": "fd00::5"}], "ingress_vips": [{"ip": other}], **networks}
    assert statuses(world, body) == (400, 400)
    created = sent_kit.register_cluster(world.engine, {**BODY, **body, "ingress_vips": [{"ip": f"{other[:-1]}6"}]})
    assert created.ingress_vips == [{"ip": "fd00::6"}]


def test_a_mapped_address_is_the_one_of_ipv4(world: World) -> None:
    body = {"api_vips": [{"ip": "192.0.2.5"}], "ingress_vips": [{"ip": "::ffff:192.0.2.5"}]}
    assert statuses(world, body) == (400, 400)


@pytest.mark.parametrize(("body", "change", "status"), CHANGES)
def test_a_change_of_a_cluster(world: World, body: dict[str, Any], change: dict[str, Any], status: int) -> None:
    cluster = sent_kit.register_cluster(world.engine, {**BODY, **body})
    if status == 201:
        sent_kit.update_cluster(world.engine, cluster.id, change)
        return
    with pytest.raises(ServiceError) as caught:
        sent_kit.update_cluster(world.engine, cluster.id, change)
    assert caught.value.status == status


def test_more_control_plane_nodes_are_not_to_be_had_everywhere(world: World) -> None:
    body = {**BODY, "control_plane_count": 4}
    assert sent_kit.register_cluster(world.engine, body).control_plane_count == 4
    with pytest.raises(ServiceError, match="not compatible with Non-standard HA OCP Control Plane"):
        sent_kit.register_cluster(world.engine, {**body, "platform": {"type": "vsphere"}})


def test_the_older_single_fields_count_for_nothing(world: World) -> None:
    body = {**BODY, "cluster_network_cidr": "10.200.0.0/14", "cluster_network_host_prefix": 0}
    cluster = sent_kit.register_cluster(world.engine, body)
    assert [item["cidr"] for item in cluster.cluster_networks] == ["10.128.0.0/14"]
    changed = sent_kit.update_cluster(world.engine, cluster.id, {"machine_network_cidr": "192.168.1.0/24"})
    assert changed.machine_networks == []


def test_what_is_wrong_with_a_pull_secret_can_be_read(world: World) -> None:
    with pytest.raises(ServiceError) as caught:
        sent_kit.register_cluster(world.engine, {**BODY, "pull_secret": '{"auths": {"quay.io": {"auth": "c2VjcmV0"}}}'})
    assert redact(caught.value.reason).endswith("'auth' for 'quay.io' is not in 'user:password' format")
    assert "c2VjcmV0" not in caught.value.reason


@pytest.mark.parametrize("entry", ['"x"', '{"auth": 1}', '{"auth": "%"}', '{"auth": "c2VjcmV0"}'])
def test_a_password_in_the_place_of_a_registry_is_not_shown(world: World, entry: str) -> None:
    with pytest.raises(ServiceError) as caught:
        sent_kit.register_cluster(world.engine, {**BODY, "pull_secret": f'{{"auths": {{"Xq7canaryZ": {entry}}}}}'})
    assert "Xq7canaryZ" not in caught.value.reason
    assert "'<not shown>'" in caught.value.reason

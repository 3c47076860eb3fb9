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
VALUES: list[tuple[str, Any, int, int]] = [
    ("openshift_version", "4.19.0", 201, 400),
    ("openshift_version", "4.19", 201, 400),
    ("openshift_version", "5.0", 400, 400),
    ("openshift_version", "x", 400, 400),
    ("openshift_version", "4", 400, 400),
    ("openshift_version", "4.1", 400, 400),
    ("openshift_version", "4.19.0-rc.1", 400, 400),
    ("openshift_version", "4.19-multi", 400, 400),
    ("cpu_architecture", "x86_64", 201, 400),
    ("cpu_architecture", "aarch64", 400, 400),
    ("cpu_architecture", "multi", 400, 400),
    ("cpu_architecture", "x", 400, 400),
    ("nonsense", 1, 400, 400),
    ("name", "", 400, 400),
    ("name", "A", 400, 400),
    ("name", "a_b", 400, 400),
    ("name", "a" * 54, 201, 201),
    ("name", "a" * 55, 400, 400),
    ("name", "-a", 400, 400),
    ("name", "a.b", 400, 400),
    ("name", "1a", 201, 201),
    ("base_dns_domain", "", 201, 201),
    ("base_dns_domain", "a", 400, 400),
    ("base_dns_domain", "example", 201, 201),
    ("base_dns_domain", "-x.com", 400, 400),
    ("base_dns_domain", "a_b.com", 400, 400),
    ("base_dns_domain", "x.com.", 400, 400),
    ("base_dns_domain", "*.x.com", 400, 400),
    ("base_dns_domain", "a" * 64 + ".com", 400, 400),
    ("base_dns_domain", "x..com", 400, 400),
    ("base_dns_domain", "example.com/x", 400, 400),
    ("base_dns_domain", "1.2.3.4", 400, 400),
    ("http_proxy", "", 201, 201),
    ("http_proxy", "http://p:3128", 201, 201),
    ("http_proxy", "https://p:3128", 400, 400),
    ("http_proxy", "ftp://p", 400, 400),
    ("http_proxy", "p:3128", 400, 400),
    ("http_proxy", "http://", 400, 400),
    ("http_proxy", "http://u:p@h:1/", 201, 201),
    ("http_proxy", "http://[::1]:80", 201, 201),
    ("http_proxy", "http://h h", 400, 400),
    ("https_proxy", "https://p:3128", 201, 201),
    ("https_proxy", "http://p:3128", 201, 201),
    ("https_proxy", "socks5://x", 400, 400),
    ("https_proxy", "x", 400, 400),
    ("no_proxy", "", 201, 201),
    ("no_proxy", "*", 201, 201),
    ("no_proxy", "*.x.com", 201, 201),
    ("no_proxy", ".x.com", 201, 201),
    ("no_proxy", "x.com", 201, 201),
    ("no_proxy", "10.0.0.0/8", 201, 201),
    ("no_proxy", "10.0.0.0/33", 400, 400),
    ("no_proxy", "a,,b", 400, 400),
    ("no_proxy", "_x", 201, 201),
    ("no_proxy", "x.com,*", 201, 201),
    ("additional_ntp_source", "", 201, 201),
    ("additional_ntp_source", "a", 400, 400),
    ("additional_ntp_source", "1.1.1.1", 201, 201),
    ("additional_ntp_source", "a.b,1.1.1.1", 201, 201),
    ("additional_ntp_source", "a b", 400, 400),
    ("additional_ntp_source", "!!", 400, 400),
    ("additional_ntp_source", "a.b,", 400, 400),
    ("additional_ntp_source", "fe80::1", 201, 201),
    ("additional_ntp_source", "_a", 400, 400),
    ("network_type", "OpenShiftSDN", 400, 400),
    ("network_type", "OVNKubernetes", 201, 201),
    ("network_type", "x", 400, 400),
    ("network_type", "Calico", 201, 201),
    ("network_type", "CiscoACI", 201, 201),
    ("network_type", "Cilium", 201, 201),
    ("network_type", "None", 201, 201),
    ("hyperthreading", "all", 201, 201),
    ("hyperthreading", "none", 201, 201),
    ("hyperthreading", "x", 400, 400),
    ("hyperthreading", "masters", 201, 201),
    ("hyperthreading", "workers", 201, 201),
    ("hyperthreading", "masters,workers", 201, 201),
    ("high_availability_mode", "Full", 201, 400),
    ("high_availability_mode", "None", 201, 400),
    ("high_availability_mode", "x", 400, 400),
    ("control_plane_count", 1, 201, 400),
    ("control_plane_count", 2, 201, 201),
    ("control_plane_count", 3, 201, 201),
    ("control_plane_count", 4, 201, 201),
    ("control_plane_count", 5, 201, 201),
    ("control_plane_count", 6, 400, 400),
    ("control_plane_count", 0, 400, 400),
    ("user_managed_networking", True, 201, 201),
    ("user_managed_networking", False, 201, 201),
    ("user_managed_networking", "x", 400, 400),
    ("vip_dhcp_allocation", False, 201, 201),
    ("platform", {"type": "baremetal"}, 201, 201),
    ("platform", {"type": "none"}, 201, 201),
    ("platform", {"type": "vsphere"}, 201, 201),
    ("platform", {"type": "nutanix"}, 201, 201),
    ("platform", {"type": "external"}, 400, 400),
    (
        "platform",
        {"type": "external", "external": {"platform_name": "oci", "cloud_controller_manager": "External"}},
        201,
        400,
    ),
    ("platform", {"type": "x"}, 400, 400),
    ("platform", {}, 400, 400),
    ("platform", {"type": "none", "x": 1}, 400, 400),
    ("schedulable_masters", True, 201, 201),
    ("schedulable_masters", False, 201, 201),
    ("schedulable_masters", 1, 400, 400),
    ("tags", "a,b", 201, 201),
    ("tags", "a b", 201, 201),
    ("tags", "a,,b", 400, 400),
    ("tags", ",", 400, 400),
    ("tags", "a!", 400, 400),
    ("tags", "", 201, 201),
    ("olm_operators", [{"name": "lso"}], 201, 201),
    ("olm_operators", [{"name": "x"}], 400, 400),
    ("olm_operators", [{"name": "odf"}], 201, 201),
    ("olm_operators", [{"name": "cnv"}], 201, 201),
    ("olm_operators", [{}], 400, 400),
    ("olm_operators", [{"name": "lso"}, {"name": "lso"}], 201, 201),
    ("disk_encryption", {"enable_on": "all", "mode": "tpmv2"}, 201, 201),
    ("disk_encryption", {"enable_on": "x"}, 400, 400),
    ("disk_encryption", {"enable_on": "all", "mode": "tang"}, 400, 400),
    ("disk_encryption", {"enable_on": "none"}, 201, 201),
    (
        "disk_encryption",
        {"enable_on": "all", "mode": "tang", "tang_servers": '[{"url":"http://t","thumbprint":"x"}]'},
        201,
        201,
    ),
    ("disk_encryption", {"mode": "tang"}, 400, 400),
    ("disk_encryption", {"enable_on": "masters", "mode": "x"}, 400, 400),
    ("load_balancer", {"type": "user-managed"}, 201, 201),
    ("load_balancer", {"type": "cluster-managed"}, 201, 201),
    ("load_balancer", {"type": "x"}, 400, 400),
    ("machine_networks", [{"cidr": "192.168.1.0/24"}], 201, 400),
    ("machine_networks", [{"cidr": "192.168.1.5/24"}], 201, 400),
    ("machine_networks", [{"cidr": "x"}], 400, 400),
    ("machine_networks", [{"cidr": "192.168.1.0/24"}, {"cidr": "fd00::/64"}], 201, 400),
    ("machine_networks", [{"cidr": "fd00::/64"}, {"cidr": "192.168.1.0/24"}], 400, 400),
    ("machine_networks", [{"cidr": "192.168.1.0/31"}], 201, 400),
    ("machine_networks", [{"cidr": "192.168.1.0/24"}, {"cidr": "192.168.1.0/24"}], 400, 400),
    ("machine_networks", [], 201, 201),
    ("cluster_networks", [{"cidr": "10.128.0.0/14", "host_prefix": 23}], 201, 201),
    ("cluster_networks", [{"cidr": "10.128.0.0/14", "host_prefix": 26}], 201, 400),
    ("cluster_networks", [{"cidr": "10.128.0.0/14", "host_prefix": 27}], 201, 400),
    ("cluster_networks", [{"cidr": "10.128.0.0/14", "host_prefix": 8}], 201, 400),
    ("service_networks", [{"cidr": "172.29.0.0/16"}], 201, 201),
    ("service_networks", [{"cidr": "172.29.0.7/16"}], 201, 400),
    ("cluster_networks", [{"cidr": "10.128.0.0/24", "host_prefix": 23}], 201, 400),
    ("cluster_networks", [{"cidr": "10.128.0.0/14"}], 201, 400),
    ("cluster_networks", [{"cidr": "10.128.0.1/14", "host_prefix": 23}], 201, 201),
    ("cluster_networks", [], 201, 201),
    ("cluster_networks", [{"cidr": "10.128.0.0/14", "host_prefix": 0}], 201, 400),
    ("cluster_networks", [{"cidr": "10.128.0.0/14", "host_prefix": 200}], 400, 400),
    ("service_networks", [{"cidr": "172.30.0.0/16"}], 201, 201),
    ("service_networks", [{"cidr": "172.30.0.5/16"}], 201, 201),
    ("service_networks", [{"cidr": "10.128.0.0/16"}], 201, 400),
    ("service_networks", [{"cidr": "x"}], 400, 400),
    ("service_networks", [], 201, 201),
    ("service_networks", [{"cidr": "172.30.0.0/26"}], 201, 400),
]
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
# More of VALUES, recorded the same way once those were right.
MORE = [tuple(row) for row in json.loads(Path(__file__).with_name("values_as_upstream.json").read_text())]
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
    """The statuses of a registration with these fields, and of a change to them."""

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


@pytest.mark.parametrize(("field", "value", "posted", "patched"), [*VALUES, *MORE])
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

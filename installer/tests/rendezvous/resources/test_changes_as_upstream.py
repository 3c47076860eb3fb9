"""Changes of clusters and hosts: consequences and refusals, as upstream's service has them."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import msgspec
import pytest

from installer.assisted.enums import StepType
from installer.assisted.errors import BadRequest, Conflict, NotFound, ServiceError
from installer.common.certificates import authority
from installer.rendezvous.resources import clusters, hosts
from installer.rendezvous.resources.requests import values
from installer.rendezvous.store.model import Cluster
from installer.testing.engine import sent_kit
from installer.testing.engine.fleet_kit import Fleet, Machine, discovered
from installer.testing.engine.world_kit import HOST_ID, World
from installer.testing.service.rendezvous_kit import CLUSTER, PULL_SECRET

VIPS = {"api_vips": [{"ip": "192.168.111.5"}], "ingress_vips": [{"ip": "192.168.111.6"}]}


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return discovered(tmp_path)


def change(fleet: Fleet, **body: Any) -> Cluster:
    return sent_kit.update_cluster(fleet.world.engine, fleet.cluster_id, body)


def test_the_machine_network_is_the_hosts_that_has_the_virtual_addresses(fleet: Fleet) -> None:
    assert [item["cidr"] for item in change(fleet, **VIPS).machine_networks] == ["192.168.111.0/24"]


@pytest.mark.parametrize(
    ("api", "ingress", "words"),
    [
        ("10.7.0.5", "10.7.0.6", "No suitable matching CIDR found for VIP 10.7.0.5"),
        ("192.168.111.5", "10.7.0.6", "ingress-vip <10.7.0.6> does not belong to machine-network-cidr"),
        ("192.168.111.255", "192.168.111.6", "api-vip <192.168.111.255> is the broadcast address"),
    ],
)
def test_virtual_addresses_outside_of_the_hosts_networks_are_refused(
    fleet: Fleet, api: str, ingress: str, words: str
) -> None:
    before = fleet.world.store.cluster(fleet.cluster_id)
    with pytest.raises(BadRequest, match=words):
        change(fleet, api_vips=[{"ip": api}], ingress_vips=[{"ip": ingress}])
    assert fleet.world.store.cluster(fleet.cluster_id) == before


def test_user_managed_networking_takes_the_virtual_addresses_away(fleet: Fleet) -> None:
    change(fleet, **VIPS)
    with pytest.raises(BadRequest, match="User Managed Networking cannot be set with API VIPs"):
        change(fleet, user_managed_networking=True)
    cluster = change(fleet, user_managed_networking=True, api_vips=[], ingress_vips=[])
    assert (cluster.platform["type"], cluster.user_managed_networking, cluster.api_vips) == ("none", True, [])
    # And back.
    cluster = change(fleet, platform={"type": "baremetal"})
    assert (cluster.platform["type"], cluster.user_managed_networking) == ("baremetal", False)


def test_a_dual_stack_cluster_says_its_machine_networks_itself(fleet: Fleet) -> None:
    networks = {
        "machine_networks": [{"cidr": "192.168.111.0/24"}, {"cidr": "fd00::/64"}],
        "service_networks": [{"cidr": "172.30.0.0/16"}, {"cidr": "fd02::/112"}],
        "cluster_networks": [{"cidr": "10.128.0.0/14", "host_prefix": 23}, {"cidr": "fd01::/48", "host_prefix": 64}],
    }
    vips = {name: [{"ip": ip} for ip in (f"192.168.111.{number}", f"fd00::{number}")] for name, number in
            (("api_vips", 5), ("ingress_vips", 6))}  # fmt: skip
    with pytest.raises(BadRequest, match="Expected 2 service networks, found 1"):
        change(fleet, **{**networks, "service_networks": [{"cidr": "172.30.0.0/16"}]})
    cluster = change(fleet, **networks, **vips)
    assert [item["cidr"] for item in cluster.machine_networks] == ["192.168.111.0/24", "fd00::/64"]
    with pytest.raises(BadRequest, match="api-vip <fd09::5> does not belong to machine-network-cidr <fd00::/64>"):
        change(fleet, api_vips=[{"ip": "192.168.111.5"}, {"ip": "fd09::5"}])
    # And they, as its virtual addresses, are not taken away from it any more.
    with pytest.raises(BadRequest, match="Dual-stack cluster cannot be created with empty Machine Networks"):
        change(fleet, machine_networks=[])
    with pytest.raises(BadRequest, match=r"api-vip <> does not belong to machine-network-cidr <192\.168\.111\.0/24>"):
        change(fleet, api_vips=[], ingress_vips=[])


def test_virtual_addresses_of_the_users_own_balancer_are_not_taken_away(fleet: Fleet) -> None:
    change(fleet, load_balancer={"type": "user-managed"}, machine_networks=[{"cidr": "192.168.111.0/24"}], **VIPS)
    with pytest.raises(BadRequest, match="api-vip <> does not belong"):
        change(fleet, api_vips=[], ingress_vips=[])
    with pytest.raises(BadRequest, match="no machine networks"):
        change(fleet, api_vips=[], ingress_vips=[], machine_networks=[])
    assert change(fleet, machine_networks=[]).api_vips == VIPS["api_vips"]


def test_platform_none_takes_networks_and_virtual_addresses_away(fleet: Fleet) -> None:
    assert change(fleet, **VIPS).machine_networks
    cluster = change(fleet, platform={"type": "none"})
    assert (cluster.user_managed_networking, cluster.api_vips, cluster.ingress_vips) == (True, [], [])
    assert cluster.machine_networks == []


@pytest.mark.parametrize(
    ("platform", "words"),
    [
        ("baremetal", ""),
        ("none", ""),
        ("external", ""),
        ("vsphere", "cluster's platform must be one of baremetal, none, external"),
        ("nutanix", "cluster's platform must be one of baremetal, none, external"),
    ],
)
def test_where_arbiters_can_be(fleet: Fleet, platform: str, words: str) -> None:
    store = fleet.world.store
    with store.change():
        cluster = store.cluster(fleet.cluster_id)
        store.put_cluster(msgspec.structs.replace(cluster, platform={"type": platform}))
    if words:
        with pytest.raises(BadRequest, match=words):
            sent_kit.update_host(fleet.world.engine, fleet.infra_env_id, fleet.machines[0].id, {"host_role": "arbiter"})
        return
    host = sent_kit.update_host(fleet.world.engine, fleet.infra_env_id, fleet.machines[0].id, {"host_role": "arbiter"})
    assert host.role == "arbiter"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"cluster_networks": [{"cidr": "10.64.0.0/14", "host_prefix": 26}]}, "Host prefix, now 26"),
        ({"cluster_networks": [{"cidr": "10.64.0.0/24", "host_prefix": 25}]}, "does not contain enough addresses"),
        ({"cluster_networks": [{"cidr": "10.64.0.0/14"}]}, "host prefix 0"),
        ({"service_networks": [{"cidr": "10.128.0.0/16"}]}, "overlap"),
        ({"service_networks": [{"cidr": "172.29.0.0/26"}]}, "Address mask size must be between 1 to 25"),
    ],
)
def test_networks_that_are_too_small_or_overlap_are_refused(fleet: Fleet, changes: Any, words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        change(fleet, **changes)


def test_networks_of_ones_own_machines_are_apart_from_the_others(world: World) -> None:
    cluster = sent_kit.register_cluster(world.engine, {**CLUSTER, "user_managed_networking": True})
    for cidr in ("172.30.0.0/16", "10.129.0.0/16"):
        with pytest.raises(BadRequest, match=r"MachineNetworkCIDR and .* overlap"):
            sent_kit.update_cluster(world.engine, cluster.id, {"machine_networks": [{"cidr": cidr}]})
    body = {"machine_networks": [{"cidr": "192.168.111.0/24"}]}
    assert sent_kit.update_cluster(world.engine, cluster.id, body).machine_networks == body["machine_networks"]


def test_an_external_platform_keeps_what_is_not_said_anew(world: World) -> None:
    external = {"platform_name": "oci", "cloud_controller_manager": "External"}
    registered = sent_kit.register_cluster(
        world.engine, {**CLUSTER, "platform": {"type": "external", "external": external}}
    )
    assert registered.user_managed_networking
    changed: dict[str, Any] = {"type": "external", "external": {"cloud_controller_manager": ""}}
    with pytest.raises(BadRequest, match="Cloud controller manager must be enabled"):
        sent_kit.update_cluster(world.engine, registered.id, {"platform": changed})
    changed = {"type": "external", "external": {"platform_name": "mine"}}
    cluster = sent_kit.update_cluster(world.engine, registered.id, {"platform": changed})
    assert cluster.platform["external"] == {**external, "platform_name": "mine"}
    for external in ({}, {"cloud_controller_manager": "External"}):
        body = {**CLUSTER, "platform": {"type": "external", "external": external}}
        with pytest.raises(BadRequest, match="Platform name must be set"):
            sent_kit.register_cluster(world.engine, body)


@pytest.mark.parametrize(
    ("key", "value", "good"),
    [
        ("a", "b", True), ("a", "", True), ("a.b/c-d_e", "x.y", True), ("A/b", "c", False), ("x y", "z", False),
        ("", "x", False), ("a", "b c", False), ("a" * 63, "x", True), ("a" * 64, "x", False), ("a", "b" * 64, False),
        ("-a", "", False), ("a/", "", False), ("a/b/c", "", False),
    ],
)  # fmt: skip
def test_node_labels_are_those_of_kubernetes(world: World, key: str, value: str, good: bool) -> None:
    _, infra_env_id = world.known_host()
    body = {"node_labels": [{"key": key, "value": value}]}
    if good:
        host = sent_kit.update_host(world.engine, infra_env_id, HOST_ID, body)
        assert host.node_labels.value == {key: value}
        return
    with pytest.raises(BadRequest, match="node_labels: Invalid value"):
        sent_kit.update_host(world.engine, infra_env_id, HOST_ID, body)


def test_a_disk_that_is_not_there_is_not_skipped(world: World) -> None:
    _, infra_env_id = world.known_host()
    body = {"disks_skip_formatting": [{"disk_id": "/dev/none", "skip_formatting": True}]}
    with pytest.raises(BadRequest, match="Disk identifier /dev/none doesn't match any disk in the inventory"):
        sent_kit.update_host(world.engine, infra_env_id, HOST_ID, body)
    two = {"disks_selected_config": [{"id": "a", "role": "install"}, {"id": "b", "role": "install"}]}
    with pytest.raises(Conflict, match="only one installation disk"):
        sent_kit.update_host(world.engine, infra_env_id, HOST_ID, two)


@pytest.mark.parametrize(
    ("args", "good"),
    [
        (["--append-karg", "x=y"], True), (["--save-partlabel", "data*"], True), (["--copy-network"], True), ([], True),
        (["--rm-rf"], False), (["--insecure"], False), (["--append-karg=a"], False), (["--append-karg", "a b"], False),
        (["--append-karg", "a\n"], False), (["-n", "--save-partlabel", "data*"], True),
    ],
)  # fmt: skip
def test_arguments_of_the_installer(args: list[str], good: bool) -> None:
    if good:
        values.installer_args(args)
        return
    with pytest.raises(BadRequest, match="found unexpected"):
        values.installer_args(args)


@pytest.mark.parametrize(
    "args",
    [["--append-karg"], ["--append-karg", "--copy-network"], ["x"], ["-n", "x"], ["--image-url", "a", "b"], ["--"]],
)
def test_flags_of_the_installer_have_their_values(args: list[str]) -> None:
    with pytest.raises(BadRequest, match=r"needs a value|belongs to no flag|found unexpected flag"):
        values.installer_args(args)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        *(
            ({"address": text}, "address: Invalid value")
            for text in ("foo", "ipmi://x", "ftp://x/redfish", "redfish://\n")
        ),
        ({"mac_address": "zz"}, "macAddress: Invalid value"),
    ],
)
def test_fencing_credentials_that_an_install_config_could_not_have(
    world: World, change: dict[str, str], problem: str
) -> None:
    _, infra_env_id = world.known_host()
    credentials = {"address": "redfish+https://x/redfish/v1/Systems/1", "username": "u", "password": "p"}
    sent_kit.update_host(world.engine, infra_env_id, HOST_ID, {"fencing_credentials": credentials})
    with pytest.raises(BadRequest, match=f"fencing_credentials.{problem}"):
        sent_kit.update_host(world.engine, infra_env_id, HOST_ID, {"fencing_credentials": {**credentials, **change}})


@pytest.mark.parametrize("chosen", [[], [{"id": "/dev/sda", "role": "none"}], [{"id": "/dev/sda"}]])
def test_a_choice_of_disks_names_the_one_to_install_on(world: World, chosen: list[dict[str, str]]) -> None:
    _, infra_env_id = world.known_host()
    with pytest.raises(Conflict, match="Requested installation disk is not part of the host's valid disks"):
        sent_kit.update_host(world.engine, infra_env_id, HOST_ID, {"disks_selected_config": chosen})


def test_whose_validation_is_reset_is_looked_up_first(world: World) -> None:
    _, infra_env_id = world.known_host()
    for host_id, kind in ((HOST_ID, BadRequest), (HOST_ID[:-1] + "f", NotFound)):
        with pytest.raises(kind):
            hosts.reset_validation(world.engine, infra_env_id, host_id, "no-such-validation")


def test_a_disk_without_a_name_is_not_skipped(world: World) -> None:
    _, infra_env_id = world.known_host()
    body = {"disks_skip_formatting": [{"disk_id": "", "skip_formatting": True}]}
    with pytest.raises(BadRequest, match="doesn't match any disk in the inventory"):
        sent_kit.update_host(world.engine, infra_env_id, HOST_ID, body)


def test_a_host_that_is_not_ready_is_named_when_roles_are_still_to_be_given_out(fleet: Fleet) -> None:
    fleet.world.reply(
        fleet.infra_env_id,
        StepType.INVENTORY,
        fleet.machines[0].inventory | {"disks": []},
        host_id=fleet.machines[0].id,
    )
    with pytest.raises(BadRequest, match="Host host-0 is in status insufficient and not ready for install"):
        clusters.install(fleet.world.engine, fleet.cluster_id)
    # To a host without an inventory no role can be assigned.
    late = Machine(3, fleet.machines[0].network)
    fleet.register(late)
    with pytest.raises(Conflict, match="cannot be installed"):
        clusters.install(fleet.world.engine, fleet.cluster_id)
    hosts.delete(fleet.world.engine, fleet.infra_env_id, late.id)
    for machine in fleet.machines:
        sent_kit.update_host(fleet.world.engine, fleet.infra_env_id, machine.id, {"host_role": "master"})
    with pytest.raises(Conflict, match="cannot be installed"):
        clusters.install(fleet.world.engine, fleet.cluster_id)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 201), ({"folder": ""}, 400), ({"file_name": ".yaml"}, 422), ({"file_name": "a b.yaml"}, 422),
        ({"file_name": "a.yaml.bak"}, 400), ({"content": "YTog\nMQo=\n"}, 201), ({"content": "YTog MQo="}, 400),
        ({"file_name": "a.yaml.patch_a-b"}, 400), ({"file_name": "a\n.yaml"}, 400),
        ({"file_name": "a\0.yaml"}, 400), ({"file_name": "a\x85.yaml"}, 400), ({"file_name": "é.yaml"}, 201),
        ({"file_name": "a.json"}, 400), ({"file_name": "a.json", "content": "eyJhIjoxfQ=="}, 200),
    ],
)  # fmt: skip
def test_names_and_contents_of_manifests(fleet: Fleet, body: dict[str, str], status: int) -> None:
    manifest = {"file_name": "a.yaml", "content": "YTogMQo=", **body}
    if status < 400:
        wanted = b"a: 1\n" if status == 201 else b'{"a":1}'
        assert sent_kit.put_manifest(fleet.world.engine, fleet.cluster_id, manifest).content == wanted
        return
    with pytest.raises(ServiceError) as caught:
        sent_kit.put_manifest(fleet.world.engine, fleet.cluster_id, manifest)
    assert caught.value.status == status


@pytest.mark.parametrize("mark", [b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf"], ids=["UTF-16LE", "UTF-16BE", "UTF-8"])
def test_a_manifest_that_is_a_byte_order_mark_is_yaml_without_a_document_and_no_json(fleet: Fleet, mark: bytes) -> None:
    content = base64.b64encode(mark).decode()
    for name in ("a.yaml", "a.yml", "a.yaml.patch"):
        body = {"file_name": name, "content": content}
        assert sent_kit.put_manifest(fleet.world.engine, fleet.cluster_id, body).content == mark
    with pytest.raises(BadRequest, match=r"manifest a\.json is not valid JSON"):
        sent_kit.put_manifest(fleet.world.engine, fleet.cluster_id, {"file_name": "a.json", "content": content})


@pytest.mark.parametrize(
    ("value", "good"), [("a=b", True), ("", True), ('a="b c"', True), ("a b", False), ("a\n", False)]
)
def test_values_of_kernel_arguments(world: World, value: str, good: int) -> None:
    body: dict[str, Any] = {
        "name": "",
        "pull_secret": PULL_SECRET,
        "kernel_arguments": [{"operation": "append", "value": value}],
    }
    if good:
        infra_env = sent_kit.register_infra_env(world.engine, body)
        assert msgspec.to_builtins(infra_env.kernel_arguments) == body["kernel_arguments"]
        return
    with pytest.raises(ServiceError, match=r"kernel_arguments\[0\].value"):
        sent_kit.register_infra_env(world.engine, body)


def test_overrides_that_are_null_are_none(fleet: Fleet) -> None:
    assert clusters.set_overrides(fleet.world.engine, fleet.cluster_id, "null").install_config_overrides == ""


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ('{"controlPlane": {"replicas": "x"}}', "controlPlane.replicas"),
        ('{"compute": [{"replicas": []}]}', "compute"),
        ('{"capabilities": {"additionalEnabledCapabilities": 5}}', "capabilities.additionalEnabledCapabilities"),
        ('{"proxy": {"httpProxy": 5}}', "proxy.httpProxy"),
        ('{"networking": {"clusterNetwork": [{"hostPrefix": "23"}]}}', "networking.clusterNetwork"),
        ('{"platform": {"aws": {}}}', "aws"),
        ('{"metadata": {"labels": {}}}', "labels"),
    ],
)
def test_overrides_that_upstream_does_not_decode_are_refused(fleet: Fleet, text: str, field: str) -> None:
    with pytest.raises(BadRequest) as refused:
        clusters.set_overrides(fleet.world.engine, fleet.cluster_id, text)
    assert field in str(refused.value)
    assert fleet.world.engine.store.cluster(fleet.cluster_id).install_config_overrides == ""


@pytest.mark.parametrize(
    "text",
    [
        '{"networking": {"networkType": "Calico", "clusterNetwork": [{"cidr": "10.128.0.0/14", "hostPrefix": 23}]}}',
        '{"controlPlane": {"replicas": 2, "fencing": {"credentials": [{"hostname": "a", "address": "b"}]}}}',
        '{"platform": {"vsphere": {"vcenters": [{"server": "v", "datacenters": ["d"]}]}}, "fips": true}',
        '{"capabilities": {"baselineCapabilitySet": "None", "additionalEnabledCapabilities": ["Ingress"]}}',
        '{"imageDigestSources": [{"source": "a.example", "mirrors": ["b.example"]}], "proxy": null}',
    ],
)
def test_overrides_that_upstream_decodes_are_kept(fleet: Fleet, text: str) -> None:
    assert clusters.set_overrides(fleet.world.engine, fleet.cluster_id, text).install_config_overrides == text


@pytest.mark.parametrize(
    ("endpoint", "words"),
    [
        ({"url": "ftp://a/b"}, "ignition_endpoint.url: must be a URL of http or https"),
        ({"url": "https://u:p@a/b"}, "ignition_endpoint.url: must have no login"),
        ({"ca_certificate": "@"}, "ca_certificate: must be PEM certificates in base64"),
        ({"ca_certificate": base64.b64encode(b"x").decode()}, "ca_certificate: must be PEM certificates"),
    ],
)
def test_endpoints_of_ignition_that_no_host_can_use_are_refused(fleet: Fleet, endpoint: Any, words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        change(fleet, ignition_endpoint=endpoint)


def test_a_ca_in_lines_of_base64_is_taken(fleet: Fleet) -> None:
    pem = authority("x").certificate.encode()
    endpoint = change(fleet, ignition_endpoint={"ca_certificate": base64.encodebytes(pem).decode()}).ignition_endpoint
    assert endpoint == {"ca_certificate": base64.b64encode(pem).decode()}


@pytest.mark.parametrize(
    ("token", "headers", "words"),
    [
        ("a b", [], "ignition_endpoint_token must be letters"),
        ("t", [("authorization", "u")], "'authorization' is there twice"),
        ("", [("A", "1"), ("a", "2")], "'A' is there twice"),
        ("", [("A", "1"), ("A", "2")], "a header is there twice"),
        ("", [("A:", "1")], "'A:' is no name of a header"),
        ("", [("A", "secret\r\nB: 2")], "the value of 'A' must be visible"),
    ],
)
def test_headers_that_no_request_can_have_are_refused(fleet: Fleet, token: str, headers: Any, words: str) -> None:
    host = fleet.machines[0].id
    body = {
        "ignition_endpoint_token": token,
        "ignition_endpoint_http_headers": [{"key": key, "value": value} for key, value in headers],
    }
    with pytest.raises(BadRequest, match=words) as caught:
        sent_kit.update_host(fleet.world.engine, fleet.infra_env_id, host, body)
    assert "secret" not in str(caught.value)

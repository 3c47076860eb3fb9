"""The install-config that the payload's installer gets: its platforms, and the hosts in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from installer.assisted.enums import Role
from installer.rendezvous.prepare import installconfig
from installer.rendezvous.settings import Settings
from installer.rendezvous.store.model import Cluster, Host
from installer.testing.engine.verdict_kit import CLUSTER, HOST, documents, replace

VIPS = {"apiVIPs": ["192.168.111.5"], "ingressVIPs": ["192.168.111.4"]}


def built(hosts: list[Host] | None = None, **changes: Any) -> Any:
    cluster = replace(CLUSTER, **documents(Cluster, changes))
    return installconfig.build(cluster, [], hosts or [], Settings(registries_conf=Path("none")))


def host(number: int, *nics: dict[str, Any], **changes: Any) -> Host:
    text = json.dumps({"interfaces": list(nics)})
    fields = {"id": f"h{number}", "requested_hostname": f"host-{number}", "inventory": text, **changes}
    return replace(HOST, **documents(Host, fields))


@pytest.mark.parametrize(
    ("platform", "expected"),
    [
        ({"type": "none"}, {"none": {}}),
        ({"type": "nutanix"}, {"nutanix": VIPS}),
        ({"type": "vsphere"}, {"vsphere": VIPS}),
        ({"type": "external", "external": {"platform_name": "oci", "x": "y"}}, {"external": {"platformName": "oci"}}),
        ({"type": "external"}, {"external": {}}),
    ],
)
def test_platforms(platform: dict[str, Any], expected: dict[str, Any]) -> None:
    assert built(platform=platform)["platform"] == expected


def test_virtual_addresses_that_are_not_there_are_left_out_on_vsphere() -> None:
    assert built(platform={"type": "vsphere"}, api_vips=[], ingress_vips=[])["platform"] == {"vsphere": {}}


def test_hosts_of_bare_metal() -> None:
    silent, old = (
        {"name": "a", "mac_address": "A"},
        {"name": "b", "mac_address": "B", "ipv4_addresses": ["192.0.2.1/24"]},
    )
    new = {"name": "c", "mac_address": "C", "ipv6_addresses": ["2001:db8::1/64"]}
    hosts = [
        host(1, silent, old, new),
        host(2, silent, new, old, role=Role.AUTO, suggested_role=Role.WORKER),
        host(3, silent, role=Role.WORKER),
        host(4),
    ]
    platform = built(hosts, platform={"type": "baremetal"}, load_balancer={"type": "user-managed"})["platform"]
    assert {key: value for key, value in platform["baremetal"].items() if key != "hosts"} == {
        **VIPS,
        "provisioningNetwork": "Disabled",
        "loadBalancer": {"type": "user-managed"},
    }
    found = [(item["name"], item["role"], item["bootMACAddress"]) for item in platform["baremetal"]["hosts"]]
    assert found == [
        ("host-1", "master", "B"), ("host-2", "worker", "C"), ("host-3", "worker", "A"), ("host-4", "master", ""),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("hyperthreading", "enabled"), [("all", "mwa"), ("none", ""), ("masters", "m"), ("arbiters,workers", "wa")]
)
def test_hyperthreading(hyperthreading: str, enabled: str) -> None:
    document = built(hyperthreading=hyperthreading)
    found = (document["controlPlane"]["hyperthreading"], document["compute"][0]["hyperthreading"])
    assert found == tuple("Enabled" if letter in enabled else "Disabled" for letter in "mw")


LOGIN = {"address": "redfish://192.0.2.9", "username": "u", "password": "p"}


def test_two_masters_fence_each_other() -> None:
    fenced = [
        host(1, fencing_credentials=json.dumps({**LOGIN, "certificate_verification": "Disabled"})),
        host(2, fencing_credentials=json.dumps({**LOGIN, "mac_address": "52:54:00:00:00:01"})),
    ]
    both = {"control_plane_count": 2, "platform": {"type": "none"}}
    assert built(fenced, **both)["controlPlane"]["fencing"]["credentials"] == [
        {"hostName": "host-1", **LOGIN, "certificateVerification": "Disabled"},
        {**LOGIN, "macAddress": "52:54:00:00:00:01"},
    ]
    worker, arbiter = host(3, role=Role.WORKER), host(3, role=Role.ARBITER)
    assert built([*fenced, worker], **both)["controlPlane"]["fencing"]
    for hosts, changes in (
        ([*fenced, arbiter], both),
        (fenced, {**both, "control_plane_count": 3}),
        (fenced[:1], both),
        ([fenced[0], host(2)], both),
        ([fenced[0], replace(fenced[1], role=Role.WORKER)], both),
    ):
        assert "fencing" not in built(hosts, **changes)["controlPlane"]

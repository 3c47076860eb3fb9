"""Scenarios: a cluster as somebody asks for it, and its hosts; drawn from a seed, a few things out of order."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from ci.bench.oracle.service.hosts import Host, host
from ci.bench.oracle.service.programs import VERSION

V4, V6 = "192.168.111.0/24", "fd2e:6f44:5dd8::/64"
PULL_SECRET = '{"auths":{"registry.bench.node0.example":{"auth":"dXNlcjpwYXNz"}}}'


@dataclass
class World:
    """One scenario. ``cluster`` is the body of POST clusters, ``patch`` that of a PATCH once the hosts are known."""

    name: str
    cluster: dict[str, Any]
    hosts: list[Host]
    patch: dict[str, Any] | None = None
    _: KW_ONLY
    done: list[str] = field(default_factory=list)

    def renamed(self) -> str:
        """Its name with what was changed, as a report shows it."""
        return f"{self.name}: {', '.join(self.done) or 'nothing changed'}"


def _cluster(**changes: Any) -> dict[str, Any]:
    return {
        "name": "bench",
        "base_dns_domain": "node0.example",
        "openshift_version": VERSION,
        "pull_secret": PULL_SECRET,
        **changes,
    }


def _vips(*networks: str) -> dict[str, Any]:
    addresses = {V4: ("192.168.111.5", "192.168.111.4"), V6: ("fd2e:6f44:5dd8::5", "fd2e:6f44:5dd8::4")}
    return {
        "api_vips": [{"ip": addresses[cidr][0]} for cidr in networks],
        "ingress_vips": [{"ip": addresses[cidr][1]} for cidr in networks],
    }


def _networks(*networks: str) -> dict[str, Any]:
    pods = {V4: {"cidr": "10.128.0.0/14", "host_prefix": 23}, V6: {"cidr": "fd01::/48", "host_prefix": 64}}
    services = {V4: {"cidr": "172.30.0.0/16"}, V6: {"cidr": "fd02::/112"}}
    return {
        "machine_networks": [{"cidr": cidr} for cidr in networks],
        "cluster_networks": [pods[cidr] for cidr in networks],
        "service_networks": [services[cidr] for cidr in networks],
    }


def _many(count: int, *networks: str, **changes: Any) -> Callable[[], tuple[dict[str, Any], list[Host]]]:
    nets = networks or (V4,)

    def make() -> tuple[dict[str, Any], list[Host]]:
        base: dict[str, Any] = {
            "control_plane_count": 3,
            "platform": {"type": "baremetal"},
            **_vips(*nets),
            **_networks(*nets),
        }
        return _cluster(**{**base, **changes}), [host(number, nets) for number in range(count)]

    return make


def _single(*networks: str, **changes: Any) -> Callable[[], tuple[dict[str, Any], list[Host]]]:
    nets = networks or (V4,)

    def make() -> tuple[dict[str, Any], list[Host]]:
        base = {"control_plane_count": 1, "platform": {"type": "none"}, **_networks(*nets)}
        return _cluster(**{**base, **changes}), [host(0, nets)]

    return make


def _with_roles(
    maker: Callable[[], tuple[dict[str, Any], list[Host]]], roles: Sequence[str], fenced: bool = False
) -> Callable[[], tuple[dict[str, Any], list[Host]]]:
    def make() -> tuple[dict[str, Any], list[Host]]:
        cluster, hosts = maker()
        for one, role in zip(hosts, roles, strict=True):
            one.patches.append({"host_role": role})
            if fenced:
                address = f"redfish+https://192.0.2.{30 + one.number}/redfish/v1/Systems/1"
                one.patches.append(
                    {"fencing_credentials": {"address": address, "username": "admin", "password": "secret"}}
                )
        return cluster, hosts

    return make


def _maker(
    maker: Callable[[], tuple[dict[str, Any], list[Host]]], manufacturer: str
) -> Callable[[], tuple[dict[str, Any], list[Host]]]:
    def make() -> tuple[dict[str, Any], list[Host]]:
        cluster, hosts = maker()
        for one in hosts:
            one.inventory["system_vendor"]["manufacturer"] = manufacturer
        return cluster, hosts

    return make


NONE = {"platform": {"type": "none"}, "user_managed_networking": True, "api_vips": [], "ingress_vips": []}
TOPOLOGIES: dict[str, Callable[[], tuple[dict[str, Any], list[Host]]]] = {
    "sno": _single(),
    "sno-without-networks": _single(machine_networks=[]),
    "sno-ipv6": _single(V6),
    "sno-dual": _single(V4, V6),
    "compact": _many(3),
    "compact-roles": _with_roles(_many(3), ["master"] * 3),
    "ha": _many(5),
    "ha-roles": _with_roles(_many(5), ["master"] * 3 + ["worker"] * 2),
    "four": _many(5, control_plane_count=4),
    "five": _many(6, control_plane_count=5),
    "arbiter": _with_roles(_many(3, control_plane_count=2), ["master", "master", "arbiter"]),
    "fencing": _with_roles(_many(2, control_plane_count=2), ["master", "master"], fenced=True),
    "ipv6": _many(3, V6),
    "dual": _many(3, V4, V6),
    "dual-six-first": _many(3, V6, V4),
    "dual-one-vip": _many(3, V4, V6, **_vips(V4)),
    "without-networks": _many(3, machine_networks=[]),
    "without-vips": _many(3, api_vips=[], ingress_vips=[]),
    "none": _many(3, **NONE),
    "none-ha": _many(5, **NONE),
    "none-without-networks": _many(3, **NONE, machine_networks=[]),
    "none-dual": _many(3, V4, V6, **NONE),
    "load-balancer": _many(3, load_balancer={"type": "user-managed"}),
    "vsphere": _maker(_many(3, platform={"type": "vsphere"}), "VMware, Inc."),
    "nutanix": _maker(_many(3, platform={"type": "nutanix"}), "Nutanix"),
    "external": _many(3, **{**NONE, "platform": {"type": "external", "external": {"platform_name": "oci"}}}),
    "too-few": _many(2),
    "nobody": _many(0),
    "dhcp-vips": _many(3, network_type="OVNKubernetes", machine_networks=[{"cidr": V4}]),
}


def worlds(count: int, seed: int, changes: dict[str, Callable[[World, random.Random], bool]]) -> list[World]:
    """``count`` scenarios: each topology untouched first, then each change alone, then up to three together."""
    rng = random.Random(seed)
    sequence = []
    kinds, alone = list(TOPOLOGIES), list(changes)
    for number in range(count):
        if number < len(kinds):
            kind, wanted = kinds[number], []
        elif number < len(kinds) + len(alone):
            kind, wanted = rng.choice(kinds), [alone[number - len(kinds)]]
        else:
            kind, wanted = rng.choice(kinds), rng.sample(alone, rng.randint(1, 3))
        cluster, hosts = TOPOLOGIES[kind]()
        world = World(f"{number:03d} {kind}", cluster, hosts)
        world.done += [name for name in wanted if changes[name](world, rng)]
        sequence.append(world)
    return sequence

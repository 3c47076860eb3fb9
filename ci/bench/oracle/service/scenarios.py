"""Scenarios: a cluster as somebody asks for it, and its hosts; drawn from a seed, a few things out of order."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from ipaddress import ip_network
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from ci.bench.oracle.inputs.cases import apply
from ci.bench.oracle.service.values import CLUSTER, HOST, V4, V6
from installer.testing.engine.fleet_kit import Machine, Network
from installer.testing.service.rendezvous_kit import PULL_SECRET
from installer.testing.service.words_kit import StepType

GIB, GB = 1024**3, 1000**3


class Host(Machine):
    """A simulated host with an address in each network, and what it does out of order."""

    def __init__(self, number: int, network: Network, cidrs: Sequence[str], name: str) -> None:
        nets = [ip_network(cidr) for cidr in cidrs]
        texts = [f"{net[20 + number]}/{net.prefixlen}" for net in nets]
        routes = [
            {"interface": "enp1s0", "gateway": str(net[1]), "destination": str(net.network_address.__class__(0)),
             "family": 2 if net.version == 4 else 10, "metric": 100}
            for net in nets
        ]  # fmt: skip
        super().__init__(number, network, ip=texts[0], disk_gb=120, ram_mib=32768, cpus=16, routes=routes)
        self.inventory["interfaces"][0] |= {
            f"ipv{version}_addresses": [text for text, net in zip(texts, nets, strict=True) if net.version == version]
            for version in (4, 6)
        }
        self.id = str(uuid5(NAMESPACE_URL, f"{name}/{number}"))
        self.patches: list[dict[str, Any]] = []  # once its inventory is known
        self.answers: dict[str, Any] = {}  # by type of step
        self.names: dict[str, list[str]] = {}  # the addresses of names that begin so
        self.version = ""  # of its agent; empty for the service's own

    def answer(self, kind: str, args: list[str]) -> Any:
        """Output of a step, None for one that it does not answer."""
        if kind in self.answers:
            return self.answers[kind]
        output = super().answer(kind, args)
        for name in output["resolutions"] if kind == StepType.DOMAINS else ():
            for beginning, addresses in self.names.items():
                if name["domain_name"].startswith(beginning):
                    name["ipv4_addresses"] = addresses
        return output


class World:
    """One scenario: the body of POST clusters (without its version), that of a later PATCH, the hosts, and what was put
    out of order."""

    def __init__(self, name: str, topology: str) -> None:
        count, cidrs, cluster, roles = TOPOLOGIES[topology]
        pods = {V4: {"cidr": "10.128.0.0/14", "host_prefix": 23}, V6: {"cidr": "fd01::/48", "host_prefix": 64}}
        services = {V4: {"cidr": "172.30.0.0/16"}, V6: {"cidr": "fd02::/112"}}
        self.name, self.network = f"{name} {topology}", Network()
        self.cluster: dict[str, Any] = {
            "name": "bench",
            "base_dns_domain": "node0.example",
            "pull_secret": PULL_SECRET,
            "machine_networks": [{"cidr": cidr} for cidr in cidrs],
            "cluster_networks": [pods[cidr] for cidr in cidrs],
            "service_networks": [services[cidr] for cidr in cidrs],
            **cluster,
        }
        self.patch: dict[str, Any] = {}
        self.done: list[str] = []
        self.hosts = [Host(number, self.network, cidrs, self.name) for number in range(count)]
        for host, role in zip(self.hosts, roles, strict=False):
            host.patches.append({"host_role": role})


def _vips(*cidrs: str) -> dict[str, Any]:
    nets = [ip_network(cidr) for cidr in cidrs]
    return {
        "control_plane_count": 3,
        "platform": {"type": "baremetal"},
        "api_vips": [{"ip": str(net[5])} for net in nets],
        "ingress_vips": [{"ip": str(net[4])} for net in nets],
    }


_SINGLE = {"control_plane_count": 1, "platform": {"type": "none"}}
_NONE = {"control_plane_count": 3, "platform": {"type": "none"}, "user_managed_networking": True}
_EXTERNAL = {**_NONE, "platform": {"type": "external", "external": {"platform_name": "oci"}}}
_MASTERS, _TWO = ("master",) * 3, {**_vips(V4), "control_plane_count": 2}
#: By name: number of hosts, their networks, fields of the cluster, and roles that the hosts are given.
TOPOLOGIES: Mapping[str, tuple[int, Sequence[str], Mapping[str, Any], Sequence[str]]] = {
    "sno": (1, [V4], _SINGLE, ()),
    "sno-ipv6": (1, [V6], _SINGLE, ()),
    "sno-dual": (1, [V4, V6], _SINGLE, ()),
    "compact": (3, [V4], _vips(V4), ()),
    "ha": (5, [V4], _vips(V4), ()),
    "ha-roles": (5, [V4], _vips(V4), (*_MASTERS, "worker", "worker")),
    "arbiter": (3, [V4], _TWO, ("master", "master", "arbiter")),
    "two": (2, [V4], _TWO, ("master", "master")),
    "ipv6": (3, [V6], _vips(V6), ()),
    "dual": (3, [V4, V6], _vips(V4, V6), ()),
    "dual-six-first": (3, [V6, V4], _vips(V6, V4), ()),
    "dual-one-vip": (3, [V4, V6], _vips(V4), ()),
    "without-networks": (3, [V4], {**_vips(V4), "machine_networks": []}, ()),
    "without-vips": (3, [V4], {**_vips(V4), "api_vips": [], "ingress_vips": []}, ()),
    "none": (3, [V4], _NONE, ()),
    "none-dual": (3, [V4, V6], _NONE, ()),
    "load-balancer": (3, [V4], {**_vips(V4), "load_balancer": {"type": "user-managed"}}, ()),
    "vsphere": (3, [V4], {**_vips(V4), "platform": {"type": "vsphere"}}, ()),
    "nutanix": (3, [V4], {**_vips(V4), "platform": {"type": "nutanix"}}, ()),
    "external": (3, [V4], _EXTERNAL, ()),
    "nobody": (0, [V4], _vips(V4), ()),
}
#: Values of fields of a host's inventory, by path.
INVENTORY: Mapping[str, Sequence[Any]] = {
    "hostname": ["localhost", "localhost6", "", "a" * 64, "a" * 63, "Host-0", "host_0", "-host", "host.", "0", "ä",
                 "host-0.node0.example", "10.0.0.1", "host-0", "host-1"],
    "cpu.count": [0, 1, 2, 3, 4, 7, 8],
    "cpu.architecture": ["aarch64", "arm64", "", "s390x"],
    "memory.physical_bytes": [0, 8 * GIB - 1, 8 * GIB - 101 * 1024**2, 16 * GIB - 1, 16 * GIB - 200 * 1024**2],
    "disks": [[], None],
    "disks.0.size_bytes": [0, 20 * GB, 50 * GB, 100 * GB - 1, 100 * GB],
    "disks.0.drive_type": ["SSD", "FC", "iSCSI", "Multipath", "RAID", "LVM", "ODD", "Unknown", "ECKD"],
    "disks.0.id": ["", None],
    "disks.1": [{"id": "b", "name": "vdb", "path": "/dev/vdb", "size_bytes": 200 * GB, "drive_type": "HDD", **change}
                for change in ({}, {"drive_type": "SSD"}, {"bootable": True}, {"drive_type": "FC", "holders": "dm-0"})],
    "disks.0.removable": [True],
    "disks.0.is_installation_media": [True],
    "disks.0.bootable": [True],
    "disks.0.iscsi": [{"host_ip_address": text} for text in ("192.168.111.20", "192.168.222.9", "", "1.2.3")],
    "disks.0.installation_eligibility": [
        {}, {"eligible": True, "not_eligible_reasons": ["Disk is removable"]},
        {"eligible": False, "not_eligible_reasons": []},
        {"eligible": False, "not_eligible_reasons": ["Disk is too small (disk only has 1 GB)"]},
    ],
    "system_vendor.manufacturer": ["VMware, Inc.", "Nutanix", "Dell Inc.", "", "OpenStack Foundation"],
    "system_vendor.product_name": ["OpenStack Compute", "BlueField SoC", "", None],
    "tpm_version": ["none", "1.2", "2.0", "", None],
    "boot.device_type": ["persistent", "", None],
    "interfaces": [[], None],
    "interfaces.1": [
        {"name": "enp8s0", "mac_address": "52:54:00:08:00:01", "has_carrier": True, "ipv4_addresses": [text]}
        for text in ("192.168.222.9/24", "192.168.111.99/24", "192.168.111.99/25", "192.168.111.21/24", "10.0.0.9/8")
    ],
    "interfaces.0.mac_address": ["", None, "52:54:00:00:01:01"],
    "interfaces.0.has_carrier": [False],
    "interfaces.0.ipv4_addresses": [[], None, ["192.168.111.90/25"], ["192.168.111.90/16"], ["192.168.112.9/24"],
                                    ["192.168.111.21/24"], ["169.254.1.9/16"]],
    "interfaces.0.ipv6_addresses": [[], None, ["fd2e:6f44:5dd8::99/64"]],
    "routes": [[], None],
    "routes.0.gateway": ["", "0.0.0.0", "::", None, "192.168.222.1"],
    "routes.0.destination": ["default", "", "10.0.0.0", "::/0", None],
    "routes.0.family": [0, 10, None],
    "routes.0.interface": ["", "nowhere0", None],
}  # fmt: skip
_STEPS = (StepType.INVENTORY, StepType.CONNECTIVITY, StepType.NTP, StepType.DOMAINS, StepType.VERIFY_VIPS)
_NTP: Sequence[Any] = ([], None, [{"source_name": "a", "source_state": "unreachable"}])
_ANSWERS = (
    (StepType.CONNECTIVITY, {"remote_hosts": None}), (StepType.DOMAINS, {"resolutions": None}),
    *((StepType.NTP, {"ntp_sources": sources}) for sources in _NTP),
)  # fmt: skip
_NAMES = ("api.", "api-int.", "console-openshift-console.apps.", "validateNoWildcardDNS.")
_LINKS = ((99.0, 0.0), (101.0, 0.0), (1001.0, 0.0), (1.0, 1.0), (1.0, 11.0), (100.0, 10.0))
#: What may be out of order: a field of a host's inventory or of the cluster, or what `_spoil` does to a host.
CHANGES = (
    *("link", "silent", "answer", "names", "clock", "version", "cut off", "taken", "disk chosen"),
    *(f"inventory {path}" for path in INVENTORY),
    *(f"host {name}" for name in HOST),
    *(f"cluster {name}" for name in CLUSTER),
)


def _spoil(world: World, what: str, rng: random.Random) -> None:
    host = rng.choice(world.hosts)
    match what:
        case "link":
            world.network.rtt_ms, world.network.loss_percent = rng.choice(_LINKS)
        case "disk chosen":
            chosen = {"id": host.inventory["disks"][0]["id"], "role": rng.choice(["install", "none"])}
            host.patches.append({"disks_selected_config": [chosen]})
        case "silent":
            host.answers.update(dict.fromkeys(rng.sample(_STEPS, rng.randint(1, 3))))
        case "answer":
            host.answers.update([rng.choice(_ANSWERS)])
        case "names":
            host.names[rng.choice(_NAMES)] = rng.choice([[], ["192.0.2.9"]])
        case "clock":  # minutes away from any limit
            host.clock_offset = rng.choice([-3700, -700, -180, 180, 700, 3000, 4800])
        case "version":
            host.version = "other.example/agent:latest"
        case "cut off":
            world.network.broken.add(frozenset(peer.id for peer in rng.sample(world.hosts, 2)))
        case "taken":
            world.network.taken.add(rng.choice(["192.168.111.5", "192.168.111.4"]))


def change(world: World, what: str, rng: random.Random) -> bool:
    """Put something out of order; False where this scenario has nothing to change."""
    kind, _, name = what.partition(" ")
    try:
        if kind == "cluster":
            world.patch[name] = rng.choice(CLUSTER[name])
        elif kind == "inventory":
            apply(rng.choice(world.hosts).inventory, name, rng.choice(INVENTORY[name]))
        elif kind == "host":
            rng.choice(world.hosts).patches.append({name: rng.choice(HOST[name])})
        else:
            _spoil(world, what, rng)
    except (LookupError, TypeError, ValueError):  # it has no such thing (any more)
        return False
    return True


def scenarios(count: int, seed: int) -> list[World]:
    """Each topology untouched first, then each change alone, then up to three together."""
    rng = random.Random(seed)
    plain, alone = list(TOPOLOGIES), [[name] for name in CHANGES]
    worlds = []
    for number in range(count):
        topology = plain[number] if number < len(plain) else rng.choice(plain)
        rest = number - len(plain)
        wanted = [] if rest < 0 else alone[rest] if rest < len(alone) else rng.sample(CHANGES, rng.randint(1, 3))
        world = World(f"{number:03d}", topology)
        world.done = [name for name in wanted if change(world, name, rng)]
        worlds.append(world)
    return worlds

"""From somebody's install-config.yaml and agent-config.yaml, derive a lab in which that cluster can be installed.

It reads names, counts, platform, machine network, virtual IPs, and each host's MAC address, static address, role, disk
hints, gateway and DNS servers. What the lab cannot provide is an error of one line that names file and field; whether
the rest is valid is for the installer to say.
"""

from __future__ import annotations

import ipaddress
import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from lab.errors import TopologyError
from lab.topology import MASTER_MIB, SNO_MIB, WORKER_MIB, Firmware, NodeSpec, Role, Topology

INSTALL = "install-config.yaml"
AGENT = "agent-config.yaml"
# OpenShift's defaults (reference/installer.md §1.1).
DEFAULT_NETWORK = "10.0.0.0/16"
DEFAULT_REPLICAS = 3
#: More than any machine can run, and fewer than the MAC addresses that the lab may give out.
MAX_NODES = 128
DISK_GIB = 20
DEVICE = "/dev/vda"
_COUNTED: tuple[Role, ...] = ("master", "arbiter", "worker")
_UNKNOWN_HINTS = ("hctl", "model", "vendor", "serialNumber", "wwn", "wwnWithExtension", "wwnVendorExtension")


@dataclass(frozen=True)
class _Host:
    """One host of the files; `where` is its field; `role` and `ip` are empty when the files do not set them."""

    where: str
    name: str
    role: str
    mac: str
    ip: str = ""
    disk_gib: int = DISK_GIB
    servers: tuple[str, ...] = field(default=())


def _map(value: Any, source: str, where: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise TopologyError(source, f"{where}: must be a mapping, is {type(value).__name__}")
    return value


def _list(value: Any, source: str, where: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise TopologyError(source, f"{where}: must be a list, is {type(value).__name__}")
    return value


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _replicas(pool: Mapping[str, Any], where: str, default: int) -> int:
    if pool.get("architecture", "amd64") != "amd64":
        raise TopologyError(INSTALL, f"{where}.architecture: the lab's machines are amd64, not {pool['architecture']}")
    count = pool.get("replicas", default)
    if not isinstance(count, int) or count < 0:
        raise TopologyError(INSTALL, f"{where}.replicas: must be a number, is {count!r}")
    return count


def _counts(install: Mapping[str, Any]) -> dict[Role, int]:
    """How many machines of each role the files ask for."""
    arbiter = _map(install.get("arbiter"), INSTALL, "arbiter")
    pools = _list(install.get("compute"), INSTALL, "compute") if "compute" in install else [{}]
    workers = [
        _replicas(_map(p, INSTALL, f"compute[{i}]"), f"compute[{i}]", DEFAULT_REPLICAS) for i, p in enumerate(pools)
    ]
    control = _map(install.get("controlPlane"), INSTALL, "controlPlane")
    return {
        "master": _replicas(control, "controlPlane", DEFAULT_REPLICAS),
        "arbiter": _replicas(arbiter, "arbiter", 0),
        "worker": sum(workers),
    }


def _network(install: Mapping[str, Any]) -> ipaddress.IPv4Network:
    networking = _map(install.get("networking"), INSTALL, "networking")
    entries = _list(networking.get("machineNetwork"), INSTALL, "networking.machineNetwork")
    if len(entries) > 1:
        raise TopologyError(INSTALL, f"networking.machineNetwork: the lab has one network, not {len(entries)}")
    cidr = networking.get("machineCIDR") or DEFAULT_NETWORK
    if entries:
        cidr = _map(entries[0], INSTALL, "networking.machineNetwork[0]").get("cidr")
    try:
        return ipaddress.IPv4Network(_text(cidr))
    except ValueError as error:
        raise TopologyError(INSTALL, f"networking.machineNetwork: the lab needs an IPv4 network: {error}") from error


def _platform(install: Mapping[str, Any]) -> tuple[str, dict[str, str], list[Any]]:
    """The platform's name, its virtual IPs as Topology's fields, and the hosts that it lists."""
    platform = _map(install.get("platform"), INSTALL, "platform")
    [name] = platform if len(platform) == 1 else [""]
    if name == "none":
        return name, {}, []
    if name != "baremetal":
        raise TopologyError(
            INSTALL, f"platform: the lab has none and baremetal, not {', '.join(platform) or 'nothing'}"
        )
    settings = _map(platform[name], INSTALL, "platform.baremetal")
    vips = {}
    for key, ours in (("apiVIP", "api_vip"), ("ingressVIP", "ingress_vip")):
        values = _list(settings.get(f"{key}s"), INSTALL, f"platform.baremetal.{key}s") or [settings.get(key)]
        if len(values) != 1 or not values[0]:
            raise TopologyError(INSTALL, f"platform.baremetal.{key}s: the lab needs exactly one address")
        vips[ours] = _text(values[0])
    return name, vips, _list(settings.get("hosts"), INSTALL, "platform.baremetal.hosts")


def _static(config: Any, mac: str, source: str, where: str) -> tuple[str, tuple[str, ...]]:
    """The static IPv4 address in a host's NMState document (empty without one), and its gateways and DNS servers."""
    document = _map(config, source, where)
    static = []
    for interface in _list(document.get("interfaces"), source, f"{where}.interfaces"):
        entry = _map(interface, source, f"{where}.interfaces")
        kind, name = entry.get("type", "ethernet"), _text(entry.get("name"))
        if kind not in ("ethernet", "loopback"):
            raise TopologyError(source, f"{where}: {name} is a {kind}, the lab's machines have one plain network card")
        if kind == "loopback" or _text(entry.get("mac-address") or mac).lower() != mac:
            continue
        ipv4 = _map(entry.get("ipv4"), source, f"{where}.{name}.ipv4")
        if ipv4.get("enabled") and not ipv4.get("dhcp"):
            addresses = _list(ipv4.get("address"), source, f"{where}.{name}.ipv4.address")
            static += [_text(_map(a, source, f"{where}.{name}.ipv4.address").get("ip")) for a in addresses]
    if len(static) > 1:
        raise TopologyError(source, f"{where}: the lab gives a machine one address, not {', '.join(static)}")
    return (static[0] if static else ""), tuple(_servers(document, source, where))


def _servers(document: Mapping[str, Any], source: str, where: str) -> Iterator[str]:
    """Gateways first, then DNS servers: the lab has to answer at all of these addresses."""
    routes = _map(document.get("routes"), source, f"{where}.routes")
    for route in _list(routes.get("config"), source, f"{where}.routes.config"):
        yield _text(_map(route, source, f"{where}.routes.config").get("next-hop-address"))
    resolver = _map(document.get("dns-resolver"), source, f"{where}.dns-resolver")
    config = _map(resolver.get("config"), source, f"{where}.dns-resolver.config")
    yield from map(_text, _list(config.get("server"), source, f"{where}.dns-resolver.config.server"))


def _disk(hints: Any, source: str, where: str) -> int:
    """The disk size that the hints ask for, in GiB."""
    wanted = _map(hints, source, where)
    device = _text(wanted.get("deviceName"))
    if device and device != DEVICE:
        raise TopologyError(source, f"{where}.deviceName: the lab's machines have one disk, {DEVICE}, not {device}")
    for hint in _UNKNOWN_HINTS:
        if wanted.get(hint):
            raise TopologyError(
                source, f"{where}.{hint}: the lab's disks cannot be found by it; use deviceName {DEVICE}"
            )
    least = wanted.get("minSizeGigabytes") or 0
    if not isinstance(least, int):
        raise TopologyError(source, f"{where}.minSizeGigabytes: must be a number, is {least!r}")
    return max(DISK_GIB, least + 1)


def _agent_host(entry: Any, index: int) -> _Host:
    """A host of agent-config.yaml."""
    where = f"hosts[{index}]"
    host = _map(entry, AGENT, where)
    cards = _list(host.get("interfaces"), AGENT, f"{where}.interfaces")
    if len(cards) != 1:
        raise TopologyError(AGENT, f"{where}.interfaces: the lab's machines have one network card, not {len(cards)}")
    mac = _text(_map(cards[0], AGENT, f"{where}.interfaces[0]").get("macAddress")).lower()
    ip, servers = _static(host.get("networkConfig"), mac, AGENT, f"{where}.networkConfig")
    disk = _disk(host.get("rootDeviceHints"), AGENT, f"{where}.rootDeviceHints")
    return _Host(where, _text(host.get("hostname")), _text(host.get("role")), mac, ip, disk, servers)


def _baremetal_host(entry: Any, index: int) -> _Host:
    """A host of install-config.yaml's platform.baremetal.hosts, used when agent-config.yaml lists none."""
    where = f"platform.baremetal.hosts[{index}]"
    host = _map(entry, INSTALL, where)
    mac = _text(host.get("bootMACAddress")).lower()
    ip, servers = _static(host.get("networkConfig"), mac, INSTALL, f"{where}.networkConfig")
    disk = _disk(host.get("rootDeviceHints"), INSTALL, f"{where}.rootDeviceHints")
    return _Host(where, _text(host.get("name")), _text(host.get("role")), mac, ip, disk, servers)


def _filled(hosts: list[_Host], counts: Mapping[Role, int], source: str) -> list[tuple[_Host, Role]]:
    """Every listed host with its role, in the files' order, then as many more as the counts ask for."""
    left = Counter({role: counts[role] for role in _COUNTED})
    for host in hosts:
        if host.role:
            if host.role not in left:
                raise TopologyError(source, f"{host.where}.role: {host.role!r} is not one of {', '.join(_COUNTED)}")
            left[cast(Role, host.role)] -= 1
    for role in _COUNTED:
        if left[role] < 0:
            raise TopologyError(source, f"hosts: {counts[role] - left[role]} are {role}s, {INSTALL} has {counts[role]}")
    placed: list[tuple[_Host, Role]] = []
    for host in hosts:
        role = cast(Role, host.role) or next((r for r in _COUNTED if left[r] > 0), None)
        if role is None:
            raise TopologyError(source, f"hosts: {len(hosts)} are listed, {INSTALL} has {sum(counts.values())}")
        if not host.role:
            left[role] -= 1
        placed.append((host, role))
    macs = {host.mac for host in hosts}
    fresh = (mac for mac in (f"52:54:00:6e:31:{i:02x}" for i in range(256)) if mac not in macs)
    for role in _COUNTED:
        placed += [(_Host("", "", role, next(fresh)), role) for _ in range(left[role])]
    return placed


def derive(
    install: Mapping[str, Any], agent: Mapping[str, Any], *, firmware: Firmware = "uefi", memory_mib: int | None = None
) -> Topology:
    """The lab for a cluster. Raises TopologyError, which names file and field.

    Hosts without a static address get a DHCP reservation; the first master among them gets the rendezvous IP.
    `memory_mib` is the memory of each machine, in place of the presets'.
    """
    counts, network = _counts(install), _network(install)
    if sum(counts.values()) > MAX_NODES:
        rule = f"{sum(counts.values())} nodes in all, a lab has at most {MAX_NODES}"
        raise TopologyError(INSTALL, f"controlPlane.replicas and compute[].replicas: {rule}")
    platform, vips, listed = _platform(install)
    entries = _list(agent.get("hosts"), AGENT, "hosts")
    hosts = [_agent_host(e, i) for i, e in enumerate(entries)]
    source = AGENT if hosts else INSTALL
    placed = _filled(hosts or [_baremetal_host(e, i) for i, e in enumerate(listed)], counts, source)
    if not placed:
        raise TopologyError(INSTALL, "controlPlane.replicas: a cluster has at least one node")
    servers = list(dict.fromkeys(s for host, _ in placed for s in host.servers if s and ":" not in s))
    taken = {host.ip for host, _ in placed if host.ip} | set(vips.values())
    if network.num_addresses < len(placed) + len(taken) + len(servers) + 4:
        raise TopologyError(INSTALL, f"networking.machineNetwork: {network} is too small for the cluster and a lab")
    own = next((s for s in servers if s not in taken and _inside(s, network)), None)
    own = own or next(str(a) for a in network.hosts() if str(a) not in taken)
    free = (str(a) for a in _from(network, 20) if str(a) not in taken | {own, *servers})
    rendezvous = _text(agent.get("rendezvousIP"))
    names = {_label(host) for host, _ in placed}
    nodes = []
    for host, role in placed:
        ip = host.ip
        if not ip:
            ip = rendezvous if role == "master" and rendezvous and rendezvous not in taken else next(free)
            taken.add(ip)
        name = _label(host) or next(n for n in (f"{role}-{i}" for i in itertools.count()) if n not in names)
        names.add(name)
        memory = memory_mib or (SNO_MIB if len(placed) == 1 else WORKER_MIB if role == "worker" else MASTER_MIB)
        nodes.append((name, role, host, ip, memory))
    cluster = _text(_map(install.get("metadata"), INSTALL, "metadata").get("name"))
    try:
        return Topology(
            name=cluster,
            cluster_name=cluster,
            base_domain=_text(install.get("baseDomain")),
            machine_network=str(network),
            addressing="static" if all(host.ip for host, _ in placed) else "dhcp",
            platform="baremetal" if platform == "baremetal" else "none",
            address=own,
            aliases=tuple(s for s in servers if s != own),
            nodes=tuple(
                NodeSpec(
                    name=name,
                    role=role,
                    mac=host.mac,
                    ip=ip,
                    memory_mib=memory,
                    disk_gib=host.disk_gib,
                    firmware=firmware,
                )
                for name, role, host, ip, memory in nodes
            ),
            api_vip=vips.get("api_vip"),
            ingress_vip=vips.get("ingress_vip"),
        )
    except ValueError as error:
        raise TopologyError(f"{INSTALL} and {AGENT}", str(error)) from error


def _label(host: _Host) -> str:
    """The host's name in the lab: the first label of its hostname; empty without one."""
    return host.name.split(".")[0]


def _inside(address: str, network: ipaddress.IPv4Network) -> bool:
    try:
        return ipaddress.IPv4Address(address) in network
    except ValueError:
        return False


def _from(network: ipaddress.IPv4Network, offset: int) -> Iterator[ipaddress.IPv4Address]:
    """The network's host addresses, from `offset` on and wrapping around."""
    count = network.num_addresses - 2
    for index in range(count):
        yield network[1 + (offset - 1 + index) % count]

"""The topology of a cluster: its networks, its machines with their addresses, and the addresses of the lab itself."""

from __future__ import annotations

import ipaddress
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from lab import topology
from lab.derive.attachment import HostNic, Iface
from lab.derive.cluster import AGENT, Cluster, Host, asks
from lab.derive.networks import Plan, Segment
from lab.errors import ConfigsError, TopologyError
from lab.topology import MASTER_MIB, SNO_MIB, WORKER_MIB, Firmware, Topology
from lab.topology.words import Subnet

_BY_BUS = re.compile(r"enp([1-9]|[12][0-9]|30)s0")
MORE_MIB = 256
#: Hosts without an address of their own get one from here on.
FIRST_FREE = 20
_NODE = re.compile(r"nodes\[(\d+)\](?:\.(\w+))?")
_NETWORK = re.compile(r"networks\[\d+\](?:\.\w+)?")
_VIP = re.compile(r"(api|ingress)_vips?(\[\d+\])?")
#: Fields of a node, and what they are made of.
_OF_HOSTS = {"name": "hostname", "mac": "interfaces", "disks": "rootDeviceHints", "disk_gib": "rootDeviceHints"}
_OF_CLUSTER = {
    "name": "metadata.name",
    "cluster_name": "metadata.name",
    "base_domain": "baseDomain",
    "machine_network": "networking.machineNetwork",
    "address": "networking.machineNetwork",
    "aliases": "networking.machineNetwork",
}


@dataclass
class _Addresses:
    """The addresses that are taken; `source` is the file to blame when none is left."""

    taken: set[str]
    source: str

    def free(self, subnet: Subnet) -> str:
        """Take the first free address from FIRST_FREE on, wrapping around. Raises TopologyError."""
        count = min(subnet.num_addresses - 2, 1 << 16)
        for index in range(count):
            text = str(subnet[1 + (FIRST_FREE - 1 + index) % count])
            if text not in self.taken:
                self.taken.add(text)
                return text
        raise TopologyError(self.source, f"machineNetwork: {subnet} is too small for the cluster and a lab")


def build(
    cluster: Cluster, *, firmware: Firmware = "uefi", memory_mib: int | None = None, vcpu: int | None = None
) -> Topology:
    """Return the lab. Raises TopologyError."""
    plan = Plan(cluster)
    static = [str(address.ip) for host, _ in cluster.hosts for address in host.attachment.addresses]
    servers = [text for segment in plan.segments for text in segment.answering]
    pool = _Addresses({*static, *cluster.api_vips, *cluster.ingress_vips, *servers}, cluster.source)
    own = {id(segment): _own(segment, pool) for segment in plan.segments}
    single = _is_single(cluster, plan)
    macs = {nic.mac for host, _ in cluster.hosts for nic in host.attachment.nics}
    lab_macs = (f"52:54:00:6e:{number >> 8:02x}:{number & 255:02x}" for number in range(0x3100, 0x10000))
    unused_macs = (mac for mac in lab_macs if mac not in macs)
    used = {host.name for host, _ in cluster.hosts}
    rendezvous, nodes = cluster.rendezvous, []
    alone = sum(role != "bootstrap" for _, role in cluster.hosts) == 1
    names = {segment_id: f"net{index}" for index, segment_id in enumerate(own)}
    names[id(plan.home)] = "machine"
    for host, role in cluster.hosts:
        name = host.name or next(n for n in (f"{role}-{i}" for i in itertools.count()) if n not in used)
        used.add(name)
        rendezvous_ip = ""
        if role == "master" and rendezvous and rendezvous not in pool.taken and asks(host, rendezvous):
            rendezvous_ip, rendezvous = rendezvous, ""
            pool.taken.add(rendezvous_ip)
        memory = memory_mib or (SNO_MIB if alone else _memory(host, role))
        common: dict[str, Any] = {"name": name, "role": role, "memory_mib": memory, "firmware": firmware}
        common |= {"vcpu": vcpu} if vcpu else {}
        common |= {"tpm": True} if cluster.tpm else {}
        common |= _disks(host)
        common |= (
            _single_nic(host, plan, pool, unused_macs, rendezvous_ip=rendezvous_ip)
            if single
            else _attached(host, plan, pool, unused_macs, rendezvous_ip=rendezvous_ip, names=names)
        )
        nodes.append(common)
    fields: dict[str, Any] = {
        # A lab's name is a label: no dots.
        "name": cluster.name.replace(".", "-")[:63].strip("-") or "lab",
        "cluster_name": cluster.name,
        "base_domain": cluster.base_domain,
        "platform": cluster.platform,
        "nodes": nodes,
        "proxy": cluster.proxy,
        "load_balancer": cluster.load_balancer,
        "tang": cluster.tang,
    }
    fields |= {"boot": "minimal-iso"} if cluster.minimal else {}
    for vips, key in ((cluster.api_vips, "api_vip"), (cluster.ingress_vips, "ingress_vip")):
        fields |= {f"{key}s": vips} if len(vips) > 1 else {key: vips[0]} if vips else {}
    if single:
        [segment] = plan.segments
        mine = own[id(segment)].get(segment.subnets[0].version, "")
        fields |= {
            "machine_network": str(segment.subnets[0]),
            "addressing": "dhcp" if segment.subnets[0].version in segment.dynamic else "static",
            "address": mine,
            "aliases": [text for text in segment.answering if text != mine],
        }
    else:
        fields["networks"] = [_network(s, names[id(s)], own[id(s)]) for s in plan.segments]
        fields["machine_network"] = str(plan.home.subnets[0])
    try:
        return topology.read(fields)
    except TopologyError as error:
        raise ConfigsError(list(dict.fromkeys(_in_files(cluster, line) for line in error.lines))) from error


def _memory(host: Host, role: str) -> int:
    """Return a machine's memory in MiB. Workers whose role the files leave open get a little more than masters, since
    the service makes masters of the weakest hosts (installer.md §5.8)."""
    if role != "worker":
        return MASTER_MIB
    return WORKER_MIB if host.role else MASTER_MIB + MORE_MIB


def _is_single(cluster: Cluster, plan: Plan) -> bool:
    """Return whether there is one network, and one plain NIC in each machine: a topology then lists no networks."""
    plain = all(
        len(host.attachment.nics) <= 1
        and not host.attachment.bonds
        and len(host.attachment.addresses) <= 1
        and all(nic.mac or not nic.name for nic in host.attachment.nics)
        and not any(iface.vlan or iface.mtu or iface.clones for iface in host.attachment.ifaces)
        for host, _ in cluster.hosts
    )
    mixed = {bool(host.attachment.addresses) for host, _ in cluster.hosts}
    return plain and len(plan.segments) == 1 and len(plan.home.subnets) == 1 and len(mixed) == 1


def _own(segment: Segment, pool: _Addresses) -> dict[int, str]:
    """Return the lab's own address of each family: that of the gateway or a server, else the first unused one."""
    own: dict[int, str] = {}
    machines = pool.taken
    for subnet in segment.own_subnets:
        named = [text for text in segment.answering if ipaddress.ip_address(text) in subnet]
        first = next((str(host) for host in itertools.islice(subnet.hosts(), 1 << 16) if str(host) not in machines), "")
        own.setdefault(subnet.version, named[0] if named else first)
        pool.taken.add(own[subnet.version])
    return own


def _network(segment: Segment, name: str, own: dict[int, str]) -> dict[str, Any]:
    fields: dict[str, Any] = {"name": name}
    for subnet in segment.own_subnets:
        is_ipv6 = subnet.version == 6
        suffix = "6" if is_ipv6 else ""
        routers = [text for text in segment.routers if ipaddress.ip_address(text) in subnet]
        # Where no host has a router and none is announced, the network has no gateway.
        without_gateway = not routers and (segment.invented or subnet.version not in segment.dynamic)
        fields |= {f"ipv{subnet.version}": str(subnet), f"address{suffix}": own[subnet.version]}
        fields |= {f"gateway{suffix}": "none"} if without_gateway else {}
        if subnet.version in segment.dynamic:
            fields |= {"dhcpv6": True, "router_advertisements": True} if is_ipv6 else {"dhcp": True}
    rest = [text for text in segment.answering if text not in own.values()]
    fields |= {"aliases": rest} if rest else {}
    fields |= {"vlan": segment.vlan} if segment.vlan else {}
    fields |= {"mtu": segment.mtu} if segment.mtu not in (0, 1500) else {}
    return fields


def _disks(host: Host) -> dict[str, Any]:
    if len(host.disks) == 1 and host.disks[0] == type(host.disks[0])(size_gib=host.disks[0].size_gib, root=True):
        return {"disk_gib": host.disks[0].size_gib}
    return {"disks": [msgspec.to_builtins(disk) for disk in host.disks]} if host.disks else {}


def _single_nic(
    host: Host, plan: Plan, pool: _Addresses, unused_macs: Iterator[str], *, rendezvous_ip: str
) -> dict[str, Any]:
    nics, held = host.attachment.nics, host.attachment.addresses
    ip = str(held[0].ip) if held else rendezvous_ip or pool.free(plan.home.subnets[0])
    return {"mac": (nics[0].mac if nics else "") or next(unused_macs), "ip": ip}


def _attached(
    host: Host, plan: Plan, pool: _Addresses, unused_macs: Iterator[str], *, rendezvous_ip: str, names: dict[int, str]
) -> dict[str, Any]:
    """Return a machine's NICs and bonds, each with its networks and addresses."""
    attachment = host.attachment
    ifaces: dict[str, list[Iface]] = {}
    for iface in attachment.ifaces:
        ifaces.setdefault(iface.base, []).append(iface)
    bonded = {name for _, ports in attachment.bonds.values() for name in ports}
    nics = list(attachment.nics)
    if not ifaces:
        first = next(iter(attachment.unmentioned), nics[0].name if nics else "")
        ifaces[first] = [Iface(base=first, dynamic=frozenset(s.version for s in plan.home.subnets))]
    buses = _buses(nics)
    kernel = {nic.name: f"enp{bus}s0" for nic, bus in zip(nics, buses, strict=True)}

    def placed(base: str) -> dict[str, Any]:
        """Return networks and addresses of a NIC or bond."""
        plain, trunk, held = "", [], []
        clones = list(dict.fromkeys(mac for iface in ifaces.get(base, []) for mac in iface.clones))
        for iface in ifaces.get(base, []):
            segment = plan.of(host, iface)
            if iface.vlan:
                trunk.append(names[id(segment)])
            else:
                plain = names[id(segment)]
            # Addresses outside of the lab's networks are left to the host.
            held += [text for address in iface.addresses if segment.holds(text := str(address.ip))]
            for version in sorted(iface.dynamic):
                subnet = next((s for s in segment.own_subnets if s.version == version), None)
                if subnet is not None:
                    fits = segment is plan.home and rendezvous_ip and ipaddress.ip_address(rendezvous_ip) in subnet
                    held.append(rendezvous_ip if fits else pool.free(subnet))
        fields: dict[str, Any] = {"network": plain} if plain else {}
        fields |= {"trunk": list(dict.fromkeys(trunk))} if trunk else {}
        fields |= {"addresses": list(dict.fromkeys(held))} if held else {}
        return fields | ({"clones": clones} if clones else {})

    entries = []
    for index, (nic, bus) in enumerate(zip(nics, buses, strict=True), 1):
        entry: dict[str, Any] = {"mac": nic.mac or next(unused_macs)} | ({"pci": bus} if bus != index else {})
        # A NIC that is found by its name has to have it.
        if not nic.mac and nic.name != kernel[nic.name]:
            entry["name"] = kernel[nic.name] = nic.name
        entries.append(entry if nic.name in bonded else entry | placed(nic.name))
    if not nics:
        entries = [{"mac": next(unused_macs)} | placed("")]
    bonds = [
        {"name": name, "mode": mode, "nics": [kernel[port] for port in ports]} | placed(name)
        for name, (mode, ports) in attachment.bonds.items()
    ]
    fields: dict[str, Any] = {"nics": entries} | ({"bonds": bonds} if bonds else {})
    all_addresses = [text for attached in (*entries, *bonds) for text in attached.get("addresses", [])]
    addresses = [text for text in all_addresses if plan.home.holds(text)] or [
        text for text in all_addresses if any(ipaddress.ip_address(text) in subnet for subnet in plan.machine_subnets)
    ]
    # A machine is known by an address of the first machine network's family.
    addresses.sort(key=lambda text: ipaddress.ip_address(text).version != plan.machine_subnets[0].version)
    return fields | ({"ip": addresses[0]} if addresses else {})


def _buses(nics: list[HostNic]) -> list[int]:
    """Return the PCI buses of NICs, from which the kernel makes their names (enp2s0: bus 2)."""
    buses = {nic.name: int(match[1]) for nic in nics if not nic.mac and (match := _BY_BUS.fullmatch(nic.name))}
    free = (bus for bus in itertools.count(1) if bus not in buses.values())
    return [buses[nic.name] if nic.name in buses else next(free) for nic in nics]


def _in_files(cluster: Cluster, line: str) -> tuple[str, str]:
    """Return a problem of the topology as a file and a problem of it."""
    path, _, rule = line.partition(": ")
    rule = _NODE.sub(lambda match: cluster.hosts[int(match[1])][0].path or match[0], rule)
    rule = _NETWORK.sub("another network", rule).replace("machine_network", "machineNetwork")
    rule = _VIP.sub(lambda match: f"{match[1]}VIPs{match[2] or '[0]'}", rule)
    if cluster.rendezvous and rule.startswith(f"{cluster.rendezvous} "):
        return AGENT, f"rendezvousIP: {rule}"
    if match := _NODE.match(path):
        host, _ = cluster.hosts[int(match[1])]
        if not host.path:
            return cluster.source, f"controlPlane.replicas and compute[].replicas: {rule}"
        return host.file, f"{host.path}.{_OF_HOSTS.get(match[2] or '', 'networkConfig')}: {rule}"
    if match := _VIP.match(path):
        return cluster.source, f"{match[1]}VIPs{match[2] or '[0]'}: {rule}"
    first = next((host for host, _ in cluster.hosts if host.attachment.ifaces and host.path), None)
    if path.startswith("networks[") and first is not None:
        return first.file, f"{first.path}.networkConfig: {rule}"
    field = re.split(r"[.\[]", path)[0]
    return cluster.source, f"{_OF_CLUSTER.get(field, field)}: {rule}"

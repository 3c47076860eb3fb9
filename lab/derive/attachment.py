"""A host's attachment to networks: its NICs, bonds, VLANs and addresses."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import cast

from lab.derive.inputs import Family, Interface, ListedHost, ListedNic, NetworkConfig
from lab.topology import BondMode
from lab.topology.words import never_a_hosts

Address = ipaddress.IPv4Interface | ipaddress.IPv6Interface
Problems = list[tuple[str, str]]

#: Types of interfaces that lie over another one and share its link.
_OVER = ("vlan", "mac-vlan", "mac-vtap")
_BONDS = ("bond", "ovs-bond")
#: Types whose addresses the service counts (internal/host/host.go: physical, bond, vlan; br-ex is `openvswitch`).
_COUNTED = ("ethernet", "bond", "vlan")
#: OVS's modes -> the mode of Linux bonds that asks the same of the switch: independent ports, or LACP.
_OVS_MODES: Mapping[str, BondMode] = {
    "active-backup": "active-backup",
    "balance-slb": "balance-tlb",
    "balance-tcp": "802.3ad",
    "lacp": "802.3ad",
}
#: The name that node0 gives a NIC which is known by its boot MAC address alone.
_BOOT = "boot"


@dataclass(frozen=True)
class HostNic:
    """A NIC: the name that the files give it, and its MAC address (empty: any)."""

    name: str
    mac: str = ""


@dataclass(frozen=True, kw_only=True)
class Iface:
    """An interface that has addresses or asks for them, over a NIC or bond (`base`), with a VLAN's tag or without one
    (0). `clones` are MAC addresses that the host gives it instead of the NIC's, and asks by. The service sees the
    addresses of interfaces that are `counted` alone."""

    base: str
    vlan: int = 0
    addresses: tuple[Address, ...] = ()
    dynamic: frozenset[int] = frozenset()
    mtu: int = 0
    clones: tuple[str, ...] = ()
    counted: bool = True


@dataclass(frozen=True)
class Attachment:
    """A host's NICs and what lies over them.

    `bonds` has modes and NICs by the bonds' names, `ifaces` an entry for each NIC or bond and tag. `routers` are the
    next hops of default routes, `hops` those of the other routes. `unmentioned` are the NICs that the document says
    nothing of: each asks for an address (NetworkManager's default).
    """

    nics: tuple[HostNic, ...] = ()
    bonds: dict[str, tuple[BondMode, tuple[str, ...]]] = field(default_factory=dict)
    _: KW_ONLY
    ifaces: tuple[Iface, ...] = ()
    routers: tuple[str, ...] = ()
    hops: tuple[str, ...] = ()
    dns: tuple[str, ...] = ()
    unmentioned: tuple[str, ...] = ()

    @property
    def addresses(self) -> tuple[Address, ...]:
        """Its static addresses."""
        return tuple(address for iface in self.ifaces for address in iface.addresses)


class _Document:
    """One NMState document, looked up by interface name."""

    def __init__(self, config: NetworkConfig, nics: list[HostNic]) -> None:
        # An OVS bridge often has the name of the interface in it.
        self.kernel = {interface.name: interface for interface in config.interfaces if interface.type != "ovs-bridge"}
        self.switches = [interface for interface in config.interfaces if interface.type == "ovs-bridge"]
        self.nics = {nic.name: nic for nic in nics}
        by_mac = {nic.mac: nic.name for nic in nics if nic.mac}
        #: The names in `nics` of the NICs that the document has.
        self.nic_names = {
            interface.name: by_mac.get(interface.mac_address, interface.name)
            for interface in self.kernel.values()
            if interface.type == "ethernet"
        }
        for name, listed in self.nic_names.items():
            self.nics.setdefault(listed, HostNic(listed, self.kernel[name].mac_address))
        for interface in self.kernel.values():
            if interface.type in _OVER and interface.base not in self.kernel:
                self.nics.setdefault(interface.base, HostNic(interface.base))

    def bonds(self) -> dict[str, tuple[BondMode, tuple[str, ...]]]:
        """Return modes and NICs of the bonds, of Linux and of OVS."""
        return {
            interface.name: (
                _OVS_MODES[interface.mode] if interface.type == "ovs-bond" else cast(BondMode, interface.mode),
                tuple(self.nic_names.get(port.name, port.name) for port in interface.ports),
            )
            for interface in self.kernel.values()
            if interface.type in _BONDS
        }

    def unfit(self) -> Iterator[str]:
        """Yield what no lab has."""
        for interface in self.kernel.values():
            if interface.type == "infiniband":
                yield f"{interface.name} is of type infiniband: labs have NICs, bonds, VLANs and bridges over them"
            if interface.type in _BONDS:
                for port in interface.ports:
                    if (kind := self.kernel[port.name].type) != "ethernet":
                        yield f"{interface.name} has the port {port.name}, a {kind}: labs have bonds of NICs"
            if interface.type == "vlan" and self.base(interface.base)[1]:
                yield f"{interface.name} is a VLAN over a VLAN: labs carry one tag"

    def base(self, name: str, seen: frozenset[str] = frozenset()) -> tuple[str, int]:
        """Return the NIC or bond below an interface, and the tag on the way; the name is empty without one.
        Interfaces that were `seen` are not looked at again: patch cables may form rings."""
        interface = self.kernel.get(name)
        if interface is None:
            return (name, 0) if name in self.nics else ("", 0)
        if name in seen:
            return "", 0
        seen |= {name}
        if interface.type == "ethernet":
            return self.nic_names[name], 0
        if interface.type in _BONDS:
            return name, 0
        if interface.type in _OVER:
            below, outer = self.base(interface.base, seen)
            return below, interface.vlan or outer
        if interface.type == "linux-bridge":
            return self._below(interface, seen)
        if interface.type == "ovs-interface":
            # One end of a patch cable is in this bridge, what is below it in the other's.
            wanted = interface.patch or name
            for switch in self.switches:
                for port in switch.ports:
                    if port.name == wanted:
                        below, outer = self._below(switch, seen)
                        return below, port.vlan or outer
        return "", 0

    def _below(self, bridge: Interface, seen: frozenset[str]) -> tuple[str, int]:
        """Return the NIC or bond by which a bridge reaches others."""
        found = (self.base(port.name, seen) for port in bridge.ports)
        return next((base for base in found if base[0]), ("", 0))

    def unmentioned(self) -> tuple[str, ...]:
        """Return the NICs that it says nothing of."""
        return tuple(name for name in self.nics if name not in self.nic_names.values())

    def mtu(self, name: str) -> int:
        """Return an interface's MTU, which a VLAN has of what it lies over unless it says its own; 0 where none is
        said."""
        interface = self.kernel.get(name)
        if interface is None:
            return 0
        return interface.mtu or (self.mtu(interface.base) if interface.base else 0)

    def ifaces(self) -> Iterator[Iface]:
        """Yield the interfaces with an address, or a way to get one, that lie over a NIC."""
        macs = {nic.mac for nic in self.nics.values()}
        for name, interface in self.kernel.items():
            families = [(version, family) for version, family in ((4, interface.ipv4), (6, interface.ipv6)) if family]
            static = tuple(address for _, family in families for address in _static(family))
            dynamic = frozenset(version for version, family in families if family.dhcp or family.autoconf)
            base, tag = self.base(name) if static or dynamic else ("", 0)
            if base:
                cloned = dynamic and interface.mac_address and interface.mac_address not in macs
                yield Iface(
                    base=base,
                    vlan=tag,
                    addresses=static,
                    dynamic=dynamic,
                    mtu=self.mtu(name),
                    clones=(interface.mac_address,) if cloned else (),
                    counted=interface.type in _COUNTED,
                )


def _static(family: Family) -> Iterator[Address]:
    for text in () if family.dhcp else family.addresses:
        address = ipaddress.ip_interface(text)
        if not never_a_hosts(address.ip):
            yield address


def read(host: ListedHost, problems: Problems) -> Attachment:
    """Read a host's attachment; what no lab has is added to the problems."""
    config = host.network_config
    if config is None:
        return Attachment(tuple(_host_nics(host.interfaces)))
    document = _Document(config, _host_nics(_named(host.interfaces, config)))
    problems += [(host.file, f"{host.path}.networkConfig: {rule}") for rule in document.unfit()]
    ifaces, unmentioned = tuple(_merged(document.ifaces())), document.unmentioned()
    if not ifaces and not unmentioned:
        rule = "no NIC has an address or asks for one, nor has anything over it: the host would reach nobody"
        problems.append((host.file, f"{host.path}.networkConfig: {rule}"))
    ways_out = [ipaddress.ip_network(route.destination).prefixlen == 0 for route in config.routes]
    routes = [(out, route.next_hop) for out, route in zip(ways_out, config.routes, strict=True) if route.next_hop]
    return Attachment(
        nics=tuple(document.nics.values()),
        bonds=document.bonds(),
        ifaces=ifaces,
        routers=tuple(hop for out, hop in routes if out),
        hops=tuple(hop for out, hop in routes if not out),
        dns=config.dns_servers,
        unmentioned=unmentioned,
    )


def _named(nics: Iterable[ListedNic], config: NetworkConfig) -> list[ListedNic]:
    """Return a host's NICs, where the one it boots by has the name of the document's first NIC if it has none there."""
    listed = list(nics)
    ethernets = [interface for interface in config.interfaces if interface.type == "ethernet"]
    if (
        [nic.name for nic in listed] == [_BOOT]
        and ethernets
        and not any(interface.mac_address for interface in ethernets)
    ):
        return [ListedNic(ethernets[0].name, listed[0].mac_address)]
    return listed


def _host_nics(nics: Iterable[ListedNic]) -> list[HostNic]:
    return [
        HostNic(nic.name or (f"NIC {number}" if number else ""), nic.mac_address) for number, nic in enumerate(nics)
    ]


def _merged(ifaces: Iterable[Iface]) -> Iterator[Iface]:
    """Yield those of the same base and tag as one, as a bridge and its port."""
    by_name: dict[tuple[str, int], Iface] = {}
    for iface in ifaces:
        key = (iface.base, iface.vlan)
        before = by_name.get(key)
        by_name[key] = (
            iface
            if before is None
            else replace(
                before,
                addresses=(*before.addresses, *iface.addresses),
                dynamic=before.dynamic | iface.dynamic,
                mtu=max(before.mtu, iface.mtu),
                clones=(*before.clones, *iface.clones),
            )
        )
    yield from by_name.values()

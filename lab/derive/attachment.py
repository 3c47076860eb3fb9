"""How a host of the files is attached to networks: cards, bonds, VLANs and addresses of its NMState document."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import get_args

from lab.derive import switches
from lab.derive.fields import Field, Interface, addresses
from lab.topology import BondMode
from lab.topology.words import never_a_hosts

#: Kinds of interfaces that need nothing of the lab: what a tunnel carries is packets like any other.
_INSIDE = ("loopback", "dummy", "veth", "vrf", "vxlan")
#: Types of interfaces that lie over another, and the section that says over which.
_OVER = {"vlan": "vlan", "mac-vlan": "mac-vlan", "mac-vtap": "mac-vtap"}
# nmstate also takes a mode by its number (docs.kernel.org/networking/bonding.html).
_MODES = ("balance-rr", "active-backup", "balance-xor", "broadcast", "802.3ad", "balance-tlb", "balance-alb")
_NUMBERS = {str(number): mode for number, mode in enumerate(_MODES)}
#: The MTUs and VLAN tags that labs carry.
_LEAST_MTU, _MOST_MTU, _MOST_VLAN = 1280, 9216, 4094
#: Types whose addresses the service counts (internal/host/host.go: physical, bond, vlan; br-ex is `openvswitch`).
_COUNTED = ("ethernet", "bond", "vlan")


@dataclass(frozen=True)
class Card:
    """A network card: the name that the files give it, and its MAC address (empty: any); `place` is where they do."""

    name: str
    mac: str = ""
    place: Field | None = field(default=None, compare=False)


@dataclass(frozen=True, kw_only=True)
class Iface:
    """An interface that has addresses or asks for them, over a card or bond (`base`), with a VLAN's tag or without one
    (0). `clones` are MAC addresses that the host gives it instead of the card's, and asks by. `not_counted` is the
    interface's field where the service does not count the addresses of its type."""

    base: str
    vlan: int = 0
    addresses: tuple[Interface, ...] = ()
    dynamic: frozenset[int] = frozenset()
    mtu: int = 0
    clones: tuple[str, ...] = ()
    not_counted: Field | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Attachment:
    """How a host is attached.

    `bonds` has modes and cards by the bonds' names. `ifaces` has one for each card or bond and tag, `separate_ifaces`
    each by itself. `routers` are the next hops of default routes, `hops` those of the other routes.

    `unmentioned` are the cards that the document says nothing of: each asks for an address (NetworkManager's default).
    With `has_no_address` the host has neither such a card nor an address, and asks for none. `over_no_card` are the
    addresses of interfaces that lie over no card. `replaced_macs` are the fields with which the document replaces MAC
    addresses, where the host keeps none of those that the files know its cards by.

    `document` is the NMState document, `places` are the fields of its addresses.
    """

    cards: tuple[Card, ...] = ()
    bonds: dict[str, tuple[BondMode, tuple[str, ...]]] = field(default_factory=dict)
    _: KW_ONLY
    ifaces: tuple[Iface, ...] = ()
    routers: tuple[str, ...] = ()
    hops: tuple[str, ...] = ()
    dns: tuple[str, ...] = ()
    unmentioned: tuple[str, ...] = ()
    has_no_address: bool = False
    replaced_macs: tuple[Field, ...] = field(default=(), compare=False)
    over_no_card: tuple[tuple[Interface, Field], ...] = field(default=(), compare=False)
    separate_ifaces: tuple[Iface, ...] = field(default=(), compare=False)
    places: tuple[tuple[str, Field], ...] = field(default=(), compare=False)
    document: Field | None = field(default=None, compare=False)

    @property
    def addresses(self) -> tuple[Interface, ...]:
        """Its static addresses."""
        return tuple(address for iface in self.ifaces for address in iface.addresses)


def _no_function(name: str, place: Field) -> None:
    """Note a name by which nmstate means a virtual function (sriov:CARD:NUMBER)."""
    if name.startswith("sriov:"):
        place.wrong(f"{name}: cards of labs have no virtual functions; use the card itself")


class _Document:
    """One NMState document, looked up by interface name."""

    def __init__(self, document: Field, cards: list[Card]) -> None:
        self.document = document
        self.cards = {card.name: card for card in cards}
        self.by_mac = {card.mac: card.name for card in cards if card.mac}
        self.kinds: dict[str, Field] = {}
        #: OVS bridges, which often have the name of their own interface.
        self.switches: dict[str, Field] = {}
        #: The name in `cards` of a card that the document calls otherwise.
        self._card_names: dict[str, str] = {}
        self.bonds: dict[str, tuple[BondMode, tuple[str, ...]]] = {}
        self.places: list[tuple[str, Field]] = []
        #: Where cards are given another MAC address than the one that they are known by.
        self.replaced_macs: dict[str, Field] = {}
        #: Addresses of interfaces that no card lies below.
        self.over_no_card: list[tuple[Interface, Field]] = []
        #: The bridge or bond that an interface is a port of.
        self.controllers: dict[str, str] = {}
        #: VLANs by the interface below them and their tag.
        self.tags: dict[tuple[str, int], str] = {}
        interfaces = document.get("interfaces").few()
        for interface in interfaces:
            self._take(interface)
        listed = {interface.get("name").text() for interface in interfaces}
        for name in self._below_others():
            # A card of the host that the document has no need to list.
            if name and name not in listed:
                self.cards.setdefault(name, Card(name))
        self.bonds = {
            name: (mode, tuple(self._card_names.get(port, port) for port in ports))
            for name, (mode, ports) in self.bonds.items()
        }

    def _take(self, interface: Field) -> None:
        name, kind = interface.get("name").text(), interface.get("type").text() or "ethernet"
        if not name:
            interface.get("name").wrong("an interface has to have a name")
            return
        # The assisted service has what is down started as well (nmstate.md §1.5).
        if interface.get("state").text() in ("absent", "ignore") or kind in _INSIDE:
            return
        if kind == "ethernet":
            self._card(name, interface)
        elif kind == "bond":
            self._bond(name, interface.get("link-aggregation"))
        elif kind == "linux-bridge":
            self.controllers |= {port.get("name").text(): name for port in switches.ports(interface)}
        elif kind == "ovs-bridge":
            self.switches[name] = interface
            self.controllers |= {port.get("name").text(): name for port in switches.ports(interface)}
            for port, mode, ports in switches.bonds(interface):
                self.bonds[port] = (mode, ports)
            return
        elif kind not in (*_OVER, "linux-bridge", "ovs-interface"):
            interface.get("type").wrong(
                f"{name} is of type {kind}: labs have cards, bonds, VLANs and bridges over them"
            )
            return
        mtu = interface.get("mtu").number(0)
        if mtu and not _LEAST_MTU <= mtu <= _MOST_MTU:
            interface.get("mtu").wrong(f"{mtu} is not within {_LEAST_MTU} to {_MOST_MTU}, which is what labs carry")
        if kind == "vlan" and not 1 <= interface.get("vlan", "id").number(0) <= _MOST_VLAN:
            interface.get("vlan", "id").wrong(f"{interface.get('vlan', 'id').value} is not within 1 to {_MOST_VLAN}")
        elif kind == "vlan":
            tag = (interface.get("vlan", "base-iface").text(), interface.get("vlan", "id").number(0))
            if (other := self.tags.setdefault(tag, name)) != name:
                interface.get("vlan").wrong(f"{name} has the tag {tag[1]} over {tag[0]}, as {other} has: there is one")
        self.kinds[name] = interface

    def _below_others(self) -> Iterator[str]:
        """What VLANs and the like lie over, and the ports of Linux bridges."""
        for interface in self.kinds.values():
            kind = interface.get("type").text()
            if kind in _OVER:
                yield interface.get(_OVER[kind], "base-iface").text()
            elif kind == "linux-bridge":
                yield from (port.get("name").text() for port in switches.ports(interface))

    def _card(self, name: str, interface: Field) -> None:
        _no_function(name, interface.get("name"))
        place = interface.get("mac-address")
        mac = place.mac()
        card = self.by_mac.get(mac, name)
        self._card_names[name] = card
        if card in self.cards and mac and self.cards[card].mac and mac != self.cards[card].mac:
            self.replaced_macs[card] = place
        if card not in self.cards:
            self.cards[card] = Card(card, mac, place)

    def _bond(self, name: str, aggregation: Field) -> None:
        mode = aggregation.get("mode").text() or "balance-rr"
        mode = _NUMBERS.get(mode, mode)
        if mode not in get_args(BondMode):
            aggregation.get("mode").wrong(f"{mode!r} is not one of {', '.join(get_args(BondMode))}")
            return
        ports = switches.port_names(aggregation)
        for port in ports:
            _no_function(port, aggregation.get("port"))
        if not ports:
            aggregation.get("port").wrong(f"{name} is a bond of no cards: list them")
        self.bonds[name] = (mode, ports)  # type: ignore[assignment]
        self.controllers |= dict.fromkeys(ports, name)

    def base(self, name: str, seen: set[str] | None = None) -> tuple[str, int]:
        """The card or bond below an interface, and the tag of a VLAN on the way; the name is empty without one. `seen`
        has all that was looked at, so that bridges which lead to each other are asked once."""
        interface, seen = self.kinds.get(name), set() if seen is None else seen
        if interface is None or name in seen:
            return (name, 0) if name in self.cards or name in self.bonds else ("", 0)
        seen.add(name)
        kind = interface.get("type").text() or "ethernet"
        if kind in _OVER:
            below, outer = self.base(interface.get(_OVER[kind], "base-iface").text(), seen)
            if kind != "vlan":
                return below, outer
            tag = interface.get("vlan", "id").number(0)
            if outer:
                interface.get("vlan").wrong("a VLAN over a VLAN: labs carry one tag")
            return below, tag
        if kind == "linux-bridge":
            return self._below(interface, seen)
        if kind == "ovs-interface":
            # One end of a patch cable is in this bridge, what is below it in the other's.
            peer = interface.get("patch", "peer").text()
            switch, tag = switches.holding(peer or name, self.switches)
            below, outer = self._below(switch, seen) if switch is not None else ("", 0)
            return below, tag or outer
        return self._card_names.get(name, name), 0

    def _below(self, bridge: Field, seen: set[str]) -> tuple[str, int]:
        """The card or bond by which a bridge reaches others."""
        for port in switches.ports(bridge):
            name = port.get("name").text()
            base = self.base(name, seen) if name not in seen else ("", 0)
            if base[0]:
                return base
        return "", 0

    def unmentioned(self) -> tuple[str, ...]:
        """The cards that it says nothing of, neither by themselves nor as ports of another."""
        ports = {name for _, names in self.bonds.values() for name in names}
        for bridge in (*self.kinds.values(), *self.switches.values()):
            listed = (port.get("name").text() for port in switches.ports(bridge))
            ports |= {self._card_names.get(name, name) for name in listed}
        return tuple(name for name in self.cards if name not in ports and name not in self._card_names.values())

    def mtu(self, name: str, seen: frozenset[str] = frozenset()) -> int:
        """An interface's MTU, which a VLAN has of what it lies over unless it says its own; 0 where nobody says one."""
        interface = self.kinds.get(name)
        if interface is None or name in seen:
            return 0
        below = interface.get("vlan", "base-iface").text()
        return interface.get("mtu").number(0) or (self.mtu(below, seen | {name}) if below else 0)

    def ifaces(self) -> Iterator[Iface]:
        """The interfaces with an address or a way to get one."""
        for name, interface in self.kinds.items():
            self._enabled(interface)
            static = tuple(self._static(interface))
            dynamic = frozenset(
                version
                for version in (4, 6)
                if (family := interface.get(f"ipv{version}")).get("enabled").flag()
                and (family.get("dhcp").flag() or family.get("autoconf").flag())
            )
            if not (static or dynamic or self.kind(name) in _OVER):
                continue
            base, tag = self.base(name)
            if not base:
                self.over_no_card += ((address, interface) for address in static)
            elif static or dynamic:
                bond = next((bond for bond, (_, ports) in self.bonds.items() if base in ports), "")
                if bond:
                    interface.get("ipv4").wrong(f"{name} has addresses and is a port of {bond}, which has to have them")
                elif name in self.controllers and self.kind(name) != "ovs-interface":
                    if not static:
                        # Ports of bridges ask for nothing (nmstate.md §2.1), whatever stands there.
                        continue
                    rule = f"{name} has addresses and is a port of {self.controllers[name]}, which has to have them"
                    interface.get("ipv4").wrong(rule)
                clone = interface.get("mac-address").mac() if dynamic else ""
                clones = (clone,) if clone and clone not in {card.mac for card in self.cards.values()} else ()
                yield Iface(
                    base=base,
                    vlan=tag,
                    addresses=static,
                    dynamic=dynamic,
                    mtu=self.mtu(name),
                    clones=clones,
                    not_counted=None if self.kind(name) in _COUNTED else interface,
                )

    def _enabled(self, interface: Field) -> None:
        """Note a family that says how it gets addresses, and not that it is on: then it is off (nmstate.md §2.2)."""
        for version in (4, 6):
            family = interface.get(f"ipv{version}")
            if family.map() and not family.has("enabled"):
                says = [name for name in ("address", "dhcp", "autoconf") if family.get(name)]
                if says:
                    rule = f"missing, and without enabled: true {says[0]} counts for nothing"
                    family.get("enabled").wrong(rule)

    def kind(self, name: str) -> str:
        """An interface's type."""
        return self.kinds[name].get("type").text() or "ethernet"

    def _static(self, interface: Field) -> Iterator[Interface]:
        for version in (4, 6):
            family = interface.get(f"ipv{version}")
            if family.get("enabled").flag() is False or family.get("dhcp").flag():
                continue
            for entry in family.get("address").items():
                place = entry.get("ip")
                text, length = place.address(), entry.get("prefix-length").number(24 if version == 4 else 64)
                if not text:
                    continue
                try:
                    address = ipaddress.ip_interface(f"{text}/{length}")
                except ValueError:
                    entry.get("prefix-length").wrong(f"{length} is no length of a prefix of {text}")
                    continue
                if not address.network.prefixlen:
                    entry.get("prefix-length").wrong(f"{text}/0 is all addresses, which is no network")
                    continue
                if address.is_link_local:
                    continue
                if rule := never_a_hosts(address.ip):
                    place.wrong(f"{text}: {rule}")
                    continue
                if address.version != version:
                    place.wrong(f"{text} is not an IPv{version} address")
                    continue
                self.places.append((str(address.ip), place))
                yield address


def read(document: Field, cards: list[Card]) -> Attachment:
    """A host's attachment; `cards` are those that the files list beside the document, which may name more."""
    if not document:
        return Attachment(tuple(cards))
    parsed = _Document(document.as_nmstate(), cards)
    routers: list[Field] = []
    hops: list[Field] = []
    for route in parsed.document.get("routes", "config").items():
        destination, hop = route.get("destination").text(), route.get("next-hop-address")
        if route.get("state").text() != "absent":
            (routers if is_default(destination) else hops).append(hop)
    members = {name for _, ports in parsed.bonds.values() for name in ports}
    for name, (_, ports) in parsed.bonds.items():
        for port in ports:
            over = "bond" if port in parsed.bonds else parsed.kind(port) if port in parsed.kinds else "ethernet"
            if over != "ethernet":
                rule = f"{name} has the port {port}, a {over}: labs have bonds of cards"
                parsed.document.get("interfaces").wrong(rule)
    for name in sorted(members - set(parsed.cards)):
        parsed.cards[name] = Card(name)
    with_mac = {name for name, card in parsed.cards.items() if card.mac}
    separate, unmentioned = tuple(parsed.ifaces()), parsed.unmentioned()
    ifaces = tuple(_merged(separate))
    return Attachment(
        cards=tuple(parsed.cards.values()),
        bonds=parsed.bonds,
        ifaces=ifaces,
        routers=addresses(routers),
        hops=addresses(hops),
        dns=addresses(parsed.document.get("dns-resolver", "config", "server").items()),
        unmentioned=unmentioned,
        # What is wrong with an address, an interface or the whole has been noted.
        has_no_address=not ifaces and not unmentioned and not document.noted,
        over_no_card=tuple(parsed.over_no_card),
        separate_ifaces=separate,
        replaced_macs=tuple(parsed.replaced_macs.values()) if with_mac <= set(parsed.replaced_macs) else (),
        places=tuple(parsed.places),
        document=parsed.document,
    )


def is_default(destination: str) -> bool:
    """Whether a route's destination is all addresses."""
    try:
        return ipaddress.ip_network(destination).prefixlen == 0
    except ValueError:
        return False


def _merged(ifaces: Iterable[Iface]) -> Iterator[Iface]:
    """Those of the same base and tag as one, as a bridge and its port."""
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

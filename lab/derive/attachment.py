"""How a host of the files is attached to networks: cards, bonds, VLANs and addresses of its NMState document."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import get_args

from lab.derive.fields import Field, Interface, addresses
from lab.topology import BondMode

#: Kinds of interfaces that need nothing of the lab, and those over which another one lies.
_INSIDE = ("loopback", "dummy", "veth", "vrf", "ovs-interface")
_BRIDGES = ("linux-bridge", "ovs-bridge")
# nmstate also takes a mode by its number (docs.kernel.org/networking/bonding.html).
_NUMBERS = ("balance-rr", "active-backup", "balance-xor", "broadcast", "802.3ad", "balance-tlb", "balance-alb")


@dataclass(frozen=True)
class Card:
    """A network card: the name that the files give it, and its MAC address (empty: any)."""

    name: str
    mac: str = ""


@dataclass(frozen=True)
class Face:
    """What has addresses: over a card or bond (`base`), with a VLAN's tag or none (0)."""

    base: str
    vlan: int = 0
    addresses: tuple[Interface, ...] = ()
    dynamic: frozenset[int] = frozenset()
    mtu: int = 0


@dataclass(frozen=True)
class Attachment:
    """All of a host. `bonds` are modes and cards by name; `routers` the next hops of default routes."""

    cards: tuple[Card, ...] = ()
    bonds: dict[str, tuple[BondMode, tuple[str, ...]]] = field(default_factory=dict)
    faces: tuple[Face, ...] = ()
    routers: tuple[str, ...] = ()
    dns: tuple[str, ...] = ()

    @property
    def addresses(self) -> tuple[Interface, ...]:
        """Its static addresses."""
        return tuple(address for face in self.faces for address in face.addresses)


class _Document:
    """One NMState document, looked up by interface name."""

    def __init__(self, document: Field, cards: list[Card]) -> None:
        self.document = document
        self.cards = {card.name: card for card in cards}
        self.by_mac = {card.mac: card.name for card in cards if card.mac}
        self.kinds: dict[str, Field] = {}
        self.bonds: dict[str, tuple[BondMode, tuple[str, ...]]] = {}
        for interface in document.get("interfaces").items():
            self._take(interface)

    def _take(self, interface: Field) -> None:
        name, kind = interface.get("name").text(), interface.get("type").text() or "ethernet"
        if interface.get("state").text() in ("absent", "down") or kind in _INSIDE[:-1]:
            return
        mac = interface.get("mac-address").mac() if kind == "ethernet" else ""
        if kind == "ethernet":
            name = self.by_mac.get(mac, name)
            if name not in self.cards:
                self.cards[name] = Card(name, mac)
        elif kind == "bond":
            self._bond(name, interface)
        elif kind not in ("vlan", *_BRIDGES, "ovs-interface"):
            interface.get("type").wrong(
                f"{name} is of type {kind}: labs have cards, bonds, VLANs and bridges over them"
            )
            return
        self.kinds[name] = interface

    def _bond(self, name: str, interface: Field) -> None:
        aggregation = interface.get("link-aggregation")
        mode = aggregation.get("mode").text() or "balance-rr"
        mode = _NUMBERS[int(mode)] if mode.isdecimal() and int(mode) < len(_NUMBERS) else mode
        if mode not in get_args(BondMode):
            aggregation.get("mode").wrong(f"{mode!r} is not one of {', '.join(get_args(BondMode))}")
            return
        ports = aggregation.get("port") if aggregation.has("port") else aggregation.get("slaves")
        self.bonds[name] = (mode, ports.texts())  # type: ignore[assignment]

    def base(self, name: str, seen: frozenset[str] = frozenset()) -> tuple[str, int]:
        """The card or bond below an interface, and the tag of a VLAN on the way; the name is empty without one."""
        interface = self.kinds.get(name)
        if interface is None or name in seen:
            return (name, 0) if name in self.cards else ("", 0)
        kind = interface.get("type").text() or "ethernet"
        if kind == "vlan":
            below, outer = self.base(interface.get("vlan", "base-iface").text(), seen | {name})
            tag = interface.get("vlan", "id").number(0)
            if outer:
                interface.get("vlan").wrong("a VLAN over a VLAN: labs carry one tag")
            return below, tag
        if kind in _BRIDGES:
            for port in interface.get("bridge", "port").items():
                found = self.base(port.get("name").text(), seen | {name})
                if found[0]:
                    return found
            return "", 0
        if kind == "ovs-interface":
            bridges = [one for one, value in self.kinds.items() if value.get("type").text() == "ovs-bridge"]
            holding = [
                b
                for b in bridges
                if name in [p.get("name").text() for p in self.kinds[b].get("bridge", "port").items()]
            ]
            return self.base(holding[0], seen | {name}) if holding else ("", 0)
        return name, 0

    def faces(self) -> Iterator[Face]:
        """Interfaces with an address or a way to get one; also those of VLANs without."""
        for name, interface in self.kinds.items():
            base, tag = self.base(name)
            static = tuple(self._static(interface))
            dynamic = frozenset(
                version
                for version in (4, 6)
                if (family := interface.get(f"ipv{version}")).get("enabled").flag()
                and (family.get("dhcp").flag() or family.get("autoconf").flag())
            )
            if base and (static or dynamic):
                yield Face(base, tag, static, dynamic, interface.get("mtu").number(0))

    @staticmethod
    def _static(interface: Field) -> Iterator[Interface]:
        for version in (4, 6):
            family = interface.get(f"ipv{version}")
            if family.get("enabled").flag() is False or family.get("dhcp").flag():
                continue
            for entry in family.get("address").items():
                text, length = entry.get("ip").address(), entry.get("prefix-length").number(24 if version == 4 else 64)
                if not text:
                    continue
                try:
                    address = ipaddress.ip_interface(f"{text}/{length}")
                except ValueError:
                    entry.get("prefix-length").wrong(f"{length} is no length of a prefix of {text}")
                    continue
                if not address.is_link_local:
                    yield address


def read(document: Field, cards: list[Card]) -> Attachment:
    """A host's attachment; `cards` are those that the files list beside the document, which may name more."""
    if not document:
        return Attachment(tuple(cards))
    parsed = _Document(document, cards)
    routers = []
    for route in document.get("routes", "config").items():
        destination, hop = route.get("destination").text(), route.get("next-hop-address")
        if destination in ("0.0.0.0/0", "::/0") and route.get("state").text() != "absent":
            routers.append(hop)
    members = {name for _, ports in parsed.bonds.values() for name in ports}
    for name in members - set(parsed.cards):
        parsed.cards[name] = Card(name)
    return Attachment(
        cards=tuple(parsed.cards.values()),
        bonds=parsed.bonds,
        faces=tuple(_merged(parsed.faces())),
        routers=addresses(routers),
        dns=addresses(document.get("dns-resolver", "config", "server").items()),
    )


def _merged(faces: Iterator[Face]) -> Iterator[Face]:
    """Those of the same base and tag as one: a bridge and its port are."""
    by_name: dict[tuple[str, int], Face] = {}
    for face in faces:
        key = (face.base, face.vlan)
        before = by_name.get(key)
        by_name[key] = (
            face
            if before is None
            else replace(
                before,
                addresses=(*before.addresses, *face.addresses),
                dynamic=before.dynamic | face.dynamic,
                mtu=max(before.mtu, face.mtu),
            )
        )
    yield from by_name.values()

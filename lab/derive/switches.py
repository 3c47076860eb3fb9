"""Bridges of NMState documents, and what OVS has in them: bonds of its own, and an interface with the host's address.

The documents are nmstate's (nmstate.md §2.7); a host's br-ex of OpenShift's documentation is one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lab.derive.fields import Field
from lab.topology import BondMode

#: OVS's modes -> the mode of Linux bonds that asks the same of the switch: independent ports, or LACP.
_MODES: Mapping[str, BondMode] = {
    "active-backup": "active-backup",
    "balance-slb": "balance-tlb",
    "balance-tcp": "802.3ad",
    "lacp": "802.3ad",
}


def _listed(whole: Field, *names: str) -> Field:
    """The first of these fields that is there, else the first of them: NMState has several names for ports."""
    return whole.get(next((name for name in names if whole.has(name)), names[0]))


def ports(bridge: Field) -> list[Field]:
    """A bridge's ports."""
    return _listed(bridge.get("bridge"), "port", "ports", "slaves").few()


def port_names(aggregation: Field) -> tuple[str, ...]:
    """The cards of a Linux bond: `ports-config` names them with what is special about each."""
    listed = tuple(one.text() for one in _listed(aggregation, "port", "ports", "slaves").few())
    configured = tuple(one.get("name").text() for one in aggregation.get("ports-config").few())
    return tuple(name for name in listed if name) or tuple(name for name in configured if name)


def bonds(bridge: Field) -> Iterator[tuple[str, BondMode, tuple[str, ...]]]:
    """The bonds of an OVS bridge: name, mode, cards."""
    for port in ports(bridge):
        if not port.has("link-aggregation"):
            continue
        aggregation = port.get("link-aggregation")
        mode = aggregation.get("mode").text() or "active-backup"
        if mode not in _MODES:
            aggregation.get("mode").wrong(f"{mode!r} is not one of {', '.join(_MODES)}")
            continue
        listed = _listed(aggregation, "port", "ports", "slaves")
        names = tuple(name for one in listed.items() if (name := one.get("name").text()))
        if not names:
            listed.wrong("a bond of no cards: list them")
        yield port.get("name").text(), _MODES[mode], names


def holding(name: str, bridges: Mapping[str, Field]) -> tuple[Field | None, int]:
    """The OVS bridge that an interface is a port of, and the tag with which it sends (0: none)."""
    for bridge in bridges.values():
        for port in ports(bridge):
            if port.get("name").text() == name:
                vlan = port.get("vlan")
                return bridge, vlan.get("tag").number(0) if vlan.get("mode").text() == "access" else 0
    return None, 0

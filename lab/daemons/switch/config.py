"""The configuration of the switch, as plain data."""

from __future__ import annotations

import msgspec

from lab.layout import Layout
from lab.machines.attach import by_switch
from lab.machines.container.hardware.cables import port


class Leg(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A network that a group of ports carries: the name of its way into the bridge, and its tag (0: without)."""

    name: str
    bridge: str
    vlan: int
    mtu: int


class Group(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Ports that are one, or a single one, by the names of the lab's ends of their cables."""

    ports: tuple[str, ...]
    legs: tuple[Leg, ...]
    lacp: bool = False


def groups(layout: Layout) -> tuple[Group, ...]:
    """Return all groups of a lab."""
    bundles: list[Group] = []
    for node in layout.topology.nodes:
        for link in layout.topology.links(node):
            if not by_switch(link):
                continue
            ports = tuple(port(nic.mac) for nic in link.nics)
            bundled = link.bond is not None and link.bond.aggregated
            for members in (ports,) if bundled else tuple((name,) for name in ports):
                legs = tuple(
                    Leg(
                        name=f"sw{len(bundles)}n{layout.bridge(network)}",
                        bridge=layout.bridge(network),
                        vlan=0 if network is link.network else network.vlan,
                        mtu=network.mtu,
                    )
                    for network in link.networks
                )
                lacp = link.bond is not None and link.bond.mode == "802.3ad"
                bundles.append(Group(members, legs, lacp))
    return tuple(bundles)

"""iSCSI disks: how a machine reaches the lab's target, and why it could not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lab.topology.errors import Problem
from lab.topology.links import Link
from lab.topology.networks import Network
from lab.topology.nics import Nic
from lab.topology.nodes import NodeSpec


def links_of(node: NodeSpec, links: Sequence[Link]) -> tuple[Link, ...]:
    """The cards by which a machine's firmware reaches the portals of its disk, in the portals' order."""
    found = []
    for name in node.portals:
        found += [
            link for link in links if link.bond is None and link.network is not None and link.network.name == name
        ][:1]
    return tuple(found)


def address(link: Link) -> str:
    """The machine's IPv4 address in the network of a card without tags; empty without one."""
    return next((text for text, network in link.addresses if network == link.network and ":" not in text), "")


def problems(node: NodeSpec, reached: Mapping[str, Nic], networks: Sequence[Network]) -> Iterator[Problem]:
    """What keeps a machine from its iSCSI disk. `reached`: its cards, by the networks that they have without a tag."""
    known = {network.name: network for network in networks}
    for index, name in enumerate(node.portals):
        field = f"disks[{node.root_index}].portals[{index}]"
        if name not in known:
            yield field, f"there is no network {name!r}; there are {', '.join(known)}"
        elif not known[name].ipv4:
            yield field, f"{name} has no ipv4, which firmware asks for its disk by"
        elif name not in reached:
            yield field, f"no card of the machine is in {name} by itself and without a tag, so its firmware is not"
        elif not any(":" not in text and known[name].holds(text) for text in reached[name].addresses):
            yield field, f"{reached[name].name} has no IPv4 address in {name}; give it one, which it gets by DHCP"

"""The links of a machine: its NICs and bonds in networks, and its ways to an iSCSI disk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass

from lab.topology.networks import Network
from lab.topology.nics import Attached, Bond, Nic
from lab.topology.nodes import NodeSpec
from lab.topology.problems import Problem


@dataclass(frozen=True)
class Link:
    """A NIC or a bond of a machine as it is attached: its name there, its NICs, its MAC address, the network without
    tags (None for a trunk alone) and those with tags, its addresses with the network of each, and further MAC addresses
    by which it asks for them."""

    name: str
    _: KW_ONLY
    nics: tuple[Nic, ...]
    bond: Bond | None
    mac: str
    network: Network | None
    trunk: tuple[Network, ...]
    addresses: tuple[tuple[str, Network], ...]
    clones: tuple[str, ...] = ()

    @property
    def networks(self) -> tuple[Network, ...]:
        """All of its networks, the one without tags first."""
        return (*((self.network,) if self.network else ()), *self.trunk)


def attached(node: NodeSpec) -> Iterator[tuple[str, Attached]]:
    """Yield a machine's NICs and bonds that are attached to networks, by their paths in its fields (one NIC: empty)."""
    if not node.nics:
        yield "", node.all_nics[0]
        return
    for end in node.attached:
        if isinstance(end, Bond):
            yield f"bonds[{node.bonds.index(end)}]", end
        else:
            yield f"nics[{[nic.name for nic in node.all_nics].index(end.name)}]", end


def addresses_of(nodes: Sequence[NodeSpec]) -> list[tuple[str, str]]:
    """Return the machines' addresses, each after the path of its field."""
    by_path = []
    for i, node in enumerate(nodes):
        for path, end in attached(node):
            where = f"nodes[{i}].{path}.addresses" if path else ""
            by_path += [(f"{where}[{k}]" if where else f"nodes[{i}].ip", text) for k, text in enumerate(end.addresses)]
    return by_path


def portal_links(node: NodeSpec, links: Sequence[Link]) -> tuple[Link, ...]:
    """Return the NICs by which a machine's firmware reaches the portals of its disk, in the portals' order."""
    ways: list[Link] = []
    for name in node.portals:
        ways += [
            link for link in links if link.bond is None and link.network is not None and link.network.name == name
        ][:1]
    return tuple(ways)


def plain_address(link: Link) -> str:
    """Return the machine's IPv4 address in the network of a NIC without tags; empty without one."""
    return next((text for text, network in link.addresses if network == link.network and ":" not in text), "")


def portal_problems(node: NodeSpec, reached: Mapping[str, Nic], networks: Sequence[Network]) -> Iterator[Problem]:
    """Yield the problems that keep a machine from its iSCSI disk. `reached`: its NICs, by the networks that they have
    without a tag."""
    by_name = {network.name: network for network in networks}
    for index, name in enumerate(node.portals):
        field = f"disks[{node.root_index}].portals[{index}]"
        if name not in by_name:
            yield field, f"there is no network {name!r}; there are {', '.join(by_name)}"
        elif not by_name[name].ipv4:
            yield field, f"{name} has no ipv4, which firmware asks for its disk by"
        elif name not in reached:
            yield field, f"no NIC of the machine is in {name} by itself and without a tag, so its firmware is not"
        elif not any(":" not in text and by_name[name].holds(text) for text in reached[name].addresses):
            yield field, f"{reached[name].name} has no IPv4 address in {name}; give it one, which it gets by DHCP"

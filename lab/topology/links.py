"""How a machine is attached to networks: by its cards and bonds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lab.topology.networks import Network
from lab.topology.nics import Attached, Bond, Nic
from lab.topology.nodes import NodeSpec


@dataclass(frozen=True)
class Link:
    """A card or a bond of a machine as it is attached: its name there, its cards, its MAC address, the network without
    tags (None for a trunk alone) and those with tags, and its addresses with the network of each."""

    name: str
    nics: tuple[Nic, ...]
    bond: Bond | None
    mac: str
    network: Network | None
    trunk: tuple[Network, ...]
    addresses: tuple[tuple[str, Network], ...]

    @property
    def networks(self) -> tuple[Network, ...]:
        """All of its networks, the one without tags first."""
        return (*((self.network,) if self.network else ()), *self.trunk)


def attached(node: NodeSpec) -> Iterator[tuple[str, Attached]]:
    """What of a machine is attached to networks, with the paths in its fields; empty for a single card."""
    if not node.nics:
        yield "", node.all_nics[0]
        return
    for one in node.attached:
        if isinstance(one, Bond):
            yield f"bonds[{node.bonds.index(one)}]", one
        else:
            yield f"nics[{[nic.name for nic in node.all_nics].index(one.name)}]", one

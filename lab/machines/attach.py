"""Where a machine's cables end, the same for all kinds of machines."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lab.layout import Layout
from lab.machines.container.hardware.cables import port
from lab.topology import Link, Nic, NodeSpec

# Names of cards that the firmware speaks of (systemd.net-naming-scheme(7): ID_NET_NAME_ONBOARD).
_ONBOARD = re.compile(r"^eno([1-9][0-9]{0,3})$")


@dataclass(frozen=True)
class Cable:
    """A card, the lab's end of its cable, and the bridge that it ends in ("": the switch)."""

    nic: Nic
    port: str
    bridge: str
    mtu: int

    @property
    def onboard(self) -> int:
        """Which of the firmware's own cards it is; 0 for none of them."""
        match = _ONBOARD.fullmatch(self.nic.name)
        return int(match[1]) if match else 0


def by_switch(link: Link) -> bool:
    """Whether the cables of a card or bond end in the switch, not in a bridge."""
    return bool(link.trunk) or (link.bond is not None and link.bond.aggregated)


def cables_of(node: NodeSpec, layout: Layout) -> tuple[Cable, ...]:
    """A machine's cables, in the order of its cards."""
    by_name = {}
    for link in layout.topology.links(node):
        bridge = "" if by_switch(link) or link.network is None else layout.bridge(link.network)
        mtu = max(network.mtu for network in link.networks)
        for nic in link.nics:
            by_name[nic.name] = Cable(nic, port(nic.mac), bridge, mtu)
    return tuple(by_name[nic.name] for nic in node.all_nics)

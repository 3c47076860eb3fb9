"""A machine's cables and their ends in the lab, the same for all kinds of machines."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lab.layout import Layout
from lab.machines.container.hardware.cables import port
from lab.topology import Link, Nic, NodeSpec

# Names of the firmware's own NICs (systemd.net-naming-scheme(7): ID_NET_NAME_ONBOARD).
_ONBOARD = re.compile(r"^eno([1-9][0-9]{0,3})$")


@dataclass(frozen=True)
class Cable:
    """A NIC, the lab's end of its cable, and the bridge that it ends in ("": the switch)."""

    nic: Nic
    port: str
    bridge: str
    mtu: int

    @property
    def onboard(self) -> int:
        """Its number among the firmware's own NICs; 0 for others."""
        match = _ONBOARD.fullmatch(self.nic.name)
        return int(match[1]) if match else 0


def by_switch(link: Link) -> bool:
    """Look whether the cables of a NIC or bond end in the switch, not in a bridge."""
    return bool(link.trunk) or (link.bond is not None and link.bond.aggregated)


def cables_of(node: NodeSpec, layout: Layout) -> tuple[Cable, ...]:
    """List a machine's cables, in the order of its NICs."""
    by_name = {}
    for link in layout.topology.links(node):
        bridge = "" if by_switch(link) or link.network is None else layout.bridge(link.network)
        mtu = max(network.mtu for network in link.networks)
        for nic in link.nics:
            by_name[nic.name] = Cable(nic, port(nic.mac), bridge, mtu)
    return tuple(by_name[nic.name] for nic in node.all_nics)

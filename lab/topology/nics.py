"""NICs of a machine, and how several are one towards the lab."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from lab.topology import words
from lab.topology.problems import Checked, Problem, remembered, unique, within

NicModel = Literal["virtio", "e1000", "e1000e", "rtl8139", "vmxnet3"]
BondMode = Literal["802.3ad", "active-backup", "balance-rr", "balance-xor", "broadcast", "balance-tlb", "balance-alb"]
# What the lab has at the other end: LACP, ports that are one without a word about it, or plain ports of a switch
# (docs.kernel.org/networking/bonding.html, "Switch Configuration").
AGGREGATED: tuple[BondMode, ...] = ("802.3ad", "balance-rr", "balance-xor", "broadcast")
# PCI buses of a machine's root ports; bus 0 is the root itself.
LAST_BUS = 30


class Attached(Checked, frozen=True, kw_only=True):
    """A NIC or bond in networks: `network` by name, without tags (default: the topology's first, unless there is a
    trunk), those of `trunk` with the tags of their `vlan`; `addresses` lie in any of them, fixed or reserved. `clones`
    are MAC addresses by which it asks for them too, since the host gives them to it."""

    network: str = ""
    trunk: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    clones: tuple[str, ...] = ()

    def problems(self) -> Iterator[Problem]:
        """See the class."""
        yield from words.addresses("addresses", self.addresses)
        yield from unique([(f"addresses[{i}]", text) for i, text in enumerate(self.addresses)], "address")
        for index, text in enumerate(self.clones):
            yield from words.mac(f"clones[{index}]", text)
        both = [("network", self.network), *((f"trunk[{i}]", name) for i, name in enumerate(self.trunk))]
        yield from unique(both, "network")


class Nic(Attached, frozen=True, kw_only=True):
    """A NIC. `pci` is the bus that it is alone on, from which its name comes: `enp1s0` is on bus 1, and the
    default for the first NIC, `enp2s0` for the second. Another `name` may be `enoN` (the firmware says so), and in
    container machines any."""

    mac: str
    name: str = ""
    model: NicModel = "virtio"
    pci: int = 0

    def problems(self) -> Iterator[Problem]:
        """See the class."""
        yield from super().problems()
        yield from words.mac("mac", self.mac)
        yield from within("pci", self.pci, 0, LAST_BUS)
        if self.name:
            yield from words.interface("name", self.name)

    def at(self, index: int) -> Nic:
        """Return this NIC as the machine's one of that index, with its bus and name spelled out."""
        return _at(self, index)


@remembered
def _at(nic: Nic, index: int) -> Nic:
    bus = nic.pci or index + 1
    return Nic(
        network=nic.network, trunk=nic.trunk, addresses=nic.addresses, clones=nic.clones, mac=nic.mac,
        model=nic.model, pci=bus, name=nic.name or f"enp{bus}s0",
    )  # fmt: skip


@remembered
def only_nic(mac: str, ip: str) -> Nic:
    """Return the NIC of a machine whose NICs are not listed."""
    return Nic(mac=mac, addresses=(ip,))


class Bond(Attached, frozen=True, kw_only=True):
    """NICs, by their names, that are one towards the lab. For 802.3ad the lab is the partner that speaks LACP; for
    balance-rr, balance-xor and broadcast its ports belong together; else they are ports like any other."""

    name: str = "bond0"
    mode: BondMode = "active-backup"
    nics: tuple[str, ...]

    def problems(self) -> Iterator[Problem]:
        """See the class."""
        yield from super().problems()
        yield from words.interface("name", self.name)
        if not self.nics:
            yield "nics", "a bond needs NICs"
        yield from unique([(f"nics[{i}]", name) for i, name in enumerate(self.nics)], "NIC")

    @property
    def aggregated(self) -> bool:
        """True if the lab's ports are bonded too."""
        return self.mode in AGGREGATED

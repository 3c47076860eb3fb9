"""Faults between machines: cables, lost and oversized packets, addresses that are taken."""

from __future__ import annotations

import importlib
import re
import subprocess
from collections.abc import Iterable
from contextlib import ExitStack

import msgspec

from drivers.protocols import Link, PowerState
from lab.errors import LabError
from lab.faults import bpf
from lab.faults.values import Mtu, Percent, Way, check_address, check_nic
from lab.machines.factory import ports
from lab.running import RunningLab

# Priorities of our packet programs on a NIC, by which they are removed again.
_LOSS, _SIZE, _NAMES = 101, 102, 104


class OfCables(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of packets' faults: the direction, and the machine's NIC (empty: all)."""

    way: Way = "to"
    nic: str = ""


class LinkDown(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """A machine's network cables are unplugged, or that of one NIC."""

    node: str
    nic: str = ""

    def begin(self, lab: RunningLab) -> None:
        """Pull them, or none where one cannot be pulled. Raises LabError where the machine has no such NIC."""
        with ExitStack() as pulled:
            for link in self._links(lab):
                link.set_up(False)
                pulled.callback(link.set_up, True)
            pulled.pop_all()

    def end(self, lab: RunningLab) -> None:
        """Plug them in again."""
        for link in self._links(lab):
            link.set_up(True)

    def _links(self, lab: RunningLab) -> list[Link]:
        return [lab.nodes[self.node].links[name] for name in nics(lab, self.node, self.nic)]


class Partition(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """These machines reach neither each other nor anybody else: a switch of theirs has failed."""

    nodes: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.nodes or len(set(self.nodes)) < len(self.nodes):
            raise ValueError("nodes: want at least one, each once")

    def begin(self, lab: RunningLab) -> None:
        """Pull all their cables, or none where one of the machines is not there."""
        for node in self.nodes:
            nics(lab, node)
        with ExitStack() as pulled:
            for node in self.nodes:
                LinkDown(node).begin(lab)
                pulled.callback(LinkDown(node).end, lab)
            pulled.pop_all()

    def end(self, lab: RunningLab) -> None:
        """Plug them in again."""
        for node in self.nodes:
            LinkDown(node).end(lab)


class Loss(OfCables, frozen=True, tag=True, forbid_unknown_fields=True):
    """`percent` percent of the packets to (or from) a machine, or one NIC of it, are lost; without a machine, of all
    that the lab itself sends (or gets).

    A machine that was off has a new cable, without the fault: one that is to last is of the lab itself (no machine).
    """

    percent: Percent
    node: str = ""

    def __post_init__(self) -> None:
        check_nic(self.node, self.nic)

    def begin(self, lab: RunningLab) -> None:
        """Drop."""
        attach(lab, running_devices(lab, self.node, self.nic), bpf.lossy(self.percent), _LOSS, way=self.way)

    def end(self, lab: RunningLab) -> None:
        """Drop no more."""
        detach(lab, devices(lab, self.node, self.nic), _LOSS, self.way)


class BlackHole(OfCables, frozen=True, tag=True, forbid_unknown_fields=True):
    """Packets of more than `mtu` bytes to (or from) a machine, or one NIC of it, vanish, and no ICMP message says so;
    without a machine, all such that the lab sends (or gets).
    """

    mtu: Mtu
    node: str = ""

    def __post_init__(self) -> None:
        check_nic(self.node, self.nic)

    def begin(self, lab: RunningLab) -> None:
        """Drop."""
        attach(lab, running_devices(lab, self.node, self.nic), bpf.no_larger(self.mtu), _SIZE, way=self.way)

    def end(self, lab: RunningLab) -> None:
        """Drop no more."""
        detach(lab, devices(lab, self.node, self.nic), _SIZE, self.way)


class NamesSlow(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """DNS is slow: `percent` percent of its answers (UDP, IPv4) are lost, and resolvers ask again seconds later."""

    percent: Percent = 75

    def begin(self, lab: RunningLab) -> None:
        """Drop."""
        attach(lab, devices(lab, ""), bpf.names_lossy(self.percent), _NAMES)

    def end(self, lab: RunningLab) -> None:
        """Drop no more."""
        detach(lab, devices(lab, ""), _NAMES)


class Duplicate(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """Somebody else on the network has this address: the lab's own host answers for it."""

    address: str

    def __post_init__(self) -> None:
        check_address("address", self.address)

    def begin(self, lab: RunningLab) -> None:
        """Take it. Raises LabError for one that is the lab's anyway, or in none of its networks."""
        topology = lab.layout.topology
        own = {text.partition("/")[0] for network in topology.all_networks for text in topology.lab_addresses(network)}
        if self.address in own:
            raise LabError(f"{self.address} is the lab's own: nobody else would notice")
        bridge = self._bridge(lab)
        if not bridge:
            subnets = ", ".join(str(subnet) for network in topology.all_networks for subnet in network.subnets)
            raise LabError(f"{self.address} is in none of the lab's networks, {subnets}: nobody would notice")
        ip(lab, f"address add {self._single_address} dev {bridge}")

    def end(self, lab: RunningLab) -> None:
        """Let it go."""
        ip(lab, f"address del {self._single_address} dev {self._bridge(lab)}")

    def _bridge(self, lab: RunningLab) -> str:
        """Return the bridge of the network that has the address; empty without one."""
        networks = lab.layout.topology.all_networks
        return next((lab.layout.bridge(network) for network in networks if network.subnet_of(self.address)), "")

    @property
    def _single_address(self) -> str:
        """The address with a prefix of its own length, so that no route comes with it."""
        return f"{self.address}/{128 if ':' in self.address else 32}"


def nics(lab: RunningLab, node: str, nic: str = "") -> dict[str, str]:
    """Return the MAC addresses of a machine's NICs by their names, or that of one of them. Raises LabError where it
    has none of that name."""
    macs = {nic.name: nic.mac for nic in lab.nodes[node].spec.all_nics}
    if nic and nic not in macs:
        raise LabError(f"{node} has no NIC {nic}; it has {', '.join(macs)}")
    return {nic: macs[nic]} if nic else macs


def taps(lab: RunningLab, node: str, nic: str = "") -> list[str]:
    """Return the lab's ends of a running machine's cables, in the order of its NICs, or of that of one NIC. Raises
    LabError where it has no such NIC."""
    macs = nics(lab, node, nic).values()
    found = ports(lab.hypervisor.machine(lab.nodes[node].name))
    return [found[mac] for mac in macs if mac in found]


def is_off(lab: RunningLab, node: str) -> bool:
    """Return whether a machine has no power, by its owner's word: the lab's BMCs may have a fault of their own."""
    return lab.hypervisor.machine(lab.nodes[node].name).state() is PowerState.OFF


def devices(lab: RunningLab, node: str, nic: str = "") -> list[str]:
    """Return the lab's ends of a machine's cables, or of one NIC's; without a machine, the bridges of all networks."""
    return (
        taps(lab, node, nic) if node else [lab.layout.bridge(network) for network in lab.layout.topology.all_networks]
    )


def running_devices(lab: RunningLab, node: str, nic: str = "") -> list[str]:
    """Return the same of a machine that runs. Raises LabError where it is off: the fault would do nothing."""
    if node and nics(lab, node, nic) and is_off(lab, node):
        raise LabError(f"{node} is off: it has no cable that could fail")
    return devices(lab, node, nic)


def attach(lab: RunningLab, ports: Iterable[str], program: bytes, priority: int, *, way: Way = "to") -> None:
    """Run a packet program at all of these ends, or at none, for what they send or (`from`) get. Raises LabError."""
    # Imported before the namespaces are entered: it reads /proc/net, which leads nowhere in these.
    importlib.import_module("pyroute2")
    with ExitStack() as begun:
        for port in ports:
            lab.inside(bpf.attach, port, program, priority, way)
            begun.callback(lab.inside, bpf.detach, port, priority, way)
        begun.pop_all()


def detach(lab: RunningLab, ports: Iterable[str], priority: int, way: Way = "to") -> None:
    """Take it away. Raises LabError."""
    importlib.import_module("pyroute2")
    for port in ports:
        lab.inside(bpf.detach, port, priority, way)


def tc(lab: RunningLab, words: str) -> None:
    """Run tc(8) in the lab's network namespace. Raises LabError with what it says."""
    _run(lab, "tc", words)


def ip(lab: RunningLab, words: str) -> None:
    """Run ip(8) in the lab's network namespace. Raises LabError with what it says."""
    _run(lab, "ip", words)


def _run(lab: RunningLab, program: str, words: str) -> None:
    completed = lab.inside(subprocess.run, [program, *words.split()], capture_output=True, text=True)
    if completed.returncode:
        hint = ""
        if re.search(r"File exists|Exclusivity flag", completed.stderr):
            hint = " (it is so already, or has another fault of the kind: end that first)"
        raise LabError(f"{program} {words}: {' '.join(completed.stderr.split())}{hint}")

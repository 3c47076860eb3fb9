"""Faults of the switch: a port in another VLAN, two cables in each other's ports, a port that comes and goes."""

from __future__ import annotations

from operator import itemgetter

import msgspec

from lab.errors import LabError
from lab.faults import bpf
from lab.faults.network import OfCables, attach, detach, ip, is_off, running_devices, taps
from lab.faults.values import Milliseconds
from lab.machines.attach import cables_of
from lab.machines.factory import ports
from lab.running import RunningLab

# The priority of our packet program on a NIC, by which it is removed again (lab.faults.bpf).
_FLAPPING = 103


class WrongVlan(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """The switch ports of a running machine are in a VLAN of their own: its links are up, and nobody is there."""

    node: str

    def begin(self, lab: RunningLab) -> None:
        """Take its ports out of their networks. Raises LabError where it is off, or a port is in none by itself."""
        cables = _running_ports(lab, self.node)
        if not all(bridge for _, bridge in cables):
            raise LabError(f"{self.node} has a trunk or an aggregated bond: such ports are in no network by themselves")
        for port, _ in cables:
            ip(lab, f"link set {port} nomaster")

    def end(self, lab: RunningLab) -> None:
        """Put them back. A machine that has been off meanwhile has new ports, which are in the right networks."""
        _put_back(lab, self.node)


class Swapped(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """The cables of a running machine's first two NICs are in each other's switch ports."""

    node: str

    def begin(self, lab: RunningLab) -> None:
        """Swap them. Raises LabError where it has not two NICs in two networks, or is off."""
        cables = [cable for cable in _running_ports(lab, self.node) if cable[1]]
        if len(cables) < 2 or cables[0][1] == cables[1][1]:
            raise LabError(f"{self.node} has not two NICs in different networks: swapped, nothing would change")
        for (port, _), (_, bridge) in zip(cables[:2], reversed(cables[:2]), strict=True):
            ip(lab, f"link set {port} master {bridge}")

    def end(self, lab: RunningLab) -> None:
        """Swap them back. A machine that has been off meanwhile has new ports, which are in the right networks."""
        _put_back(lab, self.node)


class Flapping(OfCables, frozen=True, tag=True, forbid_unknown_fields=True):
    """The way to (or from) a running machine, or one NIC of it, comes and goes: for `down_ms` of every `period_ms`
    milliseconds nothing arrives."""

    node: str
    period_ms: Milliseconds = 6000
    down_ms: Milliseconds = 2000

    def __post_init__(self) -> None:
        if self.down_ms >= self.period_ms:
            raise ValueError(
                f"down_ms: {self.down_ms} is not less than period_ms, {self.period_ms}: nothing would get through"
            )

    def begin(self, lab: RunningLab) -> None:
        """Drop packets in the first part of each period. Raises LabError where the machine is off."""
        ends = running_devices(lab, self.node, self.nic)
        attach(lab, ends, bpf.at_times(self.period_ms, self.down_ms), _FLAPPING, way=self.way)

    def end(self, lab: RunningLab) -> None:
        """Nothing is lost any more."""
        detach(lab, taps(lab, self.node, self.nic), _FLAPPING, self.way)


def _switch_ports(lab: RunningLab, node: str) -> list[tuple[str, str]]:
    """Return the switch ports of a machine in the order of its NICs, each with its bridge by the topology (empty: the
    port is one of the lab's own switch)."""
    found = ports(lab.hypervisor.machine(lab.nodes[node].name))
    cables = cables_of(lab.nodes[node].spec, lab.layout)
    return [(found[cable.nic.mac], cable.bridge) for cable in cables if cable.nic.mac in found]


def _running_ports(lab: RunningLab, node: str) -> list[tuple[str, str]]:
    if is_off(lab, node):
        raise LabError(f"{node} is off: it has no cable that could fail")
    return _switch_ports(lab, node)


def _put_back(lab: RunningLab, node: str) -> None:
    if is_off(lab, node):
        # It comes on with new cables, as the topology has them.
        return
    for port, bridge in filter(itemgetter(1), _switch_ports(lab, node)):
        ip(lab, f"link set {port} master {bridge}")

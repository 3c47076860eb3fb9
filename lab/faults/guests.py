"""Faults of a whole machine as its guest sees it: nothing runs in it any more, or hardly anything."""

from __future__ import annotations

import msgspec

from drivers.libvirt import Machine
from lab.errors import LabError
from lab.faults.network import is_off
from lab.faults.values import CpuPercent
from lab.running import RunningLab


class GuestHung(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """A running machine stands still as a whole, until the end of the fault or a reset: nothing in it runs. To a
    container's address the lab's kernel answers all the same, as a host's whose programs all hang."""

    node: str

    def begin(self, lab: RunningLab) -> None:
        """Suspend it. Raises LabError where it is off."""
        _check_on(lab, self.node)
        lab.hypervisor.machine(self.node).suspend()

    def end(self, lab: RunningLab) -> None:
        """Let it go on where it was."""
        lab.hypervisor.machine(self.node).resume()


class GuestStarved(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """A running container machine has hardly any processor: `cpu_percent` percent of one, until the end of the fault or
    a reset."""

    node: str
    cpu_percent: CpuPercent = 3

    def begin(self, lab: RunningLab) -> None:
        """Limit it. Raises LabError where it is off, or virtual."""
        _check_on(lab, self.node)
        machine = lab.hypervisor.machine(self.node)
        if isinstance(machine, Machine):
            raise LabError(f"{self.node} is a VM: only a container's control groups are the lab's")
        machine.limit_cpu(self.cpu_percent)

    def end(self, lab: RunningLab) -> None:
        """Let it have what it had."""
        machine = lab.hypervisor.machine(self.node)
        if not isinstance(machine, Machine):
            machine.limit_cpu(None)


def _check_on(lab: RunningLab, node: str) -> None:
    """Raise LabError where a machine is off, and for one that there is not."""
    if is_off(lab, lab.nodes[node].name):
        raise LabError(f"{node} is off: there is nothing that could stand still")

"""Faults of a machine's disk, for disks that can fail (`can_fail` of a topology): lab.machines.failing."""

from __future__ import annotations

from typing import Literal

import msgspec

from lab.daemons import disks
from lab.faults.values import Kib
from lab.machines import failing
from lab.running import RunningLab


class DiskErrors(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """Writes to a machine's disk fail with an I/O error, and reads too where `fails` is all.

    `disk` is its name in the machine (vda); without it, the one to install on.
    """

    node: str
    disk: str = ""
    fails: Literal["writes", "all"] = "writes"

    def begin(self, lab: RunningLab) -> None:
        """Let requests fail. Raises LabError for a disk that cannot."""
        failing.fail(failing.place(lab.layout, lab.nodes[self.node].name, self.disk), reads=self.fails == "all")

    def end(self, lab: RunningLab) -> None:
        """Work again; what the machine made of the errors stays."""
        failing.mend(failing.place(lab.layout, self.node, self.disk))


class DiskSlow(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """A machine's disk reads and writes at most `kib` KiB a second each. Needs cgroup2's io or cgroup v1's blkio on
    the lab's host.

    `disk` is its name in the machine (vda); without it, the one to install on.
    """

    node: str
    kib: Kib
    disk: str = ""

    def begin(self, lab: RunningLab) -> None:
        """Slow it down. Raises LabError for a disk that cannot be slowed down."""
        place = failing.place(lab.layout, lab.nodes[self.node].name, self.disk)
        disks.slow_down(lab.layout.failing, place, self.kib)

    def end(self, lab: RunningLab) -> None:
        """Let it be as quick as before."""
        disks.slow_down(lab.layout.failing, failing.place(lab.layout, self.node, self.disk), 0)

"""A lab for somebody's cluster, from the files that describe it.

node0 reads the files (`inputs` is its description of them), `cluster` places hosts and roles (`attachment` of a host's
networks, `hints` of its disks), `build` makes a topology. A ConfigsError names all that a lab cannot have, by file and
field.
"""

from __future__ import annotations

from lab.derive.build import build
from lab.derive.cluster import AGENT, INSTALL, read
from lab.derive.inputs import Inputs
from lab.topology import Firmware, Topology

__all__ = ["AGENT", "INSTALL", "derive"]


def derive(
    inputs: Inputs, *, firmware: Firmware = "uefi", memory_mib: int | None = None, vcpu: int | None = None
) -> Topology:
    """Return the lab for a cluster. Raises ConfigsError or TopologyError, which name file and field.

    Hosts without a static address get a reservation; the first master among them gets the rendezvous IP. `memory_mib`
    and `vcpu` are those of each machine, in place of the presets'.
    """
    return build(read(inputs), firmware=firmware, memory_mib=memory_mib, vcpu=vcpu)

"""From somebody's install-config.yaml and agent-config.yaml, derive a lab in which that cluster can be installed.

`cluster` reads what they say (`attachment` of a host's NMState document, `hints` of its disks), `build` makes a
topology of it. What the lab cannot provide is told all at once, a line each with file and field; whether the rest is
valid is for the installer to say.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lab.derive.build import build
from lab.derive.cluster import AGENT, INSTALL, read
from lab.topology import Firmware, Topology

__all__ = ["AGENT", "INSTALL", "derive"]


def derive(
    install: Mapping[str, Any],
    agent: Mapping[str, Any],
    *,
    firmware: Firmware = "uefi",
    memory_mib: int | None = None,
    vcpu: int | None = None,
) -> Topology:
    """The lab for a cluster. Raises ConfigsError or TopologyError, which name file and field.

    Hosts without a static address get a reservation; the first master among them gets the rendezvous IP. `memory_mib`
    and `vcpu` are those of each machine, in place of the presets'.
    """
    return build(read(install, agent), firmware=firmware, memory_mib=memory_mib, vcpu=vcpu)

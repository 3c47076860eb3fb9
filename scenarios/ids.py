"""Scenario ids: ``topology-stack-addressing-firmware[-variant]`` become lab topologies."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

import msgspec

from lab import topology as shapes
from lab.topology import Addressing, Firmware, Topology

TOPOLOGIES: dict[str, Callable[..., Topology]] = {"sno": shapes.sno, "compact": shapes.compact, "ha": shapes.ha}
STACKS = ("ipv4",)
SMALL_DISK_GIB = 4


def _small_disk(topology: Topology) -> Topology:
    """Every node's disk is smaller than the lab release asks for."""
    nodes = tuple(msgspec.structs.replace(node, disk_gib=SMALL_DISK_GIB) for node in topology.nodes)
    return msgspec.structs.replace(topology, nodes=nodes)


VARIANTS: dict[str, Callable[[Topology], Topology]] = {"small_disk": _small_disk}


def topology_of(scenario_id: str) -> Topology:
    """The topology that an id names; raises ValueError saying which word is not known."""
    words = scenario_id.split("-")
    if len(words) not in (4, 5):
        raise ValueError(f"scenario id {scenario_id!r}: want topology-stack-addressing-firmware[-variant]")
    grammar = (tuple(TOPOLOGIES), STACKS, get_args(Addressing), get_args(Firmware), tuple(VARIANTS))
    for word, known in zip(words, grammar, strict=False):
        if word not in known:
            raise ValueError(f"scenario id {scenario_id!r}: {word!r} is not one of {', '.join(known)}")
    topology = TOPOLOGIES[words[0]](addressing=words[2], firmware=words[3])
    for variant in words[4:]:
        topology = VARIANTS[variant](topology)
    return topology

"""Scenario ids: ``topology-stack-addressing-firmware[-variant]`` become lab topologies and config files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_args

import msgspec
import pytest

from lab import topology as shapes
from lab.topology import Addressing, BootWay, Disk, Firmware, Topology
from scenarios.faulty import ROWS

# The disks of a machine that has been used before: one full of data, which comes first and would be fit for an
# installation too, the disk to install on, known by its serial number only, and an empty one.
USED_DISKS = (
    Disk(size_gib=10, serial="KEEP-THIS", holds="data"),
    Disk(size_gib=20, serial="INSTALL-HERE", holds="old-system", root=True),
    Disk(size_gib=30, serial="LEAVE-EMPTY"),
)


def _sno(addressing: Addressing, firmware: Firmware) -> Topology:
    """One node with three disks, two of which must not be touched."""
    topology = shapes.sno(addressing, firmware)
    [node] = topology.nodes
    return msgspec.structs.replace(topology, nodes=(msgspec.structs.replace(node, disks=USED_DISKS),))


TOPOLOGIES: dict[str, Callable[..., Topology]] = {"sno": _sno, "compact": shapes.compact, "ha": shapes.ha}
STACKS = ("ipv4",)
SMALL_DISK_GIB = 4

# Installed once each, then examined and disturbed by all tests that take an installation of that topology.
SNO = ("sno-ipv4-static-uefi", pytest.param("sno-ipv4-static-bios", marks=pytest.mark.nightly))
COMPACT = (
    "compact-ipv4-static-uefi",
    pytest.param("compact-ipv4-dhcp-bios", marks=pytest.mark.nightly),
    pytest.param("compact-ipv4-static-uefi-left_out", marks=pytest.mark.nightly),
)
HA = ("ha-ipv4-static-uefi",)
# Each of the ways to boot but the ISO, which all others take, and discovery, which is a service's (test_discovery.py).
BOOTED = tuple(
    pytest.param(f"{name}-{way}", marks=pytest.mark.nightly)
    for name, way in (
        ("sno-ipv4-static-uefi", "minimal_iso"),
        ("sno-ipv4-static-uefi", "pxe"),
        ("sno-ipv4-dhcp-bios", "pxe"),
        ("compact-ipv4-static-uefi", "pxe"),
        ("sno-ipv4-static-uefi", "http_boot"),
        ("sno-ipv4-static-uefi", "config_image"),
        ("sno-ipv4-static-uefi", "usb"),
    )
)
FIRMWARES = tuple(
    pytest.param(f"{name}-{way}_firmware", marks=pytest.mark.nightly)
    for name, way in (
        ("sno-ipv4-static-uefi", "pxe"),
        ("sno-ipv4-dhcp-bios", "pxe"),
        ("sno-ipv4-static-uefi", "http_boot"),
        ("sno-ipv4-static-uefi", "usb"),
        ("sno-ipv4-static-bios", "usb"),
        ("sno-ipv4-static-uefi", "config_image"),
    )
)
SHAKEN = ("compact-ipv4-static-uefi", *HA)


def _same(topology: Topology) -> Topology:
    return topology


def _unchanged(_agent_config: dict[str, Any], _topology: Topology) -> None:
    return


@dataclass(frozen=True)
class Variant:
    """How a variant changes a scenario: other machines, or another agent-config.yaml."""

    machines: Callable[[Topology], Topology] = _same
    agent_config: Callable[[dict[str, Any], Topology], None] = _unchanged


def _small_disk(topology: Topology) -> Topology:
    """Every node's disk is smaller than the lab release requires."""
    nodes = tuple(msgspec.structs.replace(node, disk_gib=SMALL_DISK_GIB, disks=()) for node in topology.nodes)
    return msgspec.structs.replace(topology, nodes=nodes)


def _node0_alone(topology: Topology) -> Topology:
    """The other machines are never powered on: they need no memory."""
    others = tuple(msgspec.structs.replace(node, memory_mib=256) for node in topology.nodes[1:])
    return msgspec.structs.replace(topology, nodes=(topology.nodes[0], *others))


def _left_out(config: dict[str, Any], _topology: Topology) -> None:
    """Neither the rendezvous IP nor any role is set: installer and service choose them."""
    del config["rendezvousIP"]
    for host in config["hosts"]:
        del host["role"]


def _same_hostname(config: dict[str, Any], topology: Topology) -> None:
    """node0 is configured with the name that the second host gets from DHCP."""
    config["hosts"][0]["hostname"] = topology.nodes[1].name
    del config["hosts"][1]["hostname"]


def _by(way: BootWay) -> Variant:
    """The machines come to their live system by this way."""
    return Variant(machines=lambda topology: msgspec.structs.replace(topology, boot=way))


VARIANTS = {
    **{way.replace("-", "_"): _by(way) for way in get_args(BootWay)},
    # The same, as far as the agent only: what a machine's own firmware does of it.
    **{f"{way.replace('-', '_')}_firmware": _by(way) for way in get_args(BootWay)},
    "small_disk": Variant(machines=_small_disk),
    "left_out": Variant(agent_config=_left_out),
    "same_hostname": Variant(agent_config=_same_hostname),
    "node0_alone": Variant(machines=_node0_alone),
    # These differ only in what the test does to the lab; the name keeps their evidence apart.
    "power_cut": Variant(),
    "service_killed": Variant(),
    "discovery": Variant(),
    "discovery_minimal": Variant(),
    **{row.name: Variant() for row in ROWS},
}


def _words(scenario_id: str) -> list[str]:
    words = scenario_id.split("-")
    if len(words) not in (4, 5):
        raise ValueError(f"scenario id {scenario_id!r}: want topology-stack-addressing-firmware[-variant]")
    grammar = (tuple(TOPOLOGIES), STACKS, get_args(Addressing), get_args(Firmware), tuple(VARIANTS))
    for word, allowed in zip(words, grammar, strict=False):
        if word not in allowed:
            raise ValueError(f"scenario id {scenario_id!r}: {word!r} is not one of {', '.join(allowed)}")
    return words


def topology_of(scenario_id: str, sized: Callable[[Topology], Topology] = _same) -> Topology:
    """The topology that an id names. Raises ValueError, which names the unknown word.

    `sized` makes machines larger before a variant, which may want a machine that is too small, changes them.
    """
    shape, _, addressing, firmware, *variants = _words(scenario_id)
    topology = sized(TOPOLOGIES[shape](addressing=addressing, firmware=firmware))
    for variant in variants:
        topology = VARIANTS[variant].machines(topology)
    return topology


def size_of(topology: Topology) -> str:
    """The name of the topologies that are of a topology's size."""
    if len(topology.nodes) == 1:
        return "sno"
    return "ha" if topology.workers else "compact"


def edit_agent_config(scenario_id: str, config: dict[str, Any]) -> None:
    """Change the decoded agent-config.yaml as the id's variant requires."""
    topology = topology_of(scenario_id)
    for variant in _words(scenario_id)[4:]:
        VARIANTS[variant].agent_config(config, topology)

"""Scenario ids, ``shape-stack-addressing-firmware[-boot][-variant...]``, and the lab topologies that they mean."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, get_args

import msgspec

from lab import topology as shapes
from lab.inputs.configs import Access
from lab.topology import Addressing, BootWay, Firmware, Stack, Topology
from scenarios.catalogue.variants import USED_DISKS, VARIANTS, Variant, each, variant_of

# A dash separates words.
BOOTS: dict[str, BootWay] = {way.replace("-", "_"): way for way in get_args(BootWay)}


def _sno(addressing: Addressing, firmware: Firmware, stack: Stack) -> Topology:
    """One node with three disks, two of which must not be touched."""
    return each(
        shapes.sno(addressing, firmware, stack), lambda _, node: msgspec.structs.replace(node, disks=USED_DISKS)
    )


SHAPES: dict[str, Callable[[Addressing, Firmware, Stack], Topology]] = {
    "sno": _sno,
    "compact": shapes.compact,
    "ha": shapes.ha,
    "arbiter": shapes.arbiter,
    "fencing": shapes.fencing,
    "four": shapes.four,
    "five": shapes.five,
}
#: The words of an id that every one has, in order, and what each may be.
GRAMMAR: dict[str, tuple[str, ...]] = {
    "shape": tuple(SHAPES),
    "stack": get_args(Stack),
    "addressing": get_args(Addressing),
    "firmware": get_args(Firmware),
}


@dataclass(frozen=True, kw_only=True)
class Words:
    """The words of an id, understood."""

    shape: str
    stack: Stack
    addressing: Addressing
    firmware: Firmware
    boot: BootWay = "iso"
    variants: tuple[str, ...] = ()


def id_of(topology: str, boot: BootWay = "iso", variants: tuple[str, ...] = ()) -> str:
    """Return the id of a scenario whose topology is called ``shape-stack-addressing-firmware``."""
    return "-".join([topology, *([] if boot == "iso" else [boot.replace("-", "_")]), *variants])


def words_of(scenario_id: str) -> Words:
    """Return the parts of an id. Raises ValueError, which names the unknown word."""
    words = scenario_id.split("-")
    if len(words) < len(GRAMMAR):
        raise ValueError(f"scenario id {scenario_id!r}: want {'-'.join(GRAMMAR)}[-boot][-variant...]")
    boot = BOOTS.get("".join(words[len(GRAMMAR) : len(GRAMMAR) + 1]))
    variants = words[len(GRAMMAR) + (boot is not None) :]
    grammar = [*GRAMMAR.values(), *([tuple(BOOTS)] if boot else [])]
    for word, allowed in zip(words, grammar, strict=False):
        if word not in allowed:
            raise ValueError(f"scenario id {scenario_id!r}: {word!r} is not one of {', '.join(allowed)}")
    for word in variants:
        if (variant := variant_of(word)) is None:
            raise ValueError(f"scenario id {scenario_id!r}: {word!r} is not one of {', '.join(VARIANTS)}")
        if words[2] not in (may := variant.addressing):
            raise ValueError(f"scenario id {scenario_id!r}: {word} is for {' or '.join(may)} only")
        if variant.several and words[0] == "sno":
            raise ValueError(f"scenario id {scenario_id!r}: {word} is for several nodes only")
        if variant.written and boot == "discovery-iso":
            raise ValueError(f"scenario id {scenario_id!r}: {word} is in files that discovery-iso has none of")
    named: dict[str, Any] = dict(zip(GRAMMAR, words, strict=False))
    return Words(**named, boot=boot or "iso", variants=tuple(variants))


@cache
def _shape(shape: str, addressing: Addressing, firmware: Firmware, stack: Stack) -> Topology:
    return SHAPES[shape](addressing, firmware, stack)


def _same(topology: Topology) -> Topology:
    return topology


def topology_of(scenario_id: str, sized: Callable[[Topology], Topology] = _same) -> Topology:
    """Return the topology that an id names. Raises ValueError, which names the unknown word.

    `sized` makes machines larger before a variant, which may want a machine that is too small, changes them.
    """
    words = words_of(scenario_id)
    topology = sized(_shape(words.shape, words.addressing, words.firmware, words.stack))
    topology = msgspec.structs.replace(topology, boot=words.boot)
    for variant in _variants(words):
        topology = variant.machines(topology)
    return topology


def _variants(words: Words) -> list[Variant]:
    return [variant for word in words.variants if (variant := variant_of(word)) is not None]


def size_of(topology: Topology) -> str:
    """Return the name of the topologies that are of a topology's size."""
    if len(topology.nodes) == 1:
        return "sno"
    return "ha" if topology.workers else "compact"


def edit_configs(scenario_id: str, install: dict[str, Any], agent: dict[str, Any]) -> None:
    """Change the decoded install-config.yaml and agent-config.yaml as the id's variants require."""
    topology = topology_of(scenario_id)
    for variant in _variants(words_of(scenario_id)):
        variant.install_config(install, topology)
        variant.agent_config(agent, topology)


def edit_cluster_install(scenario_id: str, access: Access) -> Callable[[dict[str, Any]], None] | None:
    """Apply the id's variants to the decoded agent-cluster-install.yaml; None where they leave it alone."""
    edits = [variant.cluster_install for variant in _variants(words_of(scenario_id)) if variant.edits_manifests]

    def change(manifest: dict[str, Any]) -> None:
        for edit in edits:
            edit(manifest, access)

    return change if edits else None


def further_files(scenario_id: str) -> dict[str, str]:
    """Return the id's further files beside the two config files: paths in the installer's directory, and texts."""
    topology = topology_of(scenario_id)
    files: dict[str, str] = {}
    for variant in _variants(words_of(scenario_id)):
        files |= variant.files(topology)
    return files

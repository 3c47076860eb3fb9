"""Machines as large as the release to install demands; the service refuses smaller ones."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from lab.errors import SubjectError
from lab.topology import NodeSpec, Topology


class Hardware(NamedTuple):
    """The lower bounds of a role's hardware: virtual CPUs, MiB of memory, GiB of disk."""

    vcpu: int
    memory_mib: int
    disk_gib: int


# docs/reference/installer.md §5.4; configure-assisted-hw-requirements.sh of openshift-install's ISO has the same.
OPENSHIFT: Mapping[str, Hardware] = {
    "sno": Hardware(8, 16384, 100),
    "master": Hardware(4, 16384, 100),
    "arbiter": Hardware(2, 8192, 50),
    "worker": Hardware(2, 8192, 100),
}
_GB, _GIB = 10**9, 1 << 30


def requirements(text: str, version: str, source: str) -> Mapping[str, Hardware]:
    """By role and for `sno`, what a service's default_hw_requirements.json demands of hosts of this release.

    The entry of its version counts (major and minor), else that of version `default`; an empty text, and roles that
    it lacks, are OpenShift's own. Raises SubjectError, which begins with `source`.
    """
    if not text:
        return OPENSHIFT
    try:
        entries = {str(entry["version"]): entry for entry in json.loads(text)}
        entry = entries.get(".".join(version.split(".")[:2])) or entries.get("default") or {}
        return {role: _hardware(entry[role]) if role in entry else hardware for role, hardware in OPENSHIFT.items()}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise SubjectError(source, f"default_hw_requirements.json is not as the service reads it: {error!r}") from error


def _hardware(limits: Mapping[str, Any]) -> Hardware:
    # The requirements' GB are 10^9 bytes; the lab's disks have whole GiB.
    gib = -(-int(limits["disk_size_gb"]) * _GB // _GIB)
    return Hardware(int(limits["cpu_cores"]), int(limits["ram_mib"]), gib)


def sized(topology: Topology, wanted: Mapping[str, Hardware]) -> Topology:
    """Return the topology with each machine at least as large as its role demands. What it has more of stays."""

    alone = sum(node.role != "bootstrap" for node in topology.nodes) == 1

    def grown(node: NodeSpec) -> NodeSpec:
        if node.role == "bootstrap":
            return node  # no service judges it
        least = wanted["sno" if alone else node.role]
        vcpu, memory_mib = max(node.vcpu, least.vcpu), max(node.memory_mib, least.memory_mib)
        disk_gib = max(node.disk_gib, least.disk_gib)
        disks = tuple(msgspec.structs.replace(disk, size_gib=disk_gib) if disk.root else disk for disk in node.disks)
        return msgspec.structs.replace(node, vcpu=vcpu, memory_mib=memory_mib, disk_gib=disk_gib, disks=disks)

    return msgspec.structs.replace(topology, nodes=tuple(map(grown, topology.nodes)))


def raised(before: Topology, after: Topology) -> list[str]:
    """Return a line for each size that `sized` made larger, with the machines that have it."""
    machines: dict[str, list[str]] = {}
    for old, new in zip(before.nodes, after.nodes, strict=True):
        for field, unit in (("vcpu", "vCPU"), ("memory_mib", "MiB of memory"), ("disk_gib", "GiB of disk")):
            if (was := getattr(old, field)) != (now := getattr(new, field)):
                machines.setdefault(f"{was} → {now} {unit}", []).append(new.name)
    return [
        f"{text} ({', '.join(names)}): less is refused by the release's service" for text, names in machines.items()
    ]

"""Machines of the size that OpenShift demands: openshift-install's ISO brings its own limits, not the lab release's."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from lab.topology import NodeSpec, Topology


class Hardware(NamedTuple):
    """What a role must have: virtual CPUs, MiB of memory, GiB of disk."""

    vcpu: int
    memory_mib: int
    disk_gib: int


# docs/reference/installer.md §5.4; configure-assisted-hw-requirements.sh of the ISO has the same.
ONE_NODE = Hardware(8, 16384, 100)
BY_ROLE = {"master": Hardware(4, 16384, 100), "arbiter": Hardware(2, 8192, 50), "worker": Hardware(2, 8192, 100)}


def sized(topology: Topology) -> Topology:
    """The topology with each machine at least as large as its role demands. What it has more of stays."""

    def grown(node: NodeSpec) -> NodeSpec:
        least = ONE_NODE if len(topology.nodes) == 1 else BY_ROLE[node.role]
        vcpu, memory_mib = max(node.vcpu, least.vcpu), max(node.memory_mib, least.memory_mib)
        disk_gib = max(node.disk_gib, least.disk_gib)
        disks = tuple(msgspec.structs.replace(disk, size_gib=disk_gib) if disk.root else disk for disk in node.disks)
        return msgspec.structs.replace(node, vcpu=vcpu, memory_mib=memory_mib, disk_gib=disk_gib, disks=disks)

    return msgspec.structs.replace(topology, nodes=tuple(map(grown, topology.nodes)))

"""A topology as plain data: what a file has to say, and nothing that follows from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from lab.topology.nodes import NodeSpec

if TYPE_CHECKING:
    from lab.topology.model import Topology


def written(topology: Topology) -> dict[str, Any]:
    """Its fields. What `fill` sets is left out where it says no more than others: who changes these changes it, too."""
    document: dict[str, Any] = msgspec.to_builtins(topology)
    for service in ("api", "ingress"):
        if document[f"{service}_vips"]:
            del document[f"{service}_vip"]
    if topology.networks:
        if topology.machine_network == str(next(iter(topology.machine_subnets), "")):
            del document["machine_network"]
        if any(one.dhcp or one.dhcpv6 for one in topology.machine_networks):
            del document["addressing"]
    for node, fields in zip(topology.nodes, document["nodes"], strict=True):
        for name in _derived(node):
            del fields[name]
    return document


def _derived(node: NodeSpec) -> list[str]:
    names = ["mac"] if node.nics else []
    if node.nics and node.ip == next((text for one in node.attached for text in one.addresses), ""):
        names.append("ip")
    if node.disks:
        names.append("disk_gib")
    return names

"""Nodes' parts of the cluster networks, and whether two nodes have the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import ip_network

from lab.release.cluster.kube.client import Object


def parts(node: Object) -> list[str]:
    """Return a node's parts of the cluster networks, one a family."""
    return [str(part) for part in node["spec"].get("podCIDRs") or [node["spec"].get("podCIDR")] if part]


def overlaps(part: str, others: Iterable[str]) -> bool:
    """Return whether a network has addresses of one of the others."""
    network = ip_network(part)
    return any(network.version == other.version and network.overlaps(other) for other in map(ip_network, others))


def taken_twice(nodes: Sequence[Object]) -> dict[str, str]:
    """Each node that has a part that an older one has already, and which; the API refuses to change it."""
    found: dict[str, str] = {}
    eldest = sorted(nodes, key=lambda n: (str(n["metadata"].get("creationTimestamp", "")), str(n["metadata"]["name"])))
    for index, node in enumerate(eldest):
        for elder in eldest[:index]:
            for part in parts(node):
                if overlaps(part, parts(elder)):
                    name = elder["metadata"]["name"]
                    found.setdefault(node["metadata"]["name"], f"podCIDR {part} overlaps with that of node {name}")
    return found

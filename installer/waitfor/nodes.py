"""Judgements over the cluster's Nodes: which are missing, which are not Ready (reference/cluster.md §5.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from installer.observe import outside
from installer.observe.kube import Kube
from installer.observe.state import Expected, Inputs

API_PORT = 6443
#: Platforms where the user provides DNS: on the others, hosts resolve the API's internal name themselves.
EXTERNAL_NAMES = ("none", "external")


@dataclass(frozen=True)
class Node:
    """A Node's name and its condition Ready: status (True, False or Unknown; empty without one), reason, message."""

    name: str
    ready: str
    reason: str = ""
    message: str = ""


def read(kube: Kube) -> list[Node]:
    """Return the cluster's nodes. Raises KubeError."""
    return [Node(name, *by_type.get("Ready", ("", "", ""))) for name, by_type in kube.node_conditions().items()]


def api_problem(nodes: Sequence[Node], inputs: Inputs, timeout: float) -> str:
    """Describe the fault of api-int as seen from here, where nodes have not joined and DNS is the user's; else empty.

    ``timeout`` in seconds.
    """
    expected = inputs.expected
    if inputs.platform not in EXTERNAL_NAMES or len(nodes) >= max(expected.count, len(expected.names)):
        return ""
    name = f"api-int.{inputs.cluster_name}.{inputs.base_domain}"
    fault = outside.internal_api(name, API_PORT, timeout)
    return f"kubelets look for the API at {name}: {fault}" if fault else ""


def problems(nodes: Sequence[Node], expected: Expected, unreached: str = "") -> tuple[str, ...]:
    """Return a line for each node that is not Ready and for each that has not joined.

    By its name where the configuration gives one, else by their number. ``unreached``: what may keep them from joining.
    """
    there = {node.name for node in nodes}
    missing = [name for name in expected.names if name not in there]
    because = f"; {unreached}" if unreached else ""
    lines = [f"Node {name} has not joined the cluster: its kubelet has not registered it{because}" for name in missing]
    if not missing and len(there) < expected.count:
        joined = ", ".join(sorted(there)) or "none"
        lines.append(f"{len(there)} of {expected.count} nodes have joined the cluster: {joined}{because}")
    for node in sorted(nodes, key=lambda node: node.name):
        if node.ready != "True":
            because = node.message or node.reason or "it has no condition Ready"
            lines.append(f"Node {node.name} is not Ready: {because}")
    return tuple(lines)

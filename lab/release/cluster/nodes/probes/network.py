"""The probe of the nodes' network."""

from __future__ import annotations

from lab.release.cluster.kube.conditions import Finding
from lab.release.cluster.nodes.probes.view import View, node_ready


def network(view: View) -> Finding:
    """Every node has pod addresses and is Ready, which it is only with a working CNI."""
    bad = [n["metadata"]["name"] for n in view.nodes if not n["spec"].get("podCIDR") or not node_ready(n)]
    expected = view.config.nodes if view.config else 1
    if bad or len(view.nodes) < expected:
        missing = f"{expected - len(view.nodes)} nodes have not joined" if not bad else ""
        return Finding(False, f"Nodes without pod addresses or not Ready: {', '.join(bad) or missing}", "NodesNotReady")
    return Finding(True, f"{len(view.nodes)} nodes are Ready and have a podCIDR")

"""The transition of a cluster of one node to one of three: what `oc adm transition topology HighlyAvailable` asks for
(reference/backup.md §3). etcd has grown before, as nodes joined; this only changes what the cluster says that it is."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from lab.release.cluster.ignition import machineconfig
from lab.release.cluster.kube import events
from lab.release.cluster.kube.client import Kube, Object
from lab.release.cluster.kube.conditions import Finding
from lab.release.cluster.kube.resources import CONFIG
from lab.release.cluster.nodes.probes.view import WORKER, View, node_ready

log = logging.getLogger(__name__)

ONE, SEVERAL = "SingleReplica", "HighlyAvailable"
LEAST = 3


def obstacles(nodes: Sequence[Object], findings: Mapping[str, Finding]) -> list[str]:
    """Return what has to be otherwise before; that the operator etcd is well says that each member votes."""
    masters = [n for n in nodes if machineconfig.role_of(n) == "master"]
    fit = [
        n
        for n in masters
        if node_ready(n) and not n["spec"].get("unschedulable") and WORKER in (n["metadata"].get("labels") or {})
    ]
    found = [f"operator {name} is not well" for name, finding in sorted(findings.items()) if not finding.good]
    if len(fit) < LEAST:
        found.append(f"{len(fit)} of {LEAST} control plane nodes are Ready, schedulable and workers")
    if others := sorted(str(n["metadata"]["name"]) for n in nodes if n not in masters):
        found.append(f"{', '.join(others)}: no worker may be without the control plane")
    return found


class Transition:
    """The controller; `step` does what can be done now."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._last = ""

    def step(self, seen: View, findings: Mapping[str, Finding]) -> None:
        """Change the topologies as soon as nothing is in the way; until then, an event says what is. Raises
        ApiError."""
        if seen.config is None or not seen.config.single_node:
            return
        infrastructure = self._kube.get(CONFIG, "Infrastructure", "cluster") or {}
        status = infrastructure.get("status") or {}
        wanted = (infrastructure.get("spec") or {}).get("controlPlaneTopology")
        if not wanted or wanted == status.get("controlPlaneTopology"):
            return
        if wanted != SEVERAL or status.get("controlPlaneTopology") != ONE:
            text = f"from {status.get('controlPlaneTopology')} to {wanted}: not supported"
            self._say(infrastructure, "UnsupportedTransition", text)
        elif found := obstacles(seen.nodes, findings):
            self._say(infrastructure, "PreflightCheckFailed", "; ".join(found))
        else:
            topologies = {"controlPlaneTopology": SEVERAL, "infrastructureTopology": SEVERAL}
            self._kube.replace({**infrastructure, "status": {**status, **topologies}}, "status")
            log.info("The cluster's topology is %s", SEVERAL)

    def _say(self, infrastructure: Object, reason: str, text: str) -> None:
        if text != self._last:
            log.info("Topology: %s: %s", reason, text)
            events.send(self._kube, infrastructure, reason, text, component="config-operator")
        self._last = text

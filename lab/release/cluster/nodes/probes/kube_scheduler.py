"""The probe of the scheduler."""

from __future__ import annotations

from lab.release.cluster.kube.conditions import Finding, find
from lab.release.cluster.kube.lease import parse_time
from lab.release.cluster.nodes.probes.leader import led
from lab.release.cluster.nodes.probes.view import View

NAME = "kube-scheduler"
#: Seconds after which a pod that has no node and no word of the scheduler counts as overlooked.
POD_SECONDS = 60


def overlooked(view: View) -> list[str]:
    """List the pods that are left to this scheduler, and that it has neither given a node nor refused."""
    names = []
    for pod in view.pods:
        meta, spec = pod["metadata"], pod["spec"]
        if spec.get("nodeName") or meta.get("deletionTimestamp"):
            continue
        if spec.get("schedulerName", "default-scheduler") != "default-scheduler":
            continue
        refused = find((pod.get("status") or {}).get("conditions") or [], "PodScheduled")
        age = (view.now - parse_time(meta["creationTimestamp"])).total_seconds()
        if refused is None and age > POD_SECONDS:
            names.append(f"{meta['namespace']}/{meta['name']}")
    return sorted(names)


def kube_scheduler(view: View) -> Finding:
    """Check that the leader renews its lease, and that it has seen every pod that waits for a node."""
    finding = led(view, NAME)
    if not finding.good:
        return finding
    if names := overlooked(view):
        text = f"{len(names)} pods have waited for a node for more than {POD_SECONDS} s unseen"
        return Finding(False, f"{text}: {', '.join(names[:3])}", "PodsOverlooked")
    return Finding(True, f"{finding.message}; every pod older than {POD_SECONDS} s has a node or the reason why not")

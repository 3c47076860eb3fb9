"""Static pods of which one works and the others wait for its lease."""

from __future__ import annotations

from lab.release.cluster.kube.conditions import Finding
from lab.release.cluster.kube.lease import API as LEASE_API
from lab.release.cluster.kube.lease import parse_time
from lab.release.cluster.nodes.probes.view import View, static_pods

#: A lease lasts 60 s: half a minute later nobody has taken it.
LEASE_SECONDS = 90


def led(view: View, name: str) -> Finding:
    """Check that the leader of the static pods `name` renews its lease, and that all of them are Ready."""
    lease = view.kube.get(LEASE_API, "Lease", name, "kube-system")
    if lease is None or not lease["spec"].get("renewTime"):
        return Finding(False, f"Lease kube-system/{name} is not there: no leader yet", "NoLeader")
    if (view.now - parse_time(lease["spec"]["renewTime"])).total_seconds() > LEASE_SECONDS:
        return Finding(
            False, f"Lease kube-system/{name} was last renewed at {lease['spec']['renewTime']}", "StaleLease"
        )
    ready, total = static_pods(view, f"openshift-{name}", f"{name}-")
    total += view.missing_masters
    if not total or ready < total:
        return Finding(False, f"{ready} of {total} static pods are Ready", "StaticPods_NotReady")
    return Finding(True, f"{ready} nodes are active (lease kube-system/{name} is renewed, pods Ready)")

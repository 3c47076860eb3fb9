"""Static pods of which one works and the others wait for its lease."""

from __future__ import annotations

from lab.release.cluster.kube.conditions import Finding
from lab.release.cluster.kube.lease import API as LEASE_API
from lab.release.cluster.kube.lease import parse_time
from lab.release.cluster.nodes.probes.view import View, condition, masters_without

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
    lacking = masters_without(view, f"openshift-{name}", f"{name}-")
    ready = len(view.masters) - len(lacking)
    if lacking or not view.masters or view.missing_masters:
        text = f"{ready} nodes are active; pods not Ready on: {', '.join(lacking) or 'those that are to join'}"
        return Finding(False, text, "StaticPods_NotReady", condition(view, view.masters, lacking))
    return Finding(True, f"{ready} nodes are active (lease kube-system/{name} is renewed, pods Ready)")

"""The probe of the controller manager."""

from __future__ import annotations

from lab.release.cluster.kube.conditions import Finding
from lab.release.cluster.kube.lease import API as LEASE_API
from lab.release.cluster.kube.lease import parse_time
from lab.release.cluster.nodes.probes.view import View, static_pods

LEASE_SECONDS = 180


def kube_controller_manager(view: View) -> Finding:
    """Check that the leader renews its lease."""
    lease = view.kube.get(LEASE_API, "Lease", "kube-controller-manager", "kube-system")
    if lease is None or not lease["spec"].get("renewTime"):
        return Finding(False, "Lease kube-system/kube-controller-manager is not there: no leader yet", "NoLeader")
    if (view.now - parse_time(lease["spec"]["renewTime"])).total_seconds() > LEASE_SECONDS:
        return Finding(
            False,
            f"Lease kube-system/kube-controller-manager was last renewed at {lease['spec']['renewTime']}",
            "StaleLease",
        )
    ready, total = static_pods(view, "openshift-kube-controller-manager", "kube-controller-manager-")
    total += view.missing_masters
    if not total or ready < total:
        return Finding(False, f"{ready} of {total} static pods are Ready", "StaticPods_NotReady")
    return Finding(True, f"{ready} nodes are active (lease kube-system/kube-controller-manager is renewed, pods Ready)")

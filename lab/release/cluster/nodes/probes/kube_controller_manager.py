"""The probe of the controller manager."""

from __future__ import annotations

from lab.release.cluster.kube.conditions import Finding
from lab.release.cluster.nodes.probes.leader import led
from lab.release.cluster.nodes.probes.view import View


def kube_controller_manager(view: View) -> Finding:
    """Check that the leader renews its lease."""
    return led(view, "kube-controller-manager")

"""The probe of the approver of nodes' CSRs."""

from __future__ import annotations

from lab.release.cluster.kube.conditions import Finding
from lab.release.cluster.kube.lease import parse_time
from lab.release.cluster.nodes.probes.view import View, pod_ready

#: Seconds after which a pending CSR counts as overlooked.
CSR_SECONDS = 180


def machine_approver(view: View) -> Finding:
    """Check that the approver runs, and no node's CSR has been overlooked."""
    ready = [p for p in view.pods if p["metadata"]["namespace"] == "assisted-installer" and pod_ready(p)]
    if not ready:
        return Finding(False, "No pod in namespace assisted-installer is Ready", "NoApprover")
    waiting = 0
    for csr in view.kube.list("certificates.k8s.io/v1", "CertificateSigningRequest"):
        age = (view.now - parse_time(csr["metadata"]["creationTimestamp"])).total_seconds()
        if not (csr.get("status") or {}).get("conditions") and age > CSR_SECONDS:
            waiting += 1
    if waiting:
        return Finding(False, f"{waiting} CSRs have been pending for more than {CSR_SECONDS} s", "PendingCSRs")
    return Finding(True, f"The approver's pod is Ready and no CSR has been pending for more than {CSR_SECONDS} s")

"""The probe of the approver of nodes' CSRs."""

from __future__ import annotations

import datetime as dt

from lab.release.cluster.controller.command import API, CLIENT, LEASE_PREFIX, NAMESPACE, SERVING
from lab.release.cluster.kube.client import Object
from lab.release.cluster.kube.conditions import Finding
from lab.release.cluster.kube.lease import API as LEASE_API
from lab.release.cluster.kube.lease import parse_time
from lab.release.cluster.nodes.probes.view import View, condition, masters_without

#: Seconds after which a pending CSR counts as overlooked, and an approver as idle that has not looked at any.
CSR_SECONDS = 60
IDLE_SECONDS = 80


def pending(csrs: list[Object], now: dt.datetime) -> list[str]:
    """Return the CSRs of kubelets, each with its requester, that nobody has answered for CSR_SECONDS. Those for other
    signers are others' to answer."""
    return sorted(
        f"{csr['metadata']['name']} of {csr['spec'].get('username', '')}"
        for csr in csrs
        if csr["spec"].get("signerName") in (CLIENT, SERVING)
        and not (csr.get("status") or {}).get("conditions")
        and (now - parse_time(csr["metadata"]["creationTimestamp"])).total_seconds() > CSR_SECONDS
    )


def machine_approver(view: View) -> Finding:
    """Check that each approver looks at CSRs, and that no kubelet's has been overlooked."""
    lacking = dict.fromkeys(masters_without(view, NAMESPACE, LEASE_PREFIX), "its pod is not Ready")
    leases = {lease["metadata"]["name"]: lease["spec"] for lease in view.kube.list(LEASE_API, "Lease", NAMESPACE)}
    for node in view.masters:
        name = str(node["metadata"]["name"])
        looked = (leases.get(f"{LEASE_PREFIX}{name}") or {}).get("renewTime")
        if looked is None or (view.now - parse_time(looked)).total_seconds() > IDLE_SECONDS:
            lacking.setdefault(name, f"its approver looked at CSRs last at {looked or 'no time'}")
    if lacking or not view.masters:
        text = "; ".join(f"{name}: {seen}" for name, seen in sorted(lacking.items())) or "no control plane node yet"
        return Finding(False, f"Approvers: {text}", "NoApprover", condition(view, view.masters, lacking))
    if waiting := pending(view.kube.list(API, "CertificateSigningRequest"), view.now):
        shown = f"{len(waiting)} CSRs have been pending for more than {CSR_SECONDS} s: {', '.join(waiting[:3])}"
        return Finding(False, shown, "PendingCSRs")
    return Finding(True, f"Each approver looks at CSRs, and none has been pending for more than {CSR_SECONDS} s")

"""The probe of the approver of nodes' CSRs."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection

from lab.release.cluster.controller.command import API, CLIENT, LEASE_PREFIX, NAMESPACE, SERVING, read_request
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


def newcomers(csrs: list[Object], nodes: Collection[str]) -> list[str]:
    """Return the CSRs that nobody has answered by which nodes would join a cluster that has these: an administrator's
    to answer, once the cluster is installed."""
    found = []
    for csr in csrs:
        if csr["spec"].get("signerName") == CLIENT and not (csr.get("status") or {}).get("conditions"):
            try:
                node = read_request(csr).common_name.removeprefix("system:node:")
            except (ValueError, KeyError):
                continue
            if node and node not in nodes:
                found.append(str(csr["metadata"]["name"]))
    return found


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
    csrs = view.kube.list(API, "CertificateSigningRequest")
    new = newcomers(csrs, {str(node["metadata"]["name"]) for node in view.nodes}) if view.installed else []
    if waiting := pending([csr for csr in csrs if csr["metadata"]["name"] not in new], view.now):
        shown = f"{len(waiting)} CSRs have been pending for more than {CSR_SECONDS} s: {', '.join(waiting[:3])}"
        return Finding(False, shown, "PendingCSRs")
    text = f"Each approver looks at CSRs, and none has been pending for more than {CSR_SECONDS} s"
    asked = f"; nodes that are to join wait for an administrator to approve {', '.join(sorted(new)[:3])}" if new else ""
    return Finding(True, text + asked)

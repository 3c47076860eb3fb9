"""The probe of the controller manager."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

from lab.release.cluster.kube.client import Object
from lab.release.cluster.kube.conditions import Finding, stamp
from lab.release.cluster.kube.lease import parse_time
from lab.release.cluster.nodes.probes.leader import led
from lab.release.cluster.nodes.probes.view import View

NAMESPACE = "openshift-kube-controller-manager"
#: A Deployment of no pods (0000_25_kube-controller-manager_03_canary.yaml). A leader may renew its lease and do nothing
#: else; so the probe changes this one from time to time, and the controller must say that it has seen the change.
CANARY = "controller-canary"
ASKED = "node0.openshift.io/asked"
#: Seconds between two changes, and those that the controller has for each.
ASK_SECONDS, ANSWER_SECONDS = 35, 30


def canary_patch(now: dt.datetime, canary: Object) -> Object:
    """Return a change that makes the controller reconcile the canary, and no pod."""
    other = 0 if canary["spec"].get("minReadySeconds") else 1
    return {"metadata": {"annotations": {ASKED: stamp(now)}}, "spec": {"minReadySeconds": other}}


def overlooked(now: dt.datetime, canary: Object) -> str:
    """Return what the controller has left undone of the canary; nothing when it has answered, or has time left."""
    meta, seen = canary["metadata"], int((canary.get("status") or {}).get("observedGeneration", 0))
    age = _asked_before(now, canary)
    if seen >= meta["generation"] or (seen and 0 <= age < ANSWER_SECONDS):
        return ""
    change = f"generation {meta['generation']} of Deployment {NAMESPACE}/{CANARY}"
    return f"{change}, {age:.0f} s old, is not reconciled: generation {seen} was the last"


def _asked_before(now: dt.datetime, canary: Object) -> float:
    meta = canary["metadata"]
    asked = (meta.get("annotations") or {}).get(ASKED) or meta["creationTimestamp"]
    return (now - parse_time(asked)).total_seconds()


def _reconciles(view: View) -> str:
    """Return what the leader has left undone, and give it something to do when it is time."""
    canary = view.kube.get("apps/v1", "Deployment", CANARY, NAMESPACE)
    if canary is None:
        return f"Deployment {NAMESPACE}/{CANARY} is not there"
    undone = overlooked(view.now, canary)
    if not undone and not 0 <= _asked_before(view.now, canary) < ASK_SECONDS:
        view.kube.merge_patch({"apiVersion": "apps/v1", "kind": "Deployment", **canary}, canary_patch(view.now, canary))
    return undone


def kube_controller_manager(view: View) -> Finding:
    """Check that a leader renews its lease and reconciles, and that each control plane node has a manager."""
    finding = led(view, "kube-controller-manager")
    if not finding.good and finding.condition == "Available":
        return finding
    if undone := _reconciles(view):
        return Finding(False, f"The lease is renewed, but {undone}", "NotReconciling")
    return replace(finding, message=f"{finding.message}; the leader reconciles") if finding.good else finding

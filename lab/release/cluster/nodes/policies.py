"""Warnings about NetworkPolicies: nothing in this network enforces them, and nobody shall believe otherwise."""

from __future__ import annotations

import logging
import threading

from lab.release.cluster.errors import ClusterError
from lab.release.cluster.kube.client import Kube
from lab.release.cluster.kube.events import warn

log = logging.getLogger(__name__)

API = "networking.k8s.io/v1"
KIND = "NetworkPolicy"
REASON = "NetworkPolicyNotEnforced"
#: `kubectl describe` shows no events of a policy, but its annotations.
ANNOTATION = "network.node0.example/enforced"
MESSAGE = "This cluster's network does not enforce NetworkPolicies: all traffic stays allowed"


def follow(kube: Kube, stop: threading.Event) -> None:
    """Warn of each policy once, on itself and by an event, and again when its specification changes, until ``stop``."""
    warned: set[tuple[str, int]] = set()
    for policies in kube.watch(API, KIND, stop):
        for policy in policies.values():
            meta = policy["metadata"]
            key = (str(meta["uid"]), int(meta.get("generation", 0)))
            if key in warned:
                continue
            try:
                kube.merge_patch(policy, {"metadata": {"annotations": {ANNOTATION: f"no: {MESSAGE}"}}})
                warn(kube, policy, REASON, MESSAGE)
                warned.add(key)
            except (ClusterError, OSError) as error:
                log.warning("network policies: %s", error)

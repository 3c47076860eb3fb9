"""Cordon, drain and uncordon, as `kubectl drain --force --ignore-daemonsets --delete-emptydir-data` does it: by the
eviction API, which keeps PodDisruptionBudgets (reference/machine-configs.md §4).

A step never waits. Whoever drains takes another one, a moment later, for as long as it names pods.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from lab.release.cluster.errors import ApiError
from lab.release.cluster.kube.client import Kube, Object

log = logging.getLogger(__name__)

EVICTION = "policy/v1beta1"
_MIRROR = "kubernetes.io/config.mirror"


def cordon(kube: Kube, node: str, *, closed: bool = True) -> None:
    """Close a node to new pods, or open it again. Raises ApiError."""
    target = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}}
    kube.merge_patch(target, {"spec": {"unschedulable": closed or None}})


def movable(pods: Iterable[Object]) -> list[Object]:
    """Return the pods that a drain has to see gone: none of a DaemonSet, which would be back at once, no static pod,
    and none that has finished, which holds up nothing."""
    return [
        pod
        for pod in pods
        if _MIRROR not in (pod["metadata"].get("annotations") or {})
        and all(owner["kind"] != "DaemonSet" for owner in pod["metadata"].get("ownerReferences") or [])
        and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
        and not _ended(pod)
    ]


def _ended(pod: Object) -> bool:
    """Return whether a pod that goes has no container running any more: a kubelet here takes up to 50 s from then until
    it lets go of the object."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    return bool(pod["metadata"].get("deletionTimestamp")) and not any("running" in s["state"] for s in statuses)


def step(kube: Kube, node: str) -> list[str]:
    """Cordon a node and evict all pods that may go; return those that are still there, each with its reason, and
    nothing once the node is drained. Raises ApiError."""
    cordon(kube, node)
    left = []
    for pod in movable(kube.list("v1", "Pod", fields=f"spec.nodeName={node}")):
        meta = pod["metadata"]
        name = f"pod {meta['namespace']}/{meta['name']}"
        reason = "is ending" if meta.get("deletionTimestamp") else _evict(kube, pod)
        if reason is not None:
            left.append(f"{name}: {reason}")
    return sorted(left)


def _evict(kube: Kube, pod: Object) -> str | None:
    """Evict a pod; return what it is doing now, and None when it is gone."""
    meta = {"name": pod["metadata"]["name"], "namespace": pod["metadata"]["namespace"]}
    path = kube.path("v1", "Pod", meta["namespace"], meta["name"], sub="eviction")
    try:
        kube.request("POST", path, {"apiVersion": EVICTION, "kind": "Eviction", "metadata": meta})
    except ApiError as error:
        if error.status == 404:
            return None
        # 429: a budget holds it. 500: more than one budget. 403: its namespace is being deleted. A webhook may answer
        # with any other, and must not keep other nodes and pools waiting.
        if error.status >= 400:
            return error.message
        raise
    log.info("Evicted pod %s/%s", meta["namespace"], meta["name"])
    return "is ending"

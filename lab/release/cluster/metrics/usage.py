"""Objects of metrics.k8s.io/v1beta1, made of kubelets' summaries.

A summary's rates are the kubelet's own, over its last two samples (/stats/summary, Kubernetes 1.20,
staging/src/k8s.io/kubelet/pkg/apis/stats/v1alpha1/types.go).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lab.release.cluster.kube.client import Object
from lab.release.cluster.kube.lease import parse_time

GROUP = "metrics.k8s.io"
VERSION = "v1beta1"
API = f"{GROUP}/{VERSION}"
#: Where each node serves it.
PORT = 9447
#: Between two samples of a kubelet (`--housekeeping-interval`).
WINDOW = "1m0s"
#: By when a kubelet has two samples of a container.
YOUNG_SECONDS = 120


def _usage(stats: Object) -> tuple[str, dict[str, str]] | None:
    """Return when it was measured, and the usage; None while a kubelet has no rate yet."""
    cpu, memory = stats.get("cpu") or {}, stats.get("memory") or {}
    if cpu.get("usageNanoCores") is None or memory.get("workingSetBytes") is None:
        return None
    # Before its second sample a kubelet says zero, as of what is idle.
    if not cpu["usageNanoCores"] and _seconds(stats.get("startTime", cpu["time"]), cpu["time"]) < YOUNG_SECONDS:
        return None
    return cpu["time"], {"cpu": f"{cpu['usageNanoCores']}n", "memory": f"{memory['workingSetBytes'] // 1024}Ki"}


def _seconds(began: str, ended: str) -> float:
    return (parse_time(ended) - parse_time(began)).total_seconds()


def _metrics(kind: str, obj: Object, time: str, more: Object) -> Object:
    meta = {key: obj["metadata"][key] for key in ("name", "namespace", "labels") if key in obj["metadata"]}
    head = {"kind": kind, "apiVersion": API, "metadata": {**meta, "creationTimestamp": time}}
    return {**head, "timestamp": time, "window": WINDOW, **more}


def node(obj: Object, summary: Object) -> Object | None:
    """Return a node's NodeMetrics; None while there are none."""
    measured = _usage(summary["node"])
    return _metrics("NodeMetrics", obj, measured[0], {"usage": measured[1]}) if measured else None


def pods(objects: Sequence[Object], summary: Object) -> list[Object]:
    """Return the PodMetrics of those of the pods that a summary has, and whose containers all have some."""
    stats = {pod["podRef"]["uid"]: pod for pod in summary.get("pods") or []}
    found = []
    for obj in objects:
        containers = (stats.get(_uid(obj)) or {}).get("containers") or []
        measured = {container["name"]: _usage(container) for container in containers}
        known = {name: usage for name, usage in measured.items() if usage}
        if known and len(known) == len(measured):
            time = min(when for when, _ in known.values())
            used = [{"name": name, "usage": usage} for name, (_, usage) in sorted(known.items())]
            found.append(_metrics("PodMetrics", obj, time, {"containers": used}))
    return found


def _uid(pod: Object) -> str:
    """Return the UID by which its kubelet knows a pod: a static one's is the hash of its manifest."""
    meta = pod["metadata"]
    return str((meta.get("annotations") or {}).get("kubernetes.io/config.hash") or meta["uid"])


def listed(kind: str, items: Sequence[Object]) -> Object:
    """Return a list of a kind."""
    return {"kind": f"{kind}List", "apiVersion": API, "metadata": {}, "items": list(items)}


def failure(code: int, reason: str, message: str) -> Object:
    """Return a Status as the API answers with."""
    head = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return {**head, "reason": reason, "message": message, "code": code}


def _resource(name: str, kind: str, namespaced: bool) -> dict[str, Any]:
    names = {"name": name, "singularName": "", "kind": kind}
    return {**names, "namespaced": namespaced, "verbs": ["get", "list"]}


#: Discovery: the group, and its resources.
_VERSION = {"groupVersion": API, "version": VERSION}
DISCOVERY: Object = {
    "kind": "APIGroup",
    "apiVersion": "v1",
    "name": GROUP,
    "versions": [_VERSION],
    "preferredVersion": _VERSION,
}
RESOURCES: Object = {
    "kind": "APIResourceList",
    "apiVersion": "v1",
    "groupVersion": API,
    "resources": [_resource("nodes", "NodeMetrics", False), _resource("pods", "PodMetrics", True)],
}

"""The probe of the nodes' local volumes, by claims of its own; and users' claims that wait for a node that is away."""

from __future__ import annotations

import hashlib
import socket
import ssl
from collections.abc import Sequence

from lab.release.cluster.errors import ApiError
from lab.release.cluster.kube.client import Kube, Object
from lab.release.cluster.kube.conditions import Finding
from lab.release.cluster.kube.lease import parse_time
from lab.release.cluster.metrics.usage import PORT
from lab.release.cluster.nodes.probes.view import View, address, condition, node_ready, pod_ready
from lab.release.cluster.storage import claims

NAMESPACE = "openshift-cluster-storage-operator"
SERVED_BY = "openshift-cluster-network"
#: Seconds: how old a node's bound claim may be before the next one is made; within which that one must be bound, and
#: within which a node's process must shake hands.
CHECK_SECONDS = 600
BIND_SECONDS = 60
SILENT_SECONDS = 10.0
LABEL = "storage.node0.example/node"
#: A field of a label is shorter than a node's name may be.
_SHORT = 12


def storage(view: View) -> Finding:
    """Check that StorageClass `local` is the default, and that each node that is Ready has a claim bound within the
    last minutes and has removed those before it."""
    found = view.kube.get(claims.CLASS_API, "StorageClass", "local")
    if found is None or (found["metadata"].get("annotations") or {}).get(claims.DEFAULT) != "true":
        return Finding(False, "StorageClass local is not there or not the default", "NoStorageClass")
    nodes = [node for node in view.nodes if node_ready(node)]
    if not nodes:
        return Finding(False, "No node is Ready that could have a volume", "NoNodes")
    everybody = view.kube.list("v1", "PersistentVolumeClaim")
    own = [claim for claim in everybody if claim["metadata"]["namespace"] == NAMESPACE]
    _select_anew(view.kube, [claim for claim in everybody if claim not in own], nodes)
    kept = _left(view, [volume for volume in view.kube.list("v1", "PersistentVolume") if _ours(volume)])
    served = {pod["spec"].get("nodeName") for pod in view.pods if _serves(pod)}
    bad: dict[str, str] = {}
    for node in nodes:
        name = node["metadata"]["name"]
        mine = [claim for claim in own if (claim["metadata"].get("labels") or {}).get(LABEL) == _short(name)]
        if name not in served:
            bad[name] = "no pod node-network is Ready"
        elif why := silent(address(node).strip("[]")) or _node(view, name, mine):
            bad[name] = why
        elif left := [volume for host, volume in kept if host == _host(node)]:
            bad[name] = f"volume {left[0]} is released and not removed"
    if bad:
        text = "; ".join(f"{name}: {why}" for name, why in sorted(bad.items()))
        return Finding(False, text, "VolumesNotServed", condition(view, nodes, bad))
    return Finding(True, f"StorageClass local is the default, and a claim of its own is bound on {len(nodes)} nodes")


def silent(host: str, port: int = PORT) -> str:
    """Return how a node's process fails to shake hands, as one does that stands still; empty when it does. It answers
    nothing else to who has no certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection((host, port), timeout=SILENT_SECONDS) as plain, context.wrap_socket(plain):
            return ""
    except OSError as error:
        return f"its node-network does not answer on port {port} ({error})"


def _serves(pod: Object) -> bool:
    meta = pod["metadata"]
    return meta["namespace"] == SERVED_BY and (meta.get("labels") or {}).get("app") == "node-network" and pod_ready(pod)


def _select_anew(kube: Kube, others: Sequence[Object], ready: Sequence[Object]) -> None:
    """Have the scheduler select another node for claims whose node is away or gone."""
    for claim in claims.stranded(others, [node["metadata"]["name"] for node in ready]):
        meta = {"annotations": {claims.SELECTED: None}, "resourceVersion": claim["metadata"]["resourceVersion"]}
        target = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": claim["metadata"]}
        try:
            kube.merge_patch(target, {"metadata": meta})
        except ApiError as error:
            if error.status not in (404, 409):  # it was answered or deleted meanwhile
                raise


def _short(node: str) -> str:
    return hashlib.sha256(node.encode()).hexdigest()[:_SHORT]


def _host(node: Object) -> str:
    return str((node["metadata"].get("labels") or {}).get(claims.HOSTNAME, ""))


def _ours(volume: Object) -> bool:
    return (volume["spec"].get("claimRef") or {}).get("namespace") == NAMESPACE


def _phase(obj: Object) -> str:
    return str((obj.get("status") or {}).get("phase", ""))


def _node(view: View, node: str, mine: Sequence[Object]) -> str:
    """Make a node's next claim and let go of those that another has replaced; why its volumes do not work, or an empty
    text."""
    ages = {c["metadata"]["name"]: _age(view, c) for c in mine}
    bound = [claim for claim in mine if _phase(claim) == "Bound" and not claim["metadata"].get("deletionTimestamp")]
    newest = min(ages.values(), default=CHECK_SECONDS)
    if newest >= CHECK_SECONDS:
        view.kube.create(_claim(node, int(view.now.timestamp())))
    for claim in bound:
        if any(ages[other["metadata"]["name"]] < ages[claim["metadata"]["name"]] for other in bound):
            view.kube.delete("v1", "PersistentVolumeClaim", claim["metadata"]["name"], NAMESPACE)
    waiting = [claim for claim in mine if _phase(claim) == "Pending"]
    late = [claim["metadata"]["name"] for claim in waiting if ages[claim["metadata"]["name"]] > BIND_SECONDS]
    if late:
        return f"claim {late[0]} is not bound after {BIND_SECONDS} s{_said(view.kube, late[0])}"
    return "" if bound else "its first claim is not bound yet"


def _age(view: View, obj: Object) -> float:
    return (view.now - parse_time(obj["metadata"]["creationTimestamp"])).total_seconds()


def _said(kube: Kube, name: str) -> str:
    """Return the last warning about a claim."""
    events = [event for event in kube.list("v1", "Event", NAMESPACE) if event["involvedObject"].get("name") == name]
    last = max(events, key=lambda event: event.get("lastTimestamp") or "", default=None)
    return f" ({last['message'][:200]})" if last else ""


def _left(view: View, volumes: Sequence[Object]) -> list[tuple[str, str]]:
    """Return (host, name) of the released ones; those of nodes that are gone for good, whose disks are too, are
    deleted."""
    hosts = {_host(node) for node in view.nodes}
    left = []
    for volume in (volume for volume in volumes if _phase(volume) == "Released"):
        host, name = claims.host(volume), volume["metadata"]["name"]
        if host in hosts:
            left.append((host, name))
        elif host:
            view.kube.delete("v1", "PersistentVolume", name)
    return left


def _claim(node: str, now: int) -> Object:
    """Return a claim that no pod has, for which a node is selected all the same."""
    meta = {
        "name": f"check-{_short(node)}-{now // CHECK_SECONDS}",
        "namespace": NAMESPACE,
        "labels": {LABEL: _short(node)},
        "annotations": {claims.SELECTED: node},
    }
    spec = {
        "storageClassName": "local",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Mi"}},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec}

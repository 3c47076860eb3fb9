"""A release's parts on the nodes: how far an operator's are, and static pods that are replaced before the rest."""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from lab.release.cluster.errors import ApiError, ClusterError, Stopped, WaitError
from lab.release.cluster.kube.apply import ensure
from lab.release.cluster.kube.client import Kube, Object
from lab.release.cluster.kube.payload import read_objects
from lab.release.cluster.nodes.probes.view import address, pod_ready
from lab.release.cluster.nodes.revisions import Wanted, at_start
from lab.release.cluster.pods import staticpods
from lab.release.cluster.pods.installerpod import CONTROL_PLANE, KUBERNETES, NAMESPACE, content, files_of
from lab.release.cluster.pods.pod import CONTENT_ENV, StaticPod
from lab.release.cluster.pods.staticpods import ETCD_SERVERS
from lab.release.cluster.version_operator.retrieval import container_states, run_pod

log = logging.getLogger(__name__)

MIRROR = "kubernetes.io/config.mirror"
HASH = "kubernetes.io/config.hash"
#: How long a static pod may take to be ready in its new form: an API server on an emulated CPU takes two minutes.
SECONDS = 300.0
POLL_SECONDS = 1.0
#: For how long a pod without a readiness probe must have run: one that cannot start ends within a few seconds.
SETTLE_SECONDS = 6.0
#: Arguments that are no release's: etcd's for a member's first start, and the members that an API server asks.
OWN_ARGUMENTS = ("--initial-cluster=", "--initial-cluster-state=", f"{ETCD_SERVERS}=")
#: In the pod that replaces a static pod's file: the file before stays, and can be put back.
_PLACE = """cd /host/manifests
mkdir -p ../manifests-before
umask 077
if [ -n "$MANIFEST" ]; then
    [ ! -e "$FILE" ] || cp "$FILE" "../manifests-before/$FILE"
    printf %s "$MANIFEST" > ".$FILE.new"
else
    cp "../manifests-before/$FILE" ".$FILE.new"
fi
mv ".$FILE.new" "$FILE"
"""


def workload_lag(kind: str, workload: Object) -> str:
    """Return how far a Deployment or DaemonSet is from running its template everywhere; nothing when it does."""
    meta, spec, status = workload["metadata"], workload["spec"], workload.get("status") or {}
    name = f"{kind} {meta['namespace']}/{meta['name']}"
    if kind == "Deployment":
        wanted, updated = int(spec.get("replicas", 1)), int(status.get("updatedReplicas") or 0)
        available, total = int(status.get("availableReplicas") or 0), int(status.get("replicas") or 0)
    else:
        wanted, updated = int(status.get("desiredNumberScheduled") or 0), int(status.get("updatedNumberScheduled") or 0)
        available, total = int(status.get("numberAvailable") or 0), wanted
    if int(status.get("observedGeneration") or 0) < int(meta.get("generation") or 0):
        return f"{name} has not been looked at yet"
    if updated < wanted or total > wanted:
        return f"{name}: {updated} of {wanted} pods are of this release"
    return f"{name}: {available} of {wanted} pods are available" if available < wanted else ""


def stuck(pods: Sequence[Object], namespaces: Sequence[str]) -> str:
    """Return the pods of these namespaces that come up no more by themselves, with the reason; nothing when none."""
    lines = []
    for pod in pods:
        if pod["metadata"]["namespace"] not in namespaces:
            continue
        for kind, state in container_states(pod):
            if kind == "waiting" and state.get("reason") in ("CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull"):
                lines.append(f"pod {pod['metadata']['name']} is in {state['reason']}")
    return "; ".join(sorted(set(lines)))


def static_pods(wanted: Wanted, node: Object, mirrors: Sequence[Object]) -> list[StaticPod]:
    """Return the static pods that a control plane node is to run; etcd joins whom it has joined before, and the API
    server asks the members that it has asked."""
    name, ip = node["metadata"]["name"], address(node).strip("[]")
    stages = staticpods.control_plane(wanted.config, wanted.release_image, ip, name)
    pods = [pod for stage in stages for pod in stage.pods]
    running = {m["metadata"]["name"]: m for m in mirrors}
    if wanted.config.fenced:  # pacemaker runs etcd
        pods = [staticpods.etcd_tools() if pod.name == "etcd" else pod for pod in pods]
    return [_as_it_runs(pod, running.get(f"{pod.name}-{name}")) for pod in pods]


def _as_it_runs(pod: StaticPod, mirror: Object | None) -> StaticPod:
    """Return a pod with the arguments of the running one that no release decides."""
    if mirror is None:
        return pod
    old = [word for word in mirror["spec"]["containers"][0].get("command") or [] if word.startswith(OWN_ARGUMENTS)]
    kept = {word.partition("=")[0]: word for word in old}
    return replace(pod, command=tuple(kept.get(word.partition("=")[0], word) for word in pod.command))


def _stored(value: object) -> object:
    """Return a part of a manifest as the API stores it: without what is empty or false."""
    if isinstance(value, dict):
        return {key: _stored(item) for key, item in value.items() if item not in ([], {}, False)}
    return [_stored(item) for item in value] if isinstance(value, list) else value


def same(manifest: Object, mirror: Object) -> bool:
    """Return whether a running static pod is of that manifest: all that it says of the container is so."""
    [running], [container] = mirror["spec"]["containers"], manifest["spec"]["containers"]
    own = [entry for entry in running.get("env") or [] if entry["name"] != CONTENT_ENV]
    seen = _stored({**running, "env": own})
    return bool(ensure(seen, _stored({"env": [], **container})) == seen)


def outdated(
    wanted: Wanted, nodes: Sequence[Object], pods: Sequence[Object], namespaces: Sequence[str]
) -> list[tuple[str, StaticPod, Object]]:
    """Return the static pods of these namespaces that are not of this release: the node's name, what it is to run, and
    what it runs."""
    mirrors = [p for p in pods if MIRROR in (p["metadata"].get("annotations") or {})]
    found = []
    for name, node in sorted((str(n["metadata"]["name"]), n) for n in nodes):
        of_node = [m for m in mirrors if m["spec"].get("nodeName") == name]
        for pod in static_pods(wanted, node, of_node) if of_node else ():
            mirror = next((m for m in of_node if m["metadata"]["name"] == f"{pod.name}-{name}"), None)
            if pod.namespace not in namespaces or mirror is None:
                continue
            [manifest] = read_objects(pod.manifest(wanted.images), pod.name)
            if not same(manifest, mirror):
                found.append((name, pod, mirror))
    return found


class StaticPods:
    """Static pods of some namespaces, brought to a release one node after the other: before revisions are the new
    release's (nodes/revisions.py), its version operator."""

    def __init__(self, kube: Kube, wanted: Wanted) -> None:
        self._kube = kube
        self._wanted = wanted

    def bring(self, namespaces: Sequence[str], stop: threading.Event, last: str = "") -> None:
        """Replace what is of another release, a node at a time, that of node ``last`` last; each must be ready before
        the next. What does not become ready is put back. Raises ClusterError naming it, ApiError, Stopped."""
        found = outdated(self._wanted, self._kube.list("v1", "Node"), self._kube.list("v1", "Pod"), namespaces)
        for node, pod, mirror in sorted(found, key=lambda row: row[0] == last):
            self._replace(node, pod, mirror, stop)

    def _replace(self, node: str, pod: StaticPod, mirror: Object, stop: threading.Event) -> None:
        log.info("Node %s gets %s of this release", node, pod.name)
        before = mirror["metadata"]["annotations"].get(HASH)
        self._place(node, pod, stop, before=before)
        try:
            self._wait(node, pod, before, stop)
        except WaitError as error:
            log.warning("%s; the one before is put back", error)
            current = self._mirror(pod, node)
            bad = ((current or {}).get("metadata") or {}).get("annotations", {}).get(HASH)
            self._place(node, pod, stop, before=bad, back=True)
            raise ClusterError(f"{pod.name} of this release does not become ready on {node}: {error.seen}") from error

    def _mirror(self, pod: StaticPod, node: str) -> Object | None:
        return self._kube.get("v1", "Pod", f"{pod.name}-{node}", pod.namespace)

    def _content(self, pod: StaticPod) -> str:
        """Return the hash by which the new release's version operator will know its pod (nodes/revisions.py)."""
        stored = self._kube.get("v1", "Secret", CONTROL_PLANE, NAMESPACE) or {"metadata": {}}
        revisions = self._kube.list("v1", "ConfigMap", NAMESPACE, "node0.example/revision")
        latest = max(revisions, key=lambda obj: int(obj["data"]["revision"]), default={"data": {"reason": ""}})
        return content(pod, self._wanted.images, at_start(files_of(stored)), latest["data"]["reason"])

    def _place(
        self, node: str, pod: StaticPod, stop: threading.Event, *, before: str | None, back: bool = False
    ) -> None:
        """Put a manifest in place, or ``back`` the one before; the pod that does so pulls the image in passing."""
        images, release = self._wanted.images, self._wanted.release_image
        manifest, image = ("", release) if back else (pod.manifest(images, self._content(pod)), images[pod.tag])

        def placed() -> bool:
            mirror = self._mirror(pod, node)
            return mirror is not None and mirror["metadata"]["annotations"].get(HASH) != before

        run_pod(self._kube, placing_pod(node, pod, manifest, image), stop, seconds=SECONDS, done=placed)

    def _wait(self, node: str, pod: StaticPod, before: str | None, stop: threading.Event) -> None:
        deadline, seen, since = time.monotonic() + SECONDS, "", None
        while True:
            try:
                mirror = self._mirror(pod, node)
                current = (mirror or {}).get("metadata", {}).get("annotations", {}).get(HASH)
                ready = mirror is not None and current != before and pod_ready(mirror)
                since = (since or time.monotonic()) if ready else None
                if since is not None and (pod.readiness or time.monotonic() - since >= SETTLE_SECONDS):
                    return
                states = "; ".join(f"{kind}: {state}" for kind, state in container_states(mirror or {}))
                seen = states if current != before else "the kubelet runs the one before"
            except ApiError as error:
                seen = str(error)
            if time.monotonic() > deadline:
                raise WaitError(f"{pod.name} on {node}", SECONDS, seen)
            if stop.wait(POLL_SECONDS):
                raise Stopped("told to stop")


def placing_pod(node: str, pod: StaticPod, manifest: str, image: str) -> Object:
    """Return the pod that writes a static pod's manifest on a node, or with none puts back the one before."""
    digest = hashlib.sha256(f"{manifest}{image}".encode()).hexdigest()[:8]
    env: Mapping[str, str] = {"FILE": f"{pod.name}-pod.yaml", "MANIFEST": manifest}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"update-{pod.name}-{digest}-{node}",
            "namespace": pod.namespace,
            "labels": {"app": "update-static-pod"},
        },
        "spec": {
            "nodeName": node,
            "hostNetwork": True,
            "dnsPolicy": "Default",
            "restartPolicy": "OnFailure",
            "automountServiceAccountToken": False,
            "tolerations": [{"operator": "Exists"}],
            "containers": [
                {
                    "name": "place",
                    "image": image,
                    "command": ["/bin/sh", "-ec", _PLACE],
                    "env": [{"name": name, "value": value} for name, value in env.items()],
                    "resources": {"requests": {"cpu": "10m", "memory": "20Mi"}},
                    "terminationMessagePolicy": "FallbackToLogsOnError",
                    "volumeMounts": [{"name": "kubernetes", "mountPath": "/host"}],
                }
            ],
            "volumes": [{"name": "kubernetes", "hostPath": {"path": KUBERNETES, "type": "Directory"}}],
        },
    }

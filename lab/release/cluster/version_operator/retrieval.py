"""The payload of another release: a pod that runs its image copies the manifests out of it onto this node."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import re
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lab.release.cluster.errors import ApiError, ClusterError, Stopped, WaitError
from lab.release.cluster.kube.client import Kube, Object
from lab.release.cluster.pods.staticpods import PAYLOADS
from lab.release.cluster.version_operator.updates import Update

NAMESPACE = "openshift-cluster-version"
LABELS = {"k8s-app": "retrieve-openshift-release"}
POD_SECONDS = 120
SECONDS = 240.0
POLL_SECONDS = 1.0
#: A kubelet that cannot pull says the first in turn with the second; what the first says is worth more.
PULL_ERRORS = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName")
_COPY = """target=$1
rm -rf "$(dirname "$target")"/*
mkdir "$target.new"
cp -R /manifests /release-manifests "$target.new"
mv "$target.new" "$target"
"""


def folder(image: str) -> str:
    """Return the name of a payload's directory: the image's name, shortened as the field does."""
    return base64.urlsafe_b64encode(hashlib.md5(image.encode(), usedforsecurity=False).digest()).decode().rstrip("=")


def copying_pod(update: Update, node: str) -> Object:
    """Return the pod that copies a release's manifests into its directory on a node."""
    digest = hashlib.sha256(update.image.encode()).hexdigest()[:10]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"version-{re.sub('[^a-z0-9]', '-', update.version.lower())[:200] or 'unknown'}-{digest}",
            "namespace": NAMESPACE,
            "labels": LABELS,
        },
        "spec": {
            "nodeName": node,
            "hostNetwork": True,
            "dnsPolicy": "Default",
            "restartPolicy": "OnFailure",
            "activeDeadlineSeconds": POD_SECONDS,
            "automountServiceAccountToken": False,
            "tolerations": [{"operator": "Exists"}],
            "containers": [
                {
                    "name": "copy",
                    "image": update.image,
                    "command": ["/bin/sh", "-ec", _COPY, "copy", f"{PAYLOADS}/{folder(update.image)}"],
                    "resources": {"requests": {"cpu": "10m", "memory": "50Mi"}},
                    "terminationMessagePolicy": "FallbackToLogsOnError",
                    "volumeMounts": [{"name": "payloads", "mountPath": PAYLOADS}],
                }
            ],
            "volumes": [{"name": "payloads", "hostPath": {"path": PAYLOADS, "type": "DirectoryOrCreate"}}],
        },
    }


def container_states(pod: Object) -> list[tuple[str, dict[str, Any]]]:
    """Return the states of a pod's containers: ``waiting``, ``running`` or ``terminated``, and the particulars."""
    status = pod.get("status") or {}
    containers = [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]
    return [next(iter((container.get("state") or {"waiting": {}}).items())) for container in containers]


def trouble(pod: Object) -> str:
    """Return the reason why a pod will not succeed, as its containers tell it; nothing while it may."""
    lines = []
    failed = (pod.get("status") or {}).get("phase") == "Failed"
    for kind, state in container_states(pod):
        if kind == "waiting" and state.get("reason") in PULL_ERRORS:
            lines.append(f"container is waiting with reason {state['reason']}: {state.get('message', '')}")
        if kind == "terminated" and failed:
            lines.append(f"container ended with {state.get('exitCode')}: {state.get('message', '')}")
    if not lines and failed:
        status = pod["status"]
        lines.append(f"{status.get('reason', 'Failed')}: {status.get('message', 'no message')}")
    return "; ".join(" ".join(line.split()) for line in lines)


def run_pod(
    kube: Kube, pod: Object, stop: threading.Event, *, seconds: float = SECONDS, done: Callable[[], bool] | None = None
) -> None:
    """Run a pod anew, wait until it has succeeded, or until ``done`` says so, and remove it.

    Raises WaitError, ClusterError with what its containers say when it failed, Stopped. An API that is away meanwhile
    is waited for.
    """
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    deadline, created, seen, pull = time.monotonic() + seconds, False, "it is not made yet", ""
    try:
        while True:
            try:
                if not created:
                    kube.delete("v1", "Pod", name, namespace)
                    created = kube.create(pod) is not None
                current = kube.get("v1", "Pod", name, namespace) if created else None
                phase = ((current or {}).get("status") or {}).get("phase", "")
                if phase == "Succeeded" or (done is not None and done()):
                    return
                bad = trouble(current) if current else ""
                if phase == "Failed" or "ErrImagePull" in bad or "InvalidImageName" in bad:
                    pull, again = bad, pull
                    if phase == "Failed" or again:
                        raise ClusterError(f"pod {name} failed: {bad}")
                seen = bad or f"phase {phase or 'unknown'}"
            except ApiError as error:
                if error.status in (400, 422):  # not the API's state, but the pod's: its image is no name of one
                    raise ClusterError(f"pod {name} is refused: {error.message}") from error
                seen = str(error)
            if time.monotonic() > deadline:
                raise WaitError(f"pod {namespace}/{name}", seconds, seen)
            if stop.wait(POLL_SECONDS):
                raise Stopped("told to stop")
    finally:
        # One that stays has ended, and the next of its name removes it.
        with contextlib.suppress(ApiError):
            kube.delete("v1", "Pod", name, namespace)


def own_node(kube: Kube) -> str:
    """Return the name of the node that this process runs on, a pod on the host's network. Raises ClusterError."""
    host = socket.gethostname()
    names = [str(node["metadata"]["name"]) for node in kube.list("v1", "Node")]
    found = [name for name in names if name in (host, host.partition(".")[0]) or name.partition(".")[0] == host]
    if not found:
        raise ClusterError(f"this host, {host}, is none of the nodes {', '.join(names) or '(none)'}")
    return found[0]


def retrieve(kube: Kube, update: Update, stop: threading.Event, root: Path = Path(PAYLOADS)) -> Path:
    """Return the directory with a release's payload, copied out of its image unless it is there already.

    Raises WaitError, ClusterError, Stopped.
    """
    target = root / folder(update.image)
    if not target.is_dir():
        run_pod(kube, copying_pod(update, own_node(kube)), stop)
    if not target.is_dir():
        raise ClusterError(f"{target} is not there, though the pod that copies the payload has succeeded")
    return target

"""Installer pods: how a node gets its static pods and their files from the API, as OpenShift's operators do it.

The pod is bound to its node without a scheduler, so the node's kubelet, and no other, may read the Secrets that it
mounts. In it runs `nodeinstall`.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from lab.release.cluster.kube.client import Object
from lab.release.cluster.kube.payload import Images
from lab.release.cluster.kube.resources import secret
from lab.release.cluster.pods.pod import Stage, StaticPod

NAMESPACE = "openshift-etcd"
KUBERNETES = "/etc/kubernetes"
ETCD_DATA = "/var/lib/etcd"
#: Where the pod finds what it installs.
FILES = "/installer/files"
PODS = "/installer/pods"
#: The Secret with the files of every control plane node, and the one with what a node has of its own, before its name.
CONTROL_PLANE, PERSONAL = "control-plane-resources", "node-resources-"
#: The file by which a node that joins etcd learns as which member.
MEMBER_ID = "etcd-certs/member-id"
#: The label of Secrets that hold files of static pods.
HOLDS_FILES = "node0.example/files"
#: What installer pods are called, before the number of the revision and the node's name.
INSTALLER = "installer-"


def is_installer(pod: Object) -> bool:
    """Return whether a pod brings a node its static pods."""
    return bool(pod["metadata"]["namespace"] == NAMESPACE and pod["metadata"]["name"].startswith(INSTALLER))


def is_busy(pod: Object) -> bool:
    """Return whether a pod is bringing a node its static pods."""
    return is_installer(pod) and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")


def _key(path: str) -> str:
    """Return a path as a key of a Secret, which may not contain a slash."""
    return path.replace("/", "_")


def resource_secret(name: str, files: Mapping[str, str]) -> Object:
    """Files by their path under static-pod-resources, as a Secret that remembers the paths."""
    result = secret(NAMESPACE, name, {_key(path): text for path, text in files.items()})
    result["metadata"]["annotations"] = {f"node0.example/{_key(path)}": path for path in files}
    result["metadata"]["labels"] = {HOLDS_FILES: ""}
    return result


def files_of(stored: Object) -> dict[str, str]:
    """Return the files in such a Secret, by path."""
    notes, data = stored["metadata"].get("annotations") or {}, stored.get("data") or {}
    paths = {key.partition("/")[2]: path for key, path in notes.items() if key.startswith("node0.example/")}
    return {path: base64.b64decode(data[key]).decode(errors="replace") for key, path in paths.items() if key in data}


def content(pod: StaticPod, images: Images, files: Mapping[str, str], reason: str = "") -> str:
    """Return the hash of what a pod is made of: its manifest, the ``files`` that it reads at its start alone (by path
    under static-pod-resources), and the reason for which it is to start anew."""
    digest = hashlib.sha256(pod.manifest(images).encode())
    for path in sorted(path for path in files if path.startswith(f"{pod.secrets}/")):
        digest.update(f"\0{path}\0{files[path]}".encode())
    digest.update(f"\0{reason}".encode())
    return digest.hexdigest()[:16]


def manifests(stages: Sequence[Stage], images: Images, files: Mapping[str, str], reason: str = "") -> dict[str, str]:
    """Return static pod manifests; keys are `<number of the stage>-<stage>_<pod>.yaml`."""
    return {
        f"{number}-{stage.name}_{pod.name}.yaml": pod.manifest(images, content(pod, images, files, reason))
        for number, stage in enumerate(stages)
        for pod in stage.pods
    }


def pods_map_name(node: str, revision: int) -> str:
    """Return the ConfigMap with a node's static pod manifests of a revision."""
    return f"static-pods-{node}-{revision}"


def _items(source: Object) -> list[dict[str, str]]:
    notes = source["metadata"].get("annotations") or {}
    paths = {key.partition("/")[2]: path for key, path in notes.items() if key.startswith("node0.example/")}
    return [{"key": key, "path": paths[key]} for key in sorted(source.get("data") or {}) if key in paths]


def installer_pod(
    node: str, image: str, sources: Sequence[Object], *, name: str = "", revision: int = 1, before: int = 0
) -> Object:
    """Return the pod that puts the Secrets' files and a revision of the node's static pods in place; another `name` is
    for files alone. With the revision ``before``, which runs, it goes back to that when the new one does not answer."""
    projected = [{"secret": {"name": s["metadata"]["name"], "items": _items(s)}} for s in sources]
    pods = {"emptyDir": {}} if name else {"configMap": {"name": pods_map_name(node, revision)}}
    volumes: list[dict[str, Any]] = [
        {"name": "files", "projected": {"sources": projected}},
        {"name": "pods", **pods},
        {"name": "kubernetes", "hostPath": {"path": KUBERNETES, "type": "DirectoryOrCreate"}},
        {"name": "etcd", "hostPath": {"path": ETCD_DATA, "type": "DirectoryOrCreate"}},
    ]
    mounts = {"files": FILES, "pods": PODS, "kubernetes": KUBERNETES, "etcd": ETCD_DATA}
    container = {
        "name": "installer",
        "image": image,
        "command": ["python3", "-u", "-m", "lab.release.cluster.pods.nodeinstall", str(revision), str(before)],
        # OpenShift's requests: a pod without one gets the CPU only when nothing else needs it
        "resources": {"requests": {"cpu": "150m"}},
        "volumeMounts": [{"name": name, "mountPath": path} for name, path in mounts.items()],
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name or f"{INSTALLER}{revision}-{node}",
            "namespace": NAMESPACE,
            "labels": {"app": "installer"},
        },
        "spec": {
            "nodeName": node,
            "hostNetwork": True,
            # Whether the new static pods run, it sees by their processes: the API may be one of them.
            "hostPID": bool(before),
            "dnsPolicy": "Default",
            # A revision that was taken back is not tried again.
            "restartPolicy": "Never" if before else "OnFailure",
            "automountServiceAccountToken": False,
            "tolerations": [{"operator": "Exists"}],
            "containers": [container],
            "volumes": volumes,
        },
    }

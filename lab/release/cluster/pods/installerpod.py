"""Installer pods: how a node gets its static pods and their files from the API, as OpenShift's operators do it.

The pod is bound to its node without a scheduler, so the node's kubelet, and no other, may read the Secrets that it
mounts. In it runs `nodeinstall`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lab.release.cluster.kube.client import Object
from lab.release.cluster.kube.payload import Images
from lab.release.cluster.kube.resources import config_map, secret
from lab.release.cluster.pods.pod import Stage

NAMESPACE = "openshift-etcd"
KUBERNETES = "/etc/kubernetes"
ETCD_DATA = "/var/lib/etcd"
#: Where the pod finds what it installs.
FILES = "/installer/files"
PODS = "/installer/pods"


def _key(path: str) -> str:
    """Return a path as a key of a Secret, which may not contain a slash."""
    return path.replace("/", "_")


def resource_secret(name: str, files: Mapping[str, str]) -> Object:
    """Files by their path under static-pod-resources, as a Secret that remembers the paths."""
    result = secret(NAMESPACE, name, {_key(path): text for path, text in files.items()})
    result["metadata"]["annotations"] = {f"node0.example/{_key(path)}": path for path in files}
    return result


def static_pods_map(node: str, stages: Sequence[Stage], images: Images) -> Object:
    """Return the node's static pod manifests; keys are `<number of the stage>-<stage>-<pod>.yaml`."""
    data = {
        f"{number}-{stage.name}_{pod.name}.yaml": pod.manifest(images)
        for number, stage in enumerate(stages)
        for pod in stage.pods
    }
    return config_map(NAMESPACE, f"static-pods-{node}", data)


def _items(source: Object) -> list[dict[str, str]]:
    notes = source["metadata"].get("annotations") or {}
    paths = {key.partition("/")[2]: path for key, path in notes.items() if key.startswith("node0.example/")}
    return [{"key": key, "path": paths[key]} for key in sorted(source["data"])]


def installer_pod(node: str, image: str, sources: Sequence[Object], name: str = "") -> Object:
    """Return the pod that puts the Secrets' files and the node's static pods in place; another `name` is for files
    alone."""
    projected = [{"secret": {"name": s["metadata"]["name"], "items": _items(s)}} for s in sources]
    volumes: list[dict[str, Any]] = [
        {"name": "files", "projected": {"sources": projected}},
        {"name": "pods", **({"emptyDir": {}} if name else {"configMap": {"name": f"static-pods-{node}"}})},
        {"name": "kubernetes", "hostPath": {"path": KUBERNETES, "type": "DirectoryOrCreate"}},
        {"name": "etcd", "hostPath": {"path": ETCD_DATA, "type": "DirectoryOrCreate"}},
    ]
    mounts = {"files": FILES, "pods": PODS, "kubernetes": KUBERNETES, "etcd": ETCD_DATA}
    container = {
        "name": "installer",
        "image": image,
        "command": ["python3", "-u", "-m", "lab.release.cluster.pods.nodeinstall"],
        # OpenShift's requests: a pod without one gets the CPU only when nothing else needs it
        "resources": {"requests": {"cpu": "150m"}},
        "volumeMounts": [{"name": name, "mountPath": path} for name, path in mounts.items()],
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name or f"installer-1-{node}", "namespace": NAMESPACE, "labels": {"app": "installer"}},
        "spec": {
            "nodeName": node,
            "hostNetwork": True,
            "dnsPolicy": "Default",
            "restartPolicy": "OnFailure",
            "automountServiceAccountToken": False,
            "tolerations": [{"operator": "Exists"}],
            "containers": [container],
            "volumes": volumes,
        },
    }

"""The manifests that `node0 hub install` applies, read from data/.

data/*.yaml are the definitions of the custom resources, one a file. Group, version, names, fields, validation, defaults
and columns are the field's, so manifests written for openshift/assisted-service, openshift/hive and metal3-io apply
unchanged; the texts are node0's. data/operator/*.yaml is what the operator runs as, data/incluster/*.yaml the operator
in the cluster itself.
"""

from __future__ import annotations

from importlib import resources
from typing import Any

from installer.common.formats import yamltext

Json = dict[str, Any]
NAMESPACE = "node0-hub"
WEBHOOK_PORT = 9443


def definitions() -> list[Json]:
    """Return the CustomResourceDefinitions, by the names of their files."""
    return _documents("data")


def operator_objects(namespace: str = NAMESPACE) -> list[Json]:
    """Return namespace, service account, roles and their bindings in the order in which they are made."""
    objects = _documents("data/operator")
    for obj in objects:
        if obj["kind"] == "Namespace":
            obj["metadata"]["name"] = namespace
        elif not obj["kind"].startswith("Cluster"):
            obj["metadata"]["namespace"] = namespace
        for subject in obj.get("subjects", ()):
            subject["namespace"] = namespace
    return objects


def in_cluster_objects(image: str, listen: str, node: str, namespace: str = NAMESPACE) -> list[Json]:
    """Return the operator as a Deployment of an image, with its Service: it listens at ADDRESS:PORT on that node."""
    deployment, service = _documents("data/incluster")
    address = listen.rpartition(":")[0]
    pod = deployment["spec"]["template"]["spec"]
    pod["nodeSelector"] = {"kubernetes.io/hostname": node}
    [container] = pod["containers"]
    container["image"] = image
    values = {"LISTEN": listen, "WEBHOOK": f"{address}:{WEBHOOK_PORT}"}
    container["args"] = [values.get(word, word) for word in container["args"]]
    for obj in (deployment, service):
        obj["metadata"]["namespace"] = namespace
    return [deployment, service]


def _documents(folder: str) -> list[Json]:
    place = resources.files(__package__ or "").joinpath(folder)
    files = sorted((file for file in place.iterdir() if file.name.endswith(".yaml")), key=lambda file: file.name)
    return [document for file in files for document in yamltext.load_all(file.read_text())]

"""Claims, and the volumes on a node's disk that answer them, as data.

A claim is answered on the node that the scheduler selected for its first pod, by that node: so nothing needs a leader
or a pod for each directory, and a node that is away answers when it is back. Names and annotations are Kubernetes' own
for provisioners (cluster.md §6.8).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation

from lab.release.cluster.errors import VolumeError
from lab.release.cluster.kube.client import Object

PROVISIONER = "storage.node0.example/local"
#: The directory that holds one directory a volume.
BASE = "/var/lib/local-volumes"
CLASS_API = "storage.k8s.io/v1"
DEFAULT = "storageclass.kubernetes.io/is-default-class"
ASKED = "volume.beta.kubernetes.io/storage-provisioner"
SELECTED = "volume.kubernetes.io/selected-node"
MADE_BY = "pv.kubernetes.io/provisioned-by"
HOSTNAME = "kubernetes.io/hostname"
DELAYED = "WaitForFirstConsumer"

#: A volume is named for its claim's UID, and for nothing that a user may choose.
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_QUANTITY = re.compile(r"\+?([0-9.]+(?:[eE][+-]?[0-9]+)?)([numkMGTPE]?|[KMGTPE]i)")
_SCALE = {
    **{unit: Decimal(1000) ** power for power, unit in enumerate(("n", "u", "m", "", "k"), -3)},
    **{unit: Decimal(1000) ** power for power, unit in enumerate("MGTPE", 2)},
    **{f"{unit}i": Decimal(1024) ** power for power, unit in enumerate("KMGTPE", 1)},
}


def size(quantity: str) -> int:
    """Return a quantity of the API (`1Gi`, `500M`, `1e9`) in bytes, rounded up. Raises VolumeError."""
    match = _QUANTITY.fullmatch(quantity)
    try:
        if match is None:
            raise InvalidOperation
        return math.ceil(Decimal(match[1]) * _SCALE[match[2]])
    except InvalidOperation:
        raise VolumeError(f"{quantity!r} is no quantity") from None


def _notes(obj: Object) -> Object:
    notes: Object = obj["metadata"].get("annotations") or {}
    return notes


def asked(claim: Object) -> bool:
    """Return whether a claim waits for a volume of this provisioner."""
    waits = not claim["spec"].get("volumeName") and not claim["metadata"].get("deletionTimestamp")
    return waits and _notes(claim).get(ASKED) == PROVISIONER


def selected(claim: Object) -> str:
    """Return the node that the scheduler selected for a claim's first pod; empty before that."""
    return str(_notes(claim).get(SELECTED, ""))


def class_name(claim: Object) -> str:
    """Return the name of a claim's StorageClass."""
    return str(claim["spec"].get("storageClassName") or "")


def delayed(storage_class: Object | None) -> bool:
    """Return whether claims of a class wait for their first pod; those of a class that is gone do."""
    return storage_class is None or storage_class.get("volumeBindingMode") == DELAYED


def refusals(claim: Object, storage_class: Object | None) -> list[str]:
    """Return all reasons for which a claim cannot be answered, each naming the field, its value and the rule."""
    spec, reasons = claim["spec"], []
    name = class_name(claim)
    if storage_class is None:
        return [f"StorageClass {name!r} is not there"]
    if (provisioner := storage_class.get("provisioner")) != PROVISIONER:
        reasons.append(f"StorageClass {name!r}: provisioner: {provisioner}: must be {PROVISIONER}")
    if not delayed(storage_class):
        mode = storage_class.get("volumeBindingMode") or "Immediate"
        reasons.append(f"StorageClass {name!r}: volumeBindingMode: {mode}: must be {DELAYED}: a pod selects the node")
    if parameters := storage_class.get("parameters"):
        reasons.append(f"StorageClass {name!r}: parameters: {', '.join(sorted(parameters))}: it takes none")
    if others := sorted(set(spec.get("accessModes") or []) - {"ReadWriteOnce"}):
        reasons.append(f"accessModes: {', '.join(others)}: must be ReadWriteOnce: a local disk is in one node")
    if (mode := spec.get("volumeMode") or "Filesystem") != "Filesystem":
        reasons.append(f"volumeMode: {mode}: must be Filesystem: a volume is a directory")
    if spec.get("selector"):
        reasons.append("selector: must be absent: a new volume has no labels")
    if source := spec.get("dataSource"):
        reasons.append(f"dataSource: {source.get('kind')}: must be absent: there are no snapshots and no clones")
    return reasons


def volume_name(claim: Object) -> str:
    """Return the name of a claim's volume and of its directory. Raises VolumeError for a UID that is none."""
    uid = str(claim["metadata"]["uid"])
    if not _UID.fullmatch(uid):
        raise VolumeError(f"metadata.uid: {uid!r}: must be a UUID")
    return f"pvc-{uid}"


def _affinity(hostname: str) -> Object:
    expression = {"key": HOSTNAME, "operator": "In", "values": [hostname]}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


def host(volume: Object) -> str:
    """Return the hostname of the node that a volume is in; empty for a volume that nobody here has made."""
    match (volume["spec"].get("nodeAffinity") or {}).get("required"):
        case {"nodeSelectorTerms": [{"matchExpressions": [{"key": "kubernetes.io/hostname", "values": [name]}]}]}:
            return str(name)
    return ""


def volume(claim: Object, storage_class: Object, hostname: str, base: str = BASE) -> Object:
    """Return the PersistentVolume that answers a claim on a node; ``hostname`` is the value of its label."""
    meta, name = claim["metadata"], volume_name(claim)
    reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
    reference |= {key: meta[key] for key in ("name", "namespace", "uid")}
    spec = {
        "capacity": {"storage": claim["spec"]["resources"]["requests"]["storage"]},
        "accessModes": ["ReadWriteOnce"],
        "volumeMode": "Filesystem",
        "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy") or "Delete",
        "storageClassName": class_name(claim),
        "mountOptions": storage_class.get("mountOptions") or [],
        "local": {"path": f"{base}/{name}"},
        "nodeAffinity": _affinity(hostname),
        "claimRef": reference,
    }
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {MADE_BY: PROVISIONER}},
        "spec": spec,
    }


def released(volume: Object, hostname: str) -> bool:
    """Return whether a volume of this provisioner, on this node, is to be removed with what is in it."""
    spec, meta = volume["spec"], volume["metadata"]
    return (
        _notes(volume).get(MADE_BY) == PROVISIONER
        and (volume.get("status") or {}).get("phase") == "Released"
        and spec.get("persistentVolumeReclaimPolicy") == "Delete"
        and not meta.get("deletionTimestamp")
        and spec.get("nodeAffinity") == _affinity(hostname)
    )


def directory(volume: Object, base: str = BASE) -> str:
    """Return the name below ``base`` of a volume's directory. Raises VolumeError for a volume that has another one.

    Anybody who may create volumes can give one this provisioner's name, and any path.
    """
    name = str(volume["metadata"]["name"])
    path = (volume["spec"].get("local") or {}).get("path")
    if not (name.startswith("pvc-") and _UID.fullmatch(name.removeprefix("pvc-"))):
        raise VolumeError(f"metadata.name: {name}: must be pvc- and the claim's UID: nothing is removed")
    if path != f"{base}/{name}":
        raise VolumeError(f"spec.local.path: {path}: must be {base}/{name}: nothing is removed")
    return name


def stranded(claims: Iterable[Object], ready: Iterable[str]) -> list[Object]:
    """Return the claims that wait for a node that is not among the ``ready`` ones: it cannot answer them, and the
    scheduler selects no other while they name it."""
    there = set(ready)
    return [claim for claim in claims if asked(claim) and selected(claim) and selected(claim) not in there]

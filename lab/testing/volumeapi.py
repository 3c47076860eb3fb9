"""The part of the API's client that claims and volumes need, over a dictionary, with what the binder does."""

from __future__ import annotations

import copy
import datetime as dt
from typing import Any

from lab.release.cluster.errors import ApiError
from lab.testing.clusterapi import Api, Object

UID = "0b4dd4ac-1b6e-4b1e-9b39-{:012d}"
NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


class VolumeApi(Api):
    """Objects with UIDs and versions; merge patches; claims that are bound when their volume is there."""

    def __init__(self) -> None:
        super().__init__()
        self.version = 0
        self.now = NOW

    def _touch(self, obj: Object) -> Object:
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        return obj

    def create(self, obj: Object) -> Object | None:
        """Add it, as the API server completes it; None when it is there already."""
        new = copy.deepcopy(obj)
        if super().create(new) is None:
            return None
        new["metadata"] |= {"uid": UID.format(self.version), "creationTimestamp": self.now.strftime("%FT%TZ")}
        new.setdefault("status", {"phase": "Pending"})
        return self._touch(new)

    def list(
        self, api_version: str, kind: str, namespace: str | None = None, labels: str = "", *, accept: str = ""
    ) -> list[Object]:
        """Return all objects of a kind."""
        chosen = [obj for (of, place, _), obj in self.objects.items() if of == kind and namespace in (None, place)]
        wanted = dict(part.split("=") for part in labels.split(",") if part)
        return [obj for obj in chosen if wanted.items() <= (obj["metadata"].get("labels") or {}).items()]

    def merge_patch(self, obj: Object, patch: Object, sub: str = "") -> Object:
        """Merge a patch; one of another version is refused."""
        found = self.objects[self._key_of(obj)]
        version = patch.get("metadata", {}).get("resourceVersion")
        if version and version != found["metadata"]["resourceVersion"]:
            raise ApiError("PATCH", obj["metadata"]["name"], 409, "the object has been modified")
        _merge(found, patch)
        return self._touch(found)

    def delete(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> bool:
        """Remove it; the volume of a claim is then Released."""
        gone = self.objects.pop(self._key(kind, name, namespace), None)
        if gone is not None and kind == "PersistentVolumeClaim" and gone["spec"].get("volumeName"):
            volume = self.objects[self._key("PersistentVolume", gone["spec"]["volumeName"], None)]
            self._touch(volume)["status"] = {"phase": "Released"}
        return gone is not None

    def bind(self) -> None:
        """Do as the binder: give selected claims their provisioner, and bind those whose volumes are there."""
        for claim in self.list("v1", "PersistentVolumeClaim"):
            notes = claim["metadata"].setdefault("annotations", {})
            if notes.get("volume.kubernetes.io/selected-node") and claim["status"]["phase"] == "Pending":
                notes["volume.beta.kubernetes.io/storage-provisioner"] = "storage.node0.example/local"
                self._touch(claim)
        for volume in self.list("v1", "PersistentVolume"):
            wanted = volume["spec"]["claimRef"]
            bound = self.get("v1", wanted["kind"], wanted["name"], wanted["namespace"])
            if bound is not None and bound["metadata"]["uid"] == wanted["uid"]:
                bound["spec"]["volumeName"] = volume["metadata"]["name"]
                bound["status"] = volume["status"] = {"phase": "Bound"}


def messages(api: VolumeApi, reason: str) -> list[str]:
    """Return the messages of the events with a reason."""
    return [event["message"] for event in api.list("v1", "Event") if event["reason"] == reason]


def storage_class(**more: Any) -> Object:
    """Return the class `local`, or one like it."""
    notes = {"storageclass.kubernetes.io/is-default-class": "true"}
    meta = {"name": "local", "annotations": notes}
    head = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": meta}
    usual = {"provisioner": "storage.node0.example/local", "reclaimPolicy": "Delete"}
    return {**head, **usual, "volumeBindingMode": "WaitForFirstConsumer", **more}


def claim(name: str = "data", node: str = "a", **spec: Any) -> Object:
    """Return a claim for which a node was selected."""
    notes = {"volume.kubernetes.io/selected-node": node} if node else {}
    usual = {"storageClassName": "local", "accessModes": ["ReadWriteOnce"]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "user", "annotations": notes},
        "spec": {**usual, "resources": {"requests": {"storage": "1Mi"}}, **spec},
    }


def _merge(target: Object, patch: Object) -> None:
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict):
            _merge(target.setdefault(key, {}), value)
        else:
            target[key] = value

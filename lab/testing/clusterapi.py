"""The part of the API client that operators use, over a dictionary."""

from __future__ import annotations

from typing import Any

from lab.release.cluster.ignition.machineconfig import CURRENT, ROLE

Object = dict[str, Any]


def node(name: str, address: str, role: str = "master") -> Object:
    """Return a node as its kubelet has registered it, with the configuration that it booted."""
    labels = {ROLE: role, CURRENT: f"rendered-{role}-1"}
    addresses = [{"type": "InternalIP", "address": address}]
    return {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": {"addresses": addresses}}


class Api:
    """Objects by kind, namespace and name."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], Object] = {}

    @staticmethod
    def _key(kind: str, name: str, namespace: str | None) -> tuple[str, str, str]:
        return (kind, namespace or "", name)

    def _key_of(self, obj: Object) -> tuple[str, str, str]:
        return self._key(obj["kind"], obj["metadata"]["name"], obj["metadata"].get("namespace"))

    def get(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> Object | None:
        """Return the object, if it is there."""
        return self.objects.get(self._key(kind, name, namespace))

    def create(self, obj: Object) -> Object | None:
        """Add it; None when it is there already."""
        key = self._key_of(obj)
        if key in self.objects:
            return None
        self.objects[key] = obj
        return obj

    def replace(self, obj: Object, sub: str = "") -> Object:
        """Put it in the place of the one that is there."""
        self.objects[self._key_of(obj)] = obj
        return obj

    def delete(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> bool:
        """Remove it; False when it is not there."""
        return self.objects.pop(self._key(kind, name, namespace), None) is not None

    def pods(self) -> list[Object]:
        """All pods."""
        return [obj for (kind, _, _), obj in self.objects.items() if kind == "Pod"]

    def list(
        self, api_version: str, kind: str, namespace: str | None = None, labels: str = "", *, accept: str = ""
    ) -> list[Object]:
        """Return all of a kind, in one namespace or everywhere, that have a label."""
        return [
            obj
            for (own, place, _), obj in self.objects.items()
            if own == kind
            and namespace in (None, place)
            and (not labels or labels in (obj["metadata"].get("labels") or {}))
        ]

"""Events: what `kubectl describe` shows of an object."""

from __future__ import annotations

import datetime as dt
import uuid

from lab.release.cluster.kube.client import Kube, Object
from lab.release.cluster.kube.conditions import stamp


def warn(kube: Kube, obj: Object, reason: str, message: str) -> None:
    """Create a Warning about an object. Raises ApiError."""
    meta, now = obj["metadata"], stamp(dt.datetime.now(dt.UTC))
    about = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "name": meta["name"]}
    about |= {key: meta[key] for key in ("namespace", "uid") if meta.get(key)}
    namespace = meta.get("namespace") or "default"
    kube.create(
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{meta['name']}.{uuid.uuid4().hex[:16]}", "namespace": namespace},
            "involvedObject": about,
            "reason": reason,
            "message": message,
            "source": {"component": "cluster-network-operator"},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
            "type": "Warning",
        }
    )

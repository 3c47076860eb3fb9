"""Events: what `kubectl describe` shows of an object, counted up rather than repeated."""

from __future__ import annotations

import datetime as dt
import hashlib

from lab.release.cluster.kube.client import Kube, Object
from lab.release.cluster.kube.conditions import stamp

#: An event's name may be as long as an object's, and ends with a hash.
_NAME = 220


def warn(kube: Kube, obj: Object, reason: str, message: str) -> None:
    """Send a Warning about an object. Raises ApiError."""
    send(kube, obj, reason, message, component="cluster-network-operator")


def send(
    kube: Kube, obj: Object, reason: str, message: str, *, component: str, host: str = "", kind: str = "Warning"
) -> None:
    """Send an event about an object, or count it up where the same was sent before. Raises ApiError."""
    meta, now = obj["metadata"], stamp(dt.datetime.now(dt.UTC))
    about = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "name": meta["name"]}
    about |= {key: meta[key] for key in ("namespace", "uid") if meta.get(key)}
    namespace = meta.get("namespace") or "default"
    same = "\0".join((obj["kind"], meta.get("uid", ""), reason, message, component, host)).encode()
    event: Object = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{meta['name'][:_NAME]}.{hashlib.sha256(same).hexdigest()[:16]}",
            "namespace": namespace,
        },
        "involvedObject": about,
        "reason": reason,
        "message": message,
        "source": {"component": component, "host": host},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
        "type": kind,
    }
    if kube.create(event) is None:
        earlier = kube.get("v1", "Event", event["metadata"]["name"], namespace) or {}
        kube.merge_patch(event, {"count": (earlier.get("count") or 0) + 1, "lastTimestamp": now})

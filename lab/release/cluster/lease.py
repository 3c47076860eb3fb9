"""One instance at a time: a coordination Lease, as Kubernetes' own components use it."""

from __future__ import annotations

import datetime as dt

from lab.release.cluster.errors import ApiError
from lab.release.cluster.kube import Kube

API = "coordination.k8s.io/v1"
DURATION_SECONDS = 120


def _micro(now: dt.datetime) -> str:
    return now.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_time(text: str) -> dt.datetime:
    """A time of the API, with or without fractions."""
    return dt.datetime.fromisoformat(text.replace("Z", "+00:00"))


def acquire(kube: Kube, namespace: str, name: str, holder: str, now: dt.datetime) -> bool:
    """Take or renew the lease; False while somebody else holds it. Raises ApiError when the API does not answer."""
    lease = kube.get(API, "Lease", name, namespace)
    spec = {"holderIdentity": holder, "leaseDurationSeconds": DURATION_SECONDS, "renewTime": _micro(now)}
    if lease is None:
        meta = {"name": name, "namespace": namespace}
        fresh = {"apiVersion": API, "kind": "Lease", "metadata": meta, "spec": {**spec, "acquireTime": _micro(now)}}
        return kube.create(fresh) is not None
    old = lease["spec"]
    held_by_other = bool(old.get("holderIdentity")) and old["holderIdentity"] != holder
    if held_by_other:
        age = (now - parse_time(old["renewTime"])).total_seconds() if old.get("renewTime") else DURATION_SECONDS
        if age < old.get("leaseDurationSeconds", DURATION_SECONDS):
            return False
        spec["acquireTime"] = _micro(now)
    try:
        kube.replace({**lease, "spec": {**old, **spec}})
    except ApiError as error:
        if error.status == 409:
            return False
        raise
    return True

"""One instance at a time: a coordination Lease, as Kubernetes' own components use it.

Nodes' clocks differ, and are set while the cluster is young. So another's lease has expired when this instance has seen
it unchanged for its duration by its own monotonic clock, whatever its timestamps (as client-go's leader election does).
"""

from __future__ import annotations

import datetime as dt
import time
from dataclasses import dataclass

from lab.release.cluster.errors import ApiError
from lab.release.cluster.kube.client import Kube

API = "coordination.k8s.io/v1"
DURATION_SECONDS = 120


def _micro(now: dt.datetime) -> str:
    return now.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_time(text: str) -> dt.datetime:
    """Return a time of the API, with or without fractions."""
    return dt.datetime.fromisoformat(text.replace("Z", "+00:00"))


@dataclass
class Observed:
    """The state in which a lease was seen last, and since when (monotonic seconds)."""

    state: tuple[str, str] = ("", "")
    since: float = 0.0

    def age(self, holder: str, renewed: str) -> float:
        """For how many seconds it has been seen in this state."""
        now = time.monotonic()
        if (holder, renewed) != self.state:
            self.state, self.since = (holder, renewed), now
        return now - self.since


#: The boot of the host in which the holder took the lease.
BOOT = "node0.example/boot"


def _host(holder: str) -> str:
    return holder.rpartition("_")[0]


def acquire(
    kube: Kube, namespace: str, name: str, holder: str, *, now: dt.datetime, observed: Observed, boot: str = ""
) -> bool:
    """Take or renew the lease; False while somebody else holds it. Raises ApiError when the API does not answer.

    ``holder`` is HOST_PROCESS: an earlier process of the same host used the same clock, and where ``boot``, the id of
    the host's boot, is another than it had, has ended: nobody waits for its lease to expire.
    """
    lease = kube.get(API, "Lease", name, namespace)
    spec = {"holderIdentity": holder, "leaseDurationSeconds": DURATION_SECONDS, "renewTime": _micro(now)}
    if lease is None:
        meta = {"name": name, "namespace": namespace, "annotations": {BOOT: boot}}
        new = {"apiVersion": API, "kind": "Lease", "metadata": meta, "spec": {**spec, "acquireTime": _micro(now)}}
        return kube.create(new) is not None
    old = lease["spec"]
    held_by_other = bool(old.get("holderIdentity")) and old["holderIdentity"] != holder
    if held_by_other:
        age = observed.age(old["holderIdentity"], old.get("renewTime") or "")
        if _host(old["holderIdentity"]) == _host(holder) and old.get("renewTime"):
            age = max(age, (now - parse_time(old["renewTime"])).total_seconds())
        before = (lease["metadata"].get("annotations") or {}).get(BOOT)
        ended = _host(old["holderIdentity"]) == _host(holder) and bool(before and boot) and before != boot
        if not ended and age < old.get("leaseDurationSeconds", DURATION_SECONDS):
            return False
        spec["acquireTime"] = _micro(now)
    meta = {**lease["metadata"], "annotations": {**(lease["metadata"].get("annotations") or {}), BOOT: boot}}
    try:
        kube.replace({**lease, "metadata": meta, "spec": {**old, **spec}})
    except ApiError as error:
        if error.status == 409:
            return False
        raise
    return True


def release(kube: Kube, namespace: str, name: str, holder: str) -> None:
    """Give the lease up where this instance holds it: nobody need wait for its end. Raises ApiError."""
    lease = kube.get(API, "Lease", name, namespace)
    if lease is not None and lease["spec"].get("holderIdentity") == holder:
        kube.replace({**lease, "spec": {**lease["spec"], "holderIdentity": ""}})


def renew(kube: Kube, namespace: str, name: str, *, now: dt.datetime) -> None:
    """Set a lease's time, as a sign of life that nobody else gives; make it where it is not there. Raises ApiError."""
    lease = {"apiVersion": API, "kind": "Lease", "metadata": {"name": name, "namespace": namespace}}
    times = {"spec": {"holderIdentity": name, "renewTime": _micro(now)}}
    try:
        kube.merge_patch(lease, times)
    except ApiError as error:
        if error.status != 404:
            raise
        kube.create({**lease, **times})

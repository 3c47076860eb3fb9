"""Events about objects, counted up rather than repeated, as Kubernetes' own components send them."""

from __future__ import annotations

import datetime as dt
import hashlib
import logging
from dataclasses import dataclass

from lab.release.cluster.errors import ClusterError
from lab.release.cluster.kube.client import Kube, Object
from lab.release.cluster.kube.conditions import stamp

log = logging.getLogger(__name__)

#: An event's name may be as long as an object's, and has a hash after it.
_NAME = 220


@dataclass(frozen=True)
class Sender:
    """The component, and the node that it runs on, which events come from."""

    kube: Kube
    component: str
    host: str

    def warn(self, about: Object, reason: str, message: str) -> None:
        """Send a warning. An API that does not take it is logged: what is reported matters more than the report."""
        self._send(about, reason, message, "Warning")

    def normal(self, about: Object, reason: str, message: str) -> None:
        """Send an event that is no warning."""
        self._send(about, reason, message, "Normal")

    def _send(self, about: Object, reason: str, message: str, kind: str) -> None:
        meta = about["metadata"]
        text = "\0".join((about["kind"], meta.get("uid", ""), reason, message, self.component, self.host))
        name = f"{meta['name'][:_NAME]}.{hashlib.sha256(text.encode()).hexdigest()[:16]}"
        now = stamp(dt.datetime.now(dt.UTC))
        involved = {key: meta[key] for key in ("name", "namespace", "uid", "resourceVersion") if key in meta}
        # Those of objects without a namespace are in `default`.
        place = meta.get("namespace") or "default"
        event: Object = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": place},
            "involvedObject": {"apiVersion": about["apiVersion"], "kind": about["kind"], **involved},
            "reason": reason,
            "message": message,
            "source": {"component": self.component, "host": self.host},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
            "type": kind,
        }
        try:
            if self.kube.create(event) is None:
                old = self.kube.get("v1", "Event", name, place)
                count = int((old or {}).get("count") or 0) + 1
                self.kube.merge_patch(event, {"count": count, "lastTimestamp": now})
        except ClusterError as error:
            log.warning("event %s of %s %s: %s", reason, about["kind"], meta["name"], error)

"""Kubernetes events of objects: the same event again is counted, not written anew."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from installer.hub.kube.api import Api, Conflict, KubeError
from installer.hub.kube.kinds import EVENT, Json, Key, key_of, uid_of

log = logging.getLogger("node0-hub")
_LONGEST = 1024
COMPONENT = "node0-hub"


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Recorder:
    """Writes events; one that cannot be written is logged, and no failure of what it is about."""

    def __init__(self, api: Api, now: Callable[[], datetime] = _utc_now) -> None:
        self._api = api
        self._now = now

    def event(self, obj: Mapping[str, Any], reason: str, message: str, *, warning: bool = False) -> None:
        """Write an event about an object; ``reason`` is one word, ``message`` holds no secret."""
        key = key_of(obj)
        message = message[:_LONGEST]
        digest = hashlib.sha256("\0".join((uid_of(obj), reason, message)).encode()).hexdigest()[:16]
        event_key = Key(key.namespace or "default", f"{key.name[:200]}.{digest}")
        now = self._now().strftime("%Y-%m-%dT%H:%M:%SZ")
        about = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "name": key.name, "uid": uid_of(obj)}
        if key.namespace:
            about["namespace"] = key.namespace
        event = EVENT.new(event_key, involvedObject=about, reason=reason, message=message, count=1)
        event |= {"type": "Warning" if warning else "Normal", "source": {"component": COMPONENT}}
        event |= {"firstTimestamp": now, "lastTimestamp": now}
        try:
            try:
                self._api.create(EVENT, event)
            except Conflict:
                self._count(event_key, now)
        except KubeError as error:
            if "NamespaceTerminating" in error.causes:
                return
            log.warning("event %s of %s: %s", reason, key, error)

    def _count(self, key: Key, now: str) -> None:
        old: Json | None = self._api.get(EVENT, key)
        if old is not None:
            self._api.patch(EVENT, key, {"count": int(old.get("count") or 1) + 1, "lastTimestamp": now})

"""The leader's lease: of several operators one acts, and another takes over when it no longer says that it is there."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from installer.hub.kube.api import Api, Conflict, KubeError
from installer.hub.kube.kinds import LEASE, Json, Key

log = logging.getLogger("node0-hub")
# Seconds: after which others may take the lease; after which its holder stops acting, renews it, looks again.
DURATION, DEADLINE, RENEW, LOOK = 30, 20.0, 10.0, 5.0
_TIME = "%Y-%m-%dT%H:%M:%S.%fZ"


class Leader:
    """Holds the lease for as long as it can be renewed. ``identity``: the same after a restart of the same operator.

    The others' clocks do not matter: a lease has run out when its holder has not renewed it for as long as this
    process has watched it.
    """

    def __init__(self, api: Api, key: Key, identity: str, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._key = key
        self.identity = identity
        self._monotonic = monotonic
        self._until = float("-inf")
        self._seen: tuple[Any, float] = (None, 0.0)
        self._said = ""

    def is_leading(self) -> bool:
        """Return whether this operator may act now."""
        return self._monotonic() < self._until

    def run(self, stop: threading.Event, gained: Callable[[], None]) -> None:
        """Take the lease when it is free and renew it, until it is to stop; ``gained`` is called each time."""
        while not stop.is_set():
            was = self.is_leading()
            self.step()
            if self.is_leading() and not was:
                log.info("%s leads", self.identity)
                gained()
            elif was and not self.is_leading():
                log.warning("%s does not lead any more", self.identity)
            stop.wait(RENEW if self.is_leading() else LOOK)

    def step(self) -> None:
        """Try once to take or renew the lease."""
        began = self._monotonic()
        try:
            lease = self._api.get(LEASE, self._key)
            if lease is None:
                self._api.create(LEASE, LEASE.new(self._key, spec=self._spec({})))
            elif self._is_free(lease):
                self._api.update(LEASE, lease | {"spec": self._spec(lease.get("spec") or {})})
            else:
                self._until = float("-inf")
                self._say(f"{(lease.get('spec') or {}).get('holderIdentity')} leads; waiting for its lease to end")
                return
        except Conflict:
            return  # another was quicker
        except KubeError as error:
            self._say(f"lease {self._key}: {error}")
            return
        self._said = ""
        # From before the request: others count from when it arrived.
        self._until = began + DEADLINE

    def release(self) -> None:
        """Give the lease back, so that another need not wait for its end."""
        if not self.is_leading():
            return
        self._until = float("-inf")
        try:
            lease = self._api.get(LEASE, self._key)
            if lease is not None and (lease.get("spec") or {}).get("holderIdentity") == self.identity:
                self._api.update(LEASE, lease | {"spec": lease["spec"] | {"holderIdentity": ""}})
        except KubeError as error:
            log.debug("the lease runs out by itself: %s", error)

    def _is_free(self, lease: Json) -> bool:
        spec = lease.get("spec") or {}
        holder = spec.get("holderIdentity") or ""
        if holder in ("", self.identity):
            return True
        now = self._monotonic()
        state = (holder, spec.get("renewTime"))
        if self._seen[0] != state:
            self._seen = (state, now)
        return now - self._seen[1] > (spec.get("leaseDurationSeconds") or DURATION)

    def _spec(self, old: Json) -> Json:
        now = datetime.now(UTC).strftime(_TIME)
        spec = {"holderIdentity": self.identity, "leaseDurationSeconds": DURATION, "renewTime": now}
        if old.get("holderIdentity") == self.identity:
            return old | spec
        return spec | {"acquireTime": now, "leaseTransitions": int(old.get("leaseTransitions") or 0) + bool(old)}

    def _say(self, text: str) -> None:
        if text != self._said:
            log.warning("%s", text)
            self._said = text

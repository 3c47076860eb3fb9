"""Time-outs when the wall clock is set: what they are counted from moves along, and an event says so.

The store keeps wall-clock times, as the API shows them. In between the service counts by a clock of its own
(clock.SteadyClock); when the wall clock has been set, all that something is counted from is moved by as much, so that
every age stays what it was. The same holds after a restart of the service, since the store keeps the last look's time
by the monotonic clock too; only after a start of the machine itself is there nothing but the wall clock. A time in
which the service stood still is left out in the same way: nobody could do then what is waited for.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import msgspec

from installer.assisted.errors import StoreError
from installer.rendezvous import events
from installer.rendezvous.clock import SteadyClock, age, moved, to_text
from installer.rendezvous.store.database import Store
from installer.rendezvous.store.model import Anchor, Cluster, Host

log = logging.getLogger("assisted-service")
replace = msgspec.structs.replace
# Less than this (s) between two looks is a clock that is slewed to the right time, or a leap second.
JUMP = 2.0
# Seconds of slewing after which the store's anchor is noted anew: a restart would take the sum for a jump.
SLEWED = 1.0
# How much a clock may be slewed while nobody looks, as a part of the time that passed: twice what the kernel allows.
DRIFT = 0.001


@dataclass(frozen=True)
class Move:
    """So many seconds later, but no later than ``latest`` (RFC 3339) when there is one."""

    seconds: float
    latest: str = ""

    def __call__(self, text: str | None) -> str | None:
        """Return the time (RFC 3339), moved; None of none."""
        later = moved(text, self.seconds)
        return min(later, self.latest) if later and self.latest else later


def moved_host(host: Host, move: Move) -> Host:
    """Return the host with all that its time-outs are counted from moved."""
    progress = replace(
        host.progress,
        stage_started_at=move(host.progress.stage_started_at),
        stage_updated_at=move(host.progress.stage_updated_at),
    )
    return replace(
        host,
        progress=progress,
        checked_in_at=move(host.checked_in_at),
        status_updated_at=move(host.status_updated_at) or "",
        contested_at=move(host.contested_at),
        sent_steps={kind: move(at) or "" for kind, at in host.sent_steps.items()},
    )


def moved_cluster(cluster: Cluster, move: Move) -> Cluster:
    """Return the cluster with all that its time-outs are counted from moved."""
    return replace(
        cluster,
        status_updated_at=move(cluster.status_updated_at) or "",
        install_started_at=move(cluster.install_started_at),
    )


class Timekeeper:
    """Keeps a store's times in step with a clock that follows the wall clock."""

    def __init__(self, store: Store, clock: SteadyClock) -> None:
        self._store, self._clock = store, clock
        # By how much the clock was followed without an event since the anchor was noted.
        self._slewed = 0.0

    def resume(self) -> None:
        """Make up for changes of the clock since the store's last service."""
        try:
            self._move(self._missed(), 0.0)
        except StoreError as error:
            # A full disk, for example: requests can still be answered.
            log.error("the time cannot be noted: %s", error)

    def _missed(self) -> float:
        now, last = self._clock(), self._store.anchor()
        passed = self._clock.monotonic() - last.monotonic if last is not None else 0.0
        if last is not None and last.boot and last.boot == self._clock.boot and passed >= 0:
            jump = age(last.wall, now) - passed
            return jump if abs(jump) >= max(JUMP, DRIFT * passed) else 0.0
        # Only the wall clock tells how long the machine was off; that cannot be negative.
        latest = max((at for at in self._known_times() if at), default="")
        return min(0.0, age(latest, now)) if latest else 0.0

    def _known_times(self) -> list[str | None]:
        times: list[str | None] = [cluster.status_updated_at for cluster in self._store.clusters()]
        for host in self._store.hosts():
            times += [host.status_updated_at, host.checked_in_at, host.progress.stage_started_at]
        return times

    def look(self) -> float:
        """Follow the wall clock. Seconds by which it was set, else 0. Raises StoreError: then nothing has moved."""
        ahead = self._clock.ahead()
        jump = ahead if abs(ahead) >= JUMP else 0.0
        if jump:
            self._move(jump, jump)
        elif abs(self._slewed + ahead) >= SLEWED:
            with self._store.change():
                self._store.put_anchor(self._anchor(ahead))
        else:
            self._slewed += ahead
            self._clock.follow(ahead)
            return 0.0
        self._slewed = 0.0
        self._clock.follow(ahead)
        return jump

    def forgive(self, seconds: float, waited: float) -> None:
        """Allow for a service that stood still, the clock for ``waited`` of it. Raises StoreError: nothing moved."""
        latest = moved(to_text(self._clock()), waited) or ""
        with self._store.change():
            self._store.put_anchor(self._anchor(waited))
            for cluster in self._move_all(Move(seconds, latest)):
                self._store.add_event(events.make("service_stood_still", cluster=cluster, seconds=f"{seconds:.0f}"))
        self._slewed = 0.0
        self._clock.follow(waited)

    def _move(self, seconds: float, follow: float) -> None:
        """Move all times by ``seconds``; the clock itself is about to be moved by ``follow``."""
        direction, amount = "forward" if seconds > 0 else "back", f"{abs(seconds):.0f}"
        with self._store.change():
            self._store.put_anchor(self._anchor(follow))
            if not seconds:
                return
            for cluster in self._move_all(Move(seconds)):
                self._store.add_event(events.make("service_clock_set", cluster=cluster, way=direction, seconds=amount))
        log.warning("the clock was set %s by %s s: time-outs count on as before", direction, amount)

    def _move_all(self, move: Move) -> list[Cluster]:
        """Move the times of all clusters and hosts. Returns the clusters, each of which gets an event."""
        clusters = [moved_cluster(cluster, move) for cluster in self._store.clusters()]
        for cluster in clusters:
            self._store.put_cluster(cluster)
        for host in self._store.hosts():
            self._store.put_host(moved_host(host, move))
        return clusters

    def _anchor(self, follow: float) -> Anchor:
        wall = moved(to_text(self._clock()), follow) or ""
        return Anchor(boot=self._clock.boot, monotonic=self._clock.monotonic(), wall=wall)

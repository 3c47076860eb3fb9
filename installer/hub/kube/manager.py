"""Controllers at work: changes in, keys into queues, threads that reconcile them while this operator leads."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from installer.assisted.errors import ClientError
from installer.errors import InstallerError
from installer.hub.kube.api import Api, Conflict
from installer.hub.kube.events import Recorder
from installer.hub.kube.informer import Cache, Informer
from installer.hub.kube.kinds import BARE_METAL_HOST, Json, Key, Kind, key_of
from installer.hub.kube.queue import KeyedQueue

if TYPE_CHECKING:
    from installer.hub.service import HubClient

log = logging.getLogger("node0-hub")
# Threads of a controller; BMCs are slow, and one that does not answer must not hold up the others.
WORKERS = 3
MORE_WORKERS: Mapping[Kind, int] = {BARE_METAL_HOST: 16}
#: Upper bounds of a reconcile's seconds, for metrics.
BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, float("inf"))
# The service's failure to answer is logged at this one in a row: it may just be starting.
_SAY_AFTER = 4
# A failure is logged again after this many more of the same object.
_SAY_AGAIN = 20


class Retry(Exception):
    """Something is not there yet, or has failed: look again, at the earliest in ``seconds``, later each time."""

    def __init__(self, reason: str, seconds: float = 0.0) -> None:
        super().__init__(reason)
        self.seconds = seconds


class Controller(Protocol):
    """Reconciles the objects of its kind."""

    kind: Kind

    def watches(self) -> Mapping[Kind, Callable[[Json], Iterable[Key]]]:
        """Return other kinds, each with a function from a changed object to the keys that are to be looked at."""

    def reconcile(self, key: Key) -> float | None:
        """Make what an object wants true; seconds until the next look, None: when something changes.

        Raises Retry, KubeError, ClientError. May end at any line, and be called again.
        """


@runtime_checkable
class FollowsService(Protocol):
    """A controller that also looks at objects when something of the service changes."""

    def follow(self, change: Json) -> Iterable[Key]:
        """Return the keys that an entry of the service's feed (HubClient.changes) concerns."""


@dataclass(frozen=True)
class Hub:
    """All that controllers are made with; its methods write, and enter the answer into the cache."""

    api: Api
    caches: Mapping[Kind, Cache]
    service: HubClient
    feed: ServiceFeed
    events: Recorder
    now: Callable[[], datetime]
    _said: set[str] = field(default_factory=set)

    def write_status(self, kind: Kind, old: Json, status: Json) -> Json:
        """Write a status unless it is the one that ``old`` has; returns the object. Raises Conflict, KubeError."""
        if (old.get("status") or {}) == status:
            return old
        answer = self.api.update_status(kind, {**old, "status": status})
        kept = answer.get("status") or {}
        if kept != status:  # it would be written at each look
            names = sorted(name for name in {*kept, *status} if kept.get(name) != status.get(name))
            text = f"{kind.name}: the API server's schema changes status: {', '.join(names)}"
            if text not in self._said:
                log.warning("%s", text)
            self._said.add(text)
        return self._entered(kind, answer)

    def patch(self, kind: Kind, old: Json, merge: Json) -> Json:
        """Merge members into an object as it was read; None removes one. Raises Conflict, KubeError."""
        version = old["metadata"]["resourceVersion"]
        merge = merge | {"metadata": {"resourceVersion": version} | merge.get("metadata", {})}
        return self._entered(kind, self.api.patch(kind, key_of(old), merge))

    def add_finalizer(self, kind: Kind, old: Json, finalizer: str) -> Json:
        """Have an object stay until the finalizer is taken away; returns the object."""
        finalizers = old["metadata"].get("finalizers") or []
        if finalizer in finalizers:
            return old
        return self.patch(kind, old, {"metadata": {"finalizers": [*finalizers, finalizer]}})

    def remove_finalizer(self, kind: Kind, old: Json, finalizer: str) -> None:
        """Take a finalizer away."""
        finalizers = old["metadata"].get("finalizers") or []
        if finalizer in finalizers:
            self.patch(kind, old, {"metadata": {"finalizers": [item for item in finalizers if item != finalizer]}})

    def _entered(self, kind: Kind, answer: Json) -> Json:
        if kind in self.caches and not kind.metadata_only:
            self.caches[kind].put_written(answer)
        return answer


class ServiceFeed:
    """Follows what changes in the service, in a thread of its own."""

    _POLL = 50.0
    _LONGEST_WAIT = 15.0

    def __init__(self, service: HubClient) -> None:
        self._service = service
        self._failures = 0
        #: The reason why the service does not answer; empty while it does.
        self.problem = ""

    def run(self, stop: threading.Event, changed: Callable[[Json], None], everything: Callable[[], None]) -> None:
        """Poll until it is to stop. ``everything``: changes may have been missed, or the service is back."""
        from installer.hub.service import MarkTooOld

        mark = ""
        while not stop.is_set():
            try:
                changes, mark = self._service.changes(mark, self._POLL)
            except MarkTooOld:
                mark = ""
                everything()
                stop.wait(1.0)
                continue
            except ClientError as error:
                self._failures += 1
                if self._failures == _SAY_AFTER:
                    log.warning("service: %s", error)
                self.problem = str(error)
                stop.wait(min(0.5 * 2 ** min(self._failures, 10), self._LONGEST_WAIT) * random.uniform(0.8, 1.2))
                continue
            if self.problem:
                if self._failures >= _SAY_AFTER:
                    log.info("service: answers again")
                self.problem = ""
                everything()
            self._failures = 0
            for change in changes:
                changed(change)


class Leads(Protocol):
    """The part of a lease (lease.Leader) that controllers need."""

    def is_leading(self) -> bool:
        """Return whether this operator may act now."""

    def run(self, stop: threading.Event, gained: Callable[[], None]) -> None:
        """Hold the lease until it is to stop; ``gained`` is called whenever it is taken."""

    def release(self) -> None:
        """Give the lease back."""


class Runner:
    """A controller with its queue."""

    def __init__(self, controller: Controller, leader: Leads | None) -> None:
        self.controller = controller
        self.queue = KeyedQueue()
        self._leader = leader
        self._failures: dict[Key, tuple[str, int]] = {}
        #: Reconciles so far by upper bound of their seconds (BUCKETS), their seconds in all, and how many failed.
        self.counts = dict.fromkeys(BUCKETS, 0)
        self.seconds, self.failed = 0.0, 0
        self._lock = threading.Lock()

    def changed(self, old: Json | None, new: Json | None) -> None:
        """Take a change of the controller's own kind."""
        obj = new or old
        if obj is not None:
            self.queue.add(key_of(obj))

    def map(self, function: Callable[[Json], Iterable[Key]]) -> Callable[[Json | None, Json | None], None]:
        """Return a listener for another kind: keys of the object as it was, too, since it may point elsewhere now."""

        def listen(old: Json | None, new: Json | None) -> None:
            for obj in (old, new):
                if obj is not None:
                    self.add(partial(function, obj))

        return listen

    def add(self, keys: Callable[[], Iterable[Key]]) -> None:
        """Take the keys that a controller names; a defect in it must not end the thread that brings changes."""
        try:
            for key in keys():
                self.queue.add(key)
        except Exception:
            log.exception("%s: keys of a change", self.controller.kind.name)

    def work(self) -> None:
        """Reconcile keys until the queue is closed."""
        while (key := self.queue.take()) is not None:
            if self._leader is not None and not self._leader.is_leading():
                self.queue.done(key)  # all come again with the lease
                continue
            began = time.monotonic()
            failed = True
            try:
                after = self.controller.reconcile(key)
            except Retry as error:
                self._fail(key, str(error), error.seconds, quiet=True)
            except Conflict as error:
                self._fail(key, str(error), 0.0, quiet=True)
            except InstallerError as error:
                self._fail(key, str(error), 0.0)
            except Exception:
                # A defect that one object brings out must not stop the others.
                log.exception("%s %s", self.controller.kind.name, key)
                self._fail(key, "a defect", 10.0, quiet=True)
            else:
                failed = False
                self._failures.pop(key, None)
                self.queue.done(key, after)
            self._measure(time.monotonic() - began, failed)

    def _fail(self, key: Key, text: str, seconds: float, *, quiet: bool = False) -> None:
        before, count = self._failures.get(key, ("", 0))
        count = count + 1 if before == text else 0
        self._failures[key] = (text, count)
        after = self.queue.failed(key, seconds)
        level = logging.DEBUG if quiet or count % _SAY_AGAIN else logging.WARNING
        log.log(level, "%s %s: %s; again in %.1f s", self.controller.kind.name, key, text, after)

    def _measure(self, seconds: float, failed: bool) -> None:
        with self._lock:
            self.failed += failed
            self.seconds += seconds
            self.counts[next(bound for bound in BUCKETS if seconds <= bound)] += 1


class Manager:
    """The caches of some kinds, and the controllers that work from them."""

    def __init__(self, api: Api, service: HubClient, kinds: Iterable[Kind], leader: Leads | None = None) -> None:
        self._informers = {kind: Informer(api, kind) for kind in kinds}
        self._leader = leader
        self._threads: list[threading.Thread] = []
        self.runners: list[Runner] = []
        caches = {kind: informer.cache for kind, informer in self._informers.items()}
        self.hub = Hub(api, caches, service, ServiceFeed(service), events=Recorder(api), now=lambda: datetime.now(UTC))

    def run(self, controllers: Iterable[Controller], stop: threading.Event) -> None:
        """Work until ``stop`` is set, then end: reconciles under way are waited for, a few seconds."""
        self.runners = [Runner(controller, self._leader) for controller in controllers]
        for runner in self.runners:
            self._informers[runner.controller.kind].listen(runner.changed)
            for kind, function in runner.controller.watches().items():
                self._informers[kind].listen(runner.map(function))
        for informer in self._informers.values():
            informer.start()
        if self._leader is not None:
            self._thread("lease", self._leader.run, stop, self._everything)
        if not self._synced(stop):
            self._end()
            return
        for runner in self.runners:
            for number in range(MORE_WORKERS.get(runner.controller.kind, WORKERS)):
                self._thread(f"{runner.controller.kind.plural}-{number}", runner.work)
        self._thread("feed", self.hub.feed.run, stop, self._follow, self._everything)
        stop.wait()
        self._end()

    def _synced(self, stop: threading.Event) -> bool:
        """Wait for all caches to be filled; false if it is to stop before."""
        for informer in self._informers.values():
            while not informer.synced.wait(0.2):
                if stop.is_set():
                    return False
        log.info("%d kinds are watched", len(self._informers))
        return True

    def _everything(self) -> None:
        for runner in self.runners:
            for obj in self._informers[runner.controller.kind].cache.list():
                runner.queue.add(key_of(obj))

    def _follow(self, change: Json) -> None:
        for runner in self.runners:
            if isinstance(runner.controller, FollowsService):
                runner.add(partial(runner.controller.follow, change))

    def _thread(self, name: str, target: Callable[..., Any], *args: Any) -> None:
        thread = threading.Thread(target=target, args=args, name=name, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _end(self) -> None:
        for informer in self._informers.values():
            informer.stop()
        for runner in self.runners:
            runner.queue.close()
        deadline = time.monotonic() + _END_SECONDS
        for thread in self._threads:
            if thread.name != "feed":  # its poll may take longer, and it changes nothing
                thread.join(max(0.0, deadline - time.monotonic()))
        if self._leader is not None:
            self._leader.release()
        self.hub.api.close()
        for informer in self._informers.values():
            informer.join(max(0.1, deadline - time.monotonic()))


# Reconciles under way may go on for this long after the end was asked for (s).
_END_SECONDS = 10.0

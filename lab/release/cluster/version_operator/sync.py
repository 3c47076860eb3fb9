"""Applies the payload and reports the progress in ClusterVersion (reference/cluster.md §5)."""

from __future__ import annotations

import base64
import contextlib
import datetime as dt
import hashlib
import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from lab.release.cluster import pace
from lab.release.cluster.errors import ApiError, ClusterError, LeaseLost, Stopped, Superseded, UnknownKind
from lab.release.cluster.kube import conditions, lease, payload
from lab.release.cluster.kube.apply import apply
from lab.release.cluster.kube.client import Kube, Object
from lab.release.cluster.kube.conditions import Failure, Updates, Work, is_status, version_status
from lab.release.cluster.kube.payload import CAPABILITIES, Manifest
from lab.release.cluster.kube.resources import CONFIG, cluster_scoped
from lab.release.cluster.version_operator.upgrade import Upgrader, not_started, updating

log = logging.getLogger(__name__)

#: How long one pass waits for its operators before it fails and the next one begins: longer than a node takes.
PASS_SECONDS = 600.0
#: The longest pause between two looks at whether the operators are available.
POLL_SECONDS = 5.0
#: How often the lease is renewed, well within its duration: each renewal is a write that all etcd members take part in.
RENEW_SECONDS = 30.0
RECONCILE_SECONDS = 180.0
RETRY_SECONDS = 10.0
#: Progress is written at most this often while manifests are applied: a status write costs more than a look-up.
REPORT_SECONDS = 10.0
#: How often one manifest is tried within a pass; a kind may still be unknown when its definition is brand new.
TRIES = 6
#: Of an update: between two looks at an operator, and for how long it may be degraded or away before the update fails.
#: OpenShift's gives a degraded operator 40 minutes, which is longer than a lab's whole update takes.
UPDATE_POLL_SECONDS = 2.0
DEGRADED_SECONDS = 60.0
UPDATING = "ClusterOperatorUpdating"


@dataclass
class Rollout:
    """An update as far as it has come, which the version operator's loop tells that of the operators.

    ``begun`` has the operators whose manifests have been applied; None when no update is under way: then an operator
    reports the version as soon as it is well.
    """

    begun: set[str] | None = field(default_factory=set)


def namespaces(operator: Object) -> list[str]:
    """Return the namespaces that a ClusterOperator's manifest says are its."""
    related = (operator.get("status") or {}).get("relatedObjects") or []
    return [str(reference["name"]) for reference in related if reference["resource"] == "namespaces"]


class Syncer:
    """The version operator's loop over one payload.

    With an ``upgrader`` it follows the update that ClusterVersion asks for. ``wake`` ends its pauses.
    """

    def __init__(
        self,
        kube: Kube,
        manifests: Sequence[Manifest],
        version: str,
        release_image: str,
        *,
        upgrader: Upgrader | None = None,
    ) -> None:
        self._kube = kube
        self._upgrader = upgrader
        self.rollout = Rollout()
        self.wake = threading.Event()
        self._failed: Work | None = None
        self._manifests = list(manifests)
        self._operators = [m for m in manifests if m.object["kind"] == "ClusterOperator"]
        self._plain = [m for m in manifests if m.object["kind"] != "ClusterOperator"]
        self._work = Work(version, release_image, 0, len(manifests))
        digest = hashlib.sha256("".join(m.source + m.name for m in manifests).encode()).digest()
        self._hash = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        self._reported = 0.0
        self._installed = False
        self._renewed = -RENEW_SECONDS
        self._led: float | None = None
        self.holder = f"{socket.gethostname()}_{os.getpid()}"
        self._boot = ""
        self._observed = lease.Observed()

    def lead(self, stop: threading.Event) -> bool:
        """Wait until this instance holds the lease; False when told to stop before."""
        while not stop.is_set():
            try:
                # As its kubelet says it: a machine that is a container has the kernel's own in its pods.
                node = self._kube.get("v1", "Node", socket.gethostname()) or {}
                self._boot = str(((node.get("status") or {}).get("nodeInfo") or {}).get("bootID", ""))
                if self.renew():
                    return True
                seen = "another instance leads"
            except (ClusterError, OSError) as error:
                seen = str(error)
            log.info("Waiting for the lease openshift-cluster-version/version: %s", seen)
            stop.wait(5.0)
        return False

    def renew(self) -> bool:
        """Renew the lease, and return whether this instance leads. Raises ApiError; LeaseLost when another may lead."""
        began = time.monotonic()
        if began - self._renewed < RENEW_SECONDS:
            return True
        now = dt.datetime.now(dt.UTC)
        leads = lease.acquire(
            self._kube,
            "openshift-cluster-version",
            "version",
            self.holder,
            now=now,
            observed=self._observed,
            boot=self._boot,
        )
        if leads:
            self._renewed = self._led = began
        elif self._led is not None and began - self._led > lease.DURATION_SECONDS:
            raise LeaseLost(f"the lease openshift-cluster-version/version was lost after {began - self._led:.0f} s")
        return leads

    def _hold(self) -> None:
        """Renew the lease when it is due; while the API is unreachable, wait for it. Raises LeaseLost."""
        try:
            self.renew()
        except LeaseLost:
            raise
        except (ClusterError, OSError) as error:
            log.warning("Renewing the lease failed: %s", error)

    def _cluster_version(self) -> Object:
        existing = self._kube.get(CONFIG, "ClusterVersion", "version")
        if existing is None:
            self._kube.create(cluster_scoped("ClusterVersion", {"clusterID": str(uuid.uuid4())}, "version"))
            existing = self._kube.get(CONFIG, "ClusterVersion", "version")
        if existing is None:
            raise ApiError("GET", "clusterversions/version", 404, "it vanished as soon as it was made")
        return existing

    def report(self, work: Work) -> None:
        """Write the state of the work into the ClusterVersion's status, if that changes it."""
        work = self._shown(work)
        current = self._cluster_version()
        old = current.get("status") or {}
        new = version_status(
            old,
            work,
            dt.datetime.now(dt.UTC),
            generation=int(current["metadata"].get("generation", 0)),
            capabilities=CAPABILITIES,
            version_hash=self._hash,
            updates=self._upgrader.status if self._upgrader else Updates(),
        )
        self._installed = conditions.is_status(new["conditions"], "Available")
        self._reported = time.monotonic()
        if new != old:
            self._kube.replace({**current, "status": new}, "status")
            progressing = conditions.find(new["conditions"], "Progressing") or {}
            log.info("%s", progressing.get("message", ""))

    def _shown(self, work: Work) -> Work:
        """Return what is reported: while an update has not come further than when it failed before, that failure."""
        if work.failure is not None:
            self._failed = work
        before = self._failed
        if before is None or before.image != work.image or work.complete or self.rollout.begun is None:
            self._failed = None if work.failure is None else work
        elif work.failure is None and work.done <= before.done:
            return before
        return work

    def _unmanaged(self) -> set[tuple[str, str, str]]:
        overrides = self._cluster_version()["spec"].get("overrides") or []
        return {(o["kind"], o.get("namespace", ""), o["name"]) for o in overrides if o.get("unmanaged")}

    def _apply(self, manifest: Manifest, stop: threading.Event) -> None:
        for attempt in range(1, TRIES + 1):
            if stop.is_set():
                raise Stopped("told to stop")
            try:
                if manifest.annotated(payload.DELETE):
                    meta = manifest.object["metadata"]
                    api, kind = manifest.object["apiVersion"], manifest.object["kind"]
                    with contextlib.suppress(UnknownKind):  # its kind's definition is gone, and it with that
                        self._kube.delete(api, kind, meta["name"], meta.get("namespace"))
                elif manifest.annotated("release.openshift.io/create-only"):
                    self._kube.create(manifest.object)
                else:
                    apply(self._kube, manifest.object)
            except (ApiError, UnknownKind) as error:
                if attempt == TRIES:
                    raise
                log.info("%s (%s): %s; trying again", manifest.name, manifest.source, error)
                stop.wait(2.0 * attempt)
            else:
                return

    def _precreate(self) -> None:
        """ClusterOperators exist from the start, with related objects and no conditions (§5.3)."""
        existing = {o["metadata"]["name"] for o in self._kube.list(CONFIG, "ClusterOperator")}
        for manifest in self._operators:
            if manifest.object["metadata"]["name"] in existing:
                continue
            bare = {key: value for key, value in manifest.object.items() if key != "status"}
            created = self._kube.create(bare)
            if created is not None:
                related = (manifest.object.get("status") or {}).get("relatedObjects") or []
                self._kube.replace({**created, "status": {"relatedObjects": related}}, "status")

    def _unfinished(self) -> list[str]:
        """Operators that are not Available, or have not reached the version that their manifest asks for."""
        seen = {o["metadata"]["name"]: o.get("status") or {} for o in self._kube.list(CONFIG, "ClusterOperator")}
        names = []
        for manifest in self._operators:
            name = manifest.object["metadata"]["name"]
            status = seen.get(name, {})
            wanted = (manifest.object.get("status") or {}).get("versions") or []
            reached = status.get("versions") or []
            if not is_status(status.get("conditions") or [], "Available") or any(v not in reached for v in wanted):
                names.append(name)
        return names

    def one_pass(self, stop: threading.Event) -> Work:
        """Apply everything and wait for the operators; the work as it ended, good or bad. Raises ApiError, Stopped."""
        work = self._work
        self.rollout.begun = None
        self.report(work)
        skipped = self._unmanaged()
        for index, manifest in enumerate(self._plain):
            self._hold()  # on a starved API the payload takes longer than the lease lasts
            if failure := self._applied(manifest, index, skipped, stop):
                return _with(work, index, failure=failure)
            if index == 0 or manifest.source.startswith("0000_00_"):
                continue
            if time.monotonic() - self._reported > REPORT_SECONDS and not self._installed:
                self.report(_with(work, index + 1))
        self._precreate()
        return self._wait(stop, len(self._plain))

    def _applied(
        self, manifest: Manifest, index: int, skipped: set[tuple[str, str, str]], stop: threading.Event
    ) -> Failure | None:
        """Apply a manifest unless it is overridden; the failure, if it fails. Raises Stopped."""
        meta = manifest.object["metadata"]
        if (manifest.object["kind"], meta.get("namespace", ""), meta["name"]) in skipped:
            return None
        try:
            self._apply(manifest, stop)
        except (ApiError, UnknownKind) as error:
            return Failure(
                "UpdatePayloadFailed",
                f"Could not update {manifest.name} ({index + 1} of {self._work.total}): {error}",
                f"could not update {manifest.name}",
            )
        return None

    def update(self, stop: threading.Event) -> Work:
        """Bring an installed cluster to this release, in the payload's order: an operator has reached it, or the work
        ends with its failure, before the next manifest's turn. Raises ApiError, Stopped, Superseded, LeaseLost."""
        work = self._work
        if self.rollout.begun is None:
            self.rollout.begun = set()
        self.report(work)
        self._precreate()
        skipped = self._unmanaged()
        for index, manifest in enumerate(self._manifests):
            self._hold()
            self._check_wanted(stop)
            if manifest.object["kind"] == "ClusterOperator":
                failure = self._bring(manifest, index, stop)
            else:
                failure = self._applied(manifest, index, skipped, stop)
            if failure is not None:
                return _with(work, index, failure=failure)
            if time.monotonic() - self._reported > REPORT_SECONDS:
                self.report(_with(work, index + 1))
        self.rollout.begun = None
        return _with(work, work.total, complete=True)

    def _check_wanted(self, stop: threading.Event) -> None:
        """Raise Stopped or Superseded when there is reason to."""
        if stop.is_set():
            raise Stopped("told to stop")
        if self.wake.is_set() and self._upgrader is not None:
            self.wake.clear()
            if self._upgrader.look(self._cluster_version()) != self._upgrader.current:
                raise Superseded("the ClusterVersion asks for another release now")

    def _bring(self, manifest: Manifest, done: int, stop: threading.Event) -> Failure | None:
        """Let an operator come to this release, and wait until it has; the failure, if it does not.

        Raises Stopped, Superseded, LeaseLost; ApiError when the API is away at the end.
        """
        name = manifest.object["metadata"]["name"]
        begun = self.rollout.begun if self.rollout.begun is not None else set()
        begun.add(name)
        self.report(_with(self._work, done, waiting=(name,)))
        deadline, bad_since = time.monotonic() + PASS_SECONDS, None
        while True:
            try:
                failure = self._lacking(manifest)
                if failure is None:
                    return None
                bad_since = (bad_since or time.monotonic()) if failure.reason != UPDATING else None
                if bad_since is not None and time.monotonic() - bad_since > DEGRADED_SECONDS:
                    return failure
                if time.monotonic() > deadline:
                    return failure
            except (ClusterError, OSError) as error:
                if time.monotonic() > deadline:
                    raise
                log.warning("Looking at operator %s failed: %s", name, error)
            self._hold()
            self._check_wanted(stop)
            stop.wait(UPDATE_POLL_SECONDS)

    def _lacking(self, manifest: Manifest) -> Failure | None:
        """Return the reason why an operator is not at this release and well; None when it is. Raises ApiError."""
        name = manifest.object["metadata"]["name"]
        operator = self._kube.get(CONFIG, "ClusterOperator", name) or {}
        status = operator.get("status") or {}
        states = status.get("conditions") or []
        if not is_status(states, "Available"):
            return conditions.unavailable([name])
        if not is_status(states, "Degraded", "False"):
            return conditions.degraded(name)
        wanted = (manifest.object.get("status") or {}).get("versions") or []
        if any(version not in (status.get("versions") or []) for version in wanted):
            text = f"Cluster operator {name} is updating versions"
            return Failure(UPDATING, text, f"the cluster operator {name} is updating versions")
        return None

    def _wait(self, stop: threading.Event, applied: int) -> Work:
        """Wait until all operators are available; an unreachable API costs one poll, not the pass.

        Raises Stopped, LeaseLost, and ApiError if the API is unreachable at the end.
        """
        deadline, last_logged = time.monotonic() + PASS_SECONDS, [""]
        while True:
            began = time.monotonic()
            last = self._installed or time.monotonic() > deadline
            try:
                missing = self._unfinished()
                done = applied + len(self._operators) - len(missing)
                if not missing:
                    return _with(self._work, done, complete=True)
                if last:
                    return _with(self._work, done, failure=conditions.unavailable(missing))
                if missing != last_logged:
                    self.report(_with(self._work, done, waiting=tuple(missing)))
                    last_logged = missing
            except (ClusterError, OSError) as error:
                if last:
                    raise
                log.warning("Looking at the operators failed: %s", error)
            self._hold()
            if stop.wait(pace.pause(time.monotonic() - began, POLL_SECONDS)):
                raise Stopped("told to stop")

    def run(self, stop: threading.Event) -> None:
        """Repeat passes until ``stop``: often until the cluster is installed, then seldom. Raises LeaseLost."""
        try:
            while not stop.is_set():
                pause = RETRY_SECONDS
                self.wake.clear()
                try:
                    if self.renew():
                        pause = self.round(stop)
                except Stopped:
                    return
                except LeaseLost:
                    raise
                except Superseded as error:
                    log.info("%s", error)
                    continue
                except (ClusterError, OSError) as error:
                    log.warning("This pass failed: %s", error)
                self._idle(stop, pause)
        finally:
            self._let_go()

    def round(self, stop: threading.Event) -> float:
        """Do one pass, or hand over to the release that is wanted; the seconds until the next round.

        Raises Stopped, LeaseLost, Superseded, ApiError.
        """
        cluster_version = self._cluster_version()
        status = cluster_version.get("status") or {}
        installed = any(entry["state"] == "Completed" for entry in status.get("history") or [])
        if self._upgrader is not None and installed:
            wanted = self._upgrader.look(cluster_version)
            if wanted != self._upgrader.current:
                # To pull an image, and to replace a pod on each node, takes longer than the lease lasts.
                with self._keeping_lease(stop):
                    handed_over = self._hand_over(self._upgrader, stop)
                if handed_over:
                    return RETRY_SECONDS
        work = self.update(stop) if updating(status, self._work.image) else self.one_pass(stop)
        self.report(work)
        return RECONCILE_SECONDS if work.complete else RETRY_SECONDS

    def _hand_over(self, upgrader: Upgrader, stop: threading.Event) -> bool:
        """Let the wanted release in and start its version operator, which ends this one; False when it is refused."""
        cluster_version = self._cluster_version()
        release = upgrader.take(
            cluster_version, upgrader.look(cluster_version), stop, lambda: self.report(self._latest(cluster_version))
        )
        if release is None:
            return False
        self.report(upgrader.work(release))
        # From now on no revision of this release begins: it would put this version operator back.
        begun, self.rollout.begun = self.rollout.begun, set()
        try:
            upgrader.hand_over(release, stop)
        except (ApiError, Stopped):
            raise
        except ClusterError as error:
            log.warning("%s", error)
            self.report(upgrader.work(release, not_started(error)))
        finally:
            if not stop.is_set():
                self.rollout.begun = begun
        return True

    @contextlib.contextmanager
    def _keeping_lease(self, stop: threading.Event) -> Iterator[None]:
        """Renew the lease meanwhile; where it is lost, set ``stop``."""
        over = threading.Event()

        def keep() -> None:
            try:
                while not over.wait(RENEW_SECONDS):
                    self._hold()
            except LeaseLost as error:
                log.error("%s", error)
                stop.set()

        thread = threading.Thread(target=keep, name="lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _latest(self, cluster_version: Object) -> Work:
        """Return the work that the status tells of already, to tell more beside it."""
        entry = ((cluster_version.get("status") or {}).get("history") or [{}])[0]
        version, image = entry.get("version", self._work.version), entry.get("image", self._work.image)
        work = replace(self._work, version=version, image=image)
        done = entry.get("state") == "Completed"
        return replace(work, done=work.total, complete=True) if done else work

    def _let_go(self) -> None:
        """Give the lease up, so that whoever is next need not wait for its end."""
        if self._led is not None:
            try:
                lease.release(self._kube, "openshift-cluster-version", "version", self.holder)
            except (ClusterError, OSError) as error:
                log.warning("The lease is left to end by itself: %s", error)

    def _idle(self, stop: threading.Event, seconds: float) -> None:
        """Wait between passes, keeping the lease."""
        deadline = time.monotonic() + seconds
        while not stop.is_set() and time.monotonic() < deadline:
            if self.wake.wait(min(45.0, seconds)):
                return
            self._hold()

    def _end(self, stop: threading.Event) -> None:
        stop.wait()
        self.wake.set()

    def follow(self, stop: threading.Event) -> None:
        """End the loop's pauses whenever ClusterVersion's spec changes, and at ``stop``; a thread's whole work."""
        threading.Thread(target=self._end, args=(stop,), name="end", daemon=True).start()
        seen = None
        for objects in self._kube.watch(CONFIG, "ClusterVersion", stop):
            generation = objects.get(("", "version"), {}).get("metadata", {}).get("generation")
            if seen is not None and generation != seen:
                self.wake.set()
            seen = generation


def _with(
    work: Work, done: int, *, waiting: tuple[str, ...] = (), failure: Failure | None = None, complete: bool = False
) -> Work:
    reason = UPDATING if waiting else ""
    return replace(work, done=done, waiting=waiting, failure=failure, complete=complete, reason=reason)

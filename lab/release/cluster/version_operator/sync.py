"""Applies the payload and reports the progress in ClusterVersion (reference/cluster.md §5)."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Sequence

from lab.release.cluster import pace
from lab.release.cluster.errors import ApiError, ClusterError, LeaseLost, Stopped, UnknownKind
from lab.release.cluster.kube import conditions, lease
from lab.release.cluster.kube.apply import apply
from lab.release.cluster.kube.client import Kube, Object
from lab.release.cluster.kube.conditions import Failure, Work, is_status, version_status
from lab.release.cluster.kube.payload import CAPABILITIES, Manifest
from lab.release.cluster.kube.resources import CONFIG, cluster_scoped

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


class Syncer:
    """The version operator's loop over one payload."""

    def __init__(self, kube: Kube, manifests: Sequence[Manifest], version: str, release_image: str) -> None:
        self._kube = kube
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
        current = self._cluster_version()
        old = current.get("status") or {}
        new = version_status(
            old,
            work,
            dt.datetime.now(dt.UTC),
            generation=int(current["metadata"].get("generation", 0)),
            capabilities=CAPABILITIES,
            version_hash=self._hash,
        )
        self._installed = conditions.is_status(new["conditions"], "Available")
        self._reported = time.monotonic()
        if new != old:
            self._kube.replace({**current, "status": new}, "status")
            progressing = conditions.find(new["conditions"], "Progressing") or {}
            log.info("%s", progressing.get("message", ""))

    def _unmanaged(self) -> set[tuple[str, str, str]]:
        overrides = self._cluster_version()["spec"].get("overrides") or []
        return {(o["kind"], o.get("namespace", ""), o["name"]) for o in overrides if o.get("unmanaged")}

    def _apply(self, manifest: Manifest, stop: threading.Event) -> None:
        for attempt in range(1, TRIES + 1):
            if stop.is_set():
                raise Stopped("told to stop")
            try:
                if manifest.annotated("release.openshift.io/create-only"):
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
        self.report(work)
        skipped = self._unmanaged()
        for index, manifest in enumerate(self._plain):
            self._hold()  # on a starved API the payload takes longer than the lease lasts
            meta = manifest.object["metadata"]
            if (manifest.object["kind"], meta.get("namespace", ""), meta["name"]) not in skipped:
                try:
                    self._apply(manifest, stop)
                except (ApiError, UnknownKind) as error:
                    failure = Failure(
                        "UpdatePayloadFailed",
                        f"Could not update {manifest.name} ({index + 1} of {work.total}): {error}",
                        f"could not update {manifest.name}",
                    )
                    return _with(work, index, failure=failure)
            if index == 0 or manifest.source.startswith("0000_00_"):
                continue
            if time.monotonic() - self._reported > REPORT_SECONDS and not self._installed:
                self.report(_with(work, index + 1))
        self._precreate()
        return self._wait(stop, len(self._plain))

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
        while not stop.is_set():
            pause = RETRY_SECONDS
            try:
                if self.renew():
                    work = self.one_pass(stop)
                    self.report(work)
                    pause = RECONCILE_SECONDS if work.complete else RETRY_SECONDS
            except Stopped:
                return
            except LeaseLost:
                raise
            except (ClusterError, OSError) as error:
                log.warning("This pass failed: %s", error)
            self._idle(stop, pause)

    def _idle(self, stop: threading.Event, seconds: float) -> None:
        """Wait between passes, keeping the lease."""
        deadline = time.monotonic() + seconds
        while not stop.is_set() and time.monotonic() < deadline:
            stop.wait(min(45.0, seconds))
            self._hold()


def _with(
    work: Work, done: int, *, waiting: tuple[str, ...] = (), failure: Failure | None = None, complete: bool = False
) -> Work:
    return Work(work.version, work.image, done, work.total, waiting, failure, complete)

"""The way to another release: what there is, what is asked for, whether it is let in, and its version operator started.

From then on the other release's version operator goes on, in `sync.Syncer.update`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from lab.release.cluster.errors import ApiError, ClusterError, InvalidUpdate, ReleaseRefused, Stopped, Unverified
from lab.release.cluster.kube import events, payload
from lab.release.cluster.kube.client import Kube, Object
from lab.release.cluster.kube.conditions import Failure, State, Updates, Work
from lab.release.cluster.kube.payload import Images, Manifest
from lab.release.cluster.kube.resources import CONFIG
from lab.release.cluster.nodes.revisions import Wanted
from lab.release.cluster.version_operator import graph, retrieval, signatures, stores, updates
from lab.release.cluster.version_operator.rollout import StaticPods
from lab.release.cluster.version_operator.updates import Update

log = logging.getLogger(__name__)

#: The update service is asked at most so often, unless what it is asked for has changed.
ASK_SECONDS = 150.0
NAMESPACE = retrieval.NAMESPACE


@dataclass(frozen=True)
class Release:
    """A release that has been let in: its update, images, number of manifests, and what is to be known of it."""

    update: Update
    images: Images
    total: int
    verified: bool
    risks: str = ""


class Upgrader:
    """Follows ClusterVersion's spec for a version operator of release ``current``."""

    def __init__(self, kube: Kube, manifests: Sequence[Manifest], wanted: Wanted, values: Mapping[str, str]) -> None:
        self._kube = kube
        self._rings, self._stores = signatures.keyrings(manifests), stores.of_payload(manifests)
        self._wanted = wanted
        self._values = values
        self.current = Update(wanted.images.version, wanted.release_image)
        self.status = Updates()
        self._asked: tuple[object, ...] = ()
        self._asked_at = 0.0

    def look(self, cluster_version: Object) -> Update:
        """Return the release that is wanted, and keep what the status is to say of updates. Raises ApiError."""
        spec = cluster_version["spec"]
        asked = (spec.get("upstream"), spec.get("channel"))
        if asked != self._asked or time.monotonic() - self._asked_at > ASK_SECONDS:
            self._asked, self._asked_at = asked, time.monotonic()
            found = graph.retrieve(spec, self.current.version)
            retrieved: State = (found.status, found.reason, found.message)
            self.status = replace(self.status, retrieved=retrieved, available=found.updates if found.updates else None)
        risk = updates.upgradeable(spec, self._kube.list(CONFIG, "ClusterOperator"))
        self.status = replace(self.status, upgradeable=("False", *risk) if risk else None)
        known = {**(cluster_version.get("status") or {}), "availableUpdates": self.status.available}
        try:
            wanted = updates.wanted(spec, known, self.current)
        except InvalidUpdate as error:
            self.status = replace(self.status, invalid=("True", "InvalidClusterVersion", str(error)))
            return self.current
        if wanted == self.current:
            self.status = replace(self.status, accepted=None)
        self.status = replace(self.status, invalid=None)
        return wanted

    def take(
        self, cluster_version: Object, update: Update, stop: threading.Event, say: Callable[[], None]
    ) -> Release | None:
        """Retrieve, verify and load a release; None when it is refused, as ``status`` tells. ``say`` writes the status.

        Raises Stopped, ApiError.
        """
        text = f"Retrieving and verifying payload {update.shown}"
        if self.status.accepted is None or update.image not in self.status.accepted[2]:
            self.status = replace(self.status, accepted=("Unknown", "RetrievePayload", text))
            say()
        try:
            release = self._load(cluster_version, update, stop)
        except ReleaseRefused as error:
            refusal: State = ("False", error.step, str(error))
            if refusal != self.status.accepted:
                log.warning("%s", error)
                self._event(f"{error.step}Failed", str(error))
            self.status = replace(self.status, accepted=refusal)
            return None
        loaded = f'Payload loaded {release.update.shown} architecture="amd64"'
        self.status = replace(self.status, accepted=("True", "PayloadLoaded", loaded))
        return release

    def _event(self, reason: str, text: str) -> None:
        reference = {"apiVersion": CONFIG, "kind": "ClusterVersion", "metadata": {"name": "version"}}
        events.send(self._kube, reference, reason, text, component=NAMESPACE)

    def _load(self, cluster_version: Object, update: Update, stop: threading.Event) -> Release:
        verified, risks = True, []
        failed = f"Retrieving payload failed {update.shown} failure="
        try:
            signatures.verify_in_cluster(
                self._kube,
                update.digest,
                self._rings,
                lambda: stores.signatures(
                    stores.chosen(self._kube, cluster_version["spec"], self._stores), update.digest
                ),
            )
        except Unverified as error:
            if not update.force:
                raise ReleaseRefused("RetrievePayload", f"{failed}The update cannot be verified: {error}") from error
            rule = "cannot be verified, but continuing anyway because the update was forced"
            verified, risks = False, [f"Target release {update.shown} {rule}: {error}"]
        try:
            root = retrieval.retrieve(self._kube, update, stop)
        except (Stopped, ApiError):
            raise
        except (ClusterError, OSError) as error:
            text = f"{failed}Unable to download and prepare the update: {error}"
            raise ReleaseRefused("RetrievePayload", text) from error
        try:
            images = payload.load_images(root)
            total = len(payload.load_manifests(root, update.image, self._values))
        except (ClusterError, OSError) as error:
            text = f"Loading payload failed {update.shown} failure={error}"
            raise ReleaseRefused("LoadPayload", text) from error
        if update.version and images.version != update.version:
            rule = f"release image version {images.version} does not match the expected upstream version"
            text = f"Verifying payload failed {update.shown} failure={rule} {update.version}"
            raise ReleaseRefused("VerifyPayloadVersion", text)
        update = replace(update, version=images.version)
        operators = self._kube.list(CONFIG, "ClusterOperator")
        status = cluster_version.get("status") or {}
        spec = cluster_version["spec"]
        if barred := updates.preconditions(spec, status, operators, current=self.current, target=update):
            if not update.force:
                text = f"Preconditions failed for payload loaded {update.shown}: {barred}"
                raise ReleaseRefused("PreconditionChecks", text)
            risks.append(barred)
        images = Images(images.version, {**images.tags, "cluster-version-operator": update.image})
        return Release(update, images, total, verified, "\n".join(risks))

    def work(self, release: Release, failure: Failure | None = None) -> Work:
        """Return the work of a release that is only about to begin."""
        update = release.update
        return Work(
            update.version, update.image, 0, release.total, failure=failure, verified=release.verified,
            accepted_risks=release.risks,
        )  # fmt: skip

    def hand_over(self, release: Release, stop: threading.Event) -> None:
        """Give each control plane node the release's version operator, this one's own node last.

        Raises ClusterError when one does not start: then it is put back. Raises Stopped when the own one is replaced.
        """
        wanted = Wanted(self._wanted.config, release.images, release.update.image)
        log.info("Handing over to the version operator of %s", release.update.version)
        StaticPods(self._kube, wanted).bring([NAMESPACE], stop, retrieval.own_node(self._kube))


def not_started(error: ClusterError) -> Failure:
    """Return the failure of an update whose version operator does not start."""
    text = "the workload openshift-cluster-version/cluster-version-operator is not available"
    return Failure("WorkloadNotAvailable", f"{text}: {error}", text)


def updating(status: Mapping[str, object], image: str) -> bool:
    """Return whether a cluster that has been installed is on its way to a release."""
    history = status.get("history")
    entries = history if isinstance(history, list) else []
    installed = any(entry["state"] == "Completed" for entry in entries)
    return installed and (entries[0]["image"] != image or entries[0]["state"] != "Completed")

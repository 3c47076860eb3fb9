"""The provisioner of one node: makes the volumes of the claims for which this node was selected, and removes them.

It is a thread of the node's one process, not a Deployment with helper pods: it costs no process and no pod, nothing
outside the node may write to the node's disk, and what concerns a node that is away waits for it without a program that
keeps count.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

from lab.release.cluster.errors import ClusterError, VolumeError
from lab.release.cluster.kube import events
from lab.release.cluster.kube.client import Kube, Object, Objects
from lab.release.cluster.storage import claims
from lab.release.cluster.storage.directories import Directories

log = logging.getLogger(__name__)

#: Seconds after which what failed is tried again.
RETRY_SECONDS = 60.0
CLAIM, VOLUME = "PersistentVolumeClaim", "PersistentVolume"


class Provisioner:
    """One node's part in claims and volumes; ``hostname`` is the value of the node's label."""

    def __init__(self, kube: Kube, node: str, hostname: str, directories: Directories) -> None:
        self._kube = kube
        self._node = node
        self._hostname = hostname
        self._directories = directories
        #: By UID: in which version an object was tried in vain, and when (monotonic seconds).
        self._failed: dict[str, tuple[str, float]] = {}

    def step(self, objects: Iterable[Object]) -> None:
        """Do what claims and volumes require of this node. What fails is logged, and left alone for RETRY_SECONDS
        unless it changes."""
        for obj in objects:
            key, version = obj["metadata"]["uid"], obj["metadata"]["resourceVersion"]
            failed, when = self._failed.get(key, ("", 0.0))
            if failed == version and time.monotonic() - when < RETRY_SECONDS:
                continue
            try:
                (self._claim if obj["kind"] == CLAIM else self._volume)(obj)
                self._failed.pop(key, None)
            except ClusterError as error:
                log.warning("%s", error)
                self._failed[key] = (version, time.monotonic())

    def _claim(self, claim: Object) -> None:
        if not claims.asked(claim) or claims.selected(claim) not in ("", self._node):
            return
        storage_class = self._kube.get(claims.CLASS_API, "StorageClass", claims.class_name(claim))
        if not claims.selected(claim) and claims.delayed(storage_class):
            return
        reasons = claims.refusals(claim, storage_class)
        if reasons or storage_class is None:
            self._fail(claim, "; ".join(reasons))
        wanted = claim["spec"]["resources"]["requests"]["storage"]
        try:
            name, free = claims.volume_name(claim), self._directories.free()
            if claims.size(wanted) > free:
                self._send_elsewhere(claim)
                text = f"{free / 2**30:.1f}Gi are free below {self._directories.base} of node {self._node}"
                raise VolumeError(f"resources.requests.storage: {wanted}: {text}")
            self._directories.make(name)
        except VolumeError as error:
            self._fail(claim, str(error))
        created = self._kube.create(claims.volume(claim, storage_class, self._hostname, str(self._directories.base)))
        if created is not None:
            log.info("made volume %s for claim %s", name, _named(claim))
            self._say(claim, "ProvisioningSucceeded", f"Volume {name} was made on node {self._node}", "Normal")

    def _say(self, about: Object, reason: str, message: str, kind: str = "Warning") -> None:
        """Send an event; one that the API does not take, as in a namespace that ends, holds up nothing."""
        try:
            sender = {"component": claims.PROVISIONER, "host": self._node}
            events.send(self._kube, about, reason, message, **sender, kind=kind)
        except ClusterError as error:
            log.warning("event %s of %s: %s", reason, about["metadata"]["name"], error)

    def _fail(self, claim: Object, text: str) -> NoReturn:
        self._say(claim, "ProvisioningFailed", text)
        raise VolumeError(f"claim {_named(claim)}: {text}")

    def _send_elsewhere(self, claim: Object) -> None:
        """Have the scheduler select a node anew."""
        meta = {"annotations": {claims.SELECTED: None}, "resourceVersion": claim["metadata"]["resourceVersion"]}
        self._kube.merge_patch(claim, {"metadata": meta})

    def _volume(self, listed: Object) -> None:
        if not claims.released(listed, self._hostname):
            return
        name = listed["metadata"]["name"]
        volume = self._kube.get("v1", VOLUME, name)
        # Somebody may have decided meanwhile that it is to be kept.
        if volume is None or not claims.released(volume, self._hostname):
            return
        try:
            self._directories.remove(claims.directory(volume, str(self._directories.base)))
        except VolumeError as error:
            self._say(volume, "VolumeFailedDelete", str(error))
            raise VolumeError(f"volume {name}: {error}") from error
        self._kube.delete("v1", VOLUME, name)
        log.info("removed volume %s", name)


def _named(claim: Object) -> str:
    return f"{claim['metadata']['namespace']}/{claim['metadata']['name']}"


def _hostname(kube: Kube, node: str, stop: threading.Event) -> str:
    """Wait for the node's label; empty after ``stop``."""
    while not stop.is_set():
        try:
            obj = kube.get("v1", "Node", node) or {"metadata": {}}
            if name := (obj["metadata"].get("labels") or {}).get(claims.HOSTNAME):
                return str(name)
        except ClusterError as error:
            log.warning("volumes: %s", error)
        stop.wait(2.0)
    return ""


def run(kube: Kube, node: str, stop: threading.Event, base: Path = Path(claims.BASE)) -> None:
    """Answer claims and remove released volumes of a node until ``stop``; what fails is tried again."""
    provisioner = Provisioner(kube, node, _hostname(kube, node, stop), Directories(base))
    wake, latest = threading.Event(), dict[str, Objects]()

    def follow(kind: str) -> None:
        for objects in kube.watch("v1", kind, stop):
            latest[kind] = objects
            wake.set()

    for kind in (CLAIM, VOLUME):
        threading.Thread(target=follow, args=(kind,), name=kind, daemon=True).start()
    while not stop.is_set():
        wake.wait(RETRY_SECONDS)
        wake.clear()
        provisioner.step(obj for objects in list(latest.values()) for obj in objects.values())

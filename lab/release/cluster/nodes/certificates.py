"""The renewal of certificates in a cluster: read from its API, and written as the plan says (pki/rotation.py).

What static pods read is one Secret for all control plane nodes and one for each node, which the syncer of each node
follows (pki/syncer.py). Files that are read at a start alone become a revision of the static pods (nodes/revisions.py).
"""

from __future__ import annotations

import datetime as dt
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from installer.common import certificates
from installer.common.certificates import DAY, Pair
from lab.release.cluster import tls
from lab.release.cluster.errors import ApiError, ClusterError, ConfigError
from lab.release.cluster.ignition import machineconfig
from lab.release.cluster.kube import apply, events
from lab.release.cluster.kube.client import Kube, Object, Objects
from lab.release.cluster.kube.payload import Images
from lab.release.cluster.kube.resources import CERTIFICATE_KIND, config_map, read_config
from lab.release.cluster.network import kubeletca
from lab.release.cluster.nodes.probes.view import addresses
from lab.release.cluster.nodes.revisions import OPERATOR
from lab.release.cluster.pki import rotation, store
from lab.release.cluster.pki.store import Kept
from lab.release.cluster.pods import assets
from lab.release.cluster.pods.assets import Cluster
from lab.release.cluster.pods.installerpod import (
    CONTROL_PLANE,
    HOLDS_FILES,
    NAMESPACE,
    PERSONAL,
    files_of,
    resource_secret,
)

log = logging.getLogger(__name__)

#: Upstream's own way to shorten all lives for a test: the length of a day, `base`.
DAY_CONFIG = ("openshift-config", "unsupported-cert-rotation-config")
COMPONENT = "cert-rotation-controller"
#: Seconds until what failed is tried again.
RETRY_SECONDS = 10.0


class Rotation:
    """The operator's work; `step` does what can be done now."""

    def __init__(self, kube: Kube, release_image: str, images: Images) -> None:
        self._kube = kube
        self._release_image = release_image
        self._images = images
        self._refused = ""

    def day(self) -> dt.timedelta:
        """Return the length of a day for certificates; one that cannot be used is said once, and changes nothing."""
        stored = self._kube.get("v1", "ConfigMap", DAY_CONFIG[1], DAY_CONFIG[0])
        text = str(((stored or {}).get("data") or {}).get("base", ""))
        if not text:
            return DAY
        try:
            return rotation.parse_day(text)
        except ConfigError as error:
            if text != self._refused:
                log.error("%s", error)
                self._send(stored or {}, "CertRotationBaseRefused", str(error), "Warning")
            self._refused = text
            return DAY

    def _send(self, obj: Object, reason: str, message: str, kind: str = "Normal") -> None:
        events.send(self._kube, {"apiVersion": "v1", **obj}, reason, message, component=COMPONENT, kind=kind)

    def step(self, now: dt.datetime) -> float:
        """Renew what is due; return for how many seconds nothing else will be. Raises ClusterError."""
        config = read_config(self._kube)
        kept = store.from_secrets(self._secrets())
        if config is None or any(asset not in kept for asset in store.FIXED):
            return RETRY_SECONDS  # the installer has not put everything in place
        place = ("v1", "ConfigMap", store.AUTHORITIES[1], store.AUTHORITIES[0])
        trusted = (self._kube.get(*place) or {}).get("data") or {}
        day = self.day()
        plan = rotation.plan(tls.leaves(config), kept, trusted, now=now, day=day, unread=self._unread(kept))
        # A signer that cannot be kept is not trusted either; what one signs is trusted from the start.
        for selection in (store.SIGNERS, store.TARGETS):
            for asset, changed in plan.changed.items():
                if asset in selection:
                    self._put(store.to_secret(asset, changed), asset, plan.reasons[asset])
            if selection is store.SIGNERS:
                apply.apply(self._kube, store.authorities(plan.trusted))
        pairs = {asset: entry.pair for asset, entry in (kept | dict(plan.changed)).items()}
        cluster = Cluster(config, pairs, self._release_image, self._images, plan.trusted)
        self._put(resource_secret(CONTROL_PLANE, assets.control_plane_files(cluster)))
        due = self._etcd(pairs["etcd-signer"], now, day, in_place=config.in_place)
        for (namespace, name), key, signer in (
            (kubeletca.SOURCE, kubeletca.KEY, "kube-apiserver-to-kubelet-signer"),
            (("openshift-ingress", "service-ca-bundle"), "service-ca.crt", "openshift-service-serving-signer"),
        ):
            apply.apply(self._kube, config_map(namespace, name, {key: plan.trusted[signer]}))
        return max((min(plan.due, due) - now).total_seconds(), 0.0)

    def _secrets(self) -> list[Object]:
        """Return the Secrets of certificates, also of those whose label somebody has removed."""
        listed = self._kube.list("v1", "Secret", labels=CERTIFICATE_KIND)
        there = {(obj["metadata"]["namespace"], obj["metadata"]["name"]) for obj in listed}
        for asset, (namespace, name) in (store.SIGNERS | store.TARGETS | store.FIXED).items():
            if asset not in store.USERS and (namespace, name) not in there:
                listed += filter(None, [self._kube.get("v1", "Secret", name, namespace)])
        return listed

    def _unread(self, kept: Mapping[str, Kept]) -> set[str]:
        """Return the signers whose successors a node does not trust yet: its revision of static pods, which read CAs
        at their start alone, has the signer without its successor."""
        obj = self._kube.get(OPERATOR, "Etcd", "cluster") or {}
        numbers = {entry.get("currentRevision") for entry in (obj.get("status") or {}).get("nodeStatuses") or []}
        stored = [self._kube.get("v1", "Secret", f"{CONTROL_PLANE}-{number}", NAMESPACE) for number in numbers]
        texts = ["".join(files_of(revision).values()) for revision in stored if revision]
        return {
            asset
            for asset, entry in kept.items()
            if entry.next is not None
            and any(entry.pair.certificate in text and entry.next.certificate not in text for text in texts)
        }

    def _put(self, obj: Object, asset: str = "", reason: str = "") -> None:
        """Write a Secret if it differs; of a certificate, say why."""
        meta = obj["metadata"]
        existing = self._kube.get("v1", "Secret", meta["name"], meta["namespace"])
        if existing is None:
            if self._kube.create(obj) is None:
                raise ClusterError(f"Secret {meta['namespace']}/{meta['name']} was made by somebody else meanwhile")
        elif asset in store.USERS and CERTIFICATE_KIND not in (existing["metadata"].get("labels") or {}):
            return  # somebody's own certificate in the place of ours
        elif existing.get("data") == obj["data"]:
            return
        else:
            notes = {**(existing["metadata"].get("annotations") or {}), **(meta.get("annotations") or {})}
            labels = {**(existing["metadata"].get("labels") or {}), **meta["labels"]}
            merged = {**existing["metadata"], "annotations": notes, "labels": labels}
            self._kube.replace(
                {**existing, "apiVersion": "v1", "kind": "Secret", "metadata": merged, "data": obj["data"]}
            )
        if asset:
            kind = "Signer" if asset in store.SIGNERS else "Target"
            place = f"{meta['namespace']}/{meta['name']}"
            log.info("Certificate %s (%s) is renewed: %s", place, asset, reason)
            self._send(obj, f"{kind}UpdateRequired", f"{place} is renewed: {reason}")

    def _etcd(self, signer: Pair, now: dt.datetime, day: dt.timedelta, *, in_place: bool) -> dt.datetime:
        """Renew what members of etcd have of their own; return when the next is due."""
        lifetime, due = tls.ETCD * (day / DAY), now + DAY
        for node in self._kube.list("v1", "Node"):
            name, ips = str(node["metadata"]["name"]), addresses(node)
            if machineconfig.role_of(node) not in ("master", "arbiter") or not ips:
                continue
            stored = self._kube.get("v1", "Secret", PERSONAL + name, NAMESPACE)
            if stored is None and not in_place:
                continue  # it has none before it joins
            files = files_of(stored) if stored else {}
            old = files.get("etcd-certs/server.crt", "")
            if certificates.signed_by(old, signer.certificate):
                made, ends = certificates.validity(old)
                moment = made + min(lifetime, ends - made) * rotation.PART
                if moment > now:
                    due = min(due, moment)
                    continue
            life = rotation.limited(lifetime, signer, now)
            files |= assets.etcd_files(signer, name, ips, life)
            self._put(resource_secret(PERSONAL + name, files))
            log.info("The certificate of etcd on %s is renewed", name)
            due = min(due, now + life * rotation.PART)
        return due

    def run(self, stop: threading.Event) -> None:
        """Renew until ``stop``: when something is due, and when somebody changes a certificate or the length of a
        day."""
        changed = threading.Event()
        namespace, name = DAY_CONFIG
        for kind, selection in (
            ("Secret", {"labels": CERTIFICATE_KIND}),
            ("Secret", {"namespace": NAMESPACE, "labels": HOLDS_FILES}),
            ("ConfigMap", {"namespace": namespace, "fields": f"metadata.name={name}"}),
        ):
            watch = partial(self._kube.watch, "v1", kind, stop, **selection)
            threading.Thread(target=_tell, args=(watch, changed), name=f"{kind}s of certificates", daemon=True).start()
        while not stop.is_set():
            changed.clear()
            try:
                seconds = self.step(dt.datetime.now(dt.UTC))
            except (ClusterError, OSError, ValueError) as error:
                # Written meanwhile by somebody else: the next look sees it.
                level = logging.INFO if isinstance(error, ApiError) and error.status == 409 else logging.WARNING
                log.log(level, "renewing certificates: %s", error)
                seconds = RETRY_SECONDS
            changed.wait(max(seconds, 1.0))


def _tell(watch: Callable[[], Iterator[Objects]], changed: threading.Event) -> None:
    """Set ``changed`` each time that a watch sees something."""
    for _ in watch():
        changed.set()

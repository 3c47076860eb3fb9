"""Putting manifests into a cluster: create-only for the bootstrap, merge for the version operator."""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from typing import Any

from lab.release.cluster.errors import ApiError, UnknownKind, WaitError
from lab.release.cluster.kube.client import Kube, Object

log = logging.getLogger(__name__)

#: Kinds that others need to exist first.
_FIRST = ("CustomResourceDefinition", "Namespace", "ServiceAccount", "ClusterRole", "Role")


def ordered(objects: Iterable[Object]) -> list[Object]:
    """Definitions and namespaces before what lives in them; otherwise the order stays."""
    return sorted(objects, key=lambda o: _FIRST.index(o["kind"]) if o["kind"] in _FIRST else len(_FIRST))


#: What the API writes into items of lists where a manifest is silent; what else an item has is not required, and goes.
_DEFAULTS: dict[str, tuple[Any, ...]] = {
    "apiVersion": ("v1",),  # of a fieldRef
    "defaultMode": (0o644,),
    "failureThreshold": (3,),
    "imagePullPolicy": ("IfNotPresent",),  # of an image with a digest
    "periodSeconds": (10,),
    "protocol": ("TCP",),
    "resources": ({},),
    "scheme": ("HTTP",),
    "successThreshold": (1,),
    "terminationMessagePath": ("/dev/termination-log",),
    "terminationMessagePolicy": ("File",),
    "timeoutSeconds": (1,),
    "type": ("",),  # of a hostPath
}


def ensure(existing: Any, required: Any) -> Any:
    """Merge ``required`` into ``existing``: mappings key by key, where null asks for nothing that is not there, and
    everything else replaced but for defaults within lists; inputs stay untouched."""
    if isinstance(existing, dict) and isinstance(required, dict):
        absent = {key for key, value in required.items() if value is None and key not in existing}
        return existing | {key: ensure(existing.get(key), required[key]) for key in required if key not in absent}
    return _with_defaults(existing, required)


def _with_defaults(existing: Any, required: Any) -> Any:
    """Return what is required, with those keys of what exists that only have the API's defaults."""
    if isinstance(existing, list) and isinstance(required, list):
        return [_with_defaults(*pair) for pair in zip_longest(existing[: len(required)], required)]
    if not (isinstance(existing, dict) and isinstance(required, dict)):
        return copy.deepcopy(required)
    kept = {
        key: value
        for key, value in existing.items()
        if key in required or value in _DEFAULTS.get(key, ()) or (key == "targetPort" and value == required.get("port"))
    }
    return kept | {key: _with_defaults(existing.get(key), value) for key, value in required.items()}


def apply(kube: Kube, obj: Object) -> bool:
    """Make the object as required: create it, or merge and replace when something differs. True when it was changed.

    The status is not touched, and a CRD's is not required. Raises ApiError, UnknownKind.
    """
    required = {key: value for key, value in obj.items() if key != "status"}
    meta = obj["metadata"]
    kube.resource(obj["apiVersion"], obj["kind"])
    existing = kube.get(obj["apiVersion"], obj["kind"], meta["name"], meta.get("namespace") or "default")
    if existing is None:
        return kube.create(required) is not None
    wanted = ensure(existing, _as_stored(required))
    if wanted == existing:
        return False
    kube.replace(wanted)
    return True


def _as_stored(required: Object) -> Object:
    if required["kind"] != "Secret" or "stringData" not in required:
        return required
    import base64

    rest = {key: value for key, value in required.items() if key != "stringData"}
    data = {key: base64.b64encode(value.encode()).decode() for key, value in required["stringData"].items()}
    return {**rest, "data": {**rest.get("data", {}), **data}}


def create_with_status(kube: Kube, obj: Object) -> bool:
    """Create, and write its status too when it has one; an existing object is left as it is. True when created."""
    created = kube.create({key: value for key, value in obj.items() if key != "status"})
    if created is None:
        return False
    if obj.get("status"):
        kube.replace({**created, "status": obj["status"]}, "status")
    return True


def create_all(
    kube: Kube,
    objects: Sequence[Object],
    seconds: float,
    *,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> int:
    """Create every object, retrying what the API does not accept yet (reference/cluster.md §2.3); how many were new.

    A kind may be unknown until its definition is established, and a namespace unknown until it is created.
    Raises WaitError after ``seconds``, naming what is left and why.
    """
    deadline = clock() + seconds
    pending = ordered(objects)
    created = 0
    while pending:
        failed: list[Object] = []
        reason = ""
        for obj in pending:
            try:
                created += create_with_status(kube, obj)
            except (ApiError, UnknownKind) as error:
                failed.append(obj)
                reason = f"{obj['kind']} {obj['metadata']['name']}: {error}"
        if not failed:
            break
        if clock() > deadline:
            raise WaitError(f"creating {len(failed)} of {len(objects)} manifests", seconds, reason)
        log.info("%d of %d manifests not created yet: %s", len(failed), len(objects), reason)
        progressed = len(failed) < len(pending)
        pending = failed
        pause(0.5 if progressed else 2.0)
    return created


def wait_ready(
    kube: Kube,
    seconds: float,
    *,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Wait until /readyz says ok. Raises WaitError with its last answer."""
    deadline = clock() + seconds
    while True:
        ready, seen = kube.ready()
        if ready:
            return
        if clock() > deadline:
            raise WaitError(f"{kube.server}/readyz", seconds, seen)
        pause(1.0)

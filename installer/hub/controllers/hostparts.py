"""DataImages and HostFirmwareSettings, which have the name of a BareMetalHost and belong to it (hub.md §8)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from installer.hub.baremetal.status import DETACHED
from installer.hub.conditions import NO_SECOND, Condition, set_conditions, timestamp
from installer.hub.kube.kinds import (
    BARE_METAL_HOST,
    DATA_IMAGE,
    HOST_FIRMWARE_SETTINGS,
    Json,
    Key,
    Kind,
    annotations_of,
    is_deleted,
    key_of,
    owner_reference,
    uid_of,
)
from installer.hub.kube.manager import Hub

FINALIZER = "dataimage.metal3.io"


def wanted_image(image: Json) -> str:
    """Return the URL of the image that a DataImage wants in the drive; empty for none."""
    return "" if is_deleted(image) else str((image.get("spec") or {}).get("url") or "")


def attached_image(image: Json) -> str:
    """Return the URL of the image that was put into the drive last; empty for none."""
    return str(((image.get("status") or {}).get("attachedImage") or {}).get("url") or "")


def write_attached(hub: Hub, image: Json, problem: str) -> None:
    """Write a DataImage's status after a try to have the drive hold it; ``problem``: why that failed."""
    old: Json = image.get("status") or {}
    status: Json = {**old, "lastReconciled": timestamp(hub.now())}
    status.pop("error", None)
    if problem:
        count = int((old.get("error") or {}).get("count") or 0) + 1
        status["error"] = {"count": count, "message": problem}
    else:
        status["attachedImage"] = {"url": wanted_image(image)}
    hub.write_status(DATA_IMAGE, image, status)


class DataImageController:
    """Keeps a DataImage until its host's drive is empty again. The host's own controller inserts and ejects."""

    kind = DATA_IMAGE

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def watches(self) -> Mapping[Kind, Callable[[Json], Iterable[Key]]]:
        """Return the DataImage of a host."""
        return {BARE_METAL_HOST: lambda bmh: [key_of(bmh)]}

    def reconcile(self, key: Key) -> float | None:
        """Add owner and finalizer, or take the finalizer away."""
        image = self._hub.caches[DATA_IMAGE].get(key)
        if image is None:
            return None
        bmh = self._hub.caches[BARE_METAL_HOST].get(key)
        if is_deleted(image):
            if bmh is None or DETACHED in annotations_of(bmh) or not attached_image(image):
                self._hub.remove_finalizer(DATA_IMAGE, image, FINALIZER)
        elif bmh is not None:
            owners: list[Any] = image["metadata"].get("ownerReferences") or []
            if all(owner["uid"] != uid_of(bmh) for owner in owners):
                owners = [*owners, owner_reference(BARE_METAL_HOST, bmh)]
                image = self._hub.patch(DATA_IMAGE, image, {"metadata": {"ownerReferences": owners}})
            self._hub.add_finalizer(DATA_IMAGE, image, FINALIZER)
        return None


class FirmwareSettingsController:
    """Reports on each HostFirmwareSettings that node0 changes no firmware, and names the settings that it asks for."""

    kind = HOST_FIRMWARE_SETTINGS

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def watches(self) -> Mapping[Kind, Callable[[Json], Iterable[Key]]]:
        """Return no other kinds."""
        return {}

    def reconcile(self, key: Key) -> float | None:
        """Write the conditions."""
        settings = self._hub.caches[self.kind].get(key)
        if settings is None or is_deleted(settings):
            return None
        names = ", ".join(sorted((settings.get("spec") or {}).get("settings") or {}))
        text = f"spec.settings: {names}: settings of firmware are neither read nor changed by node0" if names else ""
        wanted = [
            Condition("ChangeDetected", str(bool(names)), "Success"),
            Condition("Valid", str(not names), "ConfigurationError" if names else "Success", text),
        ]
        old: Json = settings.get("status") or {}
        conditions = set_conditions(old.get("conditions") or [], wanted, self._hub.now(), second=NO_SECOND)
        self._hub.write_status(self.kind, settings, {"settings": {}, **old, "conditions": conditions})
        return None

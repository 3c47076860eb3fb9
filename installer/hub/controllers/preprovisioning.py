"""PreprovisioningImages of hosts of InfraEnvs, and the setting that has such hosts take the converged flow."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from installer.hub.baremetal.pairing import Freshness, inputs_of, iso_url
from installer.hub.baremetal.status import INFRA_ENV as INFRA_ENV_LABEL
from installer.hub.conditions import NO_SECOND, set_conditions
from installer.hub.controllers.infraenv import QUIET
from installer.hub.kube.kinds import (
    INFRA_ENV,
    NMSTATE_CONFIG,
    PREPROVISIONING_IMAGE,
    Json,
    Key,
    Kind,
    is_deleted,
    key_of,
    labels_of,
)
from installer.hub.kube.manager import Hub
from installer.hub.tables import preprovisioning as table

# Longer than the service takes to make the image of an InfraEnv once its inputs are quiet.
MAKING_SECONDS = 5.0
_NAMES = ("architecture", "format", "imageUrl", "kernelUrl", "extraKernelParams")


class PreprovisioningImageController:
    """Has images with an InfraEnv's label say what to boot; others are another controller's."""

    kind = PREPROVISIONING_IMAGE

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._images = hub.caches[PREPROVISIONING_IMAGE]
        self._freshness = Freshness(QUIET + MAKING_SECONDS)

    def watches(self) -> Mapping[Kind, Callable[[Json], Iterable[Key]]]:
        """Return the images of an InfraEnv, and of all InfraEnvs that a config may be selected by."""

        def images(namespace: str, labels: Mapping[str, str] | None = None) -> list[Key]:
            return [key_of(image) for image in self._images.list(namespace, labels)]

        return {
            INFRA_ENV: lambda env: images(key_of(env).namespace, {INFRA_ENV_LABEL: key_of(env).name}),
            NMSTATE_CONFIG: lambda config: images(key_of(config).namespace),
        }

    def reconcile(self, key: Key) -> float | None:
        """Write the status of one image."""
        image = self._images.get(key)
        name = labels_of(image).get(INFRA_ENV_LABEL) if image is not None else None
        if image is None or not name or is_deleted(image):
            return None
        infra_env = self._hub.caches[INFRA_ENV].get(Key(key.namespace, name))
        wait = None
        if infra_env is not None:
            inputs = inputs_of(infra_env, self._hub.caches[NMSTATE_CONFIG].list(key.namespace))
            env_key = key_of(infra_env)
            wait = self._freshness.wait(env_key, inputs, iso_url(infra_env), time.monotonic()) or None
        wanted = table.conditions(image, infra_env, name, is_cool=wait is None)
        old: Json = image.get("status") or {}
        status = {member: value for member, value in old.items() if member not in _NAMES}
        if infra_env is not None and wanted[0].status == "True":
            status |= table.urls(image, infra_env)
        status["conditions"] = set_conditions(old.get("conditions") or [], wanted, self._hub.now(), second=NO_SECOND)
        self._hub.write_status(PREPROVISIONING_IMAGE, image, status)
        return wait

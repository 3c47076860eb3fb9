"""The release that a cluster or an infra-env is of, and the limits that it sets: its version, its architectures.

It is chosen by image, else by version and architecture, among the service's own and those that a hub has named
(catalogue.py). A version is known where the service was started with it (RELEASE_IMAGES), or has read it
(discovery/payload.py); a service without a release takes every well-formed version, except
from a hub, which names releases itself (repeatable.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from installer.assisted.errors import BadRequest
from installer.rendezvous import architectures
from installer.rendezvous.catalogue import Catalogue, fits
from installer.rendezvous.settings import Settings

_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.(\d+)([-+][-A-Za-z0-9._+]*)?|-multi)?")
#: The first release without OpenShiftSDN.
WITHOUT_SDN = (4, 15)


def chosen(catalogue: Catalogue, version: str, architecture: str, image: str = "") -> Settings:
    """Return the settings of the release that a new object is to be of. Raises BadRequest."""
    if image:
        return catalogue.of_image(image)
    if settings := catalogue.newest(version, architecture):
        return settings
    own, offered = catalogue.of_image(""), [settings.openshift_version for settings in catalogue]
    if version and offered and not own.release_image:
        raise BadRequest(
            f"Openshift version {version} is not supported for {architecture or 'x86_64'}: this service installs "
            f"{', '.join(offered)}"
        )
    return own


def check(settings: Settings, changes: Mapping[str, Any], *, is_new: bool = True) -> None:
    """Judge fields of a cluster by the release. Raises BadRequest."""
    version = str(changes.get("openshift_version", ""))
    if is_new:
        check_version(settings, version)
        architecture = changes.get("cpu_architecture")
        if architecture:
            architectures.check_offered(settings, architecture)
    if changes.get("network_type") == "OpenShiftSDN":
        if changes.get("control_plane_count") == 1:
            raise BadRequest("OpenShiftSDN network type is not allowed in single node mode")
        version = settings.openshift_version or version
        if (minor := minor_of(version)) and minor >= WITHOUT_SDN:
            raise BadRequest(f"Openshift version {version} is not supported for OpenShiftSDN NetworkType")


def minor_of(version: str) -> tuple[int, int] | None:
    """Return the first two numbers of a version; None if it is malformed."""
    match = _VERSION.fullmatch(version)
    return (int(match[1]), int(match[2])) if match else None


def check_version(settings: Settings, version: str) -> None:
    """Raise BadRequest unless it is the release's version, or the first two or three numbers of it."""
    match = _VERSION.fullmatch(version)
    offered = settings.openshift_version
    if match is None and version != offered:
        raise BadRequest(f"Malformed version: {version[:80]!r}; major.minor or major.minor.patch is expected")
    if offered and not fits(version, offered):
        raise BadRequest(f"Openshift version {version} is not supported: this service installs {offered}")

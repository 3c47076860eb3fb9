"""The release that a standalone service installs: read when a pull secret is at hand, then kept in its folder."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path

from installer.assisted.errors import BadRequest, PrepareError
from installer.errors import FileNotInImage, InstallerError, NotPublished
from installer.ignition.live import IMAGE_VARIABLES, PULLED_IMAGES
from installer.overrides import os_override
from installer.release import base_iso
from installer.release.access import RegistryAccess
from installer.release.payload import Release
from installer.rendezvous import architectures
from installer.rendezvous.prepare import installconfig
from installer.rendezvous.settings import Settings
from installer.rendezvous.store.model import InfraEnv


@dataclass(frozen=True)
class Payload:
    """Version, pull specs by environment variable (IMAGE_VARIABLES), and where the base ISO of an architecture is."""

    version: str
    images: dict[str, str]
    iso: Path


def cached(settings: Settings, architecture: str | None = None) -> Payload | None:
    """What an earlier run found for the same release, if the ISO (None: any architecture's) is still there."""
    data, override = architectures.notes(settings), os_override()
    try:
        noted = [Path(iso) for name, iso in data["isos"].items() if architecture in (None, name)]
        isos = noted if override is None else [override]
        payloads = [Payload(str(data["version"]), dict(data["images"]), iso) for iso in isos if iso.is_file()]
    except (KeyError, TypeError, ValueError):
        return None
    return payloads[0] if payloads else None


def fetch(settings: Settings, infra_env: InfraEnv) -> Payload:
    """Read the release with the infra-env's pull secret.

    Raises PrepareError, or BadRequest when the release has nothing for the infra-env's architecture.
    """
    override = os_override()
    if not settings.release_image and override is not None and settings.agent_image:
        return Payload(settings.openshift_version, {"AGENT_DOCKER_IMAGE": settings.agent_image}, override)
    if not settings.release_image:
        raise PrepareError(
            "release image", "is not set: start the service with OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE"
        )
    wanted = infra_env.cpu_architecture
    conf = settings.registries_conf if settings.registries_conf.is_file() else None
    bundle = installconfig.trust_bundle([infra_env], settings)
    try:
        with RegistryAccess(
            pull_secret=infra_env.pull_secret,
            registries_conf_file=conf,
            trust_bundle=bundle,
            architecture=architectures.GOARCH.get(wanted, wanted),
        ) as access:
            release = Release(settings.release_image, access)
            architectures.check(settings.release_image, release.architecture, wanted)
            images = {name: release.image_for(tag) for name, tag in IMAGE_VARIABLES.items()}
            pulled = release.images_of(PULLED_IMAGES.values())
            images |= {name: pulled[tag] for name, tag in PULLED_IMAGES.items() if tag in pulled}
            iso = override or base_iso.base_iso(release, wanted)
            fetched = Payload(release.version, images, iso)
            architecture = release.architecture
    except BadRequest:
        raise
    except (InstallerError, OSError) as error:
        if isinstance(error.__cause__, FileNotInImage | NotPublished):
            raise BadRequest(f"cpu_architecture {wanted}: {error}") from error
        raise PrepareError(f"read release {settings.release_image}", str(error)) from error
    # An ISO that was set by hand is not the release's.
    isos = {**architectures.notes(settings).get("isos", {}), **({} if override else {wanted: str(iso)})}
    text = json.dumps(
        {
            "release": settings.release_image,
            "version": fetched.version,
            "architecture": architecture,
            "images": images,
            "isos": isos,
        }
    )
    partial = architectures.notes_file(settings).with_suffix(f".{os.getpid()}")
    partial.write_text(text)
    partial.replace(architectures.notes_file(settings))
    return fetched


def adopted(settings: Settings, payload: Payload) -> Settings:
    """The settings with what the release says; what was set by hand stays."""
    images = payload.images
    return replace(
        settings,
        openshift_version=settings.openshift_version or payload.version,
        agent_image=settings.agent_image or images.get("AGENT_DOCKER_IMAGE", ""),
        installer_image=settings.installer_image or images.get("INSTALLER_IMAGE", ""),
        controller_image=settings.controller_image or images.get("CONTROLLER_IMAGE", ""),
        mco_image=settings.mco_image or images.get("MCO_IMAGE", ""),
        must_gather_image=settings.must_gather_image or images.get("MUST_GATHER_IMAGE", ""),
    )

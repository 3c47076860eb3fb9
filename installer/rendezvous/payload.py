"""The release that a standalone service installs: read when a pull secret is at hand, then kept in its folder."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path

from installer.create import base_iso
from installer.create.cache import os_override
from installer.errors import InstallerError
from installer.ignition.live import IMAGE_VARIABLES
from installer.release.access import RegistryAccess
from installer.release.payload import Release
from installer.rendezvous import installconfig
from installer.rendezvous.errors import PrepareError
from installer.rendezvous.model import InfraEnv
from installer.rendezvous.registries import digest_sources
from installer.rendezvous.settings import Settings


@dataclass(frozen=True)
class Payload:
    """Version, pull specs by environment variable (IMAGE_VARIABLES), and where the base ISO is."""

    version: str
    images: dict[str, str]
    iso: Path


def _kept(settings: Settings) -> Path:
    return settings.work_dir / "release.json"


def known(settings: Settings) -> Payload | None:
    """What an earlier run found for the same release, if the ISO is still there."""
    try:
        data = json.loads(_kept(settings).read_text())
        if data["release"] != settings.release_image:
            return None
        found = Payload(str(data["version"]), dict(data["images"]), Path(data["iso"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if found.iso.is_file() else None


def fetch(settings: Settings, infra_env: InfraEnv) -> Payload:
    """Read the release with the infra-env's pull secret. Raises PrepareError."""
    override = os_override()
    if not settings.release_image and override is not None and settings.agent_image:
        return Payload(settings.openshift_version, {"AGENT_DOCKER_IMAGE": settings.agent_image}, override)
    if not settings.release_image:
        raise PrepareError(
            "release image", "is not set: start the service with OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE"
        )
    sources = digest_sources(settings.registries_conf)
    conf = settings.registries_conf if settings.registries_conf.is_file() else None
    bundle = installconfig.trust_bundle(infra_env, settings, bool(sources))
    try:
        with RegistryAccess(
            pull_secret=infra_env.pull_secret, registries_conf_file=conf, trust_bundle=bundle
        ) as access:
            release = Release(settings.release_image, access)
            images = {name: release.image_for(tag) for name, tag in IMAGE_VARIABLES.items()}
            iso = override or base_iso.base_iso(release, infra_env.cpu_architecture)
            found = Payload(release.version, images, iso)
    except (InstallerError, OSError) as error:
        raise PrepareError(f"read release {settings.release_image}", str(error)) from error
    text = json.dumps({"release": settings.release_image, "version": found.version, "images": images, "iso": str(iso)})
    partial = _kept(settings).with_suffix(f".{os.getpid()}")
    partial.write_text(text)
    partial.replace(_kept(settings))
    return found


def adopted(settings: Settings, payload: Payload) -> Settings:
    """The settings with what the release says; what was set by hand stays."""
    images = payload.images
    return replace(
        settings,
        openshift_version=settings.openshift_version or payload.version,
        agent_image=settings.agent_image or images.get("AGENT_DOCKER_IMAGE", ""),
        installer_image=settings.installer_image or images.get("INSTALLER_IMAGE", ""),
        controller_image=settings.controller_image or images.get("CONTROLLER_IMAGE", ""),
    )

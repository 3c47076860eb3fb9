"""The release that a standalone service installs: read when a pull secret is at hand, then kept in its folder."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from installer.assisted.errors import BadRequest, PrepareError
from installer.errors import ConfigError, FileNotInImage, InstallerError, NotPublished
from installer.files import write_whole
from installer.ignition.live import IMAGE_VARIABLES, PULLED_IMAGES
from installer.overrides import os_override
from installer.release import base_iso
from installer.release.access import RegistryAccess
from installer.release.payload import Release
from installer.rendezvous import architectures
from installer.rendezvous.catalogue import Contents
from installer.rendezvous.prepare import installconfig
from installer.rendezvous.settings import Settings
from installer.rendezvous.store.model import InfraEnv


@dataclass(frozen=True)
class Payload(Contents):
    """A release, and where the base ISO of an architecture is."""

    iso: Path


def _own_iso() -> Path | None:
    """Return the base ISO that was set by hand, None without one. Raises PrepareError once it is gone."""
    try:
        return os_override()
    except ConfigError as error:
        raise PrepareError("base ISO", str(error)) from None


def cached(settings: Settings, architecture: str | None = None) -> Payload | None:
    """Return the payload of the same release that an earlier run found, if the ISO (None: any) still exists.

    Raises PrepareError once an ISO that was set by hand is gone.
    """
    data, override = architectures.notes(settings), _own_iso()
    try:
        noted = [Path(iso) for name, iso in data["isos"].items() if architecture in (None, name)]
        isos = noted if override is None else [override]
        payloads = [Payload(str(data["version"]), dict(data["images"]), iso) for iso in isos if iso.is_file()]
    except (KeyError, TypeError, ValueError):
        return None
    return payloads[0] if payloads else None


@contextmanager
def _opened(
    settings: Settings, pull_secret: str, infra_envs: Sequence[InfraEnv], architecture: str
) -> Iterator[tuple[Release, Contents]]:
    """Provide the release and what it says. Raises InstallerError, OSError."""
    with RegistryAccess(
        pull_secret=pull_secret,
        registries_conf_file=settings.registries_conf if settings.registries_conf.is_file() else None,
        trust_bundle=installconfig.trust_bundle(infra_envs, settings),
        architecture=architectures.GOARCH.get(architecture, architecture),
    ) as access:
        release = Release(settings.release_image, access)
        images = {name: release.image_for(tag) for name, tag in IMAGE_VARIABLES.items()}
        pulled = release.images_of(PULLED_IMAGES.values())
        images |= {name: pulled[tag] for name, tag in PULLED_IMAGES.items() if tag in pulled}
        yield release, Contents(release.version, images)


def _note(settings: Settings, contents: Contents, architecture: str, isos: dict[str, str]) -> None:
    notes = {
        "release": settings.release_image,
        "version": contents.version,
        "architecture": architecture,
        "images": contents.images,
        "isos": {**architectures.notes(settings).get("isos", {}), **isos},
    }
    file = architectures.notes_file(settings)
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_whole(file, json.dumps(notes).encode(), 0o644)


def learn(settings: Settings, pull_secret: str) -> Contents:
    """Read what the release says, and note it. Raises PrepareError."""
    try:
        with _opened(settings, pull_secret, (), "") as (release, contents):
            architecture = release.architecture
        _note(settings, contents, architecture, {})
    except (InstallerError, OSError) as error:
        raise PrepareError(f"read release {settings.release_image}", str(error)) from error
    return contents


def fetch(settings: Settings, infra_env: InfraEnv) -> Payload:
    """Read the release with the infra-env's pull secret.

    Raises PrepareError, or BadRequest when the release has nothing for the infra-env's architecture.
    """
    override = _own_iso()
    if not settings.release_image and override is not None and settings.agent_image:
        return Payload(settings.openshift_version, {"AGENT_DOCKER_IMAGE": settings.agent_image}, override)
    if not settings.release_image:
        raise PrepareError(
            "release image", "is not set: start the service with OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE"
        )
    wanted = infra_env.cpu_architecture
    try:
        with _opened(settings, infra_env.pull_secret, [infra_env], wanted) as (release, contents):
            architectures.check(settings.release_image, release.architecture, wanted)
            iso = override or base_iso.base_iso(release, wanted)
            architecture = release.architecture
        # An ISO that was set by hand is not the release's.
        _note(settings, contents, architecture, {} if override else {wanted: str(iso)})
    except BadRequest:
        raise
    except (InstallerError, OSError) as error:
        if isinstance(error.__cause__, FileNotInImage | NotPublished):
            raise BadRequest(f"cpu_architecture {wanted}: {error}") from error
        raise PrepareError(f"read release {settings.release_image}", str(error)) from error
    return Payload(contents.version, contents.images, iso)

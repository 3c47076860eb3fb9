"""Third stage of `create`: what the inputs refer to, out of the release payload: pullspecs, version, base ISO."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from installer.config.fielderror import aggregate, forbidden, required
from installer.config.types.install import InstallConfig
from installer.errors import (
    AssetError,
    ConfigError,
    FileNotInImage,
    NotPublished,
    RegistryUnreachable,
    ReleaseError,
    ReleaseNotByDigest,
)
from installer.ignition.live import PULLED_IMAGES
from installer.overrides import OS_OVERRIDE, RELEASE_OVERRIDE, os_override, release_override
from installer.release import DigestSource, RegistryAccess, Release, agent_files, base_iso
from installer.release.access import NEVER_CONTACT
from installer.release.content_cache import ContentCache

log = logging.getLogger(__name__)

# The pullspec of this build's own release: a lab release, which only a mirror can have.
DEFAULT_RELEASE = "release.node0.example/node0/lab-release:latest"
TARGET = "Agent Installer ISO"
ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64"}


@dataclass(frozen=True)
class ResolvedRelease:
    """The release's pullspec and version; component tag -> pullspec by digest."""

    image: str
    version: str
    components: dict[str, str]


@dataclass(frozen=True)
class Payload:
    """The release, and what of it a host boots: the base ISO's path, and what goes into the initrd.

    `agent_files`: a compressed cpio archive, empty if there is none. `rootfs_url`: where the stream metadata has the
    root file system.
    """

    release: ResolvedRelease
    iso: Path
    agent_files: bytes = field(default=b"", repr=False)
    rootfs_url: str = ""


def architecture(config: InstallConfig) -> str:
    """Return the control plane's architecture by uname's name."""
    name = config.control_plane.architecture if config.control_plane else "amd64"
    return ARCHITECTURES.get(name, name)


def release_image() -> str:
    """Return the release image's pullspec: the override of the environment, else this installer's own."""
    override = release_override()
    if override:
        log.warning("Found override for release image (%s). Please be warned, this is not advised", override)
    return override or DEFAULT_RELEASE


def expected_release() -> str:
    """As `release_image`, without the warning, which comes when the release is read."""
    return release_override() or DEFAULT_RELEASE


def digest_sources(config: InstallConfig) -> tuple[DigestSource, ...]:
    """Return the mirrors, as the registry tools want them."""
    return tuple(DigestSource(entry.source, entry.mirrors, entry.policy == NEVER_CONTACT) for entry in config.sources)


def resolve_release(config: InstallConfig, tags: Iterable[str], target: str) -> ResolvedRelease:
    """Return the release through the mirrors, with the components `tags`; `target` is for messages. Raises
    AssetError."""
    with _release(release_image(), config, target) as release:
        return _resolved(release, tags)


def resolve_payload(
    config: InstallConfig, tags: Iterable[str], *, want_rootfs: bool = False, pullspec: str = ""
) -> Payload:
    """As `resolve_release`, and the base ISO. Raises AssetError around a ReleaseError, ConfigError.

    `want_rootfs`: whether the URL of the root file system is needed; `pullspec`: the release of a running cluster to
    which hosts are added, in the place of the environment's.
    """
    running, pullspec = bool(pullspec), pullspec or release_image()
    if os.environ.get(OS_OVERRIDE):
        log.warning("Found override for OS Image. Please be warned, this is not advised")
    _os_image()  # an error comes before anything is fetched
    with _release(pullspec, config, TARGET) as release:
        _check_architecture(config, release, running=running)
        resolved = _resolved(release, tags)
        rootfs = _rootfs_url(config, release) if want_rootfs else ""
        return Payload(resolved, _iso(config, release), _agent_files(config, release), rootfs)


def opened_release(config: InstallConfig, target: str) -> contextlib.AbstractContextManager[Release]:
    """Return the release that the environment names, open through the mirrors for a block; `target` is for messages.

    Raises AssetError for what goes wrong with it in the block.
    """
    return _release(release_image(), config, target)


@contextlib.contextmanager
def _release(pullspec: str, config: InstallConfig, target: str) -> Iterator[Release]:
    try:
        with _access(config) as registry:
            yield Release(pullspec, registry, ContentCache(registry))
    except ReleaseError as error:
        stage = f'failed to fetch {target}: failed to fetch dependency of "{target}"'
        raise AssetError(stage, _with_hint(error)) from error


def _resolved(release: Release, tags: Iterable[str]) -> ResolvedRelease:
    components = {tag: release.image_for(tag) for tag in tags}
    components |= release.images_of(PULLED_IMAGES.values())
    return ResolvedRelease(release.pullspec, release.version, components)


def _with_hint(error: ReleaseError) -> ReleaseError:
    """Return the error, with how to name a release if none was named."""
    if release_override():
        return error
    if isinstance(error, ReleaseNotByDigest):
        return ReleaseError(error.image, f"{error} in the environment variable {RELEASE_OVERRIDE}")
    if isinstance(error, RegistryUnreachable) and error.image == DEFAULT_RELEASE:
        hint = f"say in the environment variable {RELEASE_OVERRIDE} which release is to be installed"
        return ReleaseError(error.image, f"{error}; {hint}, as <repository>@sha256:<digest>")
    return error


def _access(config: InstallConfig) -> RegistryAccess:
    """Return the registries as the config describes them, for images of the control plane's architecture."""
    name = config.control_plane.architecture if config.control_plane else ""
    secret, bundle = config.pull_secret, config.additional_trust_bundle
    return RegistryAccess(secret, digest_sources(config), bundle, architecture=name)


def _agent_files(config: InstallConfig, release: Release) -> bytes:
    """agent-tui's files; none for Oracle's cloud, where nobody sits at a host's console (reference/installer.md
    §3.3)."""
    external = config.platform.external
    if external is not None and external.platform_name == "oci":
        return b""
    return agent_files.agent_archive(release)


def _rootfs_url(config: InstallConfig, release: Release) -> str:
    """Return the root file system's URL in the stream metadata. Raises ConfigError where there is none, since then the
    user has to give it."""
    try:
        return base_iso.rootfs_url(release, architecture(config))
    except (FileNotInImage, NotPublished) as error:
        text = f"a minimal ISO gets its root file system from there, and {error}"
        problem = required("bootArtifactsBaseURL", text)
        raise ConfigError(
            f"invalid Agent Config configuration: {aggregate([problem])}", file="agent-config.yaml"
        ) from error


def _iso(config: InstallConfig, release: Release) -> Path:
    return _os_image() or base_iso.base_iso(release, architecture(config))


def _os_image() -> Path | None:
    """Return the base ISO of the environment, None without one. Raises AssetError if it is not a file."""
    try:
        return os_override()
    except ConfigError as error:
        needs = "".join(f': failed to fetch dependency of "{name}"' for name in (TARGET, "Agent Installer Artifacts"))
        stage = f'failed to fetch {TARGET}{needs}: failed to generate asset "Base ISO Image"'
        raise AssetError(f"{stage}: failed to get base ISO image", error) from error


def _check_architecture(config: InstallConfig, release: Release, *, running: bool) -> None:
    """Rule 36: the payload must be of the control plane's architecture, or of several; `running`: or that of hosts for
    a running cluster."""
    of_nodes = config.control_plane.architecture if config.control_plane else ""
    actual = release.architecture
    if running and actual not in ("multi", of_nodes):
        text = f"the cluster's release is for {actual} alone, so it has no hosts for {of_nodes}"
        raise ConfigError(f"invalid nodes configuration: {forbidden('cpuArchitecture', text)}")
    if actual not in ("multi", of_nodes):
        problem = forbidden(
            "controlPlane.architecture",
            f"unsupported release image architecture. ControlPlane Arch: {of_nodes} doesn't match Release Image Arch: "
            f"{actual}",
        )
        raise AssetError(
            f'failed to fetch {TARGET}: failed to load asset "Install Config"',
            ConfigError(f"invalid install-config configuration: {aggregate([problem])}"),
        )

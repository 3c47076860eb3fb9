"""What targets without a base ISO read from the release payload."""

from __future__ import annotations

from collections.abc import Iterable

from installer.config.types import InstallConfig
from installer.create import payload
from installer.errors import AssetError, ReleaseError
from installer.release import Release
from installer.release.cache import release_override
from installer.release.known import KnownReleases


def expected_release() -> str:
    """The release image's pullspec, without the warning about an override, which reading it will give."""
    return release_override() or payload.DEFAULT_RELEASE


def read_release(config: InstallConfig, tags: Iterable[str], target: str) -> tuple[str, str, dict[str, str]]:
    """(pullspec, version, pullspecs of components) of the release, without its base ISO. Raises AssetError."""
    pullspec = payload.release_image()
    try:
        with payload.access(config) as registry:
            release = Release(pullspec, registry, KnownReleases(registry))
            return pullspec, release.version, {tag: release.image_for(tag) for tag in tags}
    except ReleaseError as error:
        raise AssetError(
            f'failed to fetch {target}: failed to fetch dependency of "{target}"', payload.with_hint(error)
        ) from error

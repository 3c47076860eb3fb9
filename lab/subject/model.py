"""A release as labs and scenarios see it: what it is called, what it has, and the storage that a registry serves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lab.release.build import Release


@dataclass(frozen=True)
class Mirror:
    """A repository of the release, `source` (host and path), and its path on the lab's registry."""

    source: str
    repository: str


@dataclass(frozen=True)
class Subject:
    """A release that a lab can install.

    `pullspec` is the release image by digest under its own name; `components` has the pullspecs of its images by their
    tags (docs/reference/cluster.md §1). A docker-registry that serves `registry_storage` read-only has all of them,
    where `mirrors` says. `installer` is the release's own openshift-install where it brings one that runs by
    itself. `hardware` is its service's default_hw_requirements.json, empty where it has none.
    """

    version: str
    pullspec: str
    registry_storage: Path
    mirrors: tuple[Mirror, ...]
    _: KW_ONLY
    components: Mapping[str, str] = field(default_factory=dict)
    installer: Path | None = None
    hardware: str = ""

    @property
    def digest(self) -> str:
        """`sha256:...` of the release image."""
        return self.pullspec.rpartition("@")[2]


def of_lab(release: Release) -> Subject:
    """Return a lab release that has been built on this machine."""
    from lab.release.components import hardware_requirements

    return Subject(
        version=release.version,
        pullspec=release.pullspec,
        registry_storage=release.registry_storage,
        mirrors=(Mirror(release.source, release.repository),),
        components=release.components,
        hardware=hardware_requirements(),
    )

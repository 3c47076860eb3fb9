"""The releases that a service can install: its own, and those that a hub has named, each with settings of its own.

A release's description is read with a pull secret (discovery/payload.py) and noted in a file, so that a service that
was started again knows it without one.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from installer.rendezvous import architectures
from installer.rendezvous.settings import Settings
from installer.rendezvous.store.model import Cluster, InfraEnv

FOLDER = "releases"
_NUMBERS = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True)
class Contents:
    """A release's own description: its version, and pull specs by environment variable (IMAGE_VARIABLES)."""

    version: str
    images: dict[str, str]


def known(settings: Settings) -> Contents | None:
    """Return the contents that an earlier run read of the settings' release."""
    data = architectures.notes(settings)
    try:
        return Contents(str(data["version"]), dict(data["images"]))
    except (KeyError, TypeError, ValueError):
        return None


def adopted(settings: Settings, contents: Contents) -> Settings:
    """Return the settings with what the release says; what was set by hand stays."""
    images = contents.images
    return replace(
        settings,
        openshift_version=settings.openshift_version or contents.version,
        agent_image=settings.agent_image or images.get("AGENT_DOCKER_IMAGE", ""),
        installer_image=settings.installer_image or images.get("INSTALLER_IMAGE", ""),
        controller_image=settings.controller_image or images.get("CONTROLLER_IMAGE", ""),
        mco_image=settings.mco_image or images.get("MCO_IMAGE", ""),
        must_gather_image=settings.must_gather_image or images.get("MUST_GATHER_IMAGE", ""),
    )


def unread(own: Settings, image: str) -> Settings:
    """Return the settings for another release, of which nothing is known yet."""
    return replace(
        own,
        release_image=image,
        release_notes=f"{FOLDER}/{hashlib.sha256(image.encode()).hexdigest()[:32]}.json",
        release_architectures=(),
        openshift_version="",
        agent_image="",
        installer_image="",
        controller_image="",
        mco_image="",
        must_gather_image="",
    )


def fits(wanted: str, version: str) -> bool:
    """Return whether a version is meant by its whole text or its first numbers."""
    # A prefix of it, at a dot or at what follows the patch.
    return wanted == version or re.match(re.escape(wanted) + r"(?![0-9])(?=[.+-])", version) is not None


def newness(version: str) -> tuple[Any, ...]:
    """Return a key that sorts versions: those before a release (4.19.0-rc.2) come before it."""
    core, _, before = version.partition("+")[0].partition("-")
    parts = re.split(r"[.-]", before) if before else []
    named = [(0, int(part), "") if _NUMBERS.fullmatch(part) else (1, 0, part) for part in parts]
    return [int(part) for part in _NUMBERS.findall(core)], not before, named


class Catalogue:
    """Settings by release. Every release that a hub has named is one more; the service's own comes first."""

    def __init__(self, own: Settings) -> None:
        self._own = own
        self._others: dict[str, Settings] = {}
        # By (cluster's release, infra-env's).
        self._mixed: dict[tuple[str, str], Settings] = {}
        for file in sorted((own.work_dir / FOLDER).glob("*.json")):
            try:
                image = str(json.loads(file.read_text())["release"])
            except (OSError, ValueError, KeyError, TypeError):
                continue  # cut short by a kill: it is read again when it is named again
            self.add(image)

    def find(self, image: str) -> Settings | None:
        """Return the settings of a release that is known, None for another."""
        own = self._own if self._own.openshift_version else None
        return own if image == self._own.release_image else self._others.get(image)

    def add(self, image: str) -> Settings | None:
        """Return the settings of a release that has been read, which is known from now on; None for another."""
        if image == self._own.release_image:
            return self.find(image)
        settings = unread(self._own, image)
        if (contents := known(settings)) is None:
            return None
        self._others[image] = adopted(settings, contents)
        self._mixed.clear()
        return self._others[image]

    def adopt(self, own: Settings) -> None:
        """Continue with other settings of the service's own."""
        self._own = own
        self._mixed.clear()
        for image in tuple(self._others):
            self.add(image)

    def __iter__(self) -> Iterator[Settings]:
        if self._own.openshift_version:
            yield self._own
        yield from self._others.values()

    def of_image(self, image: str) -> Settings:
        """Return the settings for a release image, the service's own for one that is none of a hub's."""
        return self._others.get(image, self._own)

    def of(self, cluster: Cluster | None, infra_env: InfraEnv | None = None) -> Settings:
        """Return the settings for a cluster, or for what has none for its infra-env.

        With both, they are for a host: the cluster's, with the agent of its infra-env's images.
        """
        booted = self.of_image(infra_env.release_image) if infra_env is not None else self._own
        if cluster is None:
            return booted
        settings = self.of_image(cluster.ocp_release_image)
        if infra_env is None or infra_env.cluster_id is not None or booted.agent_image == settings.agent_image:
            return settings
        # A host is bound with the agent that it was booted with: node0's cannot be replaced while it runs.
        key = (settings.release_image, booted.release_image)
        if key not in self._mixed:
            self._mixed[key] = replace(settings, agent_image=booted.agent_image)
        return self._mixed[key]

    def newest(self, version: str = "", architecture: str = "") -> Settings | None:
        """Return the settings of the newest release of a version, or of its first numbers, for an architecture.

        Empty ones leave it open. The service's own comes before all of a hub's.
        """
        wanted = architectures.NAMES.get(architecture, architecture)
        found = [
            settings
            for settings in self
            if (not version or fits(version, settings.openshift_version))
            and (wanted in ("", "multi") or wanted in architectures.offered(settings))
        ]
        if self._own in found:
            return self._own
        return max(found, key=lambda settings: newness(settings.openshift_version), default=None)

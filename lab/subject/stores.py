"""Directories that hold images, whoever wrote them: where a blob lies by its digest, and which images are named.

OCI image layout       index.json, blobs/sha256/HEX (OCI image specification, image layout)
registry storage       docker/registry/v2/{blobs,repositories}: docker-registry's own, and what oc-mirror v2 packs
                       (openshift/oc-mirror, v2/internal/pkg/archive/const.go)
oc's files             v2/REPOSITORY/{blobs,manifests}: `oc adm release mirror --to-dir` and `oc image mirror
                       file://` (openshift/oc, pkg/cli/image/imagesource/file.go)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_STORAGE = "docker/registry/v2"


class Store(Protocol):
    """A directory with images."""

    def blob(self, digest: str) -> Path | None:
        """Return the file with these bytes; None when it is not there."""

    def images(self) -> Iterator[tuple[str, str]]:
        """Return (name, digest) of each image that is named; a name may be empty or have a tag."""


def is_digest(text: str) -> bool:
    """Return whether this is a digest of the one kind that releases use."""
    return _DIGEST.fullmatch(text) is not None


def _hex(digest: str) -> str:
    """Return the part of a digest that is a file's name. Raises ValueError: digests come out of files that others
    wrote."""
    if not is_digest(digest):
        raise ValueError(f"{digest!r} is not sha256: and 64 hex digits")
    return digest.partition(":")[2]


def _there(path: Path) -> Path | None:
    return path if path.is_file() else None


class _Entry(msgspec.Struct):
    digest: str
    annotations: dict[str, str] | None = None


class _Index(msgspec.Struct):
    """The fields of an OCI image layout's index.json that are read."""

    manifests: list[_Entry] | None = None


@dataclass(frozen=True)
class OciLayout:
    """An OCI image layout."""

    root: Path

    def blob(self, digest: str) -> Path | None:
        """Return the file in blobs/sha256. Raises ValueError for what is no digest."""
        return _there(self.root / "blobs/sha256" / _hex(digest))

    def images(self) -> Iterator[tuple[str, str]]:
        """Yield the images of index.json, by their annotations `org.opencontainers.image.ref.name`. Raises
        ValueError."""
        try:
            index = msgspec.json.decode((self.root / "index.json").read_bytes(), type=_Index)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise ValueError(f"index.json: {error}") from error
        for entry in index.manifests or []:
            yield (entry.annotations or {}).get("org.opencontainers.image.ref.name", ""), entry.digest


@dataclass(frozen=True)
class RegistryStorage:
    """The storage directory of a docker-registry."""

    root: Path

    def blob(self, digest: str) -> Path | None:
        """Return the blob's file, whatever the repository: they share blobs. Raises ValueError for what is no
        digest."""
        name = _hex(digest)
        return _there(self.root / _STORAGE / "blobs/sha256" / name[:2] / name / "data")

    def images(self) -> Iterator[tuple[str, str]]:
        """Yield each tag; without any, each revision."""
        top = self.root / _STORAGE / "repositories"
        for manifests in sorted(top.rglob("_manifests")):
            repository = str(manifests.parent.relative_to(top))
            tags = sorted(manifests.glob("tags/*/current/link"))
            for link in tags:
                yield f"{repository}:{link.parts[-3]}", link.read_text().strip()
            if not tags:
                for link in sorted(manifests.glob("revisions/sha256/*/link")):
                    yield repository, link.read_text().strip()


@dataclass(frozen=True)
class OcFiles:
    """A folder that `oc adm release mirror --to-dir` has filled."""

    root: Path

    def blob(self, digest: str) -> Path | None:
        """Return the file in any repository's folder; where names cannot have colons, oc writes dashes. Raises
        ValueError."""
        name = _hex(digest)
        for folder in ("blobs", "manifests"):
            for separator in ":-":
                for path in self.root.glob(f"v2/**/{folder}/sha256{separator}{name}"):
                    return path
        return None

    def images(self) -> Iterator[tuple[str, str]]:
        """Yield each tag, which is a symbolic link to a manifest's file."""
        for link in sorted(self.root.glob("v2/**/manifests/*")):
            if link.is_symlink():
                repository = str(link.parent.parent.relative_to(self.root / "v2"))
                yield f"{repository}:{link.name}", link.readlink().name.replace("sha256-", "sha256:")


def open_store(directory: Path) -> Store | None:
    """Return the store in a directory, by the files that mark it; None when it is none of the three."""
    if (directory / "oci-layout").is_file() and (directory / "index.json").is_file():
        return OciLayout(directory)
    if (directory / _STORAGE / "blobs").is_dir():
        return RegistryStorage(directory)
    if (directory / "v2").is_dir() and any(directory.glob("v2/**/manifests")):
        return OcFiles(directory)
    return None

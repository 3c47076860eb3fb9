"""A release payload: the images that it names, and files out of them (reference/cluster.md §1.1-1.6)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

from installer.common.formats import jsontext
from installer.errors import FileNotInImage, ReleaseError, ReleaseNotByDigest, UnknownTag
from installer.release.access import RegistryAccess
from installer.release.layers import normal, open_layer, take, write_file
from installer.release.matching import extract_matching
from installer.release.proxy import ImageProxy, OpenImage

REFERENCES = "release-manifests/image-references"
METADATA = "release-manifests/release-metadata"

_PLAIN = re.compile(r"[A-Za-z0-9\[][-A-Za-z0-9._+:/@\[\]]*")
_DIGEST = re.compile(r"@[a-z0-9]+:[0-9a-fA-F]{32,}$")


def repository_of(pullspec: str) -> str:
    """Return the repository of a pullspec: without its digest and tag."""
    name = pullspec.partition("@")[0]
    head, colon, tail = name.rpartition(":")
    return head if colon and "/" not in tail else name


@dataclass(frozen=True)
class Content:
    """A release image's self-description: the files of its last layer by path, and its configuration's GOARCH."""

    files: dict[str, bytes]
    architecture: str


class Memory(Protocol):
    """Remembers releases between runs."""

    def recall(self, pullspec: str) -> Content | None:
        """Return the content of a release image as `keep` was given it; None where there is none, or none to rely
        on."""

    def keep(self, pullspec: str, content: Content) -> None:
        """Remember the content of a release image."""


class Release:
    """One release image. It is fetched on demand, and what was fetched is kept, in `memory` between runs."""

    def __init__(self, pullspec: str, access: RegistryAccess, memory: Memory | None = None) -> None:
        self.pullspec = pullspec
        self._access = access
        self._memory = memory
        self._content: Content | None = None
        self._references: dict[str, Any] | None = None

    def check_by_digest(self) -> None:
        """Raise ReleaseNotByDigest when mirrors are meant for this image but cannot apply (reference §1.6)."""
        for source in self._access.sources:
            if source.covers(repository_of(self.pullspec)) and not _DIGEST.search(self.pullspec):
                raise ReleaseNotByDigest(self.pullspec, source.source)

    def _load(self) -> Content:
        if self._content is None:
            self.check_by_digest()
            remembered = self._memory.recall(self.pullspec) if self._memory is not None else None
            self._content = remembered or self._fetch()
            if remembered is None and self._memory is not None:
                self._memory.keep(self.pullspec, self._content)
        return self._content

    def _fetch(self) -> Content:
        with ImageProxy(self._access) as proxy:
            image = proxy.open_image(self.pullspec)
            architecture = str(image.config().get("architecture", ""))
            digest, size = image.layers()[-1]
            # From the last layer only, as `oc adm release info` reads it.
            files: dict[str, bytes] = {}

            def keep(name: str, data: IO[bytes], _dest: Path | None, _mode: int) -> None:
                files[name] = data.read()

            with image.blob(digest, size) as (fd, _size), open_layer(fd, self.pullspec) as archive:
                take(archive, {REFERENCES: None, METADATA: None}, keep)
        for path in (REFERENCES, METADATA):
            if path not in files:
                raise ReleaseError(
                    self.pullspec, f"image {self.pullspec} is not a release image: its last layer has no {path}"
                )
        return Content(files, architecture)

    @property
    def references(self) -> dict[str, Any]:
        """The ImageStream of release-manifests/image-references."""
        if self._references is None:
            try:
                stream = jsontext.loads(self._load().files[REFERENCES])
            except ValueError as error:
                raise ReleaseError(self.pullspec, f"{REFERENCES} of {self.pullspec} is not JSON: {error}") from error
            if not isinstance(stream, dict) or stream.get("kind") != "ImageStream":
                raise ReleaseError(self.pullspec, f"{REFERENCES} of {self.pullspec} is not an ImageStream")
            self._references = stream
        return self._references

    @property
    def version(self) -> str:
        """The release's version, e.g. 4.18.1."""
        metadata = self.references.get("metadata")
        named = metadata.get("name") if isinstance(metadata, dict) else None
        return self._plain(str(self._metadata.get("version") or named or ""), "version")

    @property
    def architecture(self) -> str:
        """`multi`, or the GOARCH of the release image (reference/installer.md §1.2 rule 36)."""
        metadata = self._metadata.get("metadata")
        named = metadata.get("release.openshift.io/architecture") if isinstance(metadata, dict) else None
        return str(named or self._load().architecture)

    @property
    def _metadata(self) -> dict[str, Any]:
        """release-manifests/release-metadata."""
        try:
            metadata = jsontext.loads(self._load().files[METADATA])
        except ValueError as error:
            raise ReleaseError(self.pullspec, f"{METADATA} of {self.pullspec} is not JSON: {error}") from error
        if not isinstance(metadata, dict):
            raise ReleaseError(self.pullspec, f"{METADATA} of {self.pullspec} is not a JSON object")
        return metadata

    def _plain(self, value: str, what: str) -> str:
        """Return the value, which goes into environment files and scripts of the hosts. Raises ReleaseError."""
        if not _PLAIN.fullmatch(value):
            text = f"the {what} of release {self.pullspec}, {value[:80]!r}, is not one plain word"
            raise ReleaseError(self.pullspec, text)
        return value

    def image_for(self, tag: str) -> str:
        """Return the pullspec, by digest, of component `tag`; UnknownTag if the payload has none."""
        for entry in self.references.get("spec", {}).get("tags", []):
            source = entry.get("from", {})
            if entry.get("name") == tag and source.get("kind") == "DockerImage":
                return self._plain(str(source.get("name", "")), f"image {tag}")
        raise UnknownTag(self.pullspec, tag)

    def images_of(self, tags: Iterable[str]) -> dict[str, str]:
        """Return the pullspecs, by digest, of those of the components that the payload has."""
        present = set(self.tags())
        return {tag: self.image_for(tag) for tag in tags if tag in present}

    def tags(self) -> list[str]:
        """All component names."""
        return [str(entry.get("name")) for entry in self.references.get("spec", {}).get("tags", [])]

    def extract(self, image: str, path: str, dest: Path) -> Path:
        """Extract one file of `image` to the file `dest`, whole or not at all; returns `dest`."""
        return self.extract_all(image, {path: dest})[path]

    def extract_matching(self, image: str, patterns: Sequence[str], folder: Path) -> dict[str, Path]:
        """Extract all that matches one of `patterns`, whose last part may be a glob, into `folder`, by its last name.

        Links within one directory stay links. {path in the image: where it is now}.
        """
        with ImageProxy(self._access) as proxy:
            opened = proxy.open_image(image)
            extracted, elsewhere = extract_matching(opened, patterns, folder)
            return extracted | extract(opened, elsewhere)

    def extract_all(
        self, image: str, wanted: dict[str, Path], tell: Callable[[int], None] | None = None
    ) -> dict[str, Path]:
        """Extract several files, each layer being read once at most, topmost first and only as far down as needed.

        `tell` hears how many more bytes were written.
        """
        with ImageProxy(self._access) as proxy:
            return extract(proxy.open_image(image), wanted, tell)


def extract(image: OpenImage, wanted: dict[str, Path], tell: Callable[[int], None] | None = None) -> dict[str, Path]:
    """Extract {path in the image: destination file}; links are followed, whiteouts respected."""
    pending: dict[str, Path | None] = {normal(path): dest for path, dest in wanted.items()}
    done: set[str] = set()

    def keep(_name: str, data: IO[bytes], dest: Path | None, mode: int) -> None:
        assert dest is not None
        write_file(data, dest, mode, tell)

    layers = image.layers()
    follow: dict[str, Path | None] = {}
    for _hop in range(8):
        for digest, size in reversed(layers):
            if not pending:
                break
            with image.blob(digest, size) as (fd, _size), open_layer(fd, image.pullspec) as archive:
                contents, links, hidden = take(archive, pending, keep)
            done |= contents
            for name in contents:
                pending.pop(name, None)
            for name, target in links.items():
                # Where the link leads may be in any layer: looked for in the next round, from the top.
                follow[target] = pending.pop(name, None)
            for name in hidden & pending.keys():
                raise FileNotInImage(image.pullspec, name)
        if pending:
            raise FileNotInImage(image.pullspec, next(iter(pending)))
        if not follow:
            return dict(wanted)
        pending, follow = follow, {}
    raise FileNotInImage(image.pullspec, next(iter(pending)))

"""CoreOS stream metadata: where a release's operating system is published (reference/installer.md §2.3, §3.3).

OpenShift's installer has its stream built in. node0 is built for no stream, so that the one that counts is the one in
the payload: /coreos/coreos-stream.json of machine-os-images.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from installer.common.formats import jsontext
from installer.errors import NotPublished
from installer.release import Release, image_cache

PATH = "coreos/coreos-stream.json"
_URL = re.compile(r"https?://[^\s/]+/\S+")


@dataclass(frozen=True)
class Artifact:
    """A published file: its URL, and the SHA-256 of its content in lower-case hex."""

    url: str
    sha256: str


def read_stream(release: Release, image: str) -> dict[str, Any]:
    """Return the stream metadata in machine-os-images, kept by the image's digest. Raises ReleaseError, of which
    FileNotInImage and NotPublished are about the metadata, and OSError."""
    path = image_cache.folder_of(image) / "coreos-stream.json"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        release.extract(image, PATH, path)
    try:
        stream = jsontext.loads(path.read_bytes())
        if not isinstance(stream, dict):
            raise ValueError("not an object")
    except ValueError as error:
        path.unlink(missing_ok=True)
        raise NotPublished(image, f"/{PATH} of image {image} is not stream metadata: {error}") from error
    return stream


def _artifact(stream: dict[str, Any], image: str, keys: tuple[str, ...]) -> Artifact:
    """Return the stream's artifact at `keys`. Raises NotPublished where that cannot be downloaded."""
    where = ".".join(keys)
    part: Any = stream
    for key in keys:
        part = part.get(key) if isinstance(part, dict) else None
    if not isinstance(part, dict):
        raise NotPublished(image, f"the stream metadata in {image} has no {where}")
    url, digest = str(part.get("location", "")), str(part.get("sha256", "")).lower()
    if not _URL.fullmatch(url):
        raise NotPublished(image, f"the stream metadata in {image} has no URL at {where}.location: {url!r}")
    if not re.fullmatch("[0-9a-f]{64}", digest):
        raise NotPublished(image, f"the stream metadata in {image} has no SHA-256 at {where}.sha256")
    return Artifact(url, digest)


def iso(stream: dict[str, Any], image: str, architecture: str) -> Artifact:
    """Return the live ISO for an architecture (uname's name). Raises NotPublished."""
    return _artifact(stream, image, ("architectures", architecture, "artifacts", "metal", "formats", "iso", "disk"))


def rootfs(stream: dict[str, Any], image: str, architecture: str) -> Artifact:
    """Return the live system's root file system for an architecture (uname's name). Raises NotPublished."""
    return _artifact(stream, image, ("architectures", architecture, "artifacts", "metal", "formats", "pxe", "rootfs"))

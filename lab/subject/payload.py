"""A release image's description of itself (docs/reference/cluster.md §1): version, architecture, images by their
tags."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.errors import SubjectError
from lab.subject.contents import IncompleteImage, config, extract, layers
from lab.subject.stores import Store, is_digest

REFERENCES = "image-references"
METADATA = "release-metadata"
ARCHITECTURE = "release.openshift.io/architecture"
#: Images without which no cluster can be installed from an agent ISO (docs/reference/installer.md §3 and §4).
NEEDED = (
    "agent-installer-api-server",
    "agent-installer-csr-approver",
    "agent-installer-node-agent",
    "agent-installer-orchestrator",
    "installer",
    "machine-config-operator",
    "machine-os-images",
)


@dataclass(frozen=True)
class Payload:
    """A release image: `components` has names by digest by their tags."""

    version: str
    architecture: str
    components: Mapping[str, str]

    @property
    def repository(self) -> str:
        """The repository that most of its images are in."""
        counts = Counter(name.partition("@")[0] for name in self.components.values())
        return counts.most_common(1)[0][0]


def _decoded(path: Path, source: str) -> dict[str, Any]:
    try:
        document = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise SubjectError(source, f"release-manifests/{path.name} is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise SubjectError(source, f"release-manifests/{path.name} is not a mapping")
    return document


def _mapping(document: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return a mapping of a document that others wrote; empty where it has none."""
    value = document.get(key)
    return value if isinstance(value, dict) else {}


def _text(document: Mapping[str, Any], key: str) -> str:
    """Return a text, likewise."""
    value = document.get(key)
    return value if isinstance(value, str) else ""


def _components(document: Mapping[str, Any], source: str) -> dict[str, str]:
    """Return the names by their tags. Raises SubjectError for whatever is not an ImageStream of images by digest."""
    components: dict[str, str] = {}
    try:
        for entry in document["spec"]["tags"]:
            components[str(entry["name"])] = str(entry["from"]["name"])
    except (KeyError, TypeError, AttributeError) as error:
        raise SubjectError(source, f"release-manifests/{REFERENCES} is no ImageStream ({error})") from error
    for tag, name in components.items():
        repository, _, digest = name.partition("@")
        if "/" not in repository or not is_digest(digest):
            raise SubjectError(source, f"release-manifests/{REFERENCES}: {tag}: {name!r} is no image by digest")
    return components


def is_release(store: Store, digest: str) -> bool:
    """Return whether the image's last layer names a release's images, as oc asks. Raises OSError."""
    try:
        with tempfile.TemporaryDirectory(prefix="release-") as folder:
            return bool(extract(layers(store, digest)[-1:], f"release-manifests/{REFERENCES}", Path(folder)))
    except IncompleteImage:
        return False


def read_payload(store: Store, digest: str, source: str) -> Payload:
    """Read a release image. Raises SubjectError, which begins with `source`, when it is none or lacks a part."""
    with tempfile.TemporaryDirectory(prefix="release-") as folder:
        try:
            blobs = layers(store, digest)
            architecture = str(config(store, digest).get("architecture", ""))
            extracted = {path.name: path for path in extract(blobs, "release-manifests/*", Path(folder))}
        except IncompleteImage as error:
            raise SubjectError(source, f"the release image is not whole: {error}") from error
        if REFERENCES not in extracted:
            raise SubjectError(source, f"is no release image: it has no /release-manifests/{REFERENCES}")
        references = _decoded(extracted[REFERENCES], source)
        metadata = _decoded(extracted[METADATA], source) if METADATA in extracted else {}
    components = _components(references, source)
    version = _text(metadata, "version") or _text(_mapping(references, "metadata"), "name")
    architecture = _text(_mapping(metadata, "metadata"), ARCHITECTURE) or architecture
    return Payload(version, architecture, components)


def check(payload: Payload, source: str) -> None:
    """Check that a cluster can be installed from it here. Raises SubjectError with every reason."""
    reasons = []
    if not payload.version:
        reasons.append("release-metadata has no version")
    if payload.architecture not in ("amd64", "multi"):
        reasons.append(f"it is for {payload.architecture}, the lab's machines are amd64")
    if missing := [tag for tag in NEEDED if tag not in payload.components]:
        reasons.append(f"it has no image {', '.join(missing)}")
    if reasons:
        raise SubjectError(source, "; ".join(reasons))

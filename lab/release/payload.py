"""The release image: image-references, metadata and manifests on top of the version operator (cluster.md §1)."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.release.components import COMPONENTS, OS_TAG, VERSION_OPERATOR
from lab.release.image.layer import CREATED, Compression, Layer, LayerWriter
from lab.release.image.oci import Image
from lab.release.images import layer_stage
from lab.release.registry import SOURCE
from lab.release.stage.errors import RecipeMismatch
from lab.release.stage.keys import digest_of
from lab.release.stage.store import Store

# The product version whose installer and objects the lab's cluster resembles.
BASE_VERSION = "4.18.0"

# Where the files of cluster/manifests go: files right in it to /release-manifests, these folders to theirs.
MANIFESTS = Path(__file__).with_name("cluster") / "manifests"
FOLDERS = {"cvo": "manifests", "bootstrap": "bootstrap"}
EXTENSIONS = (".yaml", ".yml", ".json")

# Stands for the release's version in manifests (cluster.md §1.3); followed by a component's name, for its version.
SNAPSHOT = "0.0.1-snapshot"

_METADATA = {component.tag: component for component in COMPONENTS}


def release_version(inputs: Mapping[str, object], base: str = BASE_VERSION) -> str:
    """``4.18.0-node0.<8 hex digits>`` of what the release is made from.

    A semver identifier of digits alone must not begin with 0, so the hash is taken again until a letter is in it.
    """
    text = digest_of(inputs)
    while text[:8].isdigit():
        text = hashlib.sha256(text.encode()).hexdigest()
    return f"{base}-node0.{text[:8]}"


def manifest_files(root: Path = MANIFESTS) -> dict[str, Path]:
    """Manifests by their path in the release image; a name without run level gets ``0000_50_``, as oc gives it."""
    files: dict[str, Path] = {}
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root)
        if not path.is_file() or path.suffix not in EXTENSIONS:
            continue
        if len(relative.parts) == 1:
            name = path.name if re.match(r"^0000_\d\d_", path.name) else f"0000_50_{path.name}"
            files[f"release-manifests/{name}"] = path
        elif relative.parts[0] in FOLDERS:
            files["/".join([FOLDERS[relative.parts[0]], *relative.parts[1:]])] = path
        else:
            raise RecipeMismatch(f"manifest folder {relative.parts[0]!r} has no place in the release image")
    return files


def image_references(version: str, digests: Mapping[str, str], machine_os: str = "") -> dict[str, Any]:
    """Return the ImageStream that names every component image by digest (cluster.md §1.2)."""
    tags = []
    for tag, digest in sorted(digests.items()):
        component = _METADATA.get(tag)
        versions = dict(component.versions) if component else {}
        names = dict(component.display_names) if component else {}
        if tag == OS_TAG and machine_os:
            versions, names = {"machine-os": machine_os}, {"machine-os": "node0 machine OS"}
        annotations = {"io.openshift.build.source-location": ""}
        if versions:
            annotations["io.openshift.build.versions"] = ",".join(f"{k}={v}" for k, v in sorted(versions.items()))
        if names:
            annotations["io.openshift.build.version-display-names"] = ",".join(
                f"{k}={v}" for k, v in sorted(names.items())
            )
        tags.append(
            {
                "name": tag,
                "annotations": annotations,
                "from": {"kind": "DockerImage", "name": f"{SOURCE}@{digest}"},
                "generation": 2,
                "importPolicy": {},
                "referencePolicy": {"type": "Source"},
            }
        )
    return {
        "kind": "ImageStream",
        "apiVersion": "image.openshift.io/v1",
        "metadata": {"name": version, "creationTimestamp": CREATED, "annotations": {}},
        "spec": {"lookupPolicy": {"local": False}, "tags": tags},
        "status": {"dockerImageRepository": ""},
    }


def release_metadata(version: str) -> dict[str, Any]:
    """release-metadata: what version this is and that it follows none."""
    return {
        "kind": "cincinnati-metadata-v0",
        "version": version,
        "previous": [],
        "metadata": {"release.openshift.io/architecture": "amd64"},
    }


def operator_image(store: Store, layers: Sequence[Layer]) -> Image:
    """Return the version operator's image, with the /manifests and /bootstrap that it is checked for."""
    files = {name: path for name, path in manifest_files().items() if not name.startswith("release-manifests/")}

    def fill(writer: LayerWriter) -> None:
        for folder in FOLDERS.values():
            writer.add_directory(folder)
        for name, path in files.items():
            writer.add_file(name, path, 0o644)

    own = layer_stage(store, "files-operator-manifests", Compression.GZIP, fill)
    return Image(VERSION_OPERATOR.tag, (*layers, own), VERSION_OPERATOR.entrypoint)


def release_manifests(root: Path = MANIFESTS) -> dict[str, str]:
    """Return the texts of the files of /release-manifests, by their names."""
    folder = "release-manifests/"
    found = manifest_files(root).items()
    return {name.removeprefix(folder): path.read_text() for name, path in found if name.startswith(folder)}


@dataclass(frozen=True)
class Contents:
    """The parts of a release besides images: texts of manifests by name, and its version."""

    manifests: Mapping[str, str]
    base_version: str = BASE_VERSION
    machine_os: str = ""


def release_image(
    store: Store, operator: Image, operator_digest: str, digests: Mapping[str, str], *, contents: Contents
) -> tuple[str, Image]:
    """Return the release's version and image: the operator's plus /release-manifests as its very last layer.

    oc reads image-references from the last layer alone, so nothing may ever be put above it.
    """
    machine_os = contents.machine_os
    version = release_version(
        {
            "operator": operator_digest,
            "manifests": contents.manifests,
            "references": image_references(SNAPSHOT, digests, machine_os),
            "metadata": release_metadata(SNAPSHOT),
        },
        contents.base_version,
    )

    def fill(writer: LayerWriter) -> None:
        writer.add_directory("release-manifests", 0o777)
        references = json.dumps(image_references(version, digests, machine_os), indent=2)
        writer.add_bytes("release-manifests/image-references", references + "\n", 0o444)
        metadata = json.dumps(release_metadata(version), indent=2)
        writer.add_bytes("release-manifests/release-metadata", metadata + "\n", 0o444)
        for name, text in sorted(contents.manifests.items()):
            filled = text.replace(f"{SNAPSHOT}-machine-os", machine_os).replace(SNAPSHOT, version)
            writer.add_bytes(f"release-manifests/{name}", filled, 0o444)

    layer = layer_stage(store, "files-release", Compression.GZIP, fill)
    labels = {"io.openshift.release": version, "io.openshift.release.base-image-digest": operator_digest}
    image = Image(
        "release",
        (*operator.layers, layer),
        operator.entrypoint,
        labels=labels,
        comment=f"Release image for {version}",
    )
    return version, image

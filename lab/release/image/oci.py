"""OCI images in one shared image layout (image-spec v1.0): a layer that many images share lies in it once."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.release.image.layer import CREATED, Layer

MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
REF_ANNOTATION = "org.opencontainers.image.ref.name"


@dataclass(frozen=True)
class Image:
    """An image by name and content: its layers from the bottom up, and what a container of it runs."""

    tag: str
    layers: tuple[Layer, ...]
    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    env: tuple[str, ...] = ("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",)
    comment: str = ""


@dataclass(frozen=True)
class Written:
    """An image as it lies in the layout: the digest of its manifest, and the bytes that a full pull moves."""

    tag: str
    digest: str
    size: int


def _json(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def image_config(image: Image) -> dict[str, Any]:
    """Return the image's config: linux/amd64, one history entry a layer, and labels (cluster.md §1.4)."""
    config: dict[str, Any] = {"Env": list(image.env), "WorkingDir": "/"}
    if image.entrypoint:
        config["Entrypoint"] = list(image.entrypoint)
    if image.cmd:
        config["Cmd"] = list(image.cmd)
    if image.labels:
        config["Labels"] = dict(image.labels)
    history: list[dict[str, Any]] = [{"created": CREATED, "created_by": "node0 lab release"} for _ in image.layers]
    if image.comment:
        history[-1]["comment"] = image.comment
    return {
        "created": CREATED,
        "architecture": "amd64",
        "os": "linux",
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in image.layers]},
        "history": history,
    }


@dataclass(frozen=True)
class Layout:
    """An OCI image layout directory."""

    root: Path

    def write(self, images: Sequence[Image]) -> list[Written]:
        """Write the images and make the index name exactly them; blobs are linked, not copied, where that works."""
        (self.root / "blobs" / "sha256").mkdir(parents=True, exist_ok=True)
        (self.root / "oci-layout").write_bytes(_json({"imageLayoutVersion": "1.0.0"}))
        written, entries = [], []
        for image in images:
            for layer in image.layers:
                self._link(layer)
            config = self._blob(_json(image_config(image)), CONFIG_TYPE)
            manifest = {
                "schemaVersion": 2,
                "mediaType": MANIFEST_TYPE,
                "config": config,
                "layers": [
                    {"mediaType": layer.media_type, "digest": layer.digest, "size": layer.size}
                    for layer in image.layers
                ],
            }
            entry = self._blob(_json(manifest), MANIFEST_TYPE)
            entries.append({**entry, "annotations": {REF_ANNOTATION: image.tag}})
            written.append(Written(image.tag, entry["digest"], sum(layer.size for layer in image.layers)))
        index = self.root / "index.json.new"
        index.write_bytes(_json({"schemaVersion": 2, "manifests": entries}))
        index.replace(self.root / "index.json")
        return written

    def _path(self, digest: str) -> Path:
        return self.root / "blobs" / "sha256" / digest.removeprefix("sha256:")

    def _blob(self, data: bytes, media_type: str) -> dict[str, Any]:
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        path = self._path(digest)
        if not path.exists():
            partial = path.with_suffix(f".{os.getpid()}")
            partial.write_bytes(data)
            partial.replace(path)
        return {"mediaType": media_type, "digest": digest, "size": len(data)}

    def _link(self, layer: Layer) -> None:
        path = self._path(layer.digest)
        if path.exists():
            return
        try:
            path.hardlink_to(layer.blob)
        except OSError:
            partial = path.with_suffix(f".{os.getpid()}")
            shutil.copyfile(layer.blob, partial)
            partial.replace(path)

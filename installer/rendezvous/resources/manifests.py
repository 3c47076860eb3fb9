"""Manifests that users give to a cluster beside those of the release (installer.md §5.3)."""

from __future__ import annotations

import base64
import re
from pathlib import PurePath

from installer.assisted.errors import BadRequest, Conflict, NotFound, Unprocessable
from installer.common.formats import jsontext
from installer.rendezvous.prepare import patches
from installer.rendezvous.reconcile.engine import Engine
from installer.rendezvous.resources import clusters
from installer.rendezvous.resources.requests.clusters import ManifestParams
from installer.rendezvous.store.model import Manifest

# No control characters: a file's name cannot hold NUL, and the others only hide what it is called.
NAME = re.compile(r"^[^/\x00-\x1f\x7f-\x9f]*\.(json|ya?ml(\.patch_?[a-zA-Z0-9_]*)?)$")
FOLDERS = ("manifests", "openshift")
# Bytes of a manifest, and of its name: files have 255, of which its documents' files and unfinished ones take some.
LARGEST, LONGEST_NAME = 1 << 20, 200


def check(body: ManifestParams, replacing: bool) -> None:
    """Parse the content of a body for ``put``: a large one takes seconds. Raises BadRequest."""
    encoded = body.updated_content if replacing else body.content
    try:
        content = _decoded(encoded or "")
    except ValueError:
        return
    check_content(body.updated_file_name or body.file_name or "", content)


def _decoded(text: str) -> bytes:
    """Base64, over several lines too. Raises ValueError."""
    return base64.b64decode(text.replace("\r", "").replace("\n", ""), validate=True)


def put(
    engine: Engine, cluster_id: str, body: ManifestParams, replacing: bool = False, *, checked: bool = False
) -> Manifest:
    """Create (or with ``replacing`` change) a manifest. Raises BadRequest, Unprocessable, NotFound or Conflict.

    ``checked``: by ``check``.
    """
    folder = "manifests" if body.folder is None else body.folder
    name = body.file_name or ""
    _check_name(folder, name)
    new_folder = body.updated_folder or folder
    new_name = body.updated_file_name or name
    _check_name(new_folder, new_name)
    encoded = body.updated_content if replacing else body.content
    with engine.store.change():
        cluster = engine.store.cluster(cluster_id)
        clusters.check_editable(cluster)
        stored = engine.store.manifests(cluster_id)
        existing = next((m for m in stored if (m.folder, m.file_name) == (folder, name)), None)
        # The bootstrap host puts both folders into one.
        if any(m.file_name == new_name and m.folder != new_folder for m in stored if m is not existing):
            raise BadRequest(
                f"manifest file {new_name} in folder {new_folder} cannot be uploaded as it is not distinct between "
                "{manifest, openshift} folders"
            )
        if replacing and existing is None:
            raise NotFound(f"manifest {folder}/{name} does not exist")
        try:
            content = _decoded(encoded) if encoded else existing.content if existing else b""
        except ValueError:
            raise BadRequest(f"content of {name} is not base64") from None
        if not content.strip():
            raise BadRequest(f"manifest {name} is empty")
        if not (checked and encoded):
            check_content(new_name, content)
        if replacing and (new_folder, new_name) != (folder, name):
            if any((m.folder, m.file_name) == (new_folder, new_name) for m in stored):
                raise Conflict(f"manifest {new_folder}/{new_name} exists already")
            engine.store.delete_manifest(cluster_id, folder, name)
        manifest = Manifest(folder=new_folder, file_name=new_name, content=content)
        engine.store.put_manifest(cluster_id, manifest)
        engine.reconcile(cluster_id)
    return manifest


def check_new(name: str, content: bytes, folder: str = "openshift") -> None:
    """Raise BadRequest or Unprocessable unless this can be a manifest."""
    _check_name(folder, name)
    check_content(name, content)


def check_content(name: str, content: bytes) -> None:
    """Hold a manifest's content against the form that its name says: YAML, JSON, or a patch of YAML; at most 1 MiB.

    Raises BadRequest.
    """
    from installer.common.formats.yamltext import load_all

    if len(content) > LARGEST:
        raise BadRequest(f"manifest {name} exceeds the maximum file size of 1MiB")
    if name.endswith(".json"):
        try:
            jsontext.parsed(content.decode())
        except ValueError as error:
            raise BadRequest(f"manifest {name} is not valid JSON: {error}") from None
        return
    is_patch = PurePath(name).suffix.startswith(".patch")
    try:
        (patches.operations if is_patch else load_all)(content)
    except ValueError as error:
        form = "a valid patch" if is_patch else "valid YAML or JSON"
        raise BadRequest(f"manifest {name} is not {form}: {error}") from None


def _check_name(folder: str, name: str) -> None:
    """Raise BadRequest or Unprocessable."""
    if folder not in FOLDERS:
        raise BadRequest(f"folder {folder[:80]!r} is not one of {', '.join(FOLDERS)}")
    if not NAME.fullmatch(name):
        raise BadRequest(f"file_name {name[:80]!r} must match {NAME.pattern}")
    if name.startswith("."):
        raise Unprocessable(f"Cluster manifest {name} has an invalid filename.")
    if " " in name:
        raise Unprocessable(f"Cluster manifest {name} should not include a space in its name.")
    if len(name.encode()) > LONGEST_NAME:
        raise BadRequest(f"file_name {name[:80]!r}... must have at most {LONGEST_NAME} bytes")


def delete(engine: Engine, cluster_id: str, folder: str, name: str) -> None:
    """Remove a user's manifest. Raises NotFound."""
    with engine.store.change():
        engine.store.delete_manifest(cluster_id, folder, name)

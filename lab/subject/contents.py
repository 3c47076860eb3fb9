"""The contents of an image: its layers, and files of them by their paths."""

from __future__ import annotations

import fnmatch
import json
import lzma
import shutil
import subprocess
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Annotated, Any, cast

import msgspec

from lab.errors import LabError
from lab.subject.stores import Store

Digest = Annotated[str, msgspec.Meta(pattern=r"^sha256:[0-9a-f]{64}\Z")]


class IncompleteImage(LabError, ValueError):
    """A part of an image is not in its store; names it."""


class _Part(msgspec.Struct):
    digest: Digest
    platform: dict[str, Any] | None = None


class _Manifest(msgspec.Struct):
    """The fields of a manifest that are read (OCI image specification; Docker's image manifest, version 2, schema
    2)."""

    config: _Part
    layers: list[_Part]


class _Index(msgspec.Struct):
    """The fields of an index that are read, or a manifest list."""

    manifests: Annotated[list[_Part], msgspec.Meta(min_length=1)]


class _Labelled(msgspec.Struct):
    Labels: dict[str, str] | None = None


class _Config(msgspec.Struct):
    """The fields of an image's config that are read."""

    architecture: str = ""
    config: _Labelled | None = None


_ZSTD = b"\x28\xb5\x2f\xfd"
_PLATFORM = {"os": "linux", "architecture": "amd64"}


def _document(store: Store, digest: str) -> dict[str, Any]:
    path = store.blob(digest)
    if path is None:
        raise IncompleteImage(f"{digest} is missing")
    try:
        document = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise IncompleteImage(f"{digest} is not JSON") from error
    if not isinstance(document, dict):
        raise IncompleteImage(f"{digest} is no manifest")
    return cast(dict[str, Any], document)


def _manifest_or_index(store: Store, digest: str) -> dict[str, Any]:
    """Return a manifest or index, checked: whoever made the directory may have written anything."""
    document = _document(store, digest)
    kind = _Index if "manifests" in document and "layers" not in document else _Manifest
    return _checked(document, digest, kind)


def _checked(document: dict[str, Any], digest: str, kind: type[msgspec.Struct]) -> dict[str, Any]:
    try:
        msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        raise IncompleteImage(f"{digest} is no {kind.__name__.strip('_').lower()}: {error}") from error
    return document


def parts(store: Store, digest: str) -> Iterator[str]:
    """Yield the digests of everything that belongs to an image: manifests, the config, layers. Raises
    IncompleteImage."""
    waiting, seen = [digest], set()
    while waiting:
        name = waiting.pop()
        # Whoever made the directory may have an index lead back to itself.
        if name in seen:
            continue
        seen.add(name)
        yield name
        document = _manifest_or_index(store, name)
        if "layers" in document:
            yield document["config"]["digest"]
            yield from (layer["digest"] for layer in document["layers"])
        else:
            waiting += [entry["digest"] for entry in document["manifests"]]


def manifest(store: Store, digest: str) -> dict[str, Any]:
    """Return the image's manifest: of a list, the one for linux/amd64, else its first. Raises IncompleteImage."""
    seen = set()
    while "layers" not in (document := _manifest_or_index(store, digest)):
        if digest in seen:
            raise IncompleteImage(f"{digest} is an index of itself")
        seen.add(digest)
        entries = document["manifests"]
        fits = [e for e in entries if _PLATFORM.items() <= (e.get("platform") or {}).items()]
        digest = (fits or entries)[0]["digest"]
    return document


def config(store: Store, digest: str) -> dict[str, Any]:
    """Return the image's config (OCI image specification, image configuration). Raises IncompleteImage."""
    name = manifest(store, digest)["config"]["digest"]
    return _checked(_document(store, name), name, _Config)


def layers(store: Store, digest: str) -> list[Path]:
    """Return the image's layers, the lowest first. Raises IncompleteImage."""
    paths = [(layer["digest"], store.blob(layer["digest"])) for layer in manifest(store, digest)["layers"]]
    lacking = [name for name, path in paths if path is None]
    if lacking:
        raise IncompleteImage(f"{', '.join(lacking)} is missing")
    return [path for _, path in paths if path is not None]


@contextmanager
def opened(blob: Path) -> Iterator[IO[bytes]]:
    """Provide a layer's bytes for tarfile: zstd is unpacked by the program, the rest tarfile knows."""
    # Unbuffered, so that the program reads from where we are.
    with blob.open("rb", buffering=0) as file:
        zstd = file.read(4) == _ZSTD
        file.seek(0)
        if not zstd:
            yield file
            return
        argv = ["zstd", "-dcq"]
        with subprocess.Popen(argv, stdin=file, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            assert process.stdout is not None
            yield process.stdout


def extract(blobs: Sequence[Path], pattern: str, target: Path) -> list[Path]:
    """Copy the files that match (a path from the root, `*` within a name) into a folder; those that were copied.

    An upper layer's file stands for a lower one's, a link for what it leads to within the same folder. Whiteouts take
    lower files away (OCI image specification, layers). Raises IncompleteImage for a layer that is damaged.
    """
    try:
        return _extracted(blobs, pattern, target)
    except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError) as error:
        why = str(error).partition(":\n")[0]  # and not what each kind of compression says of it
        raise IncompleteImage(f"a layer of it cannot be unpacked: {why}") from error


def _extracted(blobs: Sequence[Path], pattern: str, target: Path) -> list[Path]:
    wanted = pattern.strip("/")
    folder, _, name = wanted.rpartition("/")
    copied: dict[str, Path] = {}
    links: dict[str, str] = {}
    for blob in blobs:
        below = set(copied) | set(links)
        with opened(blob) as stream, tarfile.open(fileobj=stream, mode="r|*") as archive:
            for member in archive:
                path = member.name.lstrip("./")
                base = path.rpartition("/")[2]
                if path.rpartition("/")[0] != folder:
                    continue
                if base.startswith(".wh."):
                    for removed in [hidden for hidden in below if base in (f".wh.{hidden}", ".wh..wh..opq")]:
                        below.discard(removed)
                        links.pop(removed, None)
                        if removed in copied:
                            copied.pop(removed).unlink()
                    continue
                below.discard(base)
                if not fnmatch.fnmatchcase(base, name):
                    continue
                if member.issym() or member.islnk():
                    links[base] = member.linkname.rpartition("/")[2]
                elif (content := archive.extractfile(member)) is not None:
                    links.pop(base, None)
                    copied[base] = target / base
                    with copied[base].open("wb") as out:
                        shutil.copyfileobj(content, out)
    for base, end in links.items():
        if end in copied:
            copied[base] = Path(shutil.copyfile(copied[end], target / base))
    return sorted(copied.values())

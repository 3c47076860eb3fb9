"""Copies a release, by digest and once, into a storage of this machine's that labs serve as their registry.

CACHE/subjects/registry                     docker-registry's storage, shared by all releases
CACHE/subjects/releases/<64 hex>.json       what each is, written when it is whole
CACHE/subjects/installers/<64 hex>/         openshift-install of an image
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
from filelock import FileLock

from installer.common.redact import without_login
from lab.errors import SubjectError
from lab.release.registry import loopback_registry
from lab.release.stage import progress
from lab.subject.contents import IncompleteImage, config, extract, layers
from lab.subject.installer import from_image
from lab.subject.model import Mirror, Subject
from lab.subject.payload import Payload, check, is_release, read_payload
from lab.subject.sources import Directory, Source, Upstream, opened_directory
from lab.subject.stores import RegistryStorage, is_digest

#: Copies at a time: each is mostly hashing and waiting.
AT_ONCE = 4
_LABEL = "io.openshift.release"
_LIMITS = "data/default_hw_requirements.json"
# distribution/reference: host with port, path, then a tag, a digest or both.
_NAME = re.compile(
    r"(?P<repository>[A-Za-z0-9.-]+(?::\d+)?/[a-z0-9]+(?:[._/-]+[a-z0-9]+)*)(?::(?P<tag>[\w][\w.-]{0,127}))?"
    r"(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)


@dataclass(frozen=True)
class Name:
    """An image's name: `repository` with host and path, and a tag, a digest or both."""

    repository: str
    tag: str = ""
    digest: str = ""

    def __str__(self) -> str:
        return f"{self.repository}@{self.digest}" if self.digest else f"{self.repository}:{self.tag or 'latest'}"


def parse_name(text: str, source: str) -> Name:
    """Return an image's name as the user writes it, also with `docker://`. Raises SubjectError, which begins with
    `source`."""
    match = _NAME.fullmatch(text.removeprefix("docker://"))
    if match is None:
        shown = without_login(text)
        raise SubjectError(source, f"{shown!r} is no image: want HOST/PATH@sha256:DIGEST or HOST/PATH:TAG")
    return Name(**{key: value or "" for key, value in match.groupdict().items()})


class _Record(msgspec.Struct, frozen=True, kw_only=True):
    """The record of a release that has been copied."""

    version: str
    pullspec: str
    components: dict[str, str]
    mirrors: tuple[tuple[str, str], ...]
    installer: str | None
    hardware: str


def repository_of(source: str) -> str:
    """Return the path on the lab's registry of a repository that is called `source` elsewhere: its host is a part of
    it."""
    return source.lower().replace(":", "-")


class Cache:
    """The releases that were copied to this machine, below a folder of the cache."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.storage = root / "registry"
        self.storage.mkdir(parents=True, exist_ok=True)
        self._images = RegistryStorage(self.storage)

    def _record(self, digest: str) -> Path:
        return self.root / "releases" / f"{digest.partition(':')[2]}.json"

    def load(self, digest: str) -> Subject | None:
        """Return a release that was copied before; None when it was not, or is not whole any more."""
        path = self._record(digest)
        try:
            record = msgspec.json.decode(path.read_bytes(), type=_Record)
        except (OSError, msgspec.DecodeError):
            return None
        names = [record.pullspec, *record.components.values()]
        if not all(self._has(name) for name in names) or (record.installer and not Path(record.installer).is_file()):
            return None
        path.touch()
        return Subject(
            version=record.version,
            pullspec=record.pullspec,
            registry_storage=self.storage,
            mirrors=tuple(Mirror(*pair) for pair in record.mirrors),
            components=record.components,
            installer=Path(record.installer) if record.installer else None,
            hardware=record.hardware,
        )

    @property
    def digests(self) -> list[str]:
        """The digests of all releases that were copied."""
        return [f"sha256:{path.stem}" for path in (self.root / "releases").glob("*.json")]

    def _has(self, name: str) -> bool:
        """Return whether the registry would serve it: docker-registry writes an image's link when all its parts are
        there."""
        source, _, digest = name.partition("@")
        top = self.storage / "docker/registry/v2/repositories" / repository_of(source)
        link = top / "_manifests/revisions/sha256" / digest.partition(":")[2] / "link"
        return link.is_file() and self._images.blob(digest) is not None

    @contextmanager
    def _registry(self) -> Iterator[str]:
        """Provide a registry that writes to the storage, for the time of the block; yields its host:port."""
        with (
            tempfile.TemporaryDirectory(prefix="registry-", dir=self.root) as work,
            loopback_registry(self.storage, Path(work)) as address,
        ):
            yield address

    def copy(self, tag: str, name: str, source: Source) -> None:
        """Copy an image (its name by digest), which has this tag, unless it is here. Raises SubjectError."""
        if not self._has(name):
            with self._registry() as address:
                self._copy({tag: name}, source, address)

    def _copy(self, names: Mapping[str, str], source: Source, address: str) -> None:
        """Copy images (names by digest, by their tags) that are not here yet to our registry, and tell how far it is.

        An image with several tags is copied once, under the last of them. Raises SubjectError.
        """
        missing = {name: tag for tag, name in names.items() if not self._has(name)}

        def copy_part(name: str) -> str:
            tag = missing[name]
            repository, _, digest = name.partition("@")
            # The tag keeps it from docker-registry's garbage collection.
            label = f"{tag}-{digest.partition(':')[2][:12]}"
            source.copy(name, f"docker://{address}/{repository_of(repository)}:{label}")
            return tag

        with ThreadPoolExecutor(AT_ONCE) as pool:
            try:
                for count, tag in enumerate(pool.map(copy_part, missing), 1):
                    progress.say(f"release: image {count} of {len(missing)} copied: {tag}")
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise

    def mirror(self, name: str, source: Source, label: str) -> Subject:
        """Copy the release image `name` (by digest) and all images that it names. Raises SubjectError from `label`."""
        digest = name.rpartition("@")[2]
        with FileLock(self.root / "lock"):
            if (subject := self.load(digest)) is not None:
                return subject
            with self._registry() as address:
                self._copy({"release": name}, source, address)
                payload = read_payload(self._images, digest, label)
                check(payload, label)
                # A release that cannot run here is reported before gigabytes are copied.
                installer = payload.components["installer"]
                self._copy({"installer": installer}, source, address)
                self.installer(installer.rpartition("@")[2], f"{label}: image installer")
                self._copy(payload.components, source, address)
            self._save(name, payload, label)
        subject = self.load(digest)
        assert subject is not None, "it has just been written"
        return subject

    def _save(self, name: str, payload: Payload, label: str) -> None:
        sources = dict.fromkeys(image.partition("@")[0] for image in (name, *payload.components.values()))
        digest = payload.components["installer"].rpartition("@")[2]
        extracted = self.installer(digest, f"{label}: image installer")
        record = _Record(
            version=payload.version,
            pullspec=name,
            components=dict(payload.components),
            mirrors=tuple((source, repository_of(source)) for source in sources),
            installer=str(extracted) if extracted else None,
            hardware=self._limits(payload, f"{label}: image agent-installer-api-server"),
        )
        path = self._record(name.rpartition("@")[2])
        path.parent.mkdir(exist_ok=True)
        temporary = path.with_suffix(".new")
        temporary.write_bytes(msgspec.json.format(msgspec.json.encode(record)))
        temporary.replace(path)

    def installer(self, digest: str, label: str) -> Path | None:
        """Return the openshift-install of an image that has been copied; None where it does not run by itself."""
        return from_image(self._images, digest, self.root / "installers" / digest.partition(":")[2], label)

    def _limits(self, payload: Payload, label: str) -> str:
        """Return the service's own default_hw_requirements.json, empty where its image has none. Raises
        SubjectError."""
        with tempfile.TemporaryDirectory(prefix="limits-") as folder:
            service = payload.components["agent-installer-api-server"].rpartition("@")[2]
            try:
                extracted = extract(layers(self._images, service), _LIMITS, Path(folder))
                return extracted[0].read_text() if extracted else ""
            except ValueError as error:  # an IncompleteImage, or no UTF-8
                raise SubjectError(label, f"the image is not whole: {error}") from error


def from_registry(cache: Cache, text: str, upstream: Upstream) -> Subject:
    """Return the release of that name, copied unless it is here. Raises SubjectError."""
    source = f"--release {without_login(text)}"
    name = parse_name(text, source)
    digest = name.digest or upstream.digest(str(name))
    return cache.load(digest) or cache.mirror(f"{name.repository}@{digest}", upstream, source)


def from_directory(cache: Cache, directory: Path, text: str | None) -> Subject:
    """Return the release in a directory, copied unless it is here; with several, the one of that name. Raises
    SubjectError."""
    with opened_directory(directory, cache.root) as images:
        name, digest = _chosen(images, text)
        if (subject := cache.load(digest)) is not None:
            return subject
        if not name:
            try:
                name = read_payload(images.store, digest, images.source).repository
            except IncompleteImage as error:
                raise SubjectError(images.source, str(error)) from error
        return cache.mirror(f"{name}@{digest}", images, images.source)


def _chosen(images: Directory, text: str | None) -> tuple[str, str]:
    """Repository, empty if it is not said, and digest of the release to take. Raises SubjectError."""
    wanted = parse_name(text, f"--release {without_login(text)}") if text else None
    if wanted is not None and wanted.digest:
        return wanted.repository, wanted.digest
    try:
        releases = _releases(images)
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise SubjectError(images.source, f"cannot be read: {error}") from error
    if wanted is not None:
        releases = {digest: version for digest, version in releases.items() if wanted.tag and wanted.tag in version}
    if len(releases) == 1:
        [digest] = releases
        return (wanted.repository if wanted else ""), digest
    if not releases:
        raise SubjectError(images.source, f"has no release image{f' with tag {wanted.tag}' if wanted else ''}")
    listed = ", ".join(f"{' '.join(names)} {digest}" for digest, names in releases.items())
    raise SubjectError(images.source, f"has {len(releases)} releases ({listed}): choose by --release HOST/PATH@DIGEST")


def _releases(images: Directory) -> dict[str, list[str]]:
    """Return the release images of a directory: their tags and versions by their digests."""
    by_digest: dict[str, list[str]] = {}
    for name, digest in images.store.images():
        if not is_digest(digest):
            raise ValueError(f"{name or 'an image'}: {digest!r} is no digest")
        by_digest.setdefault(digest, []).append(name.rpartition(":")[2])
    labelled: dict[str, list[str]] = {}
    for digest, names in by_digest.items():
        try:
            labels = (config(images.store, digest).get("config") or {}).get("Labels") or {}
        except IncompleteImage:
            continue
        if version := labels.get(_LABEL):
            labelled[digest] = [*filter(None, names), str(version)]
    if labelled:
        return labelled
    return {digest: names for digest, names in by_digest.items() if is_release(images.store, digest)}

"""The whole lab release: every image built, one release image over them, all in a registry's storage directory."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.release import images, payload, signing
from lab.release.components import COMPONENTS, VERSION_OPERATOR
from lab.release.image.oci import Layout, Written
from lab.release.registry import REPOSITORY, SOURCE, has_manifest, loopback_registry, push
from lab.release.stage import progress
from lab.release.stage.errors import ReleaseError
from lab.release.stage.store import Store, default_cache
from lab.release.variants import changed, chosen, edited, named

STORAGE = "registry"
RECORDS = "releases"
LATEST = "latest.json"


@dataclass(frozen=True)
class Release:
    """A finished lab release.

    ``pullspec`` is the release image by digest, under a name that only a mirror can resolve; ``components`` maps tags
    to pullspecs of the same kind. ``registry_storage`` is the storage directory that a (read-only)
    docker-registry serves them from, as ``repository``. ``machine_os_iso`` is the live ISO, None without one.
    """

    version: str
    pullspec: str
    components: Mapping[str, str]
    registry_storage: Path
    record: Path
    repository: str = REPOSITORY
    source: str = SOURCE
    machine_os_iso: Path | None = None

    @property
    def digest(self) -> str:
        """``sha256:...`` of the release image."""
        return self.pullspec.rpartition("@")[2]

    @classmethod
    def load(cls, record: Path, cache: Path) -> Release:
        """Read a record that ``build_release`` wrote; raises ReleaseError when there is none."""
        try:
            data = json.loads(record.read_text())
        except OSError as error:
            raise ReleaseError(
                f"no lab release has been built here yet ({error}): run python -m lab.release build"
            ) from error
        iso = data["machine_os_iso"]
        return cls(
            version=data["version"],
            pullspec=data["pullspec"],
            components=data["components"],
            registry_storage=Store(cache).root / STORAGE,
            record=record,
            machine_os_iso=Path(iso) if iso else None,
        )


def latest_release(cache: Path | None = None) -> Release:
    """Return the release that was built last; raises ReleaseError when none was."""
    cache = cache or default_cache()
    return Release.load(Store(cache).root / RECORDS / LATEST, cache)


def built_release(digest: str, cache: Path | None = None) -> Release | None:
    """Return the release with that digest if it was built on this machine and has not been pruned."""
    cache = cache or default_cache()
    storage = Store(cache).root / STORAGE
    for record in sorted((Store(cache).root / RECORDS).glob("*.json")):
        release = Release.load(record, cache)
        if release.digest == digest and has_manifest(storage, digest, release.version):
            return release
    return None


def built_digests(cache: Path | None = None) -> list[str]:
    """Return the digests of all releases that were built on this machine and have not been pruned."""
    cache = cache or default_cache()
    records = (Store(cache).root / RECORDS).glob("*.json")
    return [Release.load(record, cache).digest for record in records]


def build_release(
    cache: Path | None = None, *, machine_os: bool = True, variant: str | None = None, agent: Path | None = None
) -> Release:
    """Build what has changed since the last time, push it, and return the release.

    With nothing changed it takes about a second; after an edit of a Python file the thin layers and the release image
    are rebuilt, in seconds. ``machine_os=False`` leaves out machine-os-images, for work on the cluster alone.
    ``variant`` is one of lab.release.variants: such a release is never taken for the latest one; ``agent`` is what
    the variant real-agent is made of. Raises ReleaseError and its children.
    """
    store = Store(cache or default_cache())
    deviation = chosen(variant, agent)
    missing = images.missing_modules()
    if missing:
        progress.say(f"WARNING: images start modules that are not in this checkout: {', '.join(missing)}")
    shared = images.shared_layers(store, deviation.packages)
    parts = [images.component_image(store, changed(component, deviation), shared) for component in COMPONENTS]
    parts += [images.pod_image(store), images.installer_image(store, shared)]
    iso, system_version = None, ""
    if machine_os:
        system = images.machine_os(store, shared.kubernetes)
        iso = system.iso
        system_version = f"{system.version}.{deviation.version}" if deviation.version else system.version
        parts.append(images.machine_os_image(store, system))
        parts.append(images.os_image(store, system, system_version, deviation.os_programs))
    operator = payload.operator_image(store, images.component_image(store, VERSION_OPERATOR, shared).layers)

    with store.hold("release"):
        layout = Layout(store.root / "oci")
        *components, base = layout.write([*parts, operator])
        digests = named({image.tag: image.digest for image in components}, deviation)
        contents = payload.Contents(
            edited({**payload.release_manifests(), signing.MANIFEST: signing.keys_manifest(store)}, deviation),
            deviation.version or payload.BASE_VERSION,
            system_version,
        )
        version, top = payload.release_image(store, operator, base.digest, digests, contents=contents)
        written = layout.write([*parts, operator, top])
        _push(store, layout, written, version)
        return _record(store, version, written, iso, latest=variant is None)


def _push(store: Store, layout: Layout, written: Sequence[Written], version: str) -> None:
    """Push the images that the storage lacks. The release image goes last: it names the others."""
    storage = store.root / STORAGE
    wanted = [(image, _remote_tag(image, version)) for image in written]
    missing = [(image, tag) for image, tag in wanted if not has_manifest(storage, image.digest, tag)]
    if not missing:
        return
    work = store.scratch("registry")
    try:
        with progress.step(f"pushing {len(missing)} images"), loopback_registry(storage, work) as address:
            for image, tag in missing:
                push(layout.root, image.tag, address, remote_tag=tag, log=store.log(f"push-{image.tag}"))
    finally:
        shutil.rmtree(work, ignore_errors=True)
    lost = [image.tag for image, tag in wanted if not has_manifest(storage, image.digest, tag)]
    if lost:
        raise ReleaseError(f"pushed, but not found in the registry's storage afterwards: {', '.join(lost)}")


def _remote_tag(image: Written, version: str) -> str:
    """Return the release by its version; a component by its tag and digest, so that it is pushed once for all
    releases."""
    return version if image.tag == "release" else f"{image.tag}-{image.digest.removeprefix('sha256:')[:12]}"


def _record(store: Store, version: str, written: Sequence[Written], iso: Path | None, *, latest: bool) -> Release:
    specs = {image.tag: f"{SOURCE}@{image.digest}" for image in written}
    pullspec = specs.pop("release")
    del specs[VERSION_OPERATOR.tag]
    folder = store.root / RECORDS
    folder.mkdir(parents=True, exist_ok=True)
    record = {
        "version": version,
        "pullspec": pullspec,
        "components": specs,
        "tags": sorted(_remote_tag(image, version) for image in written),
        "sizes": {image.tag: image.size for image in written},
        "machine_os_iso": str(iso) if iso else None,
    }
    text = json.dumps(record, indent=1, sort_keys=True) + "\n"
    for name in (f"{version}.json", *([LATEST] if latest else [])):
        temporary = folder / f"{name}.new"
        temporary.write_text(text)
        temporary.replace(folder / name)
    return Release.load(folder / f"{version}.json", store.cache)

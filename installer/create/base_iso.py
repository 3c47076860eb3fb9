"""The base live ISO out of the release payload, cached by the digest of the image that holds it (cluster.md §1.5)."""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path

from filelock import FileLock

from installer.create import cache
from installer.errors import ReleaseError
from installer.progress import Progress
from installer.release import Release

log = logging.getLogger(__name__)

TAG = "machine-os-images"
CHUNK = 1 << 22


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file, Progress("Verifying base ISO", path.stat().st_size) as bar:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
            bar.add(len(chunk))
    return digest.hexdigest()


def base_iso(release: Release, architecture: str = "x86_64") -> Path:
    """The live ISO of the payload for an architecture (uname's name), from the cache when it is there.

    Raises ReleaseError when the payload has none or it does not match the payload's checksum.
    """
    image = release.image_for(TAG)
    try:
        return _cached(release, image, architecture)
    except OSError as error:
        place = cache.folder_of(image)
        raise ReleaseError(image, f"cannot keep the base ISO in {place}: {error.strerror or error}") from error


def _cached(release: Release, image: str, architecture: str) -> Path:
    name = f"coreos-{architecture}.iso"
    folder = cache.folder_of(image)
    iso = folder / name
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / ".lock"):
        if cache.is_whole(iso):
            cache.remember(release.pullspec, architecture, iso)
            log.info("Using cached Base ISO %s", iso)
            return iso
        log.info("Extracting base ISO from release payload")
        partial, checksum = folder / f".{name}.partial", folder / f"{name}.sha256"
        try:
            with Progress("Extracting base ISO") as bar:
                release.extract_all(image, {f"coreos/{name}": partial, f"coreos/{name}.sha256": checksum}, bar.add)
            log.info("Verifying extracted file")
            want, found = checksum.read_text().strip(), _sha256(partial)
            if want != found:
                raise ReleaseError(image, f"/coreos/{name} of {image} has sha256 {found}, the payload says {want}")
            partial.replace(iso)
        finally:
            partial.unlink(missing_ok=True)
        cache.stamp_of(iso).write_text(cache.stamp(iso))
        cache.remember(release.pullspec, architecture, iso)
        log.info("Base ISO obtained from release and cached at [%s]", iso)
    return iso

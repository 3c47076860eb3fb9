"""The base live ISO: out of the release payload, else from where the payload's stream metadata says.

Cached by the digest of the image that holds it (cluster.md §1.5), or by its own.
"""

from __future__ import annotations

import hashlib
import logging
import os
from pathlib import Path

from installer.errors import DownloadError, FileNotInImage, NotPublished, ReleaseError
from installer.progress import Progress
from installer.release import Release, image_cache, stream

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
    """Return the live ISO of the payload for an architecture (uname's name), from the cache when it is there.

    Raises ReleaseError when there is none, or it does not match its checksum.
    """
    image = release.image_for(TAG)
    try:
        return _cached(release, image, architecture)
    except OSError as error:
        place = image_cache.folder_of(image)
        raise ReleaseError(image, f"cannot keep the base ISO in {place}: {error.strerror or error}") from error


def _cached(release: Release, image: str, architecture: str) -> Path:
    name = f"coreos-{architecture}.iso"
    folder = image_cache.folder_of(image)
    iso = folder / name
    if _is_cached(release, architecture, iso):
        return iso
    with image_cache.locked_folder(folder):
        if _is_cached(release, architecture, iso):
            return iso
        log.info("Extracting base ISO from release payload")
        partial, checksum = folder / f".{name}.partial", folder / f"{name}.sha256"
        try:
            with Progress("Extracting base ISO") as bar:
                release.extract_all(image, {f"coreos/{name}": partial, f"coreos/{name}.sha256": checksum}, bar.add)
            log.info("Verifying extracted file")
            promised, digest = checksum.read_text().strip(), _sha256(partial)
            if promised != digest:
                raise ReleaseError(image, f"/coreos/{name} of {image} has sha256 {digest}, the payload says {promised}")
            partial.replace(iso)
        except FileNotInImage as missing:
            # The image has ISOs of other architectures only, or none: it says where they are published.
            log.warning("Failed to extract base ISO from release payload: %s", missing)
            published = _published(release, image, architecture)
            iso.unlink(missing_ok=True)
            iso.symlink_to(os.path.relpath(published, folder))
            log.info("Base ISO downloaded and cached at [%s]", published)
        else:
            log.info("Base ISO obtained from release and cached at [%s]", iso)
        finally:
            partial.unlink(missing_ok=True)
        image_cache.stamp_of(iso).write_text(image_cache.stamp(iso))
        image_cache.remember(release.pullspec, architecture, iso)
    return iso


def _is_cached(release: Release, architecture: str, iso: Path) -> bool:
    """Return whether the cache has the ISO; if so, note it for `likely` and log it. Raises OSError."""
    if not image_cache.is_whole(iso):
        return False
    image_cache.remember(release.pullspec, architecture, iso)
    log.info("Using cached Base ISO %s", iso)
    return True


def _published(release: Release, image: str, architecture: str) -> Path:
    """Return the ISO that the stream metadata names, from the cache or downloaded. Raises ReleaseError, OSError."""
    try:
        artifact = stream.iso(stream.read_stream(release, image), image, architecture)
    except (FileNotInImage, NotPublished) as error:
        text = f"base ISO for {architecture} not found in release image, check release image architecture: {error}"
        raise ReleaseError(image, text) from error
    iso = image_cache.cache_dir() / artifact.sha256[:16] / f"coreos-{architecture}.iso"
    with image_cache.locked_folder(iso.parent):
        if not image_cache.is_whole(iso):
            from installer.release.download import download

            log.info("Downloading base ISO")
            try:
                download(artifact, iso, "Downloading base ISO")
            except DownloadError as error:
                raise ReleaseError(image, f"failed to download base ISO image {artifact.url}: {error}") from error
            image_cache.stamp_of(iso).write_text(image_cache.stamp(iso))
    return iso


def rootfs_url(release: Release, architecture: str = "x86_64") -> str:
    """Return the root file system's URL by the stream metadata. Raises ReleaseError."""
    image = release.image_for(TAG)
    try:
        return stream.rootfs(stream.read_stream(release, image), image, architecture).url
    except OSError as error:
        place = image_cache.folder_of(image)
        raise ReleaseError(image, f"cannot keep stream metadata in {place}: {error.strerror or error}") from error

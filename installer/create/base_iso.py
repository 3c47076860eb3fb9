"""The base live ISO out of the release payload, cached by the digest of the image that holds it (cluster.md §1.5)."""

from __future__ import annotations

import hashlib
import logging
import os
from pathlib import Path

from filelock import FileLock

from installer.errors import ReleaseError
from installer.release import Release

log = logging.getLogger(__name__)

TAG = "machine-os-images"
CHUNK = 1 << 22


def cache_dir() -> Path:
    """$XDG_CACHE_HOME/agent/image_cache, else ~/.cache/agent/image_cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "agent/image_cache"


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _is_whole(iso: Path, stamp: Path) -> bool:
    """Whether the cached ISO is the one that was verified when it was stored: same size and time as then.

    Hashing it again would cost more than everything else that `create image` does.
    """
    try:
        status = iso.stat()
        return stamp.read_text() == f"{status.st_size} {status.st_mtime_ns}"
    except OSError:
        return False


def base_iso(release: Release, architecture: str = "x86_64") -> Path:
    """The live ISO of the payload for an architecture (uname's name), from the cache when it is there.

    Raises ReleaseError when the payload has none or it does not match the payload's checksum.
    """
    image = release.image_for(TAG)
    name = f"coreos-{architecture}.iso"
    folder = cache_dir() / image.rpartition(":")[2][:16]
    iso, stamp = folder / name, folder / f".{name}.verified"
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / ".lock"):
        if _is_whole(iso, stamp):
            log.info("Using cached Base ISO %s", iso)
            return iso
        log.info("Extracting base ISO from release payload")
        partial, checksum = folder / f".{name}.partial", folder / f"{name}.sha256"
        try:
            release.extract_all(image, {f"coreos/{name}": partial, f"coreos/{name}.sha256": checksum})
            log.info("Verifying extracted file")
            want, found = checksum.read_text().strip(), _sha256(partial)
            if want != found:
                raise ReleaseError(image, f"/coreos/{name} of {image} has sha256 {found}, the payload says {want}")
            partial.replace(iso)
        finally:
            partial.unlink(missing_ok=True)
        status = iso.stat()
        stamp.write_text(f"{status.st_size} {status.st_mtime_ns}")
        log.info("Base ISO obtained from release and cached at [%s]", iso)
    return iso

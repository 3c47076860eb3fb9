"""A cache of base ISOs between runs, with a release's last one. Loads quickly: it is needed first.

`<cache>/<digest of the image>/coreos-<arch>.iso` with a stamp beside it; `<cache>/<digest of the release>.<arch>` is a
link to it.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path

from installer.errors import ConfigError
from installer.overrides import OS_OVERRIDE, os_override, release_override

_SHORT = 16
_QUIET_S = 2.0

log = logging.getLogger(__name__)


def cache_dir() -> Path:
    """$XDG_CACHE_HOME/agent/image_cache, else ~/.cache/agent/image_cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "agent/image_cache"


def _name(image: str) -> str:
    """Return what folders of an image are called. A payload may name its components by more than digests."""
    digest = re.search(r"@sha256:([0-9a-f]{64})\Z", image)
    return (digest[1] if digest else hashlib.sha256(image.encode()).hexdigest())[:_SHORT]


def files_folder(image: str) -> Path:
    """Return the folder of what was taken out of an image for use in other ISOs."""
    return cache_dir().with_name("files_cache") / _name(image)


def folder_of(image: str) -> Path:
    """Return the folder of the base ISOs in an image."""
    return cache_dir() / _name(image)


def stamp_of(iso: Path) -> Path:
    """Return the file that says which content of the ISO was verified."""
    return iso.with_name(f".{iso.name}.verified")


def stamp(iso: Path) -> str:
    """Return the stamp of an ISO that has not changed since: its size and time. Raises OSError.

    Hashing it again would cost more than everything else that `create image` does.
    """
    status = iso.stat()
    return f"{status.st_size} {status.st_mtime_ns}"


def is_whole(iso: Path) -> bool:
    """Return whether the cached ISO is the one that was verified when it was stored."""
    try:
        return stamp_of(iso).read_text() == stamp(iso)
    except OSError:
        return False


def remember(release: str, architecture: str, iso: Path) -> None:
    """Note for `likely` which ISO a release by digest has. Raises OSError."""
    link = cache_dir() / f"{release.rpartition(':')[2][:_SHORT]}.{architecture}"
    target = os.path.relpath(iso, link.parent)
    if not re.search(r"@sha256:[0-9a-f]{64}$", release) or (link.is_symlink() and os.readlink(link) == target):
        return
    partial = link.with_name(f".{link.name}.{os.getpid()}")
    partial.unlink(missing_ok=True)
    partial.symlink_to(target)
    partial.replace(link)


@contextlib.contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder of the cache, made where it is missing; logs if waiting takes long. Raises OSError."""
    # Imported here since the import takes longer than a run that finds all images in the cache.
    from filelock import FileLock, Timeout

    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / ".lock")
    try:
        lock.acquire(timeout=_QUIET_S)
    except Timeout:
        log.info("Waiting for another command that fills %s", folder)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def likely() -> Path | None:
    """Return the base ISO that this run will probably use, judged by the environment alone; None when nothing is
    known."""
    if os.environ.get(OS_OVERRIDE, "").strip():
        try:
            return os_override()
        except ConfigError:
            return None
    try:
        release = release_override()
    except ConfigError:
        return None
    if not re.search(r"@sha256:[0-9a-f]{64}$", release):
        return None
    links = list(cache_dir().glob(f"{release.rpartition(':')[2][:_SHORT]}.*"))
    return links[0].resolve() if len(links) == 1 and is_whole(links[0].resolve()) else None

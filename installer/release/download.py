"""Downloading a large file of known content: checked, continued where it broke off, there whole or not at all.

Proxies are those of the environment: http_proxy, https_proxy, no_proxy, in lower or upper case.
"""

from __future__ import annotations

import hashlib
import http.client
import logging
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from installer.errors import DownloadError
from installer.progress import Progress
from installer.release.stream import Artifact

log = logging.getLogger(__name__)

TRIES = 3
PAUSE_S = 2.0
TIMEOUT_S = 30.0  # seconds without a single byte
_CHUNK = 1 << 20
_PARTIAL_CONTENT = 206
_RANGE_NOT_SATISFIABLE = 416


class _Broken(Exception):
    """The transfer failed in a way that another try may not."""


def download(artifact: Artifact, dest: Path, label: str, sleep: Callable[[float], None] = time.sleep) -> None:
    """Put the file at `dest`. What was received stays beside it on failure, for the next time.

    Raises DownloadError, and OSError of the file system.
    """
    partial = dest.with_name(f".{dest.name}.download")
    left, pause = TRIES, PAUSE_S
    while True:
        offset = partial.stat().st_size if partial.exists() else 0
        try:
            with Progress(label) as bar:
                digest = _fetch(artifact.url, partial, offset, bar)
        except _Broken as error:
            left -= 1
            if not left:
                raise DownloadError(f"{error} ({TRIES} tries)") from error
            log.debug("Download of %s broke off: %s; continuing in %.0f s", artifact.url, error, pause)
            sleep(pause)
            pause *= 2
            continue
        if digest == artifact.sha256:
            partial.replace(dest)
            return
        partial.unlink()
        if not offset:
            raise DownloadError(f"it has sha256 {digest}, the stream metadata says {artifact.sha256}")
        # The partial file belongs to another download: start again from the beginning.
        log.debug("What was received of %s earlier does not fit the rest", artifact.url)


def _fetch(url: str, partial: Path, offset: int, bar: Progress) -> str:
    """Receive what is missing; the SHA-256 of all. Raises _Broken, DownloadError, OSError."""
    request = urllib.request.Request(url, headers={"User-Agent": "node0", "Accept-Encoding": "identity"})
    if offset:
        request.add_header("Range", f"bytes={offset}-")
    try:
        response: http.client.HTTPResponse = urllib.request.build_opener().open(request, timeout=TIMEOUT_S)
    except urllib.error.HTTPError as error:
        with error:
            if error.code == _RANGE_NOT_SATISFIABLE and offset:
                return _sha256(partial, offset, bar).hexdigest()
            text = f"HTTP {error.code} {error.reason}"
        raise _Broken(text) if error.code >= 500 else DownloadError(text) from error
    except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
        raise _Broken(_reason(error)) from error
    with response:
        if response.status != _PARTIAL_CONTENT:
            offset = 0
        expected = offset + (response.length or 0)
        bar.total = expected
        digest = _sha256(partial, offset, bar)
        with partial.open("r+b" if offset else "wb") as out:
            out.seek(offset)
            while piece := _read(response):
                out.write(piece)
                digest.update(piece)
                bar.add(len(piece))
            size = out.tell()
    if size < expected:
        raise _Broken(f"the server closed the connection after {size} of {expected} bytes")
    return digest.hexdigest()


def _read(response: http.client.HTTPResponse) -> bytes:
    try:
        return response.read(_CHUNK)
    except (http.client.HTTPException, OSError) as error:
        raise _Broken(_reason(error)) from error


def _reason(error: Exception) -> str:
    reason = getattr(error, "reason", error)
    text = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
    return " ".join(str(text).split())


def _sha256(path: Path, length: int, bar: Progress) -> hashlib._Hash:
    """Return a SHA-256 object that has read a partly received file."""
    digest = hashlib.sha256()
    if length:
        with path.open("rb") as file:
            while piece := file.read(_CHUNK):
                digest.update(piece)
                bar.add(len(piece))
    return digest

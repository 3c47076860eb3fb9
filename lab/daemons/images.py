"""Images of virtual media: each version is fetched once, whoever inserts it and however often (lab.daemons.bmc)."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

import requests

from lab.errors import ImageFetchError

_CHUNK = 1 << 20
_ANSWER_SECONDS = 60.0
_AS_IT_IS = {"Accept-Encoding": "identity"}
_VERSION_HEADERS = ("ETag", "Last-Modified", "Content-Length")


class Readable(Protocol):
    """Something to be read in pieces: a file, the body of an answer."""

    def read(self, size: int = -1, /) -> bytes:
        """At most `size` bytes; none at the end."""


class Images:
    """Images, kept in the directory for temporary files. What the lab's own server has at `url`, and by HTTPS at
    `secure`, lies below `root`; `shares` are directories by the URLs of network shares, which no server answers for."""

    def __init__(self, url: str, root: Path, shares: Mapping[str, Path] | None = None, secure: str = "") -> None:
        self._own = tuple(f"{one}/" for one in (url, secure) if one)
        self._root = root
        self._shares = shares or {}

    def fetch(self, url: str, *, verify: Any) -> Path:
        """The image at `url`, downloaded unless the response's headers name a version that is there already.

        `verify` is that of requests. Raises ImageFetchError.
        """
        images = Path(tempfile.gettempdir()) / "images"
        images.mkdir(exist_ok=True)
        for share, folder in self._shares.items():
            if url.startswith(f"{share}/"):
                return self._shared(url, folder / unquote(url.removeprefix(f"{share}/")), images)
        ask = partial(requests.request, url=url, verify=verify, timeout=_ANSWER_SECONDS, headers=_AS_IT_IS)
        try:
            if url.startswith(self._own):
                with ask("HEAD") as head:
                    head.raise_for_status()
                linked = self.linked(url, images / "local")
                if linked is not None:
                    return linked
            with ask("GET", stream=True) as answer:
                answer.raise_for_status()
                stamp = "\n".join([url, *(answer.headers.get(h, "") for h in _VERSION_HEADERS)])
                shared = images / hashlib.sha256(stamp.encode()).hexdigest()
                if not shared.exists():
                    store(answer.raw, shared, int(answer.headers.get("Content-Length", -1)))
        except requests.HTTPError as failure:
            status = failure.response.status_code
            raise ImageFetchError(f"the server of {url} answered {status}", 502 if status >= 500 else 400) from failure
        except (requests.RequestException, OSError) as failure:
            raise ImageFetchError(f"{url} cannot be fetched: {failure}", 502) from failure
        return shared

    def _shared(self, url: str, source: Path, images: Path) -> Path:
        """A link to a file of a share, or a copy where links do not reach."""
        (folder := images / "shared").mkdir(exist_ok=True)
        target = folder / hashlib.sha256(url.encode()).hexdigest()
        try:
            if not (target.exists() and target.samefile(source.resolve())):
                target.unlink(missing_ok=True)
                try:
                    os.link(source.resolve(), target)
                except OSError:
                    shutil.copyfile(source, target)
        except OSError as failure:
            raise ImageFetchError(f"{url} cannot be read: {failure.strerror}", 400) from failure
        return target

    def linked(self, url: str, folder: Path) -> Path | None:
        """A link in `folder` to the file that the lab's HTTP server serves at `url`; None when it is on another file
        system."""
        name = unquote(urlsplit(url).path).lstrip("/")
        source = (self._root / name).resolve()
        folder.mkdir(exist_ok=True)
        shared = folder / hashlib.sha256(url.encode()).hexdigest()
        if shared.exists() and shared.samefile(source):
            return shared
        shared.unlink(missing_ok=True)
        try:
            os.link(source, shared)
        except OSError as failure:
            if failure.errno in (errno.EXDEV, errno.EPERM, errno.EMLINK):
                return None
            raise
        return shared


def store(source: Readable, target: Path, size: int) -> None:
    """Write a download to `target`, whole or not at all; `size` in bytes, -1 when it was not announced."""
    with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as part:
        try:
            shutil.copyfileobj(source, part, _CHUNK)
            part.flush()
            received = os.fstat(part.fileno()).st_size
            if size not in (-1, received):
                raise OSError(f"only {received} of {size} bytes arrived")
            os.replace(part.name, target)
        except BaseException:
            Path(part.name).unlink(missing_ok=True)
            raise

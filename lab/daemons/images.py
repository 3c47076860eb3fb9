"""Virtual media of the lab's BMCs (lab.daemons.bmc), whose images are fetched once a version, whoever inserts them and
however often."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import logging
import os
import secrets
import shutil
import ssl
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine, Mapping
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import aiohttp
import flask
from sushy_tools import error
from sushy_tools.emulator.resources import vmedia

from installer.common.redact import without_login
from lab.bmcs.serving import client_gone
from lab.errors import ImageFetchError
from lab.layout import is_published

_CHUNK = 1 << 20
_ANSWER_SECONDS = 60.0
#: A download's limits: its time, and its size beside what is free (no more than remains free with it).
DOWNLOAD_SECONDS, _LARGEST = 3600.0, 64 << 30
_LOOK_SECONDS = 0.5
_AS_IT_IS = {"Accept-Encoding": "identity"}
#: The application that answers; sushy-tools has no types.
_emulator: Any = flask.current_app


class Images:
    """Images, kept in the directory for temporary files. What the lab's own server has at `url`, and by HTTPS at
    `secure`, lies below `root`; `shares` are directories by the URLs of network shares, which no server answers for."""

    def __init__(self, url: str, root: Path, shares: Mapping[str, Path] | None = None, secure: str = "") -> None:
        self._own = tuple(f"{root_url}/" for root_url in (url, secure) if root_url)
        self._root = root
        self._shares = shares or {}
        self._folder = Path(tempfile.gettempdir()) / "images"
        self._folder.mkdir(exist_ok=True)
        self._lock = threading.Lock()
        self._coming: set[str] = set()

    def put(
        self,
        url: str,
        target: Path,
        *,
        verify: ssl.SSLContext | bool = False,
        login: tuple[str, str] | None = None,
        unwanted: Callable[[], bool] = lambda: False,
    ) -> None:
        """Have the image at `url` as `target`, a new file: downloaded unless the response's headers name a version that
        is there already, and no further once it is `unwanted`.

        `verify` is aiohttp's `ssl`, `login` a user and a password. Raises ImageFetchError; then there is no target.
        """
        shown = without_login(url)
        try:
            for share, folder in self._shares.items():
                if url.startswith(f"{share}/"):
                    source = file_below(folder, url.removeprefix(f"{share}/"))
                    if not _linked(source, target):
                        shutil.copyfile(source, target)
                    return
            if urlsplit(url).scheme not in ("http", "https"):
                raise ImageFetchError(f"{shown} cannot be fetched: its scheme is neither http nor https", 400)
            headers = {"Authorization": aiohttp.encode_basic_auth(*login)} if login else {}
            asyncio.run(_while_wanted(self._download(url, target, verify, headers), unwanted, shown))
        except aiohttp.ClientResponseError as failure:
            status = 502 if failure.status >= 500 else 400
            raise ImageFetchError(f"the server of {shown} answered {failure.status}", status) from failure
        except (aiohttp.InvalidURL, UnicodeError) as failure:
            raise ImageFetchError(f"{shown} cannot be fetched: it is no address of an image", 400) from failure
        except (aiohttp.ClientError, TimeoutError, OSError) as failure:
            target.unlink(missing_ok=True)
            cause = str(failure) or type(failure).__name__
            raise ImageFetchError(f"{shown} cannot be fetched: {cause}", 502) from failure
        except ValueError as failure:
            raise ImageFetchError(f"{shown} cannot be fetched: {failure}", 400) from failure

    async def _download(
        self, url: str, target: Path, verify: ssl.SSLContext | bool, headers: Mapping[str, str]
    ) -> None:
        limits = aiohttp.ClientTimeout(total=None, sock_connect=_ANSWER_SECONDS, sock_read=_ANSWER_SECONDS)
        async with aiohttp.ClientSession(
            auto_decompress=False, timeout=limits, headers=_AS_IT_IS, raise_for_status=True
        ) as session:
            if url.startswith(self._own):
                async with session.head(url, ssl=verify, headers=headers):
                    pass
                if _linked(file_below(self._root, urlsplit(url).path), target):
                    return None
            while True:
                async with session.get(url, ssl=verify, headers=headers) as answer:
                    version = _version(url, answer.headers)
                    with self._lock:
                        if version and (kept := self._folder / version).exists():
                            os.link(kept, target)
                            _hang_up(answer)
                            return None
                        mine = version not in self._coming
                        if version:
                            self._coming.add(version)
                    if mine:
                        try:
                            return await self._store(answer, version, target)
                        finally:
                            self._coming.discard(version)
                while version in self._coming:  # another insert fetches it
                    await asyncio.sleep(_LOOK_SECONDS)

    async def _store(self, answer: aiohttp.ClientResponse, version: str, target: Path) -> None:
        """Write a download to `target`, whole or not at all, and keep it if its version can be identified."""
        with tempfile.NamedTemporaryFile(dir=target.parent) as part:
            size = 0
            async for piece in answer.content.iter_chunked(_CHUNK):
                size += len(piece)
                needed = max(size, answer.content_length or 0)
                if needed > min(_LARGEST, (size + shutil.disk_usage(part.name).free) // 2):
                    raise OSError(f"{needed} bytes are more than there is room for")
                part.write(piece)
            part.flush()
            with self._lock:
                # What no drive holds any more makes room.
                for old in self._folder.iterdir():
                    if old.stat().st_nlink == 1:
                        old.unlink()
                if version:
                    os.link(part.name, self._folder / version)
                os.link(part.name, target)


def _hang_up(answer: aiohttp.ClientResponse) -> None:
    """End the connection of an answer whose rest nobody reads: closing one of TLS takes longer than its event loop
    lives."""
    if answer.connection is not None and answer.connection.transport is not None:
        answer.connection.transport.abort()


async def _while_wanted(work: Coroutine[Any, Any, None], unwanted: Callable[[], bool], shown: str) -> None:
    """Do it while somebody waits for it, and for an hour at most. Raises ImageFetchError."""
    task, begin, why = asyncio.create_task(work), time.monotonic(), ""
    while not (await asyncio.wait([task], timeout=_LOOK_SECONDS))[0]:
        why = why or ("nobody waits for it any more" if unwanted() else "")
        why = why or (f"not within {DOWNLOAD_SECONDS:g} s" if time.monotonic() - begin > DOWNLOAD_SECONDS else "")
        if why:
            task.cancel()
    if task.cancelled():
        raise ImageFetchError(f"{shown} cannot be fetched: {why}", 502)
    task.result()


def file_below(root: Path, path: str) -> Path:
    """Return the file in `root` that a URL's path names, or that a link there leads to which the lab itself has made.
    Raises ImageFetchError for any other."""
    top = os.path.realpath(root)
    refusal = ImageFetchError(f"{path}: the server has no such file", 400)
    try:
        name = Path(top, unquote(path).lstrip("/"))
        entry = Path(os.path.realpath(name.parent), name.name)
        source = Path(os.path.realpath(entry))
        named = entry if entry.is_symlink() and is_published(entry) else source
        if not (named.is_relative_to(top) and source.is_file()):
            raise refusal
    except (OSError, ValueError) as failure:
        raise refusal from failure
    return source


def _linked(source: Path, target: Path) -> bool:
    """Link a file; False where links do not reach."""
    try:
        os.link(source, target)
    except OSError as failure:
        if failure.errno in (errno.EXDEV, errno.EPERM, errno.EMLINK):
            return False
        raise
    return True


def _version(url: str, headers: Mapping[str, str]) -> str:
    """Return a name for this version of an image, the same for no other; empty when the headers do not tell versions
    apart (RFC 9110 §8.8.1): a weak tag does not, nor does the time of a change within the second of the answer."""
    tag, changed = headers.get("ETag", ""), headers.get("Last-Modified", "")
    if not tag or tag.startswith("W/"):
        try:
            age = parsedate_to_datetime(headers.get("Date", "")) - parsedate_to_datetime(changed)
        except (ValueError, TypeError):  # there is none, or only one has a time zone
            return ""
        if age.total_seconds() < 1:
            return ""
    stamp = "\n".join((url, tag, changed, headers.get("Content-Length", "")))
    return hashlib.sha256(stamp.encode()).hexdigest()


class SharedMedia(vmedia.StaticDriver):  # type: ignore[misc]  # sushy-tools has no types
    """Virtual media that fetch every version of an image only once. An insert or eject that fails changes nothing."""

    def __init__(self, config: Any, logger: logging.Logger) -> None:
        super().__init__(config, logger)
        shares = (share.split("=", 1) for share in config.get("NODE0_SHARES", ()))  # URL=directory, without spaces
        self._images = Images(
            config["NODE0_HTTP_URL"],
            Path(config["NODE0_HTTP_ROOT"]),
            {url: Path(folder) for url, folder in shares},
            config.get("NODE0_HTTPS_URL", ""),
        )
        self._folder = Path(tempfile.gettempdir()) / "media"
        self._folder.mkdir(exist_ok=True)
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def _get_device(self, identity: str, device: str) -> dict[str, Any]:
        """Return the books on a drive; only machines that there are have some."""
        found: dict[str, Any] = super()._get_device(_uuid(identity), device)
        return found

    def get_device_image_info(self, identity: str, device: str) -> Any:
        """Look into a drive: it is empty once the machine's is."""
        info = super().get_device_image_info(identity, device)
        if info.inserted and not _emulator.systems.get_boot_image(_uuid(identity), device)[0]:
            return vmedia.DeviceInfo("", "", False, False, "", "", info.verify)
        return info

    def insert_image(
        self,
        identity: str,
        device: str,
        image_url: object,
        inserted: object = True,
        *,
        write_protected: object = True,
        username: object = "",
        password: object = "",
    ) -> str:
        """Put an image into the machine's drive, in the place of one that is there; its path."""
        identity, drive = _uuid(identity), self._get_device(identity, device)
        if not isinstance(image_url, str) or not image_url:
            raise error.BadRequest("Image is the URL of an image")
        if inserted is not True or not isinstance(write_protected, bool):
            raise error.BadRequest("Inserted is true, and WriteProtected true or false")
        user, word = username or "", password or ""
        if not isinstance(user, str) or not isinstance(word, str) or (not user) != (not word):
            raise error.BadRequest("UserName and Password are strings, and go together")
        # Its name is ours, whatever the server or the URL says: it becomes a path.
        path = self._folder / f"{secrets.token_hex(8)}.iso"
        try:
            login = (user, word) if user else None
            self._images.put(image_url, path, verify=self._verify(drive), login=login, unwanted=client_gone)
            if not write_protected and device != "Cd":
                self._unshare(path)
            with self._locks[identity]:
                _emulator.systems.set_boot_image(identity, device, str(path), write_protected)
                before = self._enter(
                    identity,
                    device,
                    Image=image_url,
                    ImageName=os.path.basename(urlsplit(image_url).path) or "image.iso",
                    Inserted=True,
                    WriteProtected=write_protected,
                    UserName=user,
                    _local_file=str(path),
                )
        except ImageFetchError as failure:
            raise error.FishyError(str(failure), code=failure.status) from failure
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        if before:
            Path(before).unlink(missing_ok=True)
        return str(path)

    def eject_image(self, identity: str, device: str) -> None:
        """Empty the machine's drive, and remove what the insert made."""
        identity = _uuid(identity)
        self._get_device(identity, device)
        with self._locks[identity]:
            _emulator.systems.set_boot_image(identity, device)
            empty = {"Image": "", "ImageName": "", "Inserted": False, "WriteProtected": False, "UserName": ""}
            before = self._enter(identity, device, **empty, _local_file="")
        if before:
            Path(before).unlink(missing_ok=True)

    def _enter(self, identity: str, device: str, **fields: object) -> str:
        """Enter what a drive holds in the books; the file that it held."""
        books = self._get_device(identity, device)
        self._devices[identity, device] = books | fields
        return str(books.get("_local_file") or "")

    def _verify(self, drive: dict[str, Any]) -> ssl.SSLContext | bool:
        """Return aiohttp's `ssl`. Unless a client asks for it, servers are not verified, as BMCs do not."""
        if not drive.get("Verify") or "Certificate" not in drive:
            return bool(drive.get("Verify"))
        try:
            return ssl.create_default_context(cadata=drive["Certificate"]["String"])
        except (ssl.SSLError, ValueError, TypeError) as failure:
            raise error.BadRequest("the drive's certificate is not one in PEM") from failure

    def _unshare(self, path: Path) -> None:
        """Make it the machine's own, which may write to it."""
        with tempfile.NamedTemporaryFile(dir=path.parent) as own:
            shutil.copyfile(path, own.name)
            path.unlink()
            os.link(own.name, path)


def _uuid(identity: str) -> str:
    """Return the UUID of a machine that is named either way."""
    try:
        uuid: str = _emulator.systems.uuid(identity)
    except error.AliasAccessError as alias:
        uuid = alias.args[0]
    return uuid


def _insert(identity: str, device: str) -> flask.Response:
    body = flask.request.get_json()
    if not isinstance(body, dict):
        raise error.BadRequest("the body is a JSON object")
    _emulator.vmedia.insert_image(
        identity,
        device,
        body.get("Image"),
        body.get("Inserted", True),
        write_protected=body.get("WriteProtected", True),
        username=body.get("UserName", ""),
        password=body.get("Password", ""),
    )
    return flask.Response(status=204)


def _eject(identity: str, device: str) -> flask.Response:
    _emulator.vmedia.eject_image(identity, device)
    return flask.Response(status=204)


def share_media(app: flask.Flask) -> None:
    """Have `app` insert and eject by SharedMedia, which does so in the machine and in the books at once."""
    vmedia.StaticDriver = SharedMedia
    app.view_functions["VirtualMedia.virtual_media_insert"] = _insert
    app.view_functions["VirtualMedia.virtual_media_eject"] = _eject

"""A small REST client over TLS for the agent, the orchestrator and agent-installer-client: standard library only."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlencode, urlsplit

from installer.assisted.auth import ATTEMPT_HEADER, HEADERS, Scheme
from installer.assisted.errors import ClientError
from installer.redact import shortened

BASE = "/api/assisted-install/v2"
CHUNK = 256 * 1024
Body = bytes | Callable[[], Iterator[bytes]] | None
Use = Callable[[Any], Any]
# How writing to a service that has closed the connection ends, without TLS and with it.
CLOSED = (BrokenPipeError, ConnectionResetError, ssl.SSLEOFError, ssl.SSLZeroReturnError)
STALE = (http.client.RemoteDisconnected, *CLOSED)


class RestClient:
    """Calls of one service with one token, from any thread.

    ``attempt``: all calls belong to this attempt to install; empty for calls that belong to none.
    With ``keep_alive`` one idle connection is kept for the next call: a handshake costs more than most calls.
    """

    def __init__(
        self,
        url: str,
        token: str,
        scheme: Scheme,
        ca_file: Path | None = None,
        insecure: bool = False,
        timeout: float = 60.0,
        keep_alive: bool = False,
        attempt: str = "",
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ClientError("service URL", None, f"{url!r} is not an http or https URL")
        self._host, self._port = parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)
        self._context: ssl.SSLContext | None = None
        self._timeout = timeout
        self._keep_alive = keep_alive
        self._idle: http.client.HTTPConnection | None = None
        self._lock = threading.Lock()
        self._headers = {HEADERS[scheme]: token} if token else {}
        if attempt:
            self._headers[ATTEMPT_HEADER] = attempt
        if parts.scheme == "https":
            try:
                self._context = ssl.create_default_context(cafile=str(ca_file) if ca_file else None)
            except (OSError, ssl.SSLError) as error:
                raise ClientError(f"CA file {ca_file}", None, str(error)) from None
            if insecure:
                self._context.check_hostname = False
                self._context.verify_mode = ssl.CERT_NONE

    def _connect(self) -> http.client.HTTPConnection:
        if self._context is not None:
            return http.client.HTTPSConnection(self._host, self._port, timeout=self._timeout, context=self._context)
        return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)

    def _take(self) -> http.client.HTTPConnection | None:
        with self._lock:
            connection, self._idle = self._idle, None
        return connection

    def _give_back(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if self._keep_alive and self._idle is None:
                self._idle = connection
                return
        connection.close()

    def close(self) -> None:
        """Drop the idle connection; calls that are under way in other threads leave none behind."""
        with self._lock:
            self._keep_alive = False
        connection = self._take()
        if connection is not None:
            connection.close()

    def _send(self, method: str, path: str, body: Body, headers: Mapping[str, str], use: Use) -> tuple[int, Any]:
        what = f"{method} {path.split('?')[0]}"
        kept = self._take()
        try:
            if kept is not None:
                try:
                    return self._talk(kept, what, method, path, body, headers, use)
                except STALE:
                    # The service closed it while it lay idle, before it saw this request: once more on a new one.
                    pass
            return self._talk(self._connect(), what, method, path, body, headers, use)
        except (OSError, http.client.HTTPException) as error:
            raise ClientError(what, None, f"{type(error).__name__}: {error}") from None

    def _talk(
        self,
        connection: http.client.HTTPConnection,
        what: str,
        method: str,
        path: str,
        body: Body,
        headers: Mapping[str, str],
        use: Use,
    ) -> tuple[int, Any]:
        """One request and its answer. A body that is made as it is sent is made anew for each try."""
        try:
            try:
                data = body() if callable(body) else body
                connection.request(method, path, body=data, headers={**self._headers, **headers})
            except CLOSED:
                # A service that does not want all of a body answers, and hears no more: its answer says why.
                response = _early_answer(connection)
                if response is None:
                    raise
            else:
                response = connection.getresponse()
            if response.status >= 300:
                raise ClientError(what, response.status, _reason(response.read()))
            result = use(response)
        except BaseException:
            connection.close()
            raise
        if response.isclosed() and not response.will_close:
            self._give_back(connection)
        else:
            connection.close()
        return response.status, result

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """JSON in, JSON out (None for an empty answer); ``path`` below /v2. Raises ClientError."""
        url = BASE + path + ("?" + urlencode(query) if query else "")
        data = None if body is None else json.dumps(body).encode()
        extra = {"Content-Type": "application/json"} if data is not None else {}

        def use(response: Any) -> Any:
            content = response.read()
            try:
                return json.loads(content) if content.strip() else None
            except ValueError as error:
                raise ClientError(f"{method} {path}", response.status, f"the answer is not JSON: {error}") from None

        return self._send(method, url, data, {**extra, **(headers or {})}, use)[1]

    def download(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        """The raw answer. Raises ClientError."""
        url = BASE + path + ("?" + urlencode(query) if query else "")
        content: bytes = self._send("GET", url, None, {}, lambda response: response.read())[1]
        return content

    def upload(
        self,
        path: str,
        query: Mapping[str, str],
        file: BinaryIO,
        name: str,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """POST a file as the multipart field ``upfile``, streamed. Raises ClientError."""
        boundary = uuid.uuid4().hex
        head = (
            f'--{boundary}\r\nContent-Disposition: form-data; name="upfile"; filename="{name}"\r\n'
            "Content-Type: application/gzip\r\n\r\n"
        ).encode()
        tail = f"\r\n--{boundary}--\r\n".encode()
        size = file.seek(0, 2)
        url = f"{BASE}{path}?{urlencode(query)}"

        def parts() -> Iterator[bytes]:
            """As many bytes as are announced, whatever happens to the file meanwhile; from its beginning each time."""
            file.seek(0)
            yield head
            left = size
            while left:
                chunk = file.read(min(CHUNK, left))
                if not chunk:
                    raise ClientError(f"POST {BASE}{path}", None, f"{name} lost {left} bytes while it was sent")
                left -= len(chunk)
                yield chunk
            yield tail

        extra = {
            "Content-Type": f"multipart/form-data; boundary={boundary}",
            "Content-Length": str(len(head) + size + len(tail)),
        }
        self._send("POST", url, parts, {**extra, **(headers or {})}, lambda response: response.read())


def _early_answer(connection: http.client.HTTPConnection) -> http.client.HTTPResponse | None:
    """An answer that came before all of the request was sent; None when the connection just broke."""
    try:
        response = connection.getresponse()
    except (OSError, http.client.HTTPException):
        return None
    # The rest of the body was never sent: nothing else can be said on this connection.
    response.will_close = True
    return response


def _reason(content: bytes) -> str:
    try:
        body = json.loads(content)
        return str(body.get("reason") or body.get("message") or body)
    except (ValueError, AttributeError):
        return shortened(content.decode(errors="replace"), 300)

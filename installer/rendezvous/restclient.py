"""A small REST client over TLS for the agent, the orchestrator and agent-installer-client: standard library only."""

from __future__ import annotations

import http.client
import json
import ssl
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlencode, urlsplit

from installer.rendezvous.auth import HEADERS, Scheme
from installer.rendezvous.errors import ClientError

BASE = "/api/assisted-install/v2"
CHUNK = 256 * 1024


class RestClient:
    """Calls of one service with one token. Not shared between threads: each call opens its own connection."""

    def __init__(
        self,
        url: str,
        token: str,
        scheme: Scheme,
        ca_file: Path | None = None,
        insecure: bool = False,
        timeout: float = 60.0,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ClientError("service URL", None, f"{url!r} is not an http or https URL")
        self._host, self._port = parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)
        self._context: ssl.SSLContext | None = None
        self._timeout = timeout
        self._headers = {HEADERS[scheme]: token} if token else {}
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

    def _send(
        self, method: str, path: str, body: Any, headers: Mapping[str, str], use: Callable[[Any], Any]
    ) -> tuple[int, Any]:
        connection = self._connect()
        what = f"{method} {path.split('?')[0]}"
        try:
            connection.request(method, path, body=body, headers={**self._headers, **headers})
            response = connection.getresponse()
            if response.status >= 300:
                raise ClientError(what, response.status, _reason(response.read()))
            return response.status, use(response)
        except (OSError, http.client.HTTPException) as error:
            raise ClientError(what, None, f"{type(error).__name__}: {error}") from None
        finally:
            connection.close()

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

    def upload(self, path: str, query: Mapping[str, str], file: BinaryIO, name: str) -> None:
        """POST a file as the multipart field ``upfile``, streamed. Raises ClientError."""
        boundary = uuid.uuid4().hex
        head = (
            f'--{boundary}\r\nContent-Disposition: form-data; name="upfile"; filename="{name}"\r\n'
            "Content-Type: application/gzip\r\n\r\n"
        ).encode()
        tail = f"\r\n--{boundary}--\r\n".encode()
        file.seek(0, 2)
        length = len(head) + file.tell() + len(tail)
        file.seek(0)

        def parts() -> Any:
            yield head
            while chunk := file.read(CHUNK):
                yield chunk
            yield tail

        headers = {"Content-Type": f"multipart/form-data; boundary={boundary}", "Content-Length": str(length)}
        self._send("POST", f"{BASE}{path}?{urlencode(query)}", parts(), headers, lambda response: response.read())


def _reason(content: bytes) -> str:
    try:
        body = json.loads(content)
        return str(body.get("reason") or body.get("message") or body)
    except (ValueError, AttributeError):
        return content[:300].decode(errors="replace")

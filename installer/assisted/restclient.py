"""JSON and files to and from a service that takes tokens; client.py has its operations."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any, BinaryIO, TypeVar
from urllib.parse import urlencode

from installer.assisted.auth import ATTEMPT_HEADER, HEADERS, Scheme
from installer.assisted.endpoint import BASE, Endpoint, Timeouts
from installer.assisted.errors import BadAnswer, ClientError
from installer.assisted.transport import CHUNK, HEADER_VALUE, Answer, Body, Request, Transport

#: Answers by path of which the state is remembered; the oldest go first.
REMEMBERED = 64
Headers = Mapping[str, str]
T = TypeVar("T")


class RestClient:
    """Calls of one service with one token, from any thread. ``attempt``: the attempt to install that all calls belong
    to.

    Raises ClientError for a token that no header can carry.
    """

    def __init__(
        self, endpoint: Endpoint, scheme: Scheme, token: str, *, attempt: str = "", timeouts: Timeouts | None = None
    ) -> None:
        self._transport = Transport(endpoint, timeouts)
        self._headers = {HEADERS[scheme]: token} if token else {}
        if attempt:
            self._headers[ATTEMPT_HEADER] = attempt
        for name, value in self._headers.items():
            if not HEADER_VALUE.fullmatch(value):
                raise ClientError(name, None, "is not one line of printable ASCII characters")
        # (ETag, answer) by target: a state that has not changed is neither sent nor read again.
        self._states: dict[str, tuple[str, Any]] = {}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._transport.endpoint.url})"

    @property
    def url(self) -> str:
        """The service's address."""
        return self._transport.endpoint.url

    @property
    def is_connected(self) -> bool:
        """Return whether a connection is kept for the next request."""
        return self._transport.is_connected

    def close(self) -> None:
        """Drop the kept connection."""
        self._transport.close()

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, str] | None = None,
        headers: Headers | None = None,
        repeatable: bool | None = None,
        remember: bool = False,
    ) -> Any:
        """JSON in, JSON out (None for an empty answer); ``path`` below /v2. Raises ClientError.

        ``repeatable``: as Request's. ``remember``: what was answered is remembered by its ETag, and is the answer for
        as long as the service says that it still is; so it must not be changed.
        """
        extra = dict(headers or {})
        data = None if body is None else json.dumps(body).encode()
        if data is not None:
            extra["Content-Type"] = "application/json"
        target = _target(path, query) if remember else ""
        etag, value = self._states.get(target, ("", None)) if remember else ("", None)
        if etag:
            extra["If-None-Match"] = etag

        def use(answer: Answer) -> Any:
            if answer.status == 304:
                return value
            result = answer.json()
            if remember:
                self._remember(target, answer.header("ETag"), result)
            return result

        seconds = self._transport.timeouts.request
        return self._exchange(
            method, path, use, query=query, headers=extra, body=data, repeatable=repeatable, seconds=seconds
        )

    def download(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        """Return the raw answer, as ``call`` otherwise."""
        return self._exchange("GET", path, Answer.body, query=query, seconds=self._transport.timeouts.transfer)

    def download_to(self, path: str, file: BinaryIO, limit: int) -> int:
        """Write the raw answer, at most ``limit`` bytes, to a file as it comes; its size.

        Raises as ``call``, and OSError of the file.
        """

        def use(answer: Answer) -> int:
            return sum(file.write(piece) for piece in answer.pieces(limit))

        return self._exchange("GET", path, use, seconds=self._transport.timeouts.transfer)

    def upload(
        self,
        path: str,
        file: BinaryIO,
        name: str,
        *,
        query: Mapping[str, str] | None = None,
        headers: Headers | None = None,
    ) -> None:
        """POST a file as the multipart field ``upfile``, streamed, in place of one sent before. Raises ClientError."""
        boundary = uuid.uuid4().hex
        head = (
            f'--{boundary}\r\nContent-Disposition: form-data; name="upfile"; filename="{name}"\r\n'
            "Content-Type: application/gzip\r\n\r\n"
        ).encode()
        tail = f"\r\n--{boundary}--\r\n".encode()
        size = file.seek(0, 2)

        def parts() -> Iterator[bytes]:
            """Yield the multipart body, from the file's beginning each time: as many bytes as were announced, whatever
            happens to the file meanwhile."""
            file.seek(0)
            yield head
            left = size
            while left:
                chunk = file.read(min(CHUNK, left))
                if not chunk:
                    raise ClientError(f"POST {path}", None, f"{name} lost {left} bytes while it was sent")
                left -= len(chunk)
                yield chunk
            yield tail

        extra = {
            "Content-Type": f"multipart/form-data; boundary={boundary}",
            "Content-Length": str(len(head) + size + len(tail)),
            **(headers or {}),
        }
        seconds = self._transport.timeouts.transfer
        self._exchange(
            "POST", path, Answer.body, query=query, headers=extra, body=parts, repeatable=True, seconds=seconds
        )

    def _exchange(
        self,
        method: str,
        path: str,
        use: Callable[[Answer], T],
        *,
        seconds: float,
        query: Mapping[str, str] | None = None,
        headers: Headers | None = None,
        body: Body = None,
        repeatable: bool | None = None,
    ) -> T:
        request = Request(
            method,
            _target(path, query),
            name=f"{method} {path}",
            headers={**self._headers, **(headers or {})},
            body=body,
            repeatable=repeatable,
            seconds=seconds,
        )
        return self._transport.exchange(request, use)

    def _remember(self, target: str, etag: str, value: Any) -> None:
        with self._lock:
            self._states.pop(target, None)
            if etag:
                self._states[target] = (etag, value)
                if len(self._states) > REMEMBERED:
                    del self._states[next(iter(self._states))]


def objects(value: Any, request: str) -> list[dict[str, Any]]:
    """Return an answer that has to be a list of objects; none at all is an empty one. Raises BadAnswer."""
    items = [] if value is None else value
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise BadAnswer(request, 200, "the answer is not a list of objects")
    return items


def one_object(value: Any, request: str) -> dict[str, Any]:
    """Return an answer that has to be one object. Raises BadAnswer."""
    if not isinstance(value, dict):
        raise BadAnswer(request, 200, "the answer is not an object")
    return value


def text_field(item: Mapping[str, Any], name: str, request: str) -> str:
    """Return a member that an object of an answer must have. Raises BadAnswer."""
    value = item.get(name)
    if not isinstance(value, str) or not value:
        raise BadAnswer(request, 200, f"the answer has an object without {name}")
    return value


def _target(path: str, query: Mapping[str, str] | None = None) -> str:
    return BASE + path + (f"?{urlencode(query)}" if query else "")

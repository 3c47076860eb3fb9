"""HTTP requests to one server over connections that are kept, each within a deadline.

Plain http.client, wrapped here once. The images that bring agent and orchestrator have urllib3 (by way of requests),
but a client on it would need as much code: it neither reads the answer of a server that refuses a body half-way, nor
has one deadline over connecting, sending and reading. It also takes longer to load, on processors that may be emulated:
here 29 ms for http.client, 39 more for urllib3, 27 more for requests.

No redirect is ever followed: it would carry the token to somebody else. Proxies and .netrc of the environment are not
used: all servers are hosts of the machine network.
"""

from __future__ import annotations

import http.client
import io
import re
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, TypeVar

from installer.assisted.endpoint import Endpoint, Timeouts
from installer.assisted.errors import BadAnswer, ClientError, NoAnswer, Untrusted
from installer.common.formats import jsontext
from installer.common.redact import shortened

CHUNK = 256 * 1024
#: The most that is read of an answer, in bytes: the hosts of a large cluster with their inventories are a tenth of it.
LARGEST = 256 * 1024**2
LARGEST_REASON = 64 * 1024
Body = bytes | Callable[[], Iterator[bytes]] | None
T = TypeVar("T")
#: What may be asked twice and is done once (RFC 9110 §9.2.2).
IDEMPOTENT = frozenset({"GET", "HEAD", "PUT", "DELETE", "OPTIONS"})
#: Errors of writing to a server that has closed the connection, without TLS and with it.
CLOSED = (BrokenPipeError, ConnectionResetError, ssl.SSLEOFError, ssl.SSLZeroReturnError)
STALE = (http.client.RemoteDisconnected, *CLOSED)
FAILED = (OSError, http.client.HTTPException, UnicodeError)
#: What http.client takes for a header. Its error for anything else quotes the text, tokens as well.
HEADER_NAME, HEADER_VALUE = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"), re.compile(r"[\t\x20-\x7e]*")


@dataclass(frozen=True)
class Request:
    """One request. ``target`` is path and query; ``name`` is what errors call it, without what may be secret.

    ``body``: bytes, or a function that begins anew each time it is called. ``repeatable``: whether it may be sent
    again on another connection when the kept one turns out to be closed; None for what its method says.
    ``seconds``: the most that it may take, the reading of its answer included.
    """

    method: str
    target: str = field(repr=False)
    name: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    _: KW_ONLY
    body: Body = field(default=None, repr=False)
    repeatable: bool | None = None
    seconds: float = Timeouts.request

    @property
    def may_repeat(self) -> bool:
        """Return whether it may reach the server twice."""
        return self.method in IDEMPOTENT if self.repeatable is None else self.repeatable


class Answer:
    """An answer whose head has come; the rest is read as it is asked for."""

    def __init__(self, request: Request, response: http.client.HTTPResponse) -> None:
        self._request, self._response = request, response
        self.status = response.status

    def header(self, name: str) -> str:
        """Return a header's value, empty without one."""
        return self._response.headers.get(name) or ""

    def pieces(self, limit: int = LARGEST) -> Iterator[bytes]:
        """Yield the body as it comes. Raises BadAnswer when it has more than ``limit`` bytes, NoAnswer when it breaks
        off."""
        response, size = self._response, 0
        if response.length is not None and response.length > limit:
            raise self._bad(f"the answer has {response.length} bytes, more than {limit}")
        while piece := self._read(size):
            size += len(piece)
            if size > limit:
                raise self._bad(f"the answer has more than {limit} bytes")
            yield piece
            if response.isclosed():
                break
        if response.length:
            raise self._broken(size, "the connection was closed")

    def body(self, limit: int = LARGEST) -> bytes:
        """Return the whole body. Raises as ``pieces``."""
        return b"".join(self.pieces(limit))

    def json(self, limit: int = LARGEST) -> Any:
        """Return the body as JSON, None for an empty one. Raises BadAnswer as well when it is no JSON."""
        content = self.body(limit)
        try:
            return jsontext.loads(content) if content.strip() else None
        except ValueError as error:
            raise self._bad(f"the answer is not JSON: {error}") from None

    def error(self) -> ClientError:
        """Return the error that an answer other than success means."""
        code, reason = "", self._response.reason
        try:
            content = self.body(LARGEST_REASON)
            reason = content.decode(errors="replace").strip()[:300] or reason
            fields = jsontext.loads(content)
        except (ClientError, ValueError):
            fields = None
        if isinstance(fields, dict):
            code = str(fields.get("code") or "")
            reason = str(fields.get("reason") or fields.get("message") or fields)
        return ClientError(self._request.name, self.status, shortened(reason, LARGEST_REASON), code=code)

    def _read(self, taken: int) -> bytes:
        try:
            return self._response.read(CHUNK)
        except FAILED as error:
            raise self._broken(taken, cause(error)) from None

    def _bad(self, text: str) -> BadAnswer:
        return BadAnswer(self._request.name, self.status, text)

    def _broken(self, taken: int, why: str) -> NoAnswer:
        self._response.will_close = True
        name, text = self._request.name, f"broke off after {taken} bytes: {why}"
        return NoAnswer(name, text, f"{name}: {text}")


class Transport:
    """Requests to one server, from any thread; one idle connection is kept: a handshake costs more than most requests.

    A kept connection that the server has closed meanwhile is seen before it is used. One that breaks when the request
    is under way is replaced once, for requests that may reach the server twice.
    """

    def __init__(self, endpoint: Endpoint, timeouts: Timeouts | None = None) -> None:
        self.endpoint, self.timeouts = endpoint, timeouts or Timeouts()
        self._idle: _Connection | None = None
        self._keeps = True
        self._lock = threading.Lock()

    @property
    def is_connected(self) -> bool:
        """Return whether a connection is kept for the next request."""
        return self._idle is not None

    def close(self) -> None:
        """Drop the idle connection; requests that are under way in other threads leave none behind."""
        with self._lock:
            self._keeps = False
            idle, self._idle = self._idle, None
        if idle is not None:
            idle.close()

    def exchange(self, request: Request, use: Callable[[Answer], T]) -> T:
        """Return what ``use`` makes of the answer: any 2xx, or 304 to an If-None-Match.

        Raises ClientError for all others, NoAnswer when none comes in time, and what ``use`` raises.
        """
        _check(request)
        deadline = time.monotonic() + request.seconds
        try:
            connection, response = self._ask(request, deadline)
        except FAILED as error:
            text = cause(error)
            raise NoAnswer(request.name, text, f"{self.endpoint.url} does not answer: {text}") from None
        try:
            answer = Answer(request, response)
            if response.status == 304 and "If-None-Match" in request.headers:
                response.read()
            elif response.status >= 300:
                raise answer.error()
            return use(answer)
        finally:
            self._give_back(connection, response)

    def _ask(self, request: Request, deadline: float) -> tuple[_Connection, http.client.HTTPResponse]:
        reused = self._take()
        if reused is not None:
            try:
                return reused, reused.ask(request, deadline)
            except STALE:
                if not request.may_repeat:
                    raise
        connection = _Connection(self.endpoint, self.timeouts)
        return connection, connection.ask(request, deadline)

    def _take(self) -> _Connection | None:
        with self._lock:
            idle, self._idle = self._idle, None
        if idle is not None and idle.is_dropped():
            idle.close()
            return None
        return idle

    def _give_back(self, connection: _Connection, response: http.client.HTTPResponse) -> None:
        """Keep the connection when all of the answer was read, and nothing else is kept."""
        with self._lock:
            if self._keeps and self._idle is None and response.isclosed() and not response.will_close:
                self._idle = connection
                return
        connection.close()


class _Connection(http.client.HTTPConnection):
    """A connection whose every step ends at the deadline of the request that is under way."""

    def __init__(self, endpoint: Endpoint, timeouts: Timeouts) -> None:
        super().__init__(endpoint.host, endpoint.port)
        # As the header Host leaves it out.
        self.default_port = 443 if endpoint.context else 80
        self._endpoint, self._timeouts = endpoint, timeouts
        self._deadline = 0.0

    def connect(self) -> None:
        """Connect, with TLS if the server has it. Raises OSError, Untrusted."""
        endpoint = self._endpoint
        left = max(0.001, min(self._timeouts.connect, self._deadline - time.monotonic()))
        plain = socket.create_connection((endpoint.host, endpoint.port), left)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            name = endpoint.server_name or endpoint.host
            secured = endpoint.context.wrap_socket(plain, server_hostname=name) if endpoint.context else plain
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError):
            plain.close()
            raise
        except ssl.SSLError as error:
            plain.close()
            raise Untrusted("TLS", str(error), f"TLS with {endpoint.url} failed: {error}") from None
        except BaseException:
            plain.close()
            raise
        timed: Any = _TimedSocket(secured, self._timeouts.silence)
        timed.deadline = self._deadline
        self.sock = timed

    def ask(self, request: Request, deadline: float) -> http.client.HTTPResponse:
        """Send a request; the head of its answer. Raises OSError, HTTPException."""
        self._deadline = deadline
        timed: Any = self.sock
        if timed is not None:
            timed.deadline = deadline
        try:
            try:
                # A body that is made as it is sent is made anew for each try.
                body = request.body() if callable(request.body) else request.body
                self.request(request.method, request.target, body=body, headers=dict(request.headers))
            except CLOSED:
                # A server that refuses a body half-way answers and reads no more: its answer says why.
                response = self._early_answer()
                if response is None:
                    raise
                return response
            return self.getresponse()
        except BaseException:
            self.close()
            raise

    def _early_answer(self) -> http.client.HTTPResponse | None:
        """Return an answer that came before all of the request was sent; None when the connection just broke."""
        if self.sock is None:
            return None  # the connection broke before there was an answer
        try:
            response = self.getresponse()
        except FAILED:
            return None
        # The rest of the body was never sent: nothing else can be said on this connection.
        response.will_close = True
        return response

    def is_dropped(self) -> bool:
        """Return whether the server has closed it, or said something that nobody asked for."""
        timed: Any = self.sock
        if timed is None:
            return True
        return bool(timed.poll())


class _TimedSocket:
    """A socket whose operations wait for ``silence`` seconds at most, and not beyond the deadline."""

    def __init__(self, plain: socket.socket, silence: float) -> None:
        self._socket, self._silence = plain, silence
        self._set: float | None = None
        self.deadline = float("inf")
        # No select: its descriptors end at 1024, and a swarm has more.
        self._waiting = select.poll()
        self._waiting.register(plain, select.POLLIN)

    def arm(self) -> None:
        """Before each operation. Raises TimeoutError when the deadline has passed."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        wait = min(self._silence, left)
        if wait != self._set:
            self._socket.settimeout(wait)
            self._set = wait

    def sendall(self, data: Any) -> None:
        """As a socket's."""
        self.arm()
        self._socket.sendall(data)

    def makefile(self, mode: str) -> io.BufferedReader:
        """For reading only."""
        return io.BufferedReader(_TimedReader(self, self._socket.makefile("rb", buffering=0)))

    def poll(self) -> bool:
        """Return whether there is something to read, or the other side has gone."""
        return bool(self._waiting.poll(0))

    def close(self) -> None:
        """As a socket's."""
        self._socket.close()


class _TimedReader(io.RawIOBase):
    def __init__(self, timed: _TimedSocket, source: Any) -> None:
        self._timed, self._source = timed, source

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._timed.arm()
        count: int | None = self._source.readinto(buffer)
        return count

    def close(self) -> None:
        self._source.close()
        super().close()


def cause(error: BaseException) -> str:
    """Say what went wrong, in a few words."""
    text = str(error).strip()
    if isinstance(error, OSError) and text and not isinstance(error, http.client.HTTPException):
        return text
    return f"{type(error).__name__}: {text}".removesuffix(": ")


def _check(request: Request) -> None:
    for name, value in request.headers.items():
        if not HEADER_NAME.fullmatch(name) or not HEADER_VALUE.fullmatch(value):
            raise ClientError(request.name, None, f"header {name!r} is not one line of printable ASCII characters")

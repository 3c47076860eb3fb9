"""HTTP and HTTPS for BMCs, with the versions of TLS that they speak.

Every client has a thread, in which its handshake runs too, and a limited time to say what it wants. Of those that are
waited for, only so many at once: the one that has been here longest makes room for the next.
"""

from __future__ import annotations

import io
import json
import select
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from werkzeug.serving import BaseWSGIServer, ThreadedWSGIServer, WSGIRequestHandler

_VERSIONS = {"1.1": ssl.TLSVersion.TLSv1_1, "1.2": ssl.TLSVersion.TLSv1_2}
#: For a handshake, a request and its body; and for what a client still sends after its answer, without a pause.
REQUEST_SECONDS, _REST_SECONDS, _PAUSE_SECONDS = 30.0, 5.0, 0.1
_WAITED_FOR = 128
_ERROR = {
    "code": "Base.1.8.GeneralError", "message": "The request cannot be read (%(code)d).",
    "@Message.ExtendedInfo": [
        {"MessageId": "Base.1.8.GeneralError", "Message": "The request cannot be read (%(code)d)."}
    ],
}  # fmt: skip

_connection: ContextVar[socket.socket | None] = ContextVar("connection", default=None)


def client_gone() -> bool:
    """Tell whether the client of this thread's request has hung up; a request of nobody's has no client."""
    connection = _connection.get()
    if connection is None:
        return False
    poll = select.poll()
    poll.register(connection, select.POLLRDHUP)
    return bool(poll.poll(0))


@contextmanager
def unattended() -> Iterator[None]:
    """Do the block whether or not this thread's client stays."""
    token = _connection.set(None)
    try:
        yield
    finally:
        _connection.reset(token)


class _Incoming(io.RawIOBase):
    """The bytes that a client sends until a deadline. The first read includes the handshake."""

    def __init__(self, connection: socket.socket, server: _Server) -> None:
        self.connection = connection
        self.begin = time.monotonic()
        self._deadline = self.begin + REQUEST_SECONDS
        self._answered = False
        self._server = server

    def answered(self) -> None:
        """From now on, what comes is only taken off its hands."""
        self._answered, self._deadline = True, time.monotonic() + _REST_SECONDS

    def readable(self) -> bool:
        """Return True: it is read only."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read as io.RawIOBase does. Raises TimeoutError after the deadline."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        with self._server.waiting(self):
            self.connection.settimeout(min(left, _PAUSE_SECONDS) if self._answered else left)
            return self.connection.recv_into(buffer)


class _Handler(WSGIRequestHandler):
    """Requests are logged by who answers them; what is no request gets an error in Redfish's form."""

    server: _Server
    default_request_version = "HTTP/1.1"  # for an error's head, too
    error_content_type = "application/json"
    error_message_format = json.dumps({"error": _ERROR})

    def setup(self) -> None:
        """Read with a deadline."""
        super().setup()
        self.rfile.close()
        self._incoming = _Incoming(self.connection, self.server)
        self.rfile = io.BufferedReader(self._incoming)

    def run_wsgi(self) -> None:
        """Answer one request; there is no second one."""
        try:
            urlsplit(self.path)
        except ValueError:
            self.send_error(400)
            return
        _connection.set(self.connection)
        super().run_wsgi()

    def send_response(self, code: int, message: str | None = None) -> None:
        """Send a response as http.server does."""
        self._incoming.answered()
        super().send_response(code, message)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Log nothing."""

    def log(self, type: str, message: str, *args: Any) -> None:
        """Log nothing."""


class _Server(ThreadedWSGIServer):
    """A thread for each client."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._lock = threading.Lock()
        self._waited_for: set[_Incoming] = set()

    @contextmanager
    def waiting(self, incoming: _Incoming) -> Iterator[None]:
        """Wait for its client within the block, unless too many come after it: then hang up on it."""
        with self._lock:
            self._waited_for.add(incoming)
            if len(self._waited_for) > _WAITED_FOR:
                oldest = min(self._waited_for, key=lambda incoming: incoming.begin)
                self._waited_for.remove(oldest)
                # The socket's own: that of TLS changes what its thread is reading from.
                socket.socket.shutdown(oldest.connection, socket.SHUT_RDWR)
        try:
            yield
        finally:
            with self._lock:
                self._waited_for.discard(incoming)


def context(certificate: Path, key: Path, tls: str) -> ssl.SSLContext:
    """Make a server's side of TLS: this version only. Machines of 2015 speak 1.1, which OpenSSL has at level 0 only."""
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if tls == "1.1":
        server_side.set_ciphers("DEFAULT:@SECLEVEL=0")
    server_side.minimum_version = server_side.maximum_version = _VERSIONS[tls]
    server_side.load_cert_chain(certificate, key)
    return server_side


def listen(application: Any, address: str, port: int, tls: ssl.SSLContext | None) -> BaseWSGIServer:
    """Make a server there, whose `serve_forever` answers."""
    server = _Server(address, port, application, _Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        server.ssl_context = tls
    return server


def serve(application: Any, address: str, port: int, tls: ssl.SSLContext | None) -> BaseWSGIServer:
    """Answer there in threads of this process, from now on until its `shutdown`."""
    server = listen(application, address, port, tls)
    name = f"bmc-{server.server_port}"
    threading.Thread(target=server.serve_forever, args=(0.1,), name=name, daemon=True).start()
    return server

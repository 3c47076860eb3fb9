"""A server on a raw socket, for what no HTTP server does: to break, to drip, to refuse half-way."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from installer.assisted.restclient import RestClient

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


class Received:
    """One request as it came: its head, its headers, what came of its body, and whether all of it did."""

    def __init__(self, stream: Any) -> None:
        self.line = stream.readline().decode().strip()
        self.headers: dict[str, str] = {}
        while line := stream.readline().strip():
            name, _, value = line.decode().partition(":")
            self.headers[name.lower()] = value.strip()
        self.length = int(self.headers.get("content-length", 0))
        self.body = b""

    def take(self, stream: Any, size: int | None = None) -> Received:
        """Read the body, or its first ``size`` bytes."""
        self.body = stream.read(self.length if size is None else size)
        return self


class SocketService:
    """Connection number n is handled by the n-th function, one after the other or at once; requests are kept."""

    def __init__(
        self,
        *talks: Callable[[SocketService, socket.socket, Any], None],
        address: str = "127.0.0.1",
        tls: Path | None = None,
        at_once: bool = False,
    ) -> None:
        """`tls`: a folder with what `make_tls` makes, to be asked over TLS."""
        self.requests: list[Received] = []
        self.clients: list[RestClient] = []
        self.accepted = 0
        # A connection has been hung up.
        self.hung_up = threading.Event()
        # For talks that go on until the test has seen enough.
        self.over = threading.Event()
        self._talks, self._at_once = talks, at_once
        self._socket = socket.create_server((address, 0))
        self.ca = tls / "ca.crt" if tls else None
        self._context: ssl.SSLContext | None = None
        if tls:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.load_cert_chain(tls / "service.crt", tls / "service.key")
        self.url = f"http{'s' if tls else ''}://{address}:{self._socket.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._serve, daemon=True)]

    def _serve(self) -> None:
        for talk in self._talks:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.accepted += 1
            if self._at_once:
                thread = threading.Thread(target=self._talk, args=(talk, connection), daemon=True)
                self._threads.append(thread)
                thread.start()
            else:
                self._talk(talk, connection)

    def _talk(self, talk: Callable[[SocketService, socket.socket, Any], None], connection: socket.socket) -> None:
        connection.settimeout(30)
        if self._context is not None:
            try:
                connection = self._context.wrap_socket(connection, server_side=True)
            except OSError:
                connection.close()  # a client that does not trust this server
                return
        with connection, connection.makefile("rb") as stream:
            talk(self, connection, stream)
        self.hung_up.set()

    def answer(self, connection: socket.socket, stream: Any, text: bytes = OK) -> Received:
        """Take one whole request, and answer it."""
        received = Received(stream).take(stream)
        self.requests.append(received)
        connection.sendall(text)
        return received

    @contextmanager
    def running(self) -> Iterator[SocketService]:
        """Serve until the block ends; clients that were registered are closed."""
        self._threads[0].start()
        try:
            yield self
        finally:
            self.over.set()
            for client in self.clients:
                client.close()
            self._socket.shutdown(socket.SHUT_RDWR)
            self._socket.close()
            for thread in self._threads:
                thread.join(30)


def one(service: SocketService, connection: socket.socket, stream: Any) -> None:
    """One request is answered, then the connection is closed."""
    service.answer(connection, stream)


def until_closed(service: SocketService, connection: socket.socket, stream: Any) -> None:
    """Each request is answered."""
    try:
        while stream.peek(1):
            service.answer(connection, stream)
    except OSError:
        pass


def reset(connection: socket.socket) -> None:
    """Let the next close send a reset."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

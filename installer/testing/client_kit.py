"""The one client against a server on a raw socket."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

from installer.assisted.auth import Scheme
from installer.assisted.client import AssistedClient
from installer.assisted.endpoint import Timeouts, endpoint
from installer.testing.socket_kit import SocketService

TOKEN = "eyJ0.the-token.x"


def client_of(service: SocketService, **times: float) -> AssistedClient:
    """Return an agent's client, with these deadlines in seconds; it is closed with the server."""
    server = endpoint(service.url, ca_file=service.ca)
    client = AssistedClient(server, Scheme.AGENT, TOKEN, timeouts=Timeouts(**{"silence": 30, **times}))
    service.clients.append(client)
    return client


def answering(text: bytes) -> Callable[[SocketService, socket.socket, Any], None]:
    """Return a server that says this to each request."""

    def talk(service: SocketService, connection: socket.socket, stream: Any) -> None:
        try:
            while stream.peek(1):
                service.answer(connection, stream, text)
        except OSError:
            pass

    return talk

"""A state that has not changed is not sent again, against real sockets."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from installer.assisted import restclient
from installer.assisted.errors import ClientError
from installer.testing.client_kit import answering, client_of
from installer.testing.socket_kit import Received, SocketService


class Versions:
    """A service with one object; its state has a version."""

    def __init__(self) -> None:
        self.version, self.asked = 1, list[str]()

    def talk(self, service: SocketService, connection: socket.socket, stream: Any) -> None:
        while stream.peek(1):
            received = Received(stream).take(stream)
            wanted, etag = received.headers.get("if-none-match", ""), f'W/"b-{self.version}"'
            self.asked.append(wanted)
            if wanted == etag:
                connection.sendall(f"HTTP/1.1 304 Not Modified\r\nETag: {etag}\r\n\r\n".encode())
            else:
                body = f'{{"version": {self.version}}}'
                head = f"HTTP/1.1 200 OK\r\nETag: {etag}\r\nContent-Length: {len(body)}\r\n\r\n"
                connection.sendall((head + body).encode())


def test_a_state_that_has_not_changed_is_not_sent_again() -> None:
    versions = Versions()
    with SocketService(versions.talk).running() as service:
        client = client_of(service)
        first = client.cluster("c")
        assert client.cluster("c") is first
        versions.version = 2
        assert client.cluster("c") == {"version": 2}
        assert client.cluster("c") == {"version": 2}
        # A client that does not remember gets what there is.
        assert client.call("GET", "/clusters/c") == {"version": 2}
        # Another path has another state.
        assert client.cluster("d") == {"version": 2}
    assert versions.asked == ["", 'W/"b-1"', 'W/"b-1"', 'W/"b-2"', "", ""]
    assert service.accepted == 1


def test_states_are_not_remembered_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restclient, "REMEMBERED", 2)
    versions = Versions()
    with SocketService(versions.talk).running() as service:
        client = client_of(service)
        for name in "abca":
            client.cluster(name)
        client.cluster("c")
    assert versions.asked == ["", "", "", "", 'W/"b-1"']


def test_a_304_without_a_remembered_state_is_an_error() -> None:
    talk = answering(b"HTTP/1.1 304 Not Modified\r\n\r\n")
    with SocketService(talk).running() as service, pytest.raises(ClientError, match="HTTP 304: Not Modified"):
        client_of(service).cluster("c")

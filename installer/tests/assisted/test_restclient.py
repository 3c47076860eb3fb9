"""The REST client of the agent and the orchestrator against real sockets: bodies, retries, redirects, broken ends."""

from __future__ import annotations

import io
import json
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from installer.assisted.auth import Scheme
from installer.assisted.endpoint import Timeouts, endpoint
from installer.assisted.errors import ClientError
from installer.assisted.restclient import RestClient
from installer.assisted.transport import CHUNK
from installer.testing.service.rendezvous_kit import make_tls
from installer.testing.socket_kit import OK, Received, SocketService, one, reset, until_closed


def client_of(service: SocketService, **times: float) -> RestClient:
    server = endpoint(service.url, ca_file=service.ca)
    client = RestClient(server, Scheme.AGENT, "the-token", timeouts=Timeouts(**{"silence": 30, **times}))
    service.clients.append(client)
    return client


def content(request: Received) -> bytes:
    """Return the file of a multipart body with one part."""
    boundary = request.headers["content-type"].partition("boundary=")[2].encode()
    head, _, rest = request.body.partition(b"\r\n\r\n")
    assert head.startswith(b"--" + boundary + b"\r\nContent-Disposition: form-data; ")
    assert rest.endswith(b"\r\n--" + boundary + b"--\r\n")
    return rest.removesuffix(b"\r\n--" + boundary + b"--\r\n")


FILE = bytes(range(256)) * 3000  # several pieces, the last one not full
assert len(FILE) > 2 * CHUNK
assert len(FILE) % CHUNK


@pytest.fixture(params=["plain", "tls"])
def tls(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    """Provide a folder with certificates, or None: connections that end are told apart from one another by both."""
    if request.param == "plain":
        return None
    make_tls(tmp_path)
    return tmp_path


def upload(client: RestClient, file: Any) -> None:
    client.upload("/clusters/c/logs", file, "host_h.tar.gz", query={"logs_type": "host"})


def test_an_upload_after_the_service_has_closed_the_idle_connection(tls: Path | None) -> None:
    """The first try gets as far as the socket's buffers take it; the second is the whole file again."""
    with SocketService(one, one, tls=tls).running() as service:
        client = client_of(service)
        assert client.call("GET", "/x") == {}
        assert service.hung_up.wait(30)
        upload(client, io.BytesIO(FILE))
    assert service.accepted == 2
    request = service.requests[1]
    assert request.line == "POST /api/assisted-install/v2/clusters/c/logs?logs_type=host HTTP/1.1"
    assert len(request.body) == request.length
    assert content(request) == FILE
    assert b'name="upfile"; filename="host_h.tar.gz"' in request.body


def test_an_upload_that_broke_on_a_kept_connection_starts_from_the_beginning() -> None:
    """The connection breaks when pieces of the file have left already."""

    def breaks(service: SocketService, connection: socket.socket, stream: Any) -> None:
        service.answer(connection, stream)
        Received(stream).take(stream, CHUNK + 1000)
        reset(connection)

    with SocketService(breaks, one).running() as service:
        client = client_of(service)
        client.call("GET", "/x")
        file = io.BytesIO(FILE)
        file.seek(77)
        upload(client, file)
    assert content(service.requests[1]) == FILE
    assert len(service.requests[1].body) == service.requests[1].length


def test_an_upload_on_a_new_connection_is_tried_once() -> None:
    def breaks(service: SocketService, connection: socket.socket, stream: Any) -> None:
        Received(stream).take(stream, 1000)
        reset(connection)

    with SocketService(breaks, one).running() as service, pytest.raises(ClientError) as caught:
        upload(client_of(service), io.BytesIO(FILE))
    assert caught.value.status is None
    assert service.accepted == 1


class Changing(io.BytesIO):
    """A file to which something happens after its first piece was read."""

    def __init__(self, size: int) -> None:
        super().__init__(FILE)
        self._then = size

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        if self._then >= 0:
            at = self.tell()
            self.truncate(self._then)
            self.seek(0, 2)
            self.write(b"x" * max(0, self._then - len(FILE)))
            self.seek(at)
            self._then = -1
        return data


def test_a_file_that_grows_is_sent_as_it_was_announced() -> None:
    with SocketService(one).running() as service:
        upload(client_of(service), Changing(2 * len(FILE)))
    [request] = service.requests
    assert content(request) == FILE


def test_a_file_that_shrinks_is_told_at_once() -> None:
    """The promised length cannot be sent: the connection is closed, and nobody waits for the rest."""
    came: list[int] = []

    def takes(service: SocketService, connection: socket.socket, stream: Any) -> None:
        request = Received(stream).take(stream)
        came.append(len(request.body) - request.length)

    with SocketService(takes, one).running() as service:
        client = client_of(service)
        with pytest.raises(ClientError, match=r"host_h\.tar\.gz lost 368000 bytes while it was sent") as caught:
            upload(client, Changing(400_000))
        assert caught.value.status is None
        assert client.call("GET", "/x") == {}
    assert came[0] < 0
    assert service.accepted == 2


def test_an_empty_file_is_sent() -> None:
    with SocketService(one).running() as service:
        upload(client_of(service), io.BytesIO())
    assert content(service.requests[0]) == b""


def test_a_service_that_refuses_a_body_before_it_has_all_of_it_is_heard(tls: Path | None) -> None:
    """It answers and hears no more: its words count, not the broken pipe, and nothing is sent a second time."""
    body = json.dumps({"reason": "too large"}).encode()
    text = b"HTTP/1.1 413 Too Large\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)

    def refuses(service: SocketService, connection: socket.socket, stream: Any) -> None:
        service.answer(connection, stream)
        Received(stream)
        connection.sendall(text)
        connection.shutdown(socket.SHUT_RDWR)
        # What comes on is answered with a reset.

    with SocketService(refuses, one, tls=tls).running() as service:
        client = client_of(service)
        client.call("GET", "/x")
        with pytest.raises(ClientError) as caught:
            upload(client, io.BytesIO(FILE * 40))
        assert (caught.value.status, caught.value.reason) == (413, "too large")
        assert client.call("GET", "/x") == {}
    # The connection that was answered half-way is not used again.
    assert service.accepted == 2


def test_json_bodies_are_sent_again_whole() -> None:
    with SocketService(one, one).running() as service:
        client = client_of(service)
        client.call("POST", "/a", {"b": "ä"})
        assert service.hung_up.wait(30)
        client.call("PUT", "/a", {"b": "c"}, query={"q": "1 2"}, headers={"discovery_agent_version": "v"})
    first, second = service.requests
    assert (first.line, json.loads(first.body)) == ("POST /api/assisted-install/v2/a HTTP/1.1", {"b": "ä"})
    assert (second.line, second.body) == ("PUT /api/assisted-install/v2/a?q=1+2 HTTP/1.1", b'{"b": "c"}')
    assert second.headers["content-type"] == "application/json"
    assert second.headers["discovery_agent_version"] == "v"
    assert second.headers["x-secret-key"] == "the-token"


def test_a_request_is_not_sent_twice_when_its_answer_does_not_come_in_time() -> None:
    silent = threading.Event()

    def waits(service: SocketService, connection: socket.socket, stream: Any) -> None:
        service.answer(connection, stream)
        Received(stream)
        assert silent.wait(30)

    with SocketService(waits, one).running() as service:
        client = client_of(service, silence=0.3)
        client.call("GET", "/x")
        with pytest.raises(ClientError, match="timed out"):
            client.call("POST", "/x", {})
        silent.set()
    assert service.accepted == 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("how", ["call", "download", "upload"])
def test_the_token_is_not_sent_on(status: int, how: str) -> None:
    stranger = SocketService(one, address="127.0.0.2")

    def redirects(service: SocketService, connection: socket.socket, stream: Any) -> None:
        text = f"HTTP/1.1 {status} Moved\r\nLocation: {stranger.url}/\r\nContent-Length: 0\r\n\r\n"
        service.answer(connection, stream, text.encode())

    with stranger.running(), SocketService(redirects).running() as service:
        client = client_of(service)
        with pytest.raises(ClientError) as caught:
            {
                "call": lambda: client.call("POST", "/x", {}),
                "download": lambda: client.download("/x"),
                "upload": lambda: upload(client, io.BytesIO(FILE)),
            }[how]()
    assert caught.value.status == status
    assert service.requests[0].headers["x-secret-key"] == "the-token"
    assert stranger.accepted == 0


def test_one_connection_is_kept_and_none_after_the_end() -> None:
    with SocketService(until_closed, until_closed).running() as service:
        client = client_of(service)
        client.call("GET", "/x")
        client.call("GET", "/x")
        assert service.accepted == 1
        client.close()
        assert service.hung_up.wait(30)
        client.call("GET", "/x")
        assert not client.is_connected
    assert service.accepted == 2


def test_a_connection_that_the_service_will_close_is_not_kept() -> None:
    def closes(service: SocketService, connection: socket.socket, stream: Any) -> None:
        service.answer(connection, stream, OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))

    with SocketService(closes, one).running() as service:
        client = client_of(service)
        client.call("GET", "/x")
        assert not client.is_connected


@pytest.mark.parametrize(
    ("text", "status", "words"),
    [
        (b"HTTP/1.1 404 No\r\nContent-Length: 21\r\n\r\n" + b'{"reason": "unknown"}', 404, "unknown"),
        (b"HTTP/1.1 500 No\r\nContent-Length: 19\r\n\r\n" + b'{"message": "a bug"}'[:19], 500, '{"message": "a bug"'),
        (b"HTTP/1.1 500 No\r\nContent-Length: 20\r\n\r\n" + b'{"message": "a bug"}', 500, "a bug"),
        (b"HTTP/1.1 502 No\r\nContent-Length: 2\r\n\r\n[]", 502, "[]"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n<html", 200, "the answer is not JSON"),
        (b"no HTTP at all\r\n\r\n", None, "BadStatusLine"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{}",
            None,
            "broke off after 2 bytes: the connection was closed",
        ),
    ],
)
def test_bad_answers_are_told(text: bytes, status: int | None, words: str) -> None:
    with SocketService(
        lambda service, connection, stream: service.answer(connection, stream, text)
    ).running() as service:
        client = client_of(service)
        with pytest.raises(ClientError) as caught:
            client.call("GET", "/clusters", query={"q": "secret"})
        assert caught.value.status == status
        assert words in caught.value.reason
        assert "secret" not in str(caught.value)
        # What was answered to its end says nothing against the connection.
        assert client.is_connected is (status is not None)


def test_an_empty_answer_and_raw_bytes() -> None:
    empty, raw = b"HTTP/1.1 204 No Content\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n\xff\0a"

    def both(service: SocketService, connection: socket.socket, stream: Any) -> None:
        service.answer(connection, stream, empty)
        service.answer(connection, stream, raw)

    with SocketService(both).running() as service:
        client = client_of(service)
        assert client.call("DELETE", "/x") is None
        assert client.download("/f", {"file_name": "a b"}) == b"\xff\0a"
    assert service.requests[1].line == "GET /api/assisted-install/v2/f?file_name=a+b HTTP/1.1"
    assert service.accepted == 1


def test_bad_addresses_are_told_before_anything_is_sent(tmp_path: Path) -> None:
    for url in ("ftp://192.0.2.1/", "192.0.2.1:8090", "https:///x", "https://h:99999", "https://[::1"):
        with pytest.raises(ClientError, match="is not an http or https URL"):
            endpoint(url)
    with pytest.raises(ClientError, match="CA file"):
        endpoint("https://192.0.2.1/", ca_file=tmp_path / "none")
    (tmp_path / "ca").write_text("no PEM")
    with pytest.raises(ClientError, match="CA file"):
        endpoint("https://192.0.2.1/", ca_file=tmp_path / "ca")
    for url, port in (("http://192.0.2.1", 80), ("https://192.0.2.1", 443), ("https://[2001:db8::1]:8090/", 8090)):
        server = endpoint(url)
        assert server.port == port
        assert RestClient(server, Scheme.AGENT, "")._headers == {}

"""Connections, deadlines and sizes of the one client, and what its errors say, against real sockets."""

from __future__ import annotations

import fcntl
import io
import os
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from installer.assisted.auth import Scheme
from installer.assisted.client import AssistedClient
from installer.assisted.endpoint import Timeouts, endpoint
from installer.assisted.errors import BadAnswer, ClientError, NoAnswer, Untrusted
from installer.assisted.restclient import RestClient
from installer.assisted.transport import CHUNK, Request, Transport
from installer.testing.client_kit import TOKEN, answering, client_of
from installer.testing.service.rendezvous_kit import make_tls, wait_for
from installer.testing.socket_kit import OK, Received, SocketService, one, reset, until_closed

# Kept connections


def breaks_on_the_second(service: SocketService, connection: socket.socket, stream: Any) -> None:
    """Answer the first request, take the second, and break the connection."""
    service.answer(connection, stream)
    service.requests.append(Received(stream).take(stream))
    reset(connection)


def breaks(service: SocketService, connection: socket.socket, stream: Any) -> None:
    service.requests.append(Received(stream).take(stream))
    reset(connection)


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_a_kept_connection_that_breaks_is_replaced_once(method: str) -> None:
    with SocketService(breaks_on_the_second, one).running() as service:
        client = client_of(service)
        client.call("GET", "/x")
        assert client.call(method, "/y", {} if method == "PUT" else None) == {}
    assert service.accepted == 2
    lines = [request.line.split()[0] for request in service.requests]
    assert lines == ["GET", method, method]


def test_a_kept_connection_that_breaks_twice_is_an_error() -> None:
    with SocketService(breaks_on_the_second, breaks, one).running() as service:
        client = client_of(service)
        client.call("GET", "/x")
        with pytest.raises(NoAnswer):
            client.call("GET", "/y")
        assert service.accepted == 2


@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_a_request_that_is_not_idempotent_is_not_sent_twice(method: str) -> None:
    with SocketService(breaks_on_the_second, one).running() as service:
        client = client_of(service)
        client.call("GET", "/x")
        with pytest.raises(NoAnswer) as caught:
            client.call(method, "/y", {})
        assert caught.value.status is None
        assert caught.value.is_passing
    assert [request.line.split()[0] for request in service.requests] == ["GET", method]


def test_an_idempotent_request_is_sent_again() -> None:
    with SocketService(breaks_on_the_second, one).running() as service:
        client = client_of(service)
        client.call("GET", "/x")
        client.reply("i", "h", "v", {"step_id": "a"})
    assert [request.body for request in service.requests[1:]] == [b'{"step_id": "a"}'] * 2


def test_a_connection_closed_while_idle_is_seen_before_anything_is_sent() -> None:
    """So also what may not be sent twice goes over a new one."""
    with SocketService(one, one).running() as service:
        client = client_of(service)
        client.call("GET", "/x")
        assert service.hung_up.wait(30)
        assert client.call("POST", "/y", {}) == {}
    assert [request.line.split()[0] for request in service.requests] == ["GET", "POST"]


def test_requests_at_once_leave_one_connection() -> None:
    together = threading.Barrier(2)

    def waits(service: SocketService, connection: socket.socket, stream: Any) -> None:
        received = Received(stream).take(stream)
        service.requests.append(received)
        if "/both" in received.line:
            together.wait(30)
        connection.sendall(OK)
        until_closed(service, connection, stream)

    with SocketService(waits, waits, at_once=True).running() as service:
        client = client_of(service)
        threads = [threading.Thread(target=client.call, args=("GET", "/both")) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert service.accepted == 2
        wait_for("one of the connections to be closed", lambda: service.hung_up.is_set(), 30)
        client.call("GET", "/x")
        client.call("GET", "/x")
        assert service.accepted == 2


@pytest.fixture
def many_files() -> Iterator[None]:
    """So many are open that the next one's number is beyond what select() takes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    with ExitStack() as stack, open(os.devnull) as null:
        for _ in range(1100):
            stack.callback(os.close, fcntl.fcntl(null, fcntl.F_DUPFD_CLOEXEC, 0))
        yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_files")
def test_a_process_with_thousands_of_connections_keeps_them() -> None:
    with SocketService(until_closed).running() as service:
        client = client_of(service)
        client.call("GET", "/x")
        client.call("GET", "/x")
        assert service.accepted == 1


# Deadlines


def drips(head: bytes) -> Callable[[SocketService, socket.socket, Any], None]:
    """Answers with ``head``, then with a byte now and then: never silent for long, never done."""

    def talk(service: SocketService, connection: socket.socket, stream: Any) -> None:
        service.requests.append(Received(stream).take(stream))
        connection.sendall(head)
        try:
            while not service.over.wait(0.05):
                connection.sendall(b"x")
        except OSError:
            pass

    return talk


@pytest.mark.parametrize(
    "head", [b"", b"HTTP/1.1 200 OK\r\nX-Long: ", b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n"]
)
def test_an_answer_that_drips_ends_with_the_deadline(head: bytes) -> None:
    with SocketService(drips(head)).running() as service:
        client = client_of(service, silence=20, request=0.5)
        begin = time.monotonic()
        with pytest.raises(NoAnswer, match="timed out") as caught:
            client.call("GET", "/x")
        assert time.monotonic() - begin < 15, "the silence's limit, not the request's, ended it"
        assert caught.value.is_passing
        service.over.set()


def test_a_server_that_says_nothing_ends_with_the_deadline() -> None:
    def silent(service: SocketService, connection: socket.socket, stream: Any) -> None:
        assert service.over.wait(60)

    with SocketService(silent).running() as service:
        begin = time.monotonic()
        with pytest.raises(NoAnswer, match="timed out"):
            client_of(service, silence=20, request=0.4).call("GET", "/x")
        assert time.monotonic() - begin < 15, "the silence's limit, not the request's, ended it"
        service.over.set()


def test_a_file_that_never_ends_ends_with_the_deadline() -> None:
    """There is always more to read: nothing is ever waited for."""

    def floods(service: SocketService, connection: socket.socket, stream: Any) -> None:
        Received(stream)
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        try:
            while not service.over.is_set():
                connection.sendall(b"x" * CHUNK)
        except OSError:
            pass

    with SocketService(floods).running() as service, open(os.devnull, "wb") as nowhere:
        client = client_of(service, transfer=0.4)
        with pytest.raises(NoAnswer, match=r"GET /x: broke off after \d+ bytes: timed out"):
            client.download_to("/x", nowhere, 1 << 36)


def test_a_server_that_does_not_finish_its_handshake(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        make_tls(tmp_path)
        server = endpoint(f"https://127.0.0.1:{port}", ca_file=tmp_path / "ca.crt")
        client = RestClient(server, Scheme.AGENT, "", timeouts=Timeouts(connect=0.3))
        with pytest.raises(NoAnswer, match=rf"^https://127\.0\.0\.1:{port} does not answer: .*timed out") as caught:
            client.call("GET", "/x")
        assert not isinstance(caught.value, Untrusted)


SIZE = 3 * CHUNK
DECLARED = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (SIZE, b"x" * SIZE)
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (SIZE, b"x" * SIZE)


@pytest.mark.parametrize("text", [DECLARED, CHUNKED])
def test_an_answer_that_is_too_large_is_refused(text: bytes) -> None:
    with SocketService(answering(text), one).running() as service:
        client = client_of(service)
        assert client.download_to("/x", io.BytesIO(), SIZE) == SIZE
        file = io.BytesIO()
        with pytest.raises(BadAnswer, match=rf"more than {CHUNK + 1}( bytes)?$"):
            client.download_to("/x", file, CHUNK + 1)
        # What is announced is refused before any of it is taken.
        assert file.tell() == (0 if text is DECLARED else CHUNK)
        # What was not read is in the way of the next answer.
        client.call("GET", "/x")
    assert service.accepted == 2


def test_nothing_is_asked_behind_an_answer_that_was_not_read() -> None:
    """Also when what is left of it has not come yet."""

    def begins(service: SocketService, connection: socket.socket, stream: Any) -> None:
        service.answer(connection, stream, b"HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n")
        assert stream.read(1) == b""

    with SocketService(begins, one).running() as service:
        client = client_of(service)
        with pytest.raises(BadAnswer, match="the answer has 2000 bytes, more than 1999"):
            client.download_to("/x", io.BytesIO(), 1999)
        client.call("GET", "/x")
    assert service.accepted == 2


def test_only_so_much_of_a_refusal_is_read() -> None:
    body = b"x" * 70_000
    text = b"HTTP/1.1 503 Away\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    with SocketService(answering(text)).running() as service, pytest.raises(ClientError) as caught:
        client_of(service).call("GET", "/x")
    assert (caught.value.status, caught.value.reason) == (503, "Away")


# What errors say


@pytest.mark.parametrize(
    ("status", "passing"),
    [(None, True), (200, False), (302, False), (401, False), (404, False), (408, True), (409, False), (425, True),
     (429, True), (500, True), (503, True)],
)  # fmt: skip
def test_errors_that_may_pass_are_told_from_those_that_stay(status: int | None, passing: bool) -> None:
    assert ClientError("GET /x", status, "reason").is_passing is passing


def test_a_refusal_is_told_with_the_services_own_words() -> None:
    body = b'{"code": "409", "href": "", "id": 409, "kind": "Error", "reason": "cluster is installing"}'
    text = b"HTTP/1.1 409 Conflict\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    with SocketService(answering(text)).running() as service, pytest.raises(ClientError) as caught:
        client_of(service).call("POST", "/clusters/c/actions/install", query={"x": "y"})
    error = caught.value
    assert (error.status, error.code, error.reason) == (409, "409", "cluster is installing")
    assert str(error) == "POST /clusters/c/actions/install: HTTP 409: cluster is installing"


def test_a_certificate_of_another_ca(tmp_path: Path) -> None:
    for name in ("own", "other"):
        (tmp_path / name).mkdir()
        make_tls(tmp_path / name)
    with SocketService(one, tls=tmp_path / "own").running() as service:
        server = endpoint(service.url, ca_pem=(tmp_path / "other/ca.crt").read_text())
        with pytest.raises(Untrusted, match=rf"^TLS with {service.url} failed: .*CERTIFICATE_VERIFY_FAILED"):
            RestClient(server, Scheme.AGENT, TOKEN).call("GET", "/x")
    assert service.requests == []


@pytest.mark.parametrize("broken", [True, False])
def test_a_connection_that_ends_within_its_handshake_is_no_matter_of_trust(tmp_path: Path, broken: bool) -> None:
    make_tls(tmp_path)

    def hangs_up(service: SocketService, connection: socket.socket, stream: Any) -> None:
        connection.recv(CHUNK)
        if broken:
            reset(connection)

    with SocketService(hangs_up).running() as service:
        server = endpoint(service.url.replace("http:", "https:"), ca_file=tmp_path / "ca.crt")
        with pytest.raises(NoAnswer) as caught:
            RestClient(server, Scheme.AGENT, TOKEN).call("GET", "/x")
    assert not isinstance(caught.value, Untrusted)


@pytest.mark.parametrize("bad", ["to\nken", "to\rken", "tökén", "to\0ken", "\ud800"])
def test_a_token_that_no_header_carries_is_not_told(bad: str) -> None:
    server = endpoint("http://127.0.0.1:1")
    for options in ({"token": bad}, {"token": "t", "attempt": bad}):
        with pytest.raises(ClientError, match="is not one line of printable ASCII characters") as caught:
            RestClient(server, Scheme.AGENT, **options)
        assert bad not in str(caught.value)
    with pytest.raises(ClientError, match="header 'X-Own' is not one line") as caught:
        Transport(server).exchange(Request("GET", "/", "GET /", {"X-Own": bad}), lambda answer: None)
    assert bad not in str(caught.value)


def test_secrets_are_in_no_repr() -> None:
    client = AssistedClient(endpoint("https://[::1]:8090/"), Scheme.USER, TOKEN)
    assert repr(client) == "AssistedClient(https://[::1]:8090)"
    request = Request("PUT", f"/x?token={TOKEN}", "PUT /x", {"Authorization": TOKEN}, body=TOKEN.encode())
    assert TOKEN not in repr(request)
    assert "PUT /x" in repr(request)

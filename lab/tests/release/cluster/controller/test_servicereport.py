"""The cluster's clients against servers that send them elsewhere: who is asked next gets neither token nor request."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from installer.common.certificates import authority
from lab.release.cluster.controller.servicereport import Service, Target
from lab.release.cluster.errors import ApiError, EtcdError, ServiceError
from lab.release.cluster.kube.client import Kube
from lab.release.cluster.nodes.etcdapi import Etcd
from lab.release.cluster.pods import nodeinstall

TOKEN = "an-agents-token"


class Server(ThreadingHTTPServer):
    """Answers each request with one status; what came is kept."""

    def __init__(self, address: str, status: int, location: str = "", body: bytes = b"{}") -> None:
        super().__init__((address, 0), Handler)
        self.status, self.location, self.body = status, location, body
        self.seen: list[tuple[str, str, dict[str, str], bytes]] = []

    @property
    def url(self) -> str:
        return f"http://{self.server_address[0]}:{self.server_port}"  # type: ignore[str-bytes-safe]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, Server)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        server.seen.append((self.command, self.path, dict(self.headers), body))
        self.send_response(server.status)
        if server.location:
            self.send_header("Location", server.location + self.path)
        self.send_header("Content-Length", str(len(server.body)))
        self.end_headers()
        self.wfile.write(server.body)

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

    def log_message(self, *args: object) -> None:
        """Silent."""


@contextmanager
def served(*servers: Server) -> Iterator[None]:
    threads = [threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}) for server in servers]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for server, thread in zip(servers, threads, strict=True):
            server.shutdown()
            server.server_close()
            thread.join(10)


@pytest.fixture
def stranger() -> Iterator[Server]:
    """Another host."""
    server = Server("127.0.0.2", 200)
    with served(server):
        yield server


STATUSES = (301, 302, 303, 307, 308)


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize(("method", "body"), [("GET", None), ("PUT", {"current_stage": "Done"}), ("POST", {"a": 1})])
def test_an_agents_token_goes_nowhere_else(stranger: Server, status: int, method: str, body: object) -> None:
    redirecting = Server("127.0.0.1", status, stranger.url)
    with served(redirecting):
        service = Service(Target(redirecting.url, "", False, TOKEN, "c"))
        with pytest.raises(ServiceError) as caught:
            service.call(method, "/clusters/c", body)
    assert stranger.seen == []
    assert caught.value.status == status
    [(_, _, headers, sent)] = redirecting.seen
    assert headers["X-Secret-Key"] == TOKEN
    assert (json.loads(sent) if sent else None) == body


def test_an_answer_of_the_service_is_taken(stranger: Server) -> None:
    """The check of the test above: the server that would have been asked records what comes."""
    answer = Service(Target(stranger.url, "", False, TOKEN, "c")).call("GET", "/clusters/c")
    assert answer == {}
    assert [(method, headers["X-Secret-Key"]) for method, _, headers, _ in stranger.seen] == [("GET", TOKEN)]


def test_what_is_told_names_the_attempt(stranger: Server) -> None:
    Service(Target(stranger.url, "", False, TOKEN, "c", "the second")).call("GET", "/clusters/c")
    Service(Target(stranger.url, "", False, TOKEN, "c")).call("GET", "/clusters/c")
    attempts = [headers.get("X-Installation-Attempt") for _, _, headers, _ in stranger.seen]
    assert attempts == ["the second", None]


@pytest.mark.parametrize("status", STATUSES)
def test_the_clusters_own_clients_are_not_sent_elsewhere(stranger: Server, status: int) -> None:
    redirecting = Server("127.0.0.1", status, stranger.url)
    with served(redirecting):
        with pytest.raises(ApiError) as caught:
            Kube(redirecting.url, "", None).request("POST", "/api/v1/namespaces/a/secrets", {"data": {"a": "b"}})
        assert caught.value.status == status
        with pytest.raises(EtcdError, match=str(status)):
            Etcd([redirecting.url], "", ("", "")).members()
    assert stranger.seen == []
    assert len(redirecting.seen) == 2


def test_a_stage_is_not_ready_because_somebody_else_is(stranger: Server, tmp_path: Path) -> None:
    ca = tmp_path / "ca.crt"
    ca.write_text(authority("a CA").certificate)
    assert nodeinstall.answers(f"{stranger.url}/readyz", ca) == ""
    stranger.seen.clear()
    redirecting = Server("127.0.0.1", 302, stranger.url)
    with served(redirecting):
        assert "302" in nodeinstall.answers(f"{redirecting.url}/readyz", ca)
    assert stranger.seen == []

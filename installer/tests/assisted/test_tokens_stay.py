"""No client of the installer takes its token to a server that it was sent on to."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from installer.agent.checks import webchecks
from installer.assisted.auth import Scheme
from installer.assisted.client import AssistedClient
from installer.assisted.endpoint import endpoint
from installer.assisted.errors import ClientError
from installer.assisted.steparguments import ApiVipRequest, RequestHeader
from installer.observe.errors import KubeError
from installer.observe.kube import Kube
from installer.observe.service import Reach

TOKEN = "the-token"


class Server(ThreadingHTTPServer):
    """Sends every request on to ``location``, or answers when there is none; what came is kept."""

    def __init__(self, address: str, status: int, location: str = "") -> None:
        super().__init__((address, 0), Handler)
        self.status, self.location = status, location
        self.url = f"http://{address}:{self.server_port}"
        self.seen: list[dict[str, str]] = []
        self.thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05})
        self.thread.start()

    def stop(self) -> None:
        self.shutdown()
        self.server_close()
        self.thread.join(10)


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, Server)
        server.seen.append(dict(self.headers))
        self.send_response(server.status)
        if server.location:
            self.send_header("Location", server.location + self.path)
        self.end_headers()
        self.wfile.write(b'{"ignition": {}, "major": "1", "minor": "2"}')

    def log_message(self, *args: object) -> None:
        """Silent."""


@pytest.fixture(params=[301, 302, 303, 307, 308])
def servers(request: pytest.FixtureRequest) -> Iterator[tuple[Server, Server]]:
    """Provide (the server that is asked, the one that it sends everybody on to)."""
    stranger = Server("127.0.0.2", 200)
    asked = Server("127.0.0.1", request.param, stranger.url)
    yield asked, stranger
    asked.stop()
    stranger.stop()


def test_wait_for_and_gather(servers: tuple[Server, Server]) -> None:
    asked, stranger = servers
    client = AssistedClient(endpoint(asked.url), Scheme.WATCHER, TOKEN)
    with pytest.raises(ClientError) as caught:
        client.clusters()
    assert caught.value.status == asked.status
    with pytest.raises(ClientError):
        client.download_logs("c", io.BytesIO())
    client.close()
    assert [headers["Watcher-Authorization"] for headers in asked.seen] == [TOKEN, TOKEN]
    assert stranger.seen == []


def kubeconfig(path: Path, url: str) -> Path:
    config: dict[str, Any] = {
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": TOKEN}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(yaml.safe_dump(config))
    return path


def test_the_clusters_api(servers: tuple[Server, Server], tmp_path: Path) -> None:
    asked, stranger = servers
    kube = Kube(kubeconfig(tmp_path / "kubeconfig", asked.url), Reach(connect_timeout=5, read_timeout=5))
    with pytest.raises(KubeError):
        kube.check_alive()
    kube.close()
    assert [headers["authorization"] for headers in asked.seen] == [f"Bearer {TOKEN}"]
    assert stranger.seen == []


def test_the_ignition_of_a_later_host(servers: tuple[Server, Server]) -> None:
    asked, stranger = servers
    request = ApiVipRequest(
        url=f"{asked.url}/config",
        ignition_endpoint_token=TOKEN,
        request_headers=[RequestHeader(key="X-Own", value=TOKEN)],
    )
    answer = json.loads(webchecks.ignition(request))
    assert answer["is_success"] is False
    assert f"HTTP {asked.status}" in answer["download_error"]
    [headers] = asked.seen
    assert (headers["Authorization"], headers["X-Own"]) == (f"Bearer {TOKEN}", TOKEN)
    assert stranger.seen == []
    # The server that would have been asked answers as it should: it is the redirect that is refused.
    assert json.loads(webchecks.ignition(replace(request, url=stranger.url)))["is_success"] is True

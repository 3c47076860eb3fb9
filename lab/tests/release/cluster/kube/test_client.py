"""The API's client: a ServiceAccount's token, and watches that outlast what happens to them."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from lab.release.cluster.errors import ConfigError
from lab.release.cluster.kube import client
from lab.release.cluster.kube.client import Kube

KINDS = {"resources": [{"name": "pods", "kind": "Pod", "namespaced": True}]}


def pod(name: str, version: int, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "ns", "resourceVersion": str(version), "labels": labels}}


def event(kind: str, obj: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, "object": obj}


class Server(ThreadingHTTPServer):
    """Answers from a script, and keeps what it was asked: (query, Authorization) of each list and watch."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.lists: list[tuple[int, list[dict[str, Any]]]] = []
        self.watches: list[int | list[dict[str, Any]]] = []
        self.asked: list[tuple[dict[str, str], str]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, format: str, *arguments: Any) -> None:
        pass

    def _answer(self, status: int, body: Any) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        if url.path == "/api/v1":
            return self._answer(200, KINDS)
        self.server.asked.append((query, self.headers["Authorization"]))
        if "watch" not in query:
            version, items = self.server.lists.pop(0)
            return self._answer(200, {"metadata": {"resourceVersion": str(version)}, "items": items})
        script = self.server.watches.pop(0)
        if isinstance(script, int):
            return self._answer(script, {"message": "no", "code": script})
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for line in script:
            text = json.dumps(line).encode() + b"\n"
            self.wfile.write(b"%x\r\n%s\r\n" % (len(text), text))
        if script and script[-1]["type"] == "CUT":
            self.close_connection = True
        else:
            self.wfile.write(b"0\r\n\r\n")
        return None


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield running
    running.shutdown()
    running.server_close()
    thread.join()


def test_a_watch_outlasts_compaction_and_an_api_that_is_away(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "RETRY_SECONDS", 0.01)
    gone = event("ERROR", {"code": 410, "message": "too old"})
    server.lists = [(5, [pod("a", 2)]), (20, [pod("c", 19)]), (30, [])]
    server.watches = [
        [event("ADDED", pod("b", 6)), event("MODIFIED", pod("a", 7, x="y")), event("DELETED", pod("b", 8))],
        503,
        [event("ADDED", pod("d", 9))],
        410,  # the second list
        [gone],  # the third
        [event("ADDED", pod("e", 31))],
    ]
    stop = threading.Event()
    seen = []
    for objects in Kube(server.url, "", None).watch("v1", "Pod", stop, namespace="ns", labels="k=v"):
        seen.append({name: obj["metadata"]["labels"] for (_, name), obj in objects.items()})
        if "e" in seen[-1]:
            stop.set()
    changed = {"x": "y"}
    assert seen == [
        {"a": {}}, {"a": {}, "b": {}}, {"a": changed, "b": {}}, {"a": changed}, {"a": changed, "d": {}},
        {"c": {}}, {}, {"e": {}},
    ]  # fmt: skip
    assert [query.get("resourceVersion") for query, _ in server.asked] == [
        None, "5", "8", "8", "9", None, "20", None, "30"
    ]  # fmt: skip
    assert {query["labelSelector"] for query, _ in server.asked} == {"k=v"}


def test_a_watch_that_is_always_too_late_does_not_list_without_a_pause(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "RETRY_SECONDS", 0.1)
    server.lists = [(5, []), (6, []), (7, [])]
    server.watches = [410, 410, [event("ADDED", pod("a", 8))]]
    stop, began = threading.Event(), time.monotonic()
    for objects in Kube(server.url, "", None).watch("v1", "Pod", stop):
        if objects:
            stop.set()
    assert time.monotonic() - began >= 0.2


def test_a_watch_that_is_cut_off_goes_on_where_it_was(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "RETRY_SECONDS", 0.01)
    server.lists = [(5, [])]
    server.watches = [[event("ADDED", pod("a", 6)), event("CUT", pod("x", 7))], [event("ADDED", pod("b", 8))]]
    stop = threading.Event()
    for objects in Kube(server.url, "", None).watch("v1", "Pod", stop):
        if ("ns", "b") in objects:
            stop.set()
    assert ("ns", "a") in objects
    assert [query.get("resourceVersion") for query, _ in server.asked] == [None, "5", "7"]


def test_a_pod_speaks_with_the_token_that_its_kubelet_renews(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd02::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "6443")
    with pytest.raises(ConfigError, match="no ServiceAccount is mounted"):
        Kube.in_cluster(tmp_path)
    (tmp_path / "token").write_text("first\n")
    kube = Kube.in_cluster(tmp_path)
    assert (kube.server, kube.ca_file) == ("https://[fd02::1]:6443", str(tmp_path / "ca.crt"))
    kube.server = server.url
    server.lists = [(1, []), (1, [])]
    kube.list("v1", "Pod")
    (tmp_path / "token").write_text("second\n")
    kube.list("v1", "Pod")
    assert [header for _, header in server.asked] == ["Bearer first", "Bearer second"]
    monkeypatch.delenv("KUBERNETES_SERVICE_PORT")
    with pytest.raises(ConfigError, match="KUBERNETES_SERVICE_PORT: is set in a pod only"):
        Kube.in_cluster(tmp_path)

"""A cluster's API that answers what nobody asked for: an error of one line, or nothing."""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from installer.errors import StateError
from installer.observe.errors import KubeError
from installer.observe.kube import Kube
from installer.observe.service import Reach


class _Answers(http.server.BaseHTTPRequestHandler):
    body = b""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: object) -> None:
        pass


def test_a_kubeconfig_of_another_shape_is_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "kubeconfig").write_text(
        "{current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}], users: [{name: u, user: {}}],"
        " clusters: [{name: c, cluster: {server: 5}}]}"
    )
    with pytest.raises(StateError, match="cannot use"):
        Kube(tmp_path / "kubeconfig", Reach()).check_alive()


@pytest.fixture
def kube(tmp_path: Path) -> Iterator[Kube]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Answers) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        config = {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
            "users": [{"name": "u", "user": {}}],
        }
        path = tmp_path / "kubeconfig"
        path.write_text(json.dumps(config))
        client = Kube(path, Reach(connect_timeout=5, read_timeout=5))
        yield client
        client.close()
        server.shutdown()


@pytest.mark.parametrize(
    "body",
    ["[" * 99999, '{"items": 5}', "null", '{"items": [{"metadata": {}}]}', '{"items": [{"status": {"addresses": 5}}]}'],
)
def test_an_answer_of_another_shape_is_an_error_of_ours(kube: Kube, body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Answers, "body", body.encode())
    asked = (kube.check_alive, kube.node_addresses, kube.node_conditions, kube.operators, kube.operators_at)
    for ask in (*asked, kube.cluster_version):
        with contextlib.suppress(KubeError):
            ask()

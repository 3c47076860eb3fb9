"""The agent on a network: the real steps between namespaces, web servers that it asks."""

from __future__ import annotations

import http.server
import json
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from installer.agent.checks import webchecks
from installer.assisted.steparguments import ApiVipRequest, TangRequest, TangServer


class _Web(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        page = self.server.pages.get(self.path)
        token = self.headers.get("Authorization", "")
        self.send_response(302 if self.path == "/moved" else 404 if page is None else 200)
        self.send_header("Location", "/config")
        self.end_headers()
        self.wfile.write((page or "").replace("TOKEN", token).encode())

    def log_message(self, *args: object) -> None:
        """Silent."""


@pytest.fixture
def web() -> Iterator[Any]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Web)
    server.pages = {  # type: ignore[attr-defined]
        "/adv/THUMB": json.dumps({"payload": "p", "protected": "x", "signature": "y"}),
        "/config": '{"ignition": {"version": "3.2.0"}, "seen": "TOKEN"}',
        "/other": "[]",
        "/number": "1",
        "/text": "no JSON",
        "/deep": "[" * 20_000,
        "/adv/DEEP": '{"x": ' + "[" * 20_000,
        "/adv/LESS": json.dumps({"payload": "p", "signatures": [{"protected": "x"}]}),
        "/adv/TEXT": "no JSON",
    }
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join(10)


def test_tang(web: str) -> None:
    good = {"url": web, "thumbprint": "THUMB"}
    assert json.loads(webchecks.tang(TangRequest(tang_servers=json.dumps([good]))))["is_success"] is True
    answer = json.loads(
        webchecks.tang(TangRequest(tang_servers=[TangServer(**good), TangServer(url=web, thumbprint="no")]))
    )
    assert answer["is_success"] is False
    assert "HTTP 404" in answer["tang_server_response"][1]["error"]
    for thumbprint, words in (
        ("LESS", "signatures[0].signature is required"),
        ("TEXT", "is not JSON"),
        ("DEEP", "nested deeper"),
    ):
        answer = json.loads(webchecks.tang(TangRequest(tang_servers=[TangServer(url=web, thumbprint=thumbprint)])))
        assert words in answer["tang_server_response"][0]["error"]


def test_tang_that_nobody_serves() -> None:
    request = TangRequest(tang_servers=[TangServer(url="http://127.0.0.1:1", thumbprint="THUMB")])
    report = json.loads(webchecks.tang(request))
    assert report["is_success"] is False
    [answer] = report["tang_server_response"]
    assert answer["tang_url"] == "http://127.0.0.1:1"
    assert "Connection refused" in answer["error"]
    assert json.loads(webchecks.tang(TangRequest()))["tang_server_response"] == []


def test_ignition_of_a_later_host(web: str) -> None:
    answer = json.loads(webchecks.ignition(ApiVipRequest(url=f"{web}/config", ignition_endpoint_token="t0k")))
    assert answer["is_success"] is True
    assert json.loads(answer["ignition"])["seen"] == "Bearer t0k"
    answers = {
        "/other": "not an Ignition config",
        "/number": "not an Ignition config",
        "/text": "not an Ignition config",
        "/deep": "not an Ignition config",
    }
    for path, words in (*answers.items(), ("/none", "HTTP 404"), ("/moved", "HTTP 302")):
        answer = json.loads(webchecks.ignition(ApiVipRequest(url=web + path)))
        assert answer["is_success"] is False
        assert words in answer["download_error"]
    assert "not an http" in json.loads(webchecks.ignition(ApiVipRequest(url="file:///etc/passwd")))["download_error"]


def test_connectivity_between_network_namespaces() -> None:
    """The real step over a veth pair: the peer is reached on both layers, a stranger's MAC and a free address not."""
    script = """
    set -e
    unshare -n sleep 60 & peer=$!
    trap 'kill $peer' EXIT
    until [ "$(readlink /proc/$peer/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do :; done
    ip link add here type bridge
    ip link add port type veth peer name there
    ip link set there netns $peer
    nsenter -t $peer -n ip link set there address 52:54:00:00:00:02 up
    nsenter -t $peer -n ip address add 192.0.2.2/29 dev there
    ip link set port master here up
    ip address add 192.0.2.1/29 dev here
    ip link set here up
    "$0" -c '
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from installer.agent.checks import netchecks
from installer.assisted.steparguments import Peer, PeerNic, VipRequest
from installer.hostsys.system import HostSystem
host = HostSystem(Path("/"))
nics = [PeerNic(mac="52:54:00:00:00:02", ip_addresses=["192.0.2.2"]), PeerNic(mac="", ip_addresses=["192.0.2.3"])]
vips = [VipRequest(vip=vip, vip_type="api") for vip in ("192.0.2.1", "192.0.2.2", "192.0.2.3", "10.0.0.1")]
# Each is mostly waiting for those who do not answer.
with ThreadPoolExecutor() as pool:
    for made in [
        pool.submit(netchecks.connectivity, host, [Peer(host_id="p", nics=nics)]),
        pool.submit(netchecks.free_addresses, host, ["192.0.2.0/29"]),
        pool.submit(netchecks.verify_vips, host, vips),
    ]:
        print(made.result())'
    """
    done = subprocess.run(
        ["unshare", "-n", "bash", "-c", textwrap.dedent(script), sys.executable],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == 3, done.stderr
    peer = lines[0]["remote_hosts"][0]
    assert [(x["remote_ip_address"], x["successful"]) for x in peer["l2_connectivity"]] == [
        ("192.0.2.2", True),
        ("192.0.2.3", False),
    ]
    reached, silent = peer["l3_connectivity"]
    assert (reached["successful"], reached["packet_loss_percentage"]) == (True, 0)
    assert silent["successful"] is False
    assert [item["mtu_successful"] for item in peer["mtu_report"]] == [True, False]
    assert lines[1][0]["free_addresses"] == ["192.0.2.3", "192.0.2.4", "192.0.2.5", "192.0.2.6"]
    assert [item["verification"] for item in lines[2]] == ["failed", "failed", "succeeded", "unverified"]

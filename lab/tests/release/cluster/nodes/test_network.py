"""Operator `network`: its probe against servers in a network namespace, and what it says of each fault."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from lab.host.namespaces import CLONE_NEWNET, setns, unshare
from lab.release.cluster.kube.conditions import operator_status
from lab.release.cluster.nodes.probes.network import NAMESPACE, network, unreached
from lab.release.cluster.nodes.probes.view import View

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
READY = {"conditions": [{"type": "Ready", "status": "True"}]}
SERVICE = "172.30.0.9"


class Cluster:
    """Three nodes of which each has an address for its kube-proxy and one for its pod; and what does not work there."""

    def __init__(self) -> None:
        self.mend()

    def mend(self) -> None:
        self.cut: set[tuple[str, str]] = set()
        self.policies: list[dict[str, Any]] = []
        self.nodes = [
            {
                "metadata": {"name": f"n{number}", "creationTimestamp": "2025-12-01T00:00:00Z"},
                "spec": {"podCIDR": f"127.0.{number}.0/24"},
                "status": {**READY, "addresses": [{"type": "InternalIP", "address": f"127.9.9.{number}"}]},
            }
            for number in (1, 2, 3)
        ]
        self.pods = [
            {
                "metadata": {"namespace": NAMESPACE, "name": f"network-check-target-{number}"},
                "spec": {"nodeName": f"n{number}"},
                "status": {**READY, "podIP": f"127.0.{number}.2"},
            }
            for number in (1, 2, 3)
        ]

    def get(self, api_version: str, kind: str, name: str, namespace: str) -> dict[str, Any]:
        return {"spec": {"clusterIP": SERVICE}}

    def list(self, api_version: str, kind: str) -> list[dict[str, Any]]:
        return self.policies

    def finding(self) -> Any:
        view = View(self, Path(), NOW, self.nodes, self.pods, domain="", apps_domain="")  # type: ignore[arg-type]
        return network(view)


class Handler(BaseHTTPRequestHandler):
    """A kube-proxy's health, and a pod that reaches whatever is not cut."""

    cluster: Cluster
    name: str

    def log_message(self, format: str, *arguments: Any) -> None:
        pass

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        if path == "/healthz":
            healthy = (self.name, "proxy") not in self.cluster.cut
            return self.send_error(503) if not healthy else self._send("{}")
        lines = []
        for address in query.split(","):
            other = "n1" if address == SERVICE else f"n{address.split('.')[2]}"
            cut = (self.name, "service" if address == SERVICE else other) in self.cluster.cut
            lines.append(f"{address} {'- No route to host' if cut else other}")
        return self._send("\n".join(lines))

    def _send(self, text: str) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(text.encode())


@pytest.fixture(scope="module")
def running() -> Iterator[Cluster]:
    """Serve for all nodes in a network of this thread's own."""
    before = os.open("/proc/self/ns/net", os.O_RDONLY)
    unshare(CLONE_NEWNET)
    cluster = Cluster()
    with ExitStack() as stack:
        stack.callback(os.close, before)
        stack.callback(setns, before, CLONE_NEWNET)
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True, timeout=60)
        for number in (1, 2, 3):
            handler = type("Node", (Handler,), {"cluster": cluster, "name": f"n{number}"})
            for address in ((f"127.0.{number}.2", 8080), (f"127.9.9.{number}", 10256)):
                server = ThreadingHTTPServer(address, handler)
                thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
                thread.start()
                stack.callback(thread.join)
                stack.callback(server.server_close)
                stack.callback(server.shutdown)
        yield cluster


@pytest.fixture
def cluster(running: Cluster) -> Cluster:
    """Return the cluster with nothing broken."""
    running.mend()
    return running


def test_all_is_well_when_each_pod_reached_all_others_and_the_service(cluster: Cluster) -> None:
    found = cluster.finding()
    assert found.good, found.message
    assert found.message.startswith("On 3 nodes a pod reached the pod of every node and Service address 172.30.0.9 ")


@pytest.mark.parametrize(
    ("cut", "message", "condition"),
    [
        (
            {("n1", "n3")},
            "node n1: its pod has no way to pod 127.0.3.2 of node n3 (No route to host)",
            "Degraded",
        ),
        (
            {("n2", "service")},
            "node n2: its pod has no way to Service address 172.30.0.9 (No route to host)",
            "Degraded",
        ),
        ({("n3", "proxy")}, "node n3: GET :10256/healthz of its kube-proxy: 503 ", "Degraded"),
        ({(f"n{number}", "service") for number in (1, 2, 3)}, "node n1: its pod has no way to Service", "Available"),
    ],
)
def test_each_cut_is_told_of_the_nodes_that_have_it(
    cluster: Cluster, cut: set[tuple[str, str]], message: str, condition: str
) -> None:
    cluster.cut = cut
    found = cluster.finding()
    assert (found.good, found.condition, found.reason) == (False, condition, "PodsNotReached")
    assert found.message.startswith(message)
    texts = f"; {found.message}".split("; node ")[1:]
    assert {text.partition(":")[0] for text in texts} == {name for name, _ in cut}


def test_a_node_that_is_gone_is_not_held_against_the_others(cluster: Cluster) -> None:
    cluster.pods[1]["status"]["podIP"] = "127.0.2.77"  # nobody listens there
    found = cluster.finding()
    assert found.condition == "Degraded"
    assert found.message.startswith("node n2: GET http://127.0.2.77:8080/cgi-bin/reach of its pod: no answer")
    assert "n1" not in found.message


def test_a_pod_of_another_network_is_told(cluster: Cluster) -> None:
    for pod in cluster.pods:
        pod["status"]["podIP"] = "10.88.0.2"
    found = cluster.finding()
    assert (found.good, found.condition) == (False, "Available")
    assert "node n3: its pod has 10.88.0.2, which is not of podCIDR 127.0.3.0/24" in found.message


def test_a_network_that_two_nodes_have_is_told(cluster: Cluster) -> None:
    cluster.nodes[2]["spec"]["podCIDR"] = "127.0.1.0/24"
    cluster.nodes[2]["metadata"]["creationTimestamp"] = "2025-12-31T23:59:00Z"
    found = cluster.finding()
    assert found.message == "node n3: podCIDR 127.0.1.0/24 overlaps with that of node n1"
    assert found.condition == "Degraded"


def test_a_node_that_has_just_joined_makes_nothing_worse(cluster: Cluster) -> None:
    del cluster.pods[2]
    cluster.nodes[2]["metadata"]["creationTimestamp"] = "2025-12-31T23:59:00Z"
    found = cluster.finding()
    assert (found.condition, found.message) == ("Progressing", "node n3: its pod network-check-target is not Ready")


def test_policies_that_nothing_enforces_degrade_a_network_that_serves(cluster: Cluster) -> None:
    cluster.policies = [{"metadata": {"namespace": "shop", "name": "deny"}}]
    found = cluster.finding()
    assert found.good
    assert found.message.endswith("; nothing enforces the NetworkPolicies shop/deny")
    status = operator_status({}, found, 0.0, NOW, versions=[{"name": "operator", "version": "1"}])
    states = {each["type"]: (each["status"], each["reason"]) for each in status["conditions"]}
    assert states["Available"] == ("True", "AsExpected")
    assert states["Degraded"] == ("True", "NetworkPolicyNotEnforced")
    cluster.policies = []
    status = operator_status(status, cluster.finding(), 0.0, NOW, versions=[])
    assert {each["type"]: each["status"] for each in status["conditions"]}["Degraded"] == "False"


def test_an_answer_that_lacks_an_address_lacks_its_pod() -> None:
    pods = {"fd01::2": "a", "fd01:0:0:1::2": "b"}
    assert unreached("fd01::2 a\nfd01:0:0:1::2 a\n", pods, ["fd02::9"]) == [
        "pod fd01:0:0:1::2 of node b (a)",
        "Service address fd02::9 (no answer)",
    ]

"""The probe of the cluster's names, with servers that answer, answer wrongly, or not at all."""

from __future__ import annotations

import datetime as dt
import socket
import threading
from collections.abc import Iterator

import dns.message
import dns.rcode
import dns.rrset
import pytest

from lab.release.cluster.nodes.probes import dns as probe
from lab.release.cluster.nodes.probes.view import View

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
NAME = "web.ns.svc.cluster.local."


class Server:
    """A DNS server with the addresses of one name."""

    def __init__(self) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.port: int = self.socket.getsockname()[1]
        self.answers: list[list[str]] = []
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self) -> None:
        while True:
            try:
                data, client = self.socket.recvfrom(4096)
            except OSError:
                return
            query = dns.message.from_wire(data)
            answer = dns.message.make_response(query)
            question = query.question[0]
            is_first = question.rdtype == 1
            addresses = self.answers[0] if self.answers else []
            if str(question.name) != NAME:
                answer.set_rcode(dns.rcode.NXDOMAIN)
            elif is_first and addresses:
                answer.answer.append(dns.rrset.from_text(NAME, 5, "IN", "A", *addresses))
            if not is_first and len(self.answers) > 1:
                self.answers.pop(0)
            self.socket.sendto(answer.to_wire(), client)


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.socket.close()


def test_an_answer_must_have_all_addresses_and_no_other(server):
    question = probe.Question(NAME, frozenset(["10.0.0.1"]))
    server.answers = [["10.0.0.1"]]
    assert probe.wrong("127.0.0.1", server.port, [question], 0.0) == ""
    server.answers = [["10.0.0.1", "10.0.0.2"]]
    assert "10.0.0.1, 10.0.0.2" in probe.wrong("127.0.0.1", server.port, [question], 0.0)
    server.answers = [[]]
    assert "has no address" in probe.wrong("127.0.0.1", server.port, [question], 0.0)
    anything = [probe.Question(NAME, None), probe.Question("other.", None)]
    server.answers = [["10.0.0.7"]]
    assert "says NXDOMAIN for other." in probe.wrong("127.0.0.1", server.port, anything, 0.0)


def test_news_may_take_their_time_until_the_deadline(server, monkeypatch):
    monkeypatch.setattr(probe, "PAUSE_SECONDS", 0.01)
    server.answers = [["10.0.0.1"], ["10.0.0.1"], ["10.0.0.2"]]
    news = [probe.Question(NAME, frozenset(["10.0.0.2"]))]
    assert probe.wrong("127.0.0.1", server.port, news, float("inf")) == ""


def test_silence_is_said_to_be_silence(server, monkeypatch):
    monkeypatch.setattr(probe, "QUERY_SECONDS", 0.1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        text = probe.wrong("127.0.0.1", silent.getsockname()[1], [probe.Question(NAME, None)], 0.0)
    assert "does not answer within 0.1 s" in text


@pytest.mark.parametrize("version", [4, 6])
def test_each_round_changes_the_address(version):
    rounds = [probe.changing(NOW + dt.timedelta(seconds=s), version) for s in range(5)]
    assert len({part["endpoints"][0]["addresses"][0] for part in rounds}) == 5
    assert {part["addressType"] for part in rounds} == {f"IPv{version}"}
    # by which kube-proxy passes over it
    assert all("service.kubernetes.io/headless" in part["metadata"]["labels"] for part in rounds)


def test_a_node_without_a_server_is_named_with_the_reason():
    def node(name: str, ready: str = "True") -> dict:
        return {"metadata": {"name": name}, "status": {"conditions": [{"type": "Ready", "status": ready}]}}

    def pod(name: str, ready: str = "True", **meta: str) -> dict:
        labels = {probe.LABEL: "default"}
        status = {"podIP": "10.128.0.2", "conditions": [{"type": "Ready", "status": ready}]}
        named: dict = {"name": f"dns-{name}", "namespace": "openshift-dns", "labels": labels, **meta}
        return {"metadata": named, "spec": {"nodeName": name}, "status": status}

    nodes = [node("good"), node("down", "False"), node("none"), node("dead"), node("leaving")]
    pods = [pod("good"), pod("down"), pod("dead", "False"), pod("leaving", deletionTimestamp="2026-01-01T00:00:00Z")]
    found, lacking = probe.servers(View(None, None, NOW, nodes, pods, "", ""))
    assert found == {"good": "10.128.0.2"}
    assert set(lacking) == {"down", "none", "dead", "leaving"}
    assert lacking["dead"] == "its pod dns-dead is not Ready"

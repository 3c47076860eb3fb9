"""Nodes get their part of the cluster network, each another one, and keep it; a part that is taken twice is told."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from ipaddress import ip_network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.release.cluster.errors import ClusterError
from lab.release.cluster.network import podnetworks
from lab.waiting import wait_until

NETWORKS = (("10.128.0.0/14", 23),)
PARTS = [str(part) for part in ip_network("10.128.0.0/14").subnets(new_prefix=23)]
INSTALL = """apiVersion: v1
baseDomain: example.test
metadata: {name: c}
controlPlane: {name: master, replicas: 3}
compute: [{name: worker, replicas: 0}]
networking:
  clusterNetwork: [{cidr: 10.128.0.0/14, hostPrefix: 23}]
  machineNetwork: [{cidr: 192.168.111.0/24}]
platform: {none: {}}
pullSecret: '{"auths": {}}'
"""


def node(name: str, part: str = "") -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"podCIDR": part} if part else {}}


@given(st.lists(st.booleans(), max_size=12), st.randoms())
def test_each_node_has_a_part_of_its_own_and_keeps_what_it_has(have_network: list[bool], random: Any) -> None:
    own = random.sample(PARTS[:24], len(have_network))
    nodes = [node(f"n{index}", own[index] if has else "") for index, has in enumerate(have_network)]
    given_now = dict(podnetworks.missing(nodes, NETWORKS))
    assert set(given_now) == {f"n{index}" for index, has in enumerate(have_network) if not has}
    parts = [(given_now.get(each["metadata"]["name"]) or [each["spec"]["podCIDR"]])[0] for each in nodes]
    assert len(set(parts)) == len(parts)
    assert set(parts) <= set(PARTS)


def test_a_network_that_is_used_up_is_told() -> None:
    nodes = [node("a", "10.0.0.0/24"), node("b", "10.0.1.0/24"), node("c")]
    with pytest.raises(ClusterError, match=r"cluster network 10\.0\.0\.0/23 has no /24 left for node c"):
        list(podnetworks.missing(nodes, (("10.0.0.0/23", 24),)))


def test_with_both_families_a_node_has_a_part_of_each_in_their_order() -> None:
    both = (("fd01::/48", 64), NETWORKS[0])
    complete = {"metadata": {"name": "b"}, "spec": {"podCIDR": "fd01::/64", "podCIDRs": ["fd01::/64", "10.128.0.0/23"]}}
    assert list(podnetworks.missing([node("a"), complete], both)) == [("a", ["fd01:0:0:1::/64", "10.128.2.0/23"])]
    assert list(podnetworks.missing([node("a")], both[:1])) == [("a", ["fd01::/64"])]


def test_one_family_that_is_used_up_leaves_the_node_without_any() -> None:
    nodes = [node("a", "10.0.0.0/24"), node("b")]
    with pytest.raises(ClusterError, match=r"10\.0\.0\.0/24 has no /24 left for node b"):
        list(podnetworks.missing(nodes, (("fd01::/48", 64), ("10.0.0.0/24", 24))))


def test_of_two_nodes_with_one_part_the_younger_is_told() -> None:
    young, old, other = node("a", "10.128.2.0/23"), node("z", "10.128.0.0/14"), node("c", "fd01::/64")
    for each, second in ((young, 9), (old, 5), (other, 7)):
        each["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:0{second}Z"
    assert podnetworks.taken_twice([young, old, other]) == {"a": "podCIDR 10.128.2.0/23 overlaps with that of node z"}
    assert podnetworks.taken_twice([young, other]) == {}


class Cluster:
    """The part of the API's client that is used, over a list of nodes."""

    def __init__(self) -> None:
        self.nodes: list[dict[str, Any]] = []
        self.events: list[dict[str, Any]] = []
        self.broken = False
        self.rounds = threading.Semaphore(0)
        self.changes: queue.Queue[None] = queue.Queue()

    def get(self, api_version: str, kind: str, name: str, namespace: str = "") -> Any:
        self.rounds.release()
        if self.broken:
            raise ClusterError("the API is away")
        return {"data": {"install-config": INSTALL}}

    def list(self, api_version: str, kind: str) -> list[dict[str, Any]]:
        return self.nodes

    def watch(self, api_version: str, kind: str, stop: threading.Event) -> Iterator[Any]:
        while not stop.is_set():
            yield {("", each["metadata"]["name"]): each for each in self.nodes}
            self.changes.get(timeout=10)

    def _named(self, target: dict[str, Any]) -> dict[str, Any]:
        [node] = [item for item in self.nodes if item["metadata"]["name"] == target["metadata"]["name"]]
        return node

    def merge_patch(self, target: dict[str, Any], patch: dict[str, Any]) -> None:
        self._named(target)["spec"].update(patch["spec"])

    def object_path(self, obj: dict[str, Any], sub: str) -> str:
        return f"/{obj['metadata']['name']}/{sub}"

    def request(self, method: str, path: str, body: Any, *, content_type: str) -> None:
        [wanted] = body["status"]["conditions"]
        conditions = self._named({"metadata": {"name": path.split("/")[1]}}).setdefault("status", {"conditions": []})
        kept = [each for each in conditions["conditions"] if each["type"] != wanted["type"]]
        conditions["conditions"] = [*kept, wanted]

    def create(self, obj: dict[str, Any]) -> dict[str, Any]:
        self.events.append(obj)
        return obj


def test_the_condition_and_the_event_come_once_and_the_condition_goes() -> None:
    cluster = Cluster()
    loop = podnetworks.PodNetworks(cluster)  # type: ignore[arg-type]
    cluster.nodes = [node("a", "10.128.0.0/23"), node("b", "10.128.0.0/23"), node("c")]
    ready = {"type": "Ready", "status": "True"}
    cluster.nodes[1]["status"] = {"conditions": [ready]}
    for _ in range(3):
        loop.step(cluster.nodes)
    [event] = cluster.events
    about = event["involvedObject"]
    assert (event["type"], event["reason"], about["kind"], about["uid"]) == ("Warning", podnetworks.TWICE, "Node", "b")
    kept, condition = cluster.nodes[1]["status"]["conditions"]
    assert (kept, condition["type"], condition["status"]) == (ready, "NetworkUnavailable", "True")
    assert condition["message"] == "podCIDR 10.128.0.0/23 overlaps with that of node a"
    del cluster.nodes[0]
    loop.step(cluster.nodes)
    assert cluster.nodes[0]["status"]["conditions"][1]["status"] == "False"
    assert "status" not in cluster.nodes[1]
    assert len(cluster.events) == 1


def test_the_loop_bears_an_api_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(podnetworks, "RETRY_SECONDS", 0.01)
    cluster, stop = Cluster(), threading.Event()
    cluster.broken = True
    thread = threading.Thread(target=podnetworks.PodNetworks(cluster).run, args=(stop,))  # type: ignore[arg-type]
    thread.start()
    try:
        for _ in range(3):
            assert cluster.rounds.acquire(timeout=10)
        cluster.nodes.append(node("a"))
        cluster.broken = False
        wait_until(lambda: cluster.nodes[0]["spec"] != {}, 10, "node a's podCIDR")
        cluster.nodes.append(node("b"))
        cluster.changes.put(None)
        wait_until(lambda: cluster.nodes[1]["spec"] != {}, 10, "node b's podCIDR")
        assert [each["spec"]["podCIDR"] for each in cluster.nodes] == ["10.128.0.0/23", "10.128.2.0/23"]
    finally:
        stop.set()
        cluster.changes.put(None)
        thread.join(10)

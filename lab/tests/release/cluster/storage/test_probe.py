"""ClusterOperator storage: what its probe sees of nodes that serve volumes, and of those that do not."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from lab.release.cluster.kube.conditions import Finding
from lab.release.cluster.nodes.probes import storage as probe
from lab.release.cluster.nodes.probes.view import View
from lab.release.cluster.storage import claims
from lab.release.cluster.storage.directories import Directories
from lab.release.cluster.storage.volumes import Provisioner
from lab.testing.volumeapi import NOW, VolumeApi, claim, storage_class

AGE = {"creationTimestamp": NOW.isoformat()}
READY = [{"type": "Ready", "status": "True"}]


class Cluster:
    """Two nodes; those in `broken` do not answer."""

    def __init__(self, base: Path) -> None:
        self.api = VolumeApi()
        self.api.create(storage_class())
        self.names = ["a", "b"]
        self.broken: set[str] = set()
        self.stopped: set[str] = set()
        self.base = base

    def later(self, seconds: int) -> Finding:
        """Let time pass, the nodes act, and the probe look."""
        self.api.now += dt.timedelta(seconds=seconds)
        self.api.bind()
        for name in set(self.names) - self.broken:
            both = self.api.list("v1", "PersistentVolumeClaim") + self.api.list("v1", "PersistentVolume")
            Provisioner(self.api, name, name, Directories(self.base / name)).step(both)  # type: ignore[arg-type]
        self.api.bind()
        nodes: Any = [
            {
                "metadata": {**AGE, "name": n, "labels": {claims.HOSTNAME: n}},
                "status": {"conditions": READY, "addresses": [{"type": "InternalIP", "address": n}]},
            }
            for n in self.names
        ]
        pod = {"metadata": {"namespace": "openshift-cluster-network", "labels": {"app": "node-network"}}}
        pods: Any = [{**pod, "spec": {"nodeName": n}, "status": {"conditions": READY}} for n in self.names]
        seen = View(self.api, Path(), self.api.now, nodes, pods, "", "")  # type: ignore[arg-type]
        return probe.storage(seen)

    def directories(self) -> int:
        return len(list(self.base.glob("*/*")))


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    found = Cluster(tmp_path)
    monkeypatch.setattr(probe, "silent", lambda host: "stands still" if host in found.stopped else "")
    assert "its first claim is not bound yet" in found.later(0).message
    assert found.later(5).good
    return found


def test_claims_are_renewed_and_none_is_left(cluster: Cluster) -> None:
    for _ in range(62):
        assert cluster.later(60).good
    assert (len(cluster.api.list("v1", "PersistentVolumeClaim")), cluster.directories()) == (2, 2)
    assert cluster.api.now > NOW + dt.timedelta(hours=1)


def test_a_node_that_answers_no_claim_is_named_and_recovers(cluster: Cluster) -> None:
    cluster.broken = {"b"}
    looks = [cluster.later(60) for _ in range(14)]
    assert [look.good for look in looks] == sorted((look.good for look in looks), reverse=True)
    assert looks[-1].message.startswith("b: claim check-")
    assert looks[-1].message.endswith("is not bound after 60 s")
    cluster.broken = set()
    assert cluster.later(5).good


def test_a_process_that_stands_still_is_named_at_once(cluster: Cluster) -> None:
    cluster.stopped = {"b"}
    look = cluster.later(5)
    assert (look.message, look.condition) == ("b: stands still", "Progressing")
    cluster.stopped = set()
    assert cluster.later(5).good


def test_a_node_that_removes_nothing_is_named(cluster: Cluster) -> None:
    [first] = [c for c in cluster.api.list("v1", "PersistentVolumeClaim") if claims.selected(c) == "b"]
    cluster.broken = {"b"}
    cluster.api.delete("v1", "PersistentVolumeClaim", first["metadata"]["name"], probe.NAMESPACE)
    looks = [cluster.later(5).message for _ in range(2)]
    assert looks[0] == "b: its first claim is not bound yet"
    cluster.broken = set()
    assert cluster.later(5).good


def test_a_released_volume_is_named_and_forgotten_with_its_node(cluster: Cluster) -> None:
    volume = next(v for v in cluster.api.list("v1", "PersistentVolume") if v["spec"]["local"]["path"].find("/b/") > 0)
    volume["status"] = {"phase": "Released"}
    volume["spec"] |= {"persistentVolumeReclaimPolicy": "Retain", "claimRef": {**volume["spec"]["claimRef"], "uid": ""}}
    name = volume["metadata"]["name"]
    assert cluster.later(5).message == f"b: volume {name} is released and not removed"
    cluster.names = ["a"]
    assert cluster.later(5).good
    assert name not in {v["metadata"]["name"] for v in cluster.api.list("v1", "PersistentVolume")}


def test_a_volume_by_hand_that_names_a_claim_of_the_operator_is_let_alone(cluster: Cluster) -> None:
    reference = {"kind": "PersistentVolumeClaim", "namespace": probe.NAMESPACE, "name": "gone", "uid": "x"}
    spec = {"hostPath": {"path": "/tmp"}, "claimRef": reference}
    head = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "hand"}}
    cluster.api.create({**head, "spec": spec, "status": {"phase": "Released"}})
    assert cluster.later(5).good
    assert cluster.api.get("v1", "PersistentVolume", "hand")


def test_a_users_claim_leaves_a_node_that_is_gone(cluster: Cluster) -> None:
    cluster.names = ["a"]
    cluster.api.create(claim(node="b"))
    cluster.later(5)
    users = cluster.api.get("v1", "PersistentVolumeClaim", "data", "user")
    assert users is not None
    assert claims.selected(users) == ""


def test_without_the_class_there_are_no_volumes(cluster: Cluster) -> None:
    cluster.api.delete(claims.CLASS_API, "StorageClass", "local")
    assert cluster.later(5).message == "StorageClass local is not there or not the default"

"""The provisioner of a node, over a dictionary in the place of the API and real directories."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.release.cluster.storage import claims, volumes
from lab.release.cluster.storage.directories import Directories
from lab.testing.volumeapi import VolumeApi, claim, messages, storage_class


class Node:
    """A node with its provisioner."""

    def __init__(self, api: VolumeApi, name: str, base: Path) -> None:
        self.api = api
        self.base = base / name
        self.provisioner = volumes.Provisioner(api, name, f"host-{name}", Directories(self.base))  # type: ignore[arg-type]

    def step(self) -> list[str]:
        self.api.bind()
        both = self.api.list("v1", "PersistentVolumeClaim") + self.api.list("v1", "PersistentVolume")
        self.provisioner.step(both)
        self.api.bind()
        return sorted(path.name for path in self.base.iterdir()) if self.base.exists() else []


@pytest.fixture
def api() -> VolumeApi:
    found = VolumeApi()
    found.create(storage_class())
    return found


@pytest.fixture
def nodes(api: VolumeApi, tmp_path: Path) -> tuple[Node, Node]:
    return Node(api, "a", tmp_path), Node(api, "b", tmp_path)


def phases(api: VolumeApi) -> dict[str, str]:
    return {obj["metadata"]["name"]: obj["status"]["phase"] for obj in api.list("v1", "PersistentVolumeClaim")}


def test_only_the_selected_node_answers_and_removes(api: VolumeApi, nodes: tuple[Node, Node]) -> None:
    a, b = nodes
    api.create(claim())
    api.create(claim("later", node=""))
    assert b.step() == []
    [name] = a.step()
    assert phases(api) == {"data": "Bound", "later": "Pending"}
    [volume] = api.list("v1", "PersistentVolume")
    assert (volume["metadata"]["name"], volume["spec"]["capacity"]) == (name, {"storage": "1Mi"})
    assert volume["spec"]["nodeAffinity"] == {
        "required": {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": claims.HOSTNAME, "operator": "In", "values": ["host-a"]}]}
            ]
        }
    }
    api.delete("v1", "PersistentVolumeClaim", "data", "user")
    b.step()
    assert api.list("v1", "PersistentVolume") == [volume]
    assert a.step() == []
    assert api.list("v1", "PersistentVolume") == []


def test_a_volume_that_is_to_be_kept_is_kept(api: VolumeApi, nodes: tuple[Node, Node], monkeypatch: Any) -> None:
    a, _ = nodes
    api.create(claim())
    names = a.step()
    api.delete("v1", "PersistentVolumeClaim", "data", "user")
    [stale] = api.list("v1", "PersistentVolume")
    kept = {**stale, "spec": {**stale["spec"], "persistentVolumeReclaimPolicy": "Retain"}}
    monkeypatch.setattr(api, "get", lambda *_: kept)  # changed after the list
    assert a.step() == names
    assert api.list("v1", "PersistentVolume") == [stale]


def test_a_refusal_is_told_and_counted_and_tried_again(
    api: VolumeApi, nodes: tuple[Node, Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, _ = nodes
    api.create(claim(accessModes=["ReadWriteMany"]))
    api.bind()
    listed = api.list("v1", "PersistentVolumeClaim")
    for _ in range(3):
        a.provisioner.step(listed)
    [message] = messages(api, "ProvisioningFailed")
    assert message.startswith("accessModes: ReadWriteMany: must be ReadWriteOnce")
    [event] = api.list("v1", "Event")
    assert event["count"] == 1
    monkeypatch.setattr(volumes, "RETRY_SECONDS", 0.0)
    a.provisioner.step(listed)
    assert event["count"] == 2
    listed[0]["spec"]["accessModes"] = ["ReadWriteOnce"]
    a.step()
    assert phases(api) == {"data": "Bound"}


def test_a_claim_that_is_larger_than_the_disks_free_space_goes_elsewhere(
    api: VolumeApi, nodes: tuple[Node, Node]
) -> None:
    a, _ = nodes
    api.create(claim(resources={"requests": {"storage": "1Ei"}}))
    assert a.step() == []
    [message] = messages(api, "ProvisioningFailed")
    assert message.startswith("resources.requests.storage: 1Ei: ")
    assert message.endswith(f"Gi are free below {a.base} of node a")
    [waiting] = api.list("v1", "PersistentVolumeClaim")
    assert claims.selected(waiting) == ""


def test_a_volume_by_another_hand_removes_nothing(api: VolumeApi, nodes: tuple[Node, Node], tmp_path: Path) -> None:
    a, _ = nodes
    api.create(claim())
    [name] = a.step()
    [volume] = api.list("v1", "PersistentVolume")
    victim = tmp_path / "victim"
    victim.mkdir()
    reference = {**volume["spec"]["claimRef"], "uid": "another"}
    spec = {**volume["spec"], "local": {"path": f"{a.base}/../victim"}, "claimRef": reference}
    forged = api.create({**volume, "metadata": {**volume["metadata"], "name": "pvc-x"}, "spec": spec})
    assert forged is not None
    forged["status"] = {"phase": "Released"}
    assert a.step() == [name]
    assert victim.exists()
    [message] = messages(api, "VolumeFailedDelete")
    assert "must be pvc- and the claim's UID: nothing is removed" in message

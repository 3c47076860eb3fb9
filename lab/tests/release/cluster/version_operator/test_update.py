"""An update's pass: the payload's order, operators one after the other, what ends it, and what is told of it."""

import threading
from typing import Any

import pytest

from lab.release.cluster.errors import Superseded, UnknownKind
from lab.release.cluster.kube.conditions import find
from lab.release.cluster.kube.payload import Manifest
from lab.release.cluster.version_operator import sync
from lab.release.cluster.version_operator.sync import CONFIG, Syncer
from lab.release.cluster.version_operator.upgrade import updating

OLD, NEW = "4.18.0", "4.18.1"
HISTORY: list[dict[str, Any]] = [
    {"state": "Partial", "version": NEW, "image": "new", "startedTime": "t", "completionTime": None, "verified": True},
    {
        "state": "Completed",
        "version": OLD,
        "image": "old",
        "startedTime": "t",
        "completionTime": "t",
        "verified": False,
    },
]


def operator(name, level):
    versions = [{"name": "operator", "version": NEW}]
    obj = {
        "apiVersion": CONFIG,
        "kind": "ClusterOperator",
        "metadata": {"name": name},
        "status": {"versions": versions},
    }
    return Manifest(f"0000_{level}_{name}_90.yaml", level, name, obj)


def config(name, level, **annotations):
    meta = {
        "name": name,
        "namespace": "n",
        "annotations": {f"release.openshift.io/{k}": v for k, v in annotations.items()},
    }
    return Manifest(f"0000_{level}_x_01.yaml", level, "x", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})


class Api:
    """An API whose operators are at this release after so many looks, in the states that a test gives them."""

    def __init__(self, looks):
        self.looks, self.done, self.states = dict(looks), [], {}
        self.version = {"metadata": {"generation": 2}, "spec": {}, "status": {"history": HISTORY}}
        self.messages = []

    def get(self, api_version, kind, name, namespace=None):
        if kind == "ClusterVersion":
            return {"apiVersion": api_version, "kind": kind, **self.version}
        if kind == "ClusterOperator":
            self.looks[name] -= 1
            states = {"Available": "True", "Degraded": "False", **self.states.get(name, {})}
            conditions = [{"type": kind, "status": state} for kind, state in states.items()]
            reached = self.looks[name] <= 0
            if reached and (name, "reached") not in self.done:
                self.done.append((name, "reached"))
            return {
                "status": {
                    "conditions": conditions,
                    "versions": [{"name": "operator", "version": NEW if reached else OLD}],
                }
            }
        return None

    def list(self, api_version, kind, **_):
        return [{"metadata": {"name": name}} for name in self.looks]

    def resource(self, api_version, kind):
        return None

    def create(self, obj):
        self.done.append((obj["metadata"]["name"], "created"))
        return obj

    def delete(self, api_version, kind, name, namespace=None):
        self.done.append((name, "deleted"))
        return True

    def replace(self, obj, sub=""):
        if obj["kind"] == "ClusterVersion":
            self.version = {key: obj[key] for key in ("metadata", "spec", "status")}
            self.messages.append(self.said("Progressing")[2])
        return obj

    def said(self, kind):
        condition = find(self.version["status"]["conditions"], kind)
        return condition["status"], condition.get("reason", ""), condition.get("message", "")


PAYLOAD = [
    config("a", 10),
    operator("etcd", 10),
    config("b", 20),
    config("gone", 20, delete="true"),
    operator("kube-apiserver", 20),
]


@pytest.fixture
def running(monkeypatch):
    """(syncer, api, clock): a version operator of the new release that leads, on a clock that each wait moves."""
    clock = [1000.0]
    monkeypatch.setattr(sync.time, "monotonic", lambda: clock[0])
    api = Api({"etcd": 2, "kube-apiserver": 3})
    syncer = Syncer(api, PAYLOAD, NEW, "new")
    monkeypatch.setattr(syncer, "_hold", lambda: None)

    class Stop(threading.Event):
        def wait(self, timeout=None):
            clock[0] += timeout or 0
            return self.is_set()

    return syncer, api, clock, Stop()


def test_an_operator_has_its_release_before_the_next_manifests_turn(running):
    syncer, api, _, stop = running
    assert updating(api.version["status"], "new")
    work = syncer.update(stop)
    assert work.complete
    assert api.done == [
        ("a", "created"),
        ("etcd", "reached"),
        ("b", "created"),
        ("gone", "deleted"),
        ("kube-apiserver", "reached"),
    ]
    assert f"Working towards {NEW}: 1 of 5 done (20% complete), waiting on etcd" in api.messages
    syncer.report(work)
    assert api.said("Progressing") == ("False", "", f"Cluster version is {NEW}")
    assert api.said("Available") == ("True", "", f"Done applying {NEW}")
    [entry, before] = api.version["status"]["history"]
    assert (entry["state"], entry["verified"], before["version"]) == ("Completed", True, OLD)
    assert not updating(api.version["status"], "new")
    assert updating(api.version["status"], "old"), "the way back is a way, though the release was completed before"


@pytest.mark.parametrize(
    ("states", "reason", "text"),
    [
        ({"Available": "False"}, "ClusterOperatorNotAvailable", "Cluster operator etcd is not available"),
        ({"Degraded": "True"}, "ClusterOperatorDegraded", "Cluster operator etcd is degraded"),
    ],
)
def test_a_bad_release_stops_at_the_operator_and_names_it(running, states, reason, text):
    syncer, api, _, stop = running
    api.states["etcd"] = states
    work = syncer.update(stop)
    syncer.report(work)
    assert api.said("Failing") == ("True", reason, text)
    assert api.said("Progressing")[:2] == ("True", reason)
    assert ("b", "created") not in api.done, "what comes after is not begun"
    # The next pass does not hide the failure until it has come further.
    failing = len(api.messages)
    api.states.clear()
    syncer.report(syncer.update(stop))
    assert not any("Working towards" in message and "20%" in message for message in api.messages[failing:])
    assert api.said("Failing")[0] == "False"


def test_another_wish_ends_the_pass(running):
    syncer, _api, _, stop = running

    class Elsewhere:
        current, status = "new", sync.Updates()

        def look(self, cluster_version):
            return "old"

    syncer._upgrader = Elsewhere()
    syncer.wake.set()
    with pytest.raises(Superseded):
        syncer.update(stop)


def test_what_is_told_before_the_next_release_is_let_in_keeps_the_history(running):
    """The version operator of a release that is wanted no more may start once again."""
    syncer, api, *_ = running
    newest = {**HISTORY[0], "version": "4.18.2", "image": "newest"}
    history = [newest, *HISTORY]
    api.version["status"] = {"history": history}
    syncer.report(syncer._latest(api.version))
    assert api.version["status"]["history"] == history


def test_what_is_to_be_deleted_and_of_a_kind_that_is_gone_is_deleted(running, monkeypatch):
    syncer, api, *_ = running

    def unknown(api_version, kind, name, namespace=None):
        raise UnknownKind(api_version, kind)

    monkeypatch.setattr(api, "delete", unknown)
    work = syncer.update(threading.Event())
    assert (work.complete, work.failure) == (True, None)

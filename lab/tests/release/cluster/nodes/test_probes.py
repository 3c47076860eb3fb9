"""The probes' judgements of what they have read; ``scenarios`` breaks the parts themselves."""

import datetime as dt
from types import SimpleNamespace

import pytest

from lab.release.cluster.controller.command import CLIENT
from lab.release.cluster.ignition import machineconfig
from lab.release.cluster.kube.conditions import stamp
from lab.release.cluster.nodes.probes import machine_approver, machine_config
from lab.release.cluster.nodes.probes.etcd import Answer, disagreements
from lab.release.cluster.nodes.probes.view import STARTING_SECONDS, View, condition
from lab.release.cluster.pods import installerpod

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def ago(seconds):
    return stamp(NOW - dt.timedelta(seconds=seconds))


def aged(**seconds):
    return [{"metadata": {"name": name, "creationTimestamp": ago(age)}} for name, age in seconds.items()]


@pytest.mark.parametrize(
    ("lacking", "expected"),
    [
        (["w1"], "Progressing"),
        (["m0"], "Degraded"),
        (["m0", "w1"], "Degraded"),
        (["m0", "m1", "w1"], "Available"),
        ([], "Degraded"),
    ],
)
def test_a_node_that_starts_makes_nothing_worse(lacking, expected):
    nodes = aged(m0=STARTING_SECONDS + 1, m1=STARTING_SECONDS + 1, w1=30)
    view = View(None, None, NOW, nodes, [], "", "")
    assert condition(view, nodes, lacking) == expected


@pytest.mark.parametrize(
    ("lacking", "phase", "expected"),
    [
        (["m0"], "Running", "Progressing"),
        (["m0"], "Succeeded", "Degraded"),
        (["m0", "m1"], "Running", "Degraded"),
        (["m1"], "Running", "Degraded"),
    ],
)
def test_a_node_whose_static_pods_are_replaced_makes_nothing_worse(lacking, phase, expected):
    nodes = aged(**dict.fromkeys(("m0", "m1", "m2"), STARTING_SECONDS + 1))
    meta = {"namespace": installerpod.NAMESPACE, "name": "installer-2-m0"}
    pods = [{"metadata": meta, "spec": {"nodeName": "m0"}, "status": {"phase": phase}}]
    assert condition(View(None, None, NOW, nodes, pods, "", ""), nodes, lacking) == expected


def test_a_pool_that_cannot_be_rendered_degrades_and_makes_no_server_unavailable(monkeypatch):
    said = [{"type": "Degraded", "status": "True", "message": "no MachineConfigs found"}]
    pools = [
        {"metadata": {"name": "infra"}, "spec": {}, "status": {"conditions": said}},
        {"metadata": {"name": "master"}, "spec": {"configuration": {"name": "rendered-master-1"}}},
    ]
    monkeypatch.setattr(machine_config, "_wrong", lambda view, node, pool: "" if pool == "master" else "500")
    [node] = aged(m0=STARTING_SECONDS + 1)
    nodes = [{"metadata": {**node["metadata"], "labels": {machineconfig.ROLE: "master"}}}]
    kube = SimpleNamespace(list=lambda *_: pools)
    found = machine_config.machine_config(View(kube, None, NOW, nodes, [], "", ""))
    assert (found.reason, found.condition) == ("RequiredPoolsFailed", "Degraded")
    assert "infra: no MachineConfigs found" in found.message


def member(number, *, learner=False, place="192.0.2.1"):
    return {
        "ID": str(number),
        "name": f"m{number}",
        "isLearner": learner,
        "peerURLs": [f"https://{place}{number}:2380"],
    }


MEMBERS = [member(0), member(1), member(2)]
HOSTS = {f"192.0.2.1{n}" for n in range(3)}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, {}),
        ({"m2": Answer("other", "2", [member(2)])}, {"m2": "is in cluster other, the others in c"}),
        ({"m2": Answer("c", "2", [*MEMBERS[:2], member(2, learner=True)])}, {"m2": "has no vote"}),
        ({"m2": Answer("c", "2", MEMBERS[:2])}, {"m2": "has no vote"}),
        (
            {"m0": Answer("c", "0", [*MEMBERS, member(3)])},
            {"member m3": "is at no node: 192.0.2.13"},
        ),
        ({"m0": Answer("c", "0", [*MEMBERS, member(3) | {"name": "etcd-bootstrap"}])}, {}),
    ],
)
def test_members_that_all_answer_may_yet_not_be_one_etcd(changes, expected):
    answers = {f"m{n}": Answer("c", str(n), MEMBERS) for n in range(3)}
    assert disagreements(answers | changes, HOSTS) == expected


def test_only_kubelets_requests_that_nobody_has_answered_are_overlooked():
    late = machine_approver.CSR_SECONDS + 1

    def csr(name, age=late, signer=CLIENT, **status):
        meta = {"name": name, "creationTimestamp": ago(age)}
        return {"metadata": meta, "spec": {"signerName": signer, "username": "u"}, "status": status}

    answered = csr("answered", conditions=[{"type": "Denied"}])
    users = csr("users", signer="kubernetes.io/kube-apiserver-client")
    assert machine_approver.pending([csr("late"), csr("young", 5), answered, users], NOW) == ["late of u"]

"""The operators' rounds: what they read while nodes are being given their parts, and after."""

from collections import Counter
from pathlib import Path

import pytest

from lab.release.cluster.kube.conditions import Finding
from lab.release.cluster.kube.payload import Images
from lab.release.cluster.version_operator import operators
from lab.testing.scaling import CONFIG


class Api:
    """Counts what is read; it has the cluster's names, one operator, and nothing else."""

    def __init__(self):
        self.reads: Counter[str] = Counter()
        self.written = []
        self.operator = {"metadata": {"name": "etcd"}}
        self.deployments = []

    def get(self, api_version, kind, name, namespace=None):
        self.reads[kind] += 1
        configs = {"DNS": {"baseDomain": "c.d.example"}, "Ingress": {"domain": "apps.c.d.example"}}
        return {"spec": configs[kind]} if kind in configs else None

    def list(self, api_version, kind, *_, **__):
        self.reads[kind] += 1
        return {"ClusterOperator": [self.operator], "Deployment": self.deployments}.get(kind, [])

    def replace(self, obj, sub=""):
        self.written.append(obj)
        if obj.get("kind") == "ClusterOperator":
            self.operator = obj


@pytest.fixture
def rounds(monkeypatch):
    """Provide the loop with a scaling that is told what to answer, and a clock that is told the time."""
    api, busy, now = Api(), [True], [1000.0]
    loop = operators.Operators(api, Path(), Images("4.18.0", {}), "r")
    monkeypatch.setattr(operators, "read_config", lambda kube: CONFIG)
    monkeypatch.setattr(operators.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(operators, "PROBES", {"etcd": lambda seen: Finding(True, "AsExpected", "")})
    monkeypatch.setattr(operators.Scaling, "step", lambda self, seen: busy[0])
    return api, loop, busy, now


def test_while_nodes_are_given_their_parts_everything_is_looked_at_less_often(rounds):
    api, loop, busy, now = rounds
    assert loop.step()["etcd"].good
    now[0] += operators.SCALING_SECONDS
    assert loop.step()["etcd"].good, "what was seen last"
    assert api.reads["Pod"] == 2
    assert api.reads["ClusterOperator"] == 1
    now[0] += operators.LOOK_SECONDS
    loop.step()
    assert api.reads["ClusterOperator"] == 2
    busy[0] = False
    loop.step()
    loop.step()
    assert api.reads["ClusterOperator"] == 4, "each round, once all have theirs"


def test_names_and_configuration_are_read_until_they_are_known(rounds, monkeypatch):
    api, loop, _, _ = rounds
    monkeypatch.setattr(operators, "read_config", lambda kube: None)
    loop.step()
    loop.step()
    assert api.reads["DNS"] == 2
    monkeypatch.setattr(operators, "read_config", lambda kube: CONFIG)
    loop.step()
    loop.step()
    assert api.reads["DNS"] == api.reads["Ingress"] == 3


@pytest.mark.parametrize(
    ("scaling", "good", "took", "worked", "seconds"),
    [
        (False, False, 0.05, 0.03, 1.0),  # a fast machine looks each second until all is good
        (False, False, 2.0, 0.05, 1.0),  # one that only waited, too
        (False, False, 0.3, 0.15, 2.7),
        (False, False, 2.0, 1.0, operators.BUSY_SECONDS),
        (False, True, 1.0, 0.5, operators.CALM_SECONDS - 1),
        (True, False, 1.0, 0.5, operators.SCALING_SECONDS - 1),
        (True, False, 9.0, 4.0, 2.0),
    ],
)
def test_how_long_the_loop_pauses(scaling, good, took, worked, seconds):
    loop = operators.Operators(Api(), Path(), Images("4.18.0", {}), "r")
    loop.scaling, loop.good = scaling, good
    assert loop.pause(took, worked) == pytest.approx(seconds)


def test_an_operator_is_unavailable_when_its_probes_have_failed_for_long_enough(rounds, monkeypatch):
    api, loop, busy, now = rounds
    busy[0] = False
    loop.step()
    monkeypatch.setattr(operators, "PROBES", {"etcd": lambda seen: Finding(False, "no quorum")})
    available = next(c for c in api.written[-1]["status"]["conditions"] if c["type"] == "Available")
    assert available["status"] == "True"
    api.written.clear()
    for _ in range(5):
        loop.step()
        now[0] += 1
    assert not api.written, "five rounds, but within five seconds"
    now[0] += 10
    loop.step()
    available = next(c for c in api.written[-1]["status"]["conditions"] if c["type"] == "Available")
    assert (available["status"], available["message"]) == ("False", "no quorum")


@pytest.mark.parametrize(("begun", "version"), [(set(), "4.17.0"), ({"etcd"}, "4.18.0"), (None, "4.18.0")])
def test_an_operator_whose_turn_has_not_come_keeps_its_version(rounds, begun, version):
    api, loop, busy, _ = rounds
    busy[0] = False
    api.operator["status"] = {"versions": [{"name": "operator", "version": "4.17.0"}]}
    loop._rollout.begun = begun
    assert loop.step()["etcd"].good
    assert api.operator["status"]["versions"] == [{"name": "operator", "version": version}]


@pytest.mark.parametrize(
    ("found", "revised", "condition"),
    [
        (Finding(True, "well"), ("etcd",), "Progressing"),
        (Finding(False, "a pod is not Ready", "DNSDegraded", "Degraded"), ("kube-apiserver",), "Progressing"),
        (Finding(False, "revision 2 was rolled back", "NodeInstaller", "Degraded"), ("etcd",), "Degraded"),
    ],
)
def test_an_operator_with_pods_of_the_release_before_says_so(rounds, monkeypatch, found, revised, condition):
    api, loop, busy, _ = rounds
    busy[0] = False
    monkeypatch.setattr(operators, "PROBES", {"etcd": lambda seen: found})
    monkeypatch.setattr(operators, "REVISED", revised)
    meta = {"namespace": "openshift-etcd", "name": "d", "generation": 2}
    related = [{"group": "", "resource": "namespaces", "name": "openshift-etcd"}]
    api.operator["status"] = {"versions": [{"name": "operator", "version": "4.17.0"}], "relatedObjects": related}
    api.deployments = [{"metadata": meta, "spec": {}, "status": {"observedGeneration": 1}}]
    loop._rollout.begun = {"etcd"}
    finding = loop.step()["etcd"]
    assert (finding.good, finding.condition) == (False, condition)
    if condition == "Progressing":
        assert finding.reason == "RolloutInProgress"
        assert "Deployment openshift-etcd/d has not been looked at yet" in finding.message

"""Revisions of static pods: one node after the other, and back by themselves."""

import datetime as dt
import os
import shutil
import signal
import subprocess
import sys

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from installer.common.formats import yamltext
from lab.release.cluster import tls
from lab.release.cluster.errors import RolledBack, Superseded
from lab.release.cluster.kube.conditions import Finding
from lab.release.cluster.kube.payload import Images
from lab.release.cluster.nodes import revisions, scaling
from lab.release.cluster.nodes.probes.view import View
from lab.release.cluster.nodes.revisions import NodeState, Revisions, Wanted, next_node
from lab.release.cluster.pods import assets, installerpod, nodeinstall, staticpods
from lab.release.cluster.pods.pod import CONTENT
from lab.testing.clusterapi import Api, node
from lab.testing.scaling import CONFIG

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
TAGS = ("etcd", "hyperkube", "machine-config-operator", "agent-installer-csr-approver", "cluster-version-operator")
IMAGES = Images("4.18.0", dict.fromkeys(TAGS, "r.example/n@sha256:0"))
READY = {"conditions": [{"type": "Ready", "status": "True"}]}
STATES = st.builds(NodeState, st.integers(0, 3), st.sampled_from([0, 3]), st.integers(0, 3))


@given(st.dictionaries(st.sampled_from("abc"), STATES, min_size=1), st.sets(st.sampled_from("abc")))
def test_one_node_at_a_time_and_none_after_one_that_took_it_back(states, ready):
    chosen = next_node(states, [name for name in states if name in ready], 3)
    if chosen:
        assert chosen in ready
        assert 0 < states[chosen].current < 3
        assert not any(state.target or state.failed == 3 for state in states.values())
        assert states[chosen].current == min(
            state.current for name, state in states.items() if name in ready and 0 < state.current < 3
        )


class World:
    """Three nodes with their static pods, and the operator."""

    def __init__(self):
        self.api = Api()
        cluster = assets.Cluster(CONFIG, tls.complete(CONFIG, {}), "r", IMAGES)
        for obj in scaling.bootstrap_objects(cluster, "192.0.2.9"):
            self.api.create(obj)
        for kind in revisions.KINDS:
            self.api.create({"apiVersion": revisions.OPERATOR, "kind": kind, "metadata": {"name": "cluster"}})
        self.nodes = [node(f"m{n}", f"192.0.2.{n}") for n in range(3)]
        for obj in self.nodes:
            obj["status"] |= READY
        self.operator = Revisions(self.api, Wanted(CONFIG, IMAGES, "r"))
        self.step()
        common = self.api.get("v1", "Secret", installerpod.CONTROL_PLANE, installerpod.NAMESPACE)
        for obj in self.nodes:
            name = obj["metadata"]["name"]
            stages = staticpods.control_plane(CONFIG, "r", "192.0.2.1", name, peers="p=q")
            self.operator.install(obj, stages, [common or {}], "p=q")
            self.start(name, 1)
            self.end(name, 1)
        self.step()

    def step(self):
        pods = self.api.list("v1", "Pod")
        return self.operator.step(View(self.api, None, NOW, self.nodes, pods, "d", "a", CONFIG))

    def start(self, name, number):
        """Have the node run what a revision says, as the kubelet's mirror pods show it."""
        texts = self.api.get("v1", "ConfigMap", f"static-pods-{name}-{number}", installerpod.NAMESPACE)["data"]
        for text in texts.values():
            pod = yaml.safe_load(text)
            pod["metadata"]["name"] += f"-{name}"
            pod["spec"]["nodeName"] = name
            self.api.replace(pod | {"status": READY})

    def end(self, name, number, phase="Succeeded", message=""):
        pod = self.api.get("v1", "Pod", f"installer-{number}-{name}", installerpod.NAMESPACE)
        pod["status"] = {"phase": phase, "containerStatuses": [{"state": {"terminated": {"message": message}}}]}

    def roll_out(self, number):
        """Bring a revision to all nodes."""
        for name in ("m0", "m1", "m2"):
            self.step()
            self.end(name, number)
            self.start(name, number)

    def force(self, reason):
        self.api.get("", "KubeAPIServer", "cluster")["spec"] = {"forceRedeploymentReason": reason}

    def current(self, kind="Etcd"):
        status = self.api.get("", kind, "cluster")["status"]
        return {entry["nodeName"]: entry for entry in status["nodeStatuses"]}


def test_a_new_content_reaches_one_node_after_the_other():
    world = World()
    assert {name: e["currentRevision"] for name, e in world.current().items()} == {"m0": 1, "m1": 1, "m2": 1}
    assert not world.step(), "nothing has changed"
    world.force("because")
    for name in ("m0", "m1", "m2"):
        assert world.step()
        assert world.current()[name]["targetRevision"] == 2
        pods = [p for p in world.api.list("v1", "Pod") if p["metadata"]["name"].startswith("installer-2-")]
        assert pods[-1]["spec"]["nodeName"] == name
        assert pods[-1]["spec"]["containers"][0]["command"][-2:] == ["2", "1"]
        world.end(name, 2)
        assert world.step(), "its pods do not have the new content yet"
        assert world.current()[name]["currentRevision"] == 1
        assert world.operator.finding(Finding(True, "fine")).condition == "Progressing"
        world.start(name, 2)
    assert not world.step()
    assert world.api.get("", "KubeAPIServer", "cluster")["status"]["latestAvailableRevision"] == 2
    assert {e["currentRevision"] for e in world.current("KubeAPIServer").values()} == {2}
    stored = world.api.get("", "ConfigMap", "static-pods-m0-2", installerpod.NAMESPACE)
    assert "--initial-cluster=p=q" in stored["data"]["0-etcd_etcd.yaml"], "it stays what it joined"


def test_api_servers_follow_the_members_of_etcd_by_a_revision():
    world = World()
    endpoints = world.api.get("", "ConfigMap", revisions.ENDPOINTS, installerpod.NAMESPACE)
    endpoints["data"] = {f"{n}": f"192.0.2.{n}" for n in range(3)}
    world.roll_out(2)
    assert not world.step()
    stored = world.api.get("", "ConfigMap", "static-pods-m1-2", installerpod.NAMESPACE)["data"]
    asked = "--etcd-servers=https://192.0.2.0:2379,https://192.0.2.2:2379,https://localhost:2379\n"
    assert asked in stored["1-kube-apiserver_kube-apiserver.yaml"]
    joined_last = staticpods.client_urls("192.0.2.2", ["192.0.2.0", "192.0.2.1"])
    assert joined_last == staticpods.client_urls("192.0.2.2", endpoints["data"].values()), "it is not started anew"
    seen = View(world.api, None, NOW, world.nodes, [], "d", "a", CONFIG)
    assert world.operator.asking(seen, "192.0.2.2") == ["m0", "m1"]
    world.nodes[0]["status"] = {}
    assert world.operator.asking(seen, "192.0.2.2") == ["m1"], "a node that is lost holds up no other"


def test_a_member_more_restarts_no_api_server_that_asks_enough():
    world = World()
    endpoints = world.api.get("", "ConfigMap", revisions.ENDPOINTS, installerpod.NAMESPACE)
    endpoints["data"] = {f"{n}": f"192.0.2.{n}" for n in range(2)}
    world.roll_out(2)
    endpoints["data"] |= {"2": "192.0.2.2"}
    assert not world.step()
    world.force("because")
    assert world.step(), "the next revision takes the longer list along"
    stored = world.api.get("", "ConfigMap", "static-pods-m0-3", installerpod.NAMESPACE)["data"]
    assert "192.0.2.2:2379" in stored["1-kube-apiserver_kube-apiserver.yaml"]
    assert not revisions.suffice(["192.0.2.0", "192.0.2.1"], 5)


def test_a_revision_that_was_taken_back_stops_there_and_the_next_one_goes_on():
    world = World()
    world.force("bad")
    world.step()
    world.end("m0", 2, "Failed", "revision 2 was rolled back to 1: kube-apiserver: it does not run")
    assert not world.step()
    entry = world.current()["m0"]
    assert (entry["currentRevision"], entry["lastFailedRevision"]) == (1, 2)
    finding = world.operator.finding(Finding(True, "fine"))
    assert (finding.good, finding.condition, finding.reason) == (True, "Degraded", "NodeInstaller_InstallerPodFailed")
    assert "m0: revision 2 was rolled back to 1: kube-apiserver" in finding.message
    assert not world.step()
    world.force("good")
    assert world.step()
    assert world.current()["m0"]["targetRevision"] == 3
    assert world.operator.failure == ""


def test_an_installer_that_lost_its_power_is_made_anew():
    world = World()
    world.force("because")
    world.step()
    world.end("m0", 2, "Failed", "")
    world.step()
    pod = world.api.get("v1", "Pod", "installer-2-m0", installerpod.NAMESPACE)
    assert not pod.get("status")
    assert world.current()["m0"]["targetRevision"] == 2


def test_a_node_that_has_lost_its_member_joins_before_it_gets_a_revision():
    world = World()
    world.api.delete("v1", "ConfigMap", "static-pods-m0-1", installerpod.NAMESPACE)
    world.api.delete("v1", "Pod", "installer-1-m0", installerpod.NAMESPACE)
    world.force("because")
    world.step()
    world.step()
    assert world.current()["m1"]["targetRevision"] == 2
    assert world.api.get("", "Pod", "installer-2-m0", installerpod.NAMESPACE) is None


def test_an_arbiter_gets_its_own_certificate_and_no_key_of_the_control_plane():
    world = World()
    arbiter = node("a0", "192.0.2.8", "arbiter")
    arbiter["status"] |= READY
    personal = installerpod.resource_secret("node-resources-a0", {"etcd-certs/server.crt": "own"})
    world.api.create(personal)
    world.nodes.append(arbiter)
    world.operator.install(arbiter, staticpods.arbiter(CONFIG, "192.0.2.8", "a0", "p=q"), [personal], "p=q")
    world.start("a0", 1)
    world.end("a0", 1)
    world.step()
    assert "a0" not in world.current("KubeAPIServer")
    world.force("because")
    world.step()  # the first by its name
    stored = world.api.get("", "Secret", "node-resources-a0-2", installerpod.NAMESPACE)
    assert set(installerpod.files_of(stored)) == {"etcd-certs/server.crt", "etcd-certs/ca.crt"}
    pods = world.api.get("", "ConfigMap", "static-pods-a0-2", installerpod.NAMESPACE)["data"]
    assert list(pods) == ["0-etcd_etcd.yaml"]


def test_objects_of_old_revisions_go():
    world = World()
    for number in range(2, 9):
        world.force(f"reason {number}")
        for name in ("m0", "m1", "m2"):
            world.step()
            world.start(name, number)
            world.end(name, number)
        world.step()
    numbers = {int(o["data"]["revision"]) for o in world.api.list("", "ConfigMap", None, "node0.example/revision")}
    assert numbers == set(range(4, 9))
    names = {o["metadata"]["name"] for kind in ("Secret", "ConfigMap", "Pod") for o in world.api.list("", kind)}
    assert {f"static-pods-m1-{n}" for n in range(1, 9)} & names == {f"static-pods-m1-{n}" for n in range(4, 9)}
    assert "installer-3-m0" not in names
    assert "control-plane-resources-3" not in names


def test_an_installer_at_work_stays_whatever_is_asked_for_meanwhile():
    world = World()
    for number in range(2, 12):
        world.force(f"reason {number}")
        world.step()
    assert world.current()["m0"]["targetRevision"] == 2
    assert world.api.get("", "Pod", "installer-2-m0", installerpod.NAMESPACE) is not None


def test_no_revision_begins_while_a_node_gets_its_first():
    world = World()
    pod = {"name": "installer-1-m3", "namespace": installerpod.NAMESPACE}
    world.api.create({"apiVersion": "v1", "kind": "Pod", "metadata": pod, "spec": {"nodeName": "m3"}})
    world.force("because")
    world.step()
    assert "targetRevision" not in world.current()["m0"]
    world.api.delete("v1", "Pod", "installer-1-m3", installerpod.NAMESPACE)
    world.step()
    assert world.current()["m0"]["targetRevision"] == 2


def test_a_revision_without_content_is_none():
    world = World()
    labels = {"node0.example/revision": ""}
    stray = {"name": "stray", "namespace": installerpod.NAMESPACE, "labels": labels}
    world.api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": stray})
    world.step()
    assert world.operator.latest == 1


def test_only_a_pod_whose_own_content_changes_is_started_anew():
    files = {"kube-scheduler/kubeconfig": "a", "etcd-certs/ca.crt": "b"}
    stages = staticpods.control_plane(CONFIG, "r", "192.0.2.1", "m1")
    before = installerpod.manifests(stages, IMAGES, files)
    after = installerpod.manifests(stages, IMAGES, files | {"kube-scheduler/kubeconfig": "c"})
    assert [name for name in before if before[name] != after[name]] == ["2-operators_kube-scheduler.yaml"]


@pytest.mark.parametrize("content", ["1234567890123e45", "0899999999999999"])
def test_a_hash_that_looks_like_a_number_is_quoted(content):
    """To the kubelet's reader these are floats, and an annotation is none."""
    text = staticpods.kube_scheduler(CONFIG).manifest(IMAGES, content)
    assert yamltext.load(text)["metadata"]["annotations"][CONTENT] == content


# ---- on the node


@pytest.fixture
def host(tmp_path, monkeypatch):
    """(kubernetes, files, pods): a node that runs what its Ignition config brought, and a volume with a revision."""
    kubernetes, files, pods = (tmp_path / name for name in ("kubernetes", "files", "pods"))
    for place, text in (
        (kubernetes / "manifests" / "etcd-pod.yaml", manifest("old")),
        (kubernetes / "static-pod-resources" / "etcd-certs" / "ca.crt", "old"),
        (files / "etcd-certs" / "ca.crt", "new"),
        (pods / "0-etcd_etcd.yaml", manifest("new")),
    ):
        place.parent.mkdir(parents=True)
        place.write_text(text)
    (tmp_path / "proc").mkdir()
    monkeypatch.setattr(nodeinstall, "PROC", tmp_path / "proc")
    monkeypatch.setattr(nodeinstall, "CHECKS", {})
    monkeypatch.setattr(nodeinstall, "REVISION_SECONDS", 0.0)
    monkeypatch.setattr(nodeinstall.time, "sleep", lambda seconds: None)
    return kubernetes, files, pods


def manifest(content):
    pod = {"containers": [{"env": [{"name": "STATIC_POD_CONTENT", "value": f"etcd/{content}"}]}]}
    return yaml.safe_dump({"metadata": {"name": "etcd", "annotations": {CONTENT: content}}, "spec": pod})


@pytest.mark.parametrize("power_is_lost", [False, True])
def test_a_node_goes_back_to_what_it_ran_when_the_new_revision_does_not_run(host, monkeypatch, power_is_lost):
    kubernetes, files, pods = host
    resources = kubernetes / "static-pod-resources"
    monkeypatch.setattr(nodeinstall, "_processes", lambda: {"etcd/old": [60.0]})
    for _ in range(2 if power_is_lost else 1):
        with pytest.raises(RolledBack, match=r"revision 2 was rolled back to 1: .*the one before has not ended"):
            nodeinstall.revise(files, pods, kubernetes, revision=2, before=1)
    assert (resources / "etcd-certs" / "ca.crt").read_text() == "old"
    assert (kubernetes / "manifests" / "etcd-pod.yaml").read_text() == manifest("old")


def test_what_another_release_has_replaced_meanwhile_is_neither_awaited_nor_taken_back(host, monkeypatch):
    """A wish that changes half-way: the next version operator is handed over to while a revision is under way."""
    kubernetes, files, pods = host
    placed = kubernetes / "manifests" / "etcd-pod.yaml"

    def processes():
        placed.write_text(manifest("newest"))
        return {"etcd/old": [60.0]}

    monkeypatch.setattr(nodeinstall, "REVISION_SECONDS", 60.0)
    monkeypatch.setattr(nodeinstall, "_processes", processes)
    with pytest.raises(Superseded):
        nodeinstall.revise(files, pods, kubernetes, revision=2, before=1)
    assert placed.read_text() == manifest("newest")
    assert not (kubernetes / "static-pod-resources" / "control-plane-pod-2" / nodeinstall.REFUSED).exists()


def test_a_refusal_of_another_content_does_not_count(host, monkeypatch):
    """After a restore, a number comes again with another content."""
    kubernetes, files, pods = host
    monkeypatch.setattr(nodeinstall, "_processes", lambda: {"etcd/old": [60.0]})
    with pytest.raises(RolledBack):
        nodeinstall.revise(files, pods, kubernetes, revision=2, before=1)
    (pods / "0-etcd_etcd.yaml").write_text(manifest("newer"))
    monkeypatch.setattr(nodeinstall, "_processes", lambda: {"etcd/newer": [60.0]})
    nodeinstall.revise(files, pods, kubernetes, revision=2, before=1)
    assert (kubernetes / "manifests" / "etcd-pod.yaml").read_text() == manifest("newer")


def test_a_node_that_joins_keeps_no_revision_of_its_life_before(host, tmp_path):
    kubernetes, files, pods = host
    stale = kubernetes / "static-pod-resources" / "control-plane-pod-2"
    stale.mkdir()
    (tmp_path / "data").mkdir()
    nodeinstall.run(files, pods, kubernetes, tmp_path / "data", revision=2)
    assert not stale.exists()


def test_what_only_the_new_revision_has_goes_with_it(host, monkeypatch):
    kubernetes, files, pods = host
    (pods / "1-extra_extra.yaml").write_text(manifest("extra").replace("name: etcd", "name: extra"))
    monkeypatch.setattr(nodeinstall, "_processes", lambda: {"etcd/new": [60.0], "etcd/old": [60.0]})
    monkeypatch.setattr(nodeinstall, "not_running", lambda manifests, _: "x" if "extra" in manifests[0].name else "")
    with pytest.raises(RolledBack):
        nodeinstall.revise(files, pods, kubernetes, revision=2, before=1)
    assert [path.name for path in (kubernetes / "manifests").iterdir()] == ["etcd-pod.yaml"]


def test_a_revision_that_runs_stays_and_old_ones_go(host, monkeypatch):
    kubernetes, files, pods = host
    resources = kubernetes / "static-pod-resources"
    monkeypatch.setattr(nodeinstall, "_processes", lambda: {"etcd/new": [60.0]})
    for number in range(2, 9):
        nodeinstall.revise(files, pods, kubernetes, revision=number, before=number - 1)
    assert (resources / "etcd-certs" / "ca.crt").read_text() == "new"
    assert sorted(p.name for p in resources.glob("control-plane-pod-*")) == [
        f"control-plane-pod-{n}" for n in range(4, 9)
    ]


@pytest.mark.parametrize(("changed", "leaves"), [("1-kube-apiserver_kube-apiserver", True), ("2-operators_b", False)])
def test_the_virtual_addresses_leave_a_node_before_its_api_server_does(host, monkeypatch, tmp_path, changed, leaves):
    kubernetes, files, pods = host
    program = tmp_path / "keepalived"
    shutil.copy("/bin/cat", program)
    for name in ("0-etcd_etcd", "1-kube-apiserver_kube-apiserver", "2-operators_b"):
        (pods / f"{name}.yaml").write_text(manifest("same"))
    revision_one = kubernetes / "static-pod-resources" / "control-plane-pod-1"
    shutil.copytree(pods, revision_one / "pods")
    (pods / f"{changed}.yaml").write_text(manifest("new"))
    seen = []
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        # Popen returns a moment before the kernel gives the process its new name: an answer shows that it has it.
        process.stdin.write(b"x")
        assert process.stdout.read(1) == b"x"
        (tmp_path / "proc" / str(process.pid)).symlink_to(f"/proc/{process.pid}")
        monkeypatch.setattr(nodeinstall.time, "sleep", lambda seconds: process.wait(10))
        monkeypatch.setattr(nodeinstall, "place_stages", lambda *_, **__: seen.append(process.poll()))
        nodeinstall.revise(files, pods, kubernetes, revision=2, before=1)
        process.kill()
    assert seen == [-signal.SIGTERM if leaves else None]


def test_processes_of_static_pods_are_found_by_their_variable():
    ask = "import sys; sys.stdout.write('x'); sys.stdout.flush(); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", ask],
        env=os.environ | {"STATIC_POD_CONTENT": "test/1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout.read(1) == b"x"
        [age] = nodeinstall._processes()["test/1"]
        assert 0 <= age < 60
        process.stdin.close()
    assert "test/1" not in nodeinstall._processes()

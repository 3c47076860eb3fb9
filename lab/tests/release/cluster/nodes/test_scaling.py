"""Control plane nodes join one at a time, with real etcd members on loopback addresses and TLS throughout."""

import base64
import contextlib
import datetime as dt
import gc
import os
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time
from dataclasses import replace

import pytest

from installer.common.certificates import authority
from installer.common.secretfiles import write_private
from lab.release.cluster import tls
from lab.release.cluster.errors import EtcdError, WaitError
from lab.release.cluster.kube.payload import Images
from lab.release.cluster.nodes import departures, etcdapi, revisions, scaling
from lab.release.cluster.nodes.etcdapi import Etcd, Member
from lab.release.cluster.nodes.probes.etcd import etcd as probe
from lab.release.cluster.nodes.probes.view import View
from lab.release.cluster.pods import assets, installerpod, nodeinstall, staticpods
from lab.testing.clusterapi import Api, node
from lab.testing.scaling import CONFIG, etcd_argv

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
TAGS = ("etcd", "hyperkube", "machine-config-operator", "haproxy-router", "console", "agent-installer-csr-approver")
IMAGES = Images("4.18.0", {**{tag: f"r.example/n@sha256:{tag}" for tag in TAGS}, "cluster-version-operator": "r"})


class Members:
    """Real etcd processes, each on an address of its own; what a node's installer pod would start."""

    def __init__(self, root, signer):
        self.root, self.signer, self.processes = root, signer, []

    def start(self, pod, name, ip):
        """Run the pod's own command line with this host's paths."""
        place = self.root / name
        for path, text in assets.etcd_files(self.signer, name, [ip]).items():
            write_private(place / path, text)
        (place / "etcd-certs" / "ca.crt").write_text(self.signer.certificate)
        words = etcd_argv(pod.command, place, ip)
        with (place / "log").open("w") as log:
            self.processes.append(subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=log, cwd=place))

    def stop(self):
        for process in self.processes:
            process.send_signal(signal.SIGKILL)
            process.wait(10)


@pytest.fixture(scope="module")
def signer():
    return authority("etcd-signer")


@pytest.fixture
def world(tmp_path, signer, monkeypatch):
    """(scaling, api, members, files): a bootstrap member runs, nothing has joined."""
    assert shutil.which("etcd"), "etcd is missing: run ci/setup"
    # a request that is on its way when the leader is removed is not answered
    monkeypatch.setattr(etcdapi, "SECONDS", 3.0)
    net = 64 + os.getpid() % 128  # two runs at once on one machine keep apart
    ips = [f"127.77.{net}.{host}" for host in (10, 11, 12)]
    client = tls.make(tls.leaves(CONFIG)["etcd-client"], signer)
    files = tmp_path / "files"
    for name, text in (
        ("etcd-ca.crt", signer.certificate),
        ("etcd-client.crt", client.certificate),
        ("etcd-client.key", client.key),
    ):
        write_private(files / name, text)
    api = Api()
    pairs = tls.complete(CONFIG, {"etcd-signer": signer})
    cluster = assets.Cluster(CONFIG, pairs, "r", IMAGES)
    for obj in scaling.bootstrap_objects(cluster, ips[0]):
        api.create(obj)
    api.create({"apiVersion": scaling.OPERATOR, "kind": "Etcd", "metadata": {"name": "cluster"}})
    members = Members(tmp_path, signer)
    members.start(staticpods.etcd(ips[0], scaling.BOOTSTRAP_MEMBER), scaling.BOOTSTRAP_MEMBER, ips[0])
    wanted = revisions.Wanted(CONFIG, IMAGES, "r")
    operator = scaling.Scaling(api, files, wanted, revisions.Revisions(api, wanted))
    endpoints = [f"https://{ip}:2379" for ip in reversed(ips)]  # the one that will be removed comes last
    cert = (str(files / "etcd-client.crt"), str(files / "etcd-client.key"))
    clients = []

    def client_of(view):
        clients.append(Etcd(endpoints, str(files / "etcd-ca.crt"), cert))
        return clients[-1]

    monkeypatch.setattr(operator, "etcd", client_of)
    yield operator, api, members, ips
    for used in clients:
        used._session.close()
    members.stop()


def until(check, seconds=30.0):
    deadline = time.monotonic() + seconds
    while not (seen := check()):
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.1)
    return seen


def view(api, nodes):
    return View(api, None, NOW, nodes, api.pods(), "c.d.example", "apps.c.d.example", CONFIG)


def step(operator, seen):
    """One look, as the operators' loop does it: what etcd refuses now is tried again (a fresh member for 5 s)."""
    try:
        operator._revisions.step(seen)
        return operator.step(seen)
    except EtcdError:
        return False


def finish(api):
    """Return the installer pods end well."""
    for pod in api.pods():
        pod["status"] = {"phase": "Succeeded"}


def condition(api, kind):
    status = api.get("", "Etcd", "cluster").get("status") or {}
    return next((c["status"] for c in status.get("conditions", []) if c["type"] == kind), None)


def test_of_two_members_the_bootstrap_hosts_takes_itself_out(world):
    operator, _, members, ips = world
    etcd = operator.etcd(None)

    def tried(action):
        try:
            return action() or True
        except EtcdError:
            return False

    until(lambda: tried(lambda: etcd.add_learner(staticpods.peer_url(ips[1]))))
    peers = scaling.peers_for("m1", staticpods.peer_url(ips[1]), etcd.members())
    members.start(staticpods.etcd(ips[1], "m1", peers), "m1", ips[1])
    until(lambda: tried(lambda: [etcd.promote(m) for m in etcd.members() if m.learner]))
    own, left = operator.etcd(None), operator.etcd(None)
    own.endpoints, left.endpoints = (f"https://{ips[0]}:2379",), (f"https://{ips[1]}:2379",)
    scaling.leave(own, seconds=30)
    assert [m.name for m in left.members()] == ["m1"]
    # It has a quorum of its own: it can change the members.
    until(lambda: tried(lambda: left.add_learner(staticpods.peer_url(ips[2]))))


def test_masters_become_voters_one_by_one_and_the_bootstrap_member_goes_last(world, monkeypatch):
    operator, api, members, ips = world
    etcd = operator.etcd(None)

    def bootstrap_answers():
        try:
            return etcd.members()
        except EtcdError:
            return []

    assert [m.name for m in until(bootstrap_answers)] == [scaling.BOOTSTRAP_MEMBER]
    nodes = [node("m1", ips[1]), node("m2", ips[2])]
    until(lambda: step(operator, view(api, nodes)) and api.pods())
    assert [p["spec"]["nodeName"] for p in api.pods()] == ["m1"], "one node at a time"
    assert condition(api, "EtcdRunningInCluster") == "False"
    for _ in range(3):
        step(operator, view(api, nodes))
    assert len(api.pods()) == 1, "the second waits until the first votes"
    assert [m.learner for m in etcd.members() if not m.name] == [True]

    def start(name, ip):
        manifests = api.get("", "ConfigMap", f"static-pods-{name}-1", installerpod.NAMESPACE)["data"]
        assert "0-etcd_etcd.yaml" in manifests
        peers = next(w for w in manifests["0-etcd_etcd.yaml"].split() if w.startswith("--initial-cluster="))
        members.start(staticpods.etcd(ip, name, peers.partition("=")[2]), name, ip)

    def voters():
        step(operator, view(api, nodes))
        return sorted(m.name for m in etcd.members() if m.votes)

    start("m1", ips[1])
    until(lambda: voters() == [scaling.BOOTSTRAP_MEMBER, "m1"])
    for _ in range(3):
        step(operator, view(api, nodes))
    assert len(api.pods()) == 1, "the second waits until the first has all its pods"
    finish(api)
    until(lambda: step(operator, view(api, nodes)) and len(api.pods()) == 2)
    start("m2", ips[2])
    until(lambda: voters() == [scaling.BOOTSTRAP_MEMBER, "m1", "m2"])
    operator.step(view(api, nodes))
    assert condition(api, "EtcdRunningInCluster") == "True"
    assert condition(api, "EtcdBootstrapMemberRemoved") is None
    seen = replace(view(api, [node("m0", ips[0]), *nodes]), files=members.root / "files")
    assert probe(seen).good
    finish(api)
    # the bootstrap host's node has the address of the bootstrap member: it must wait until that is gone
    nodes.append(node("m0", ips[0]))
    operator.step(view(api, nodes))
    assert len(api.pods()) == 2
    complete = {"kind": "ConfigMap", "metadata": {"name": "bootstrap", "namespace": "kube-system"}}
    api.create({**complete, "data": {"status": "complete"}})
    leaders, remove = [], Etcd.remove

    def noted(client, member):
        leaders.append(client._call("maintenance/status", {})["leader"])
        remove(client, member)

    monkeypatch.setattr(Etcd, "remove", noted)
    until(lambda: step(operator, view(api, nodes)) and len(api.pods()) == 3)
    assert leaders[0] in [m.id for m in etcd.members() if m.votes], "it handed over the lead before"
    assert condition(api, "EtcdBootstrapMemberRemoved") == "True"
    assert sorted(m.name for m in etcd.members()) == ["", "m1", "m2"]
    seen = replace(seen, nodes=nodes)
    finding = probe(seen)
    assert (finding.good, finding.condition) == (False, "Degraded"), "m0 has no member yet, two serve"
    assert "2 of 3 members are available: m0: GET :2379/health" in finding.message
    lose(members, -1)
    assert probe(seen).condition == "Available", "no majority, no read"


def voters(operator, api, nodes):
    """Return the voters' ids by name after a step; nothing while etcd elects a leader."""
    step(operator, view(api, nodes))
    return {m.name: m.id for m in _members(operator) if m.votes}


@pytest.fixture
def joined(world):
    """Nodes m1 and m2, whose members vote beside the bootstrap host's."""
    operator, api, members, ips = world
    until(lambda: _members(operator))
    nodes = [node("m1", ips[1]), node("m2", ips[2])]
    for name, ip in (("m1", ips[1]), ("m2", ips[2])):
        made = ("ConfigMap", installerpod.NAMESPACE, f"static-pods-{name}-1")
        until(lambda made=made: voters(operator, api, nodes) and made in api.objects)
        peers = scaling.peers_for(name, staticpods.peer_url(ip), _members(operator))
        members.start(staticpods.etcd(ip, name, peers), name, ip)
        until(lambda name=name: name in voters(operator, api, nodes))
        finish(api)
    return nodes


def lose(members, index):
    # In order: of connections that are reset, sockets stay open until they are collected.
    members.processes[index].terminate()
    members.processes[index].wait(10)


def test_a_lost_node_leaves_etcd_and_joins_anew_under_its_name(world, joined):
    """The member goes with the Node, what was made for it too; the next one of that name is another member."""
    operator, api, members, _ = world

    def of_m2():
        return sorted(name for _, _, name in api.objects if "m2" in name)

    before, made = until(lambda: voters(operator, api, joined))["m2"], of_m2()
    assert made == ["installer-1-m2", "node-resources-m2", "static-pods-m2-1"]
    lose(members, 2)
    left = joined[:1]
    until(lambda: "m2" not in (voters(operator, api, left) or {"m2": ""}))
    until(lambda: voters(operator, api, left) and not of_m2())
    until(lambda: voters(operator, api, joined) and of_m2() == made)
    files = installerpod.files_of(api.get("", "Secret", "node-resources-m2", installerpod.NAMESPACE))
    [learner] = (m.id for m in until(lambda: _members(operator)) if m.learner)
    assert files[installerpod.MEMBER_ID] == learner != before


def test_no_member_joins_where_an_api_server_asks(world, joined):
    """A learner refuses its requests."""
    operator, api, members, ips = world
    lose(members, 2)
    until(lambda: "m2" not in (voters(operator, api, joined[:1]) or {"m2": ""}))
    notes = api.get("", "ConfigMap", "static-pods-m1-1", installerpod.NAMESPACE)["metadata"]["annotations"]
    notes[revisions.ASKED] = f"{ips[0]},{ips[2]}"
    api.get("", "Etcd", "cluster")["status"]["nodeStatuses"] = [{"nodeName": "m1", "currentRevision": 1}]
    joined[0]["status"] |= {"conditions": [{"type": "Ready", "status": "True"}]}
    for _ in range(3):
        until(lambda: voters(operator, api, joined))
    assert ips[2] not in str(until(lambda: _members(operator)))
    notes[revisions.ASKED] = ips[0]
    until(lambda: voters(operator, api, joined) and ips[2] in str(_members(operator)))


def test_api_servers_know_voters_only_and_those_that_come_together_at_once(world):
    operator, api, *_ = world

    def listed(*found, calm=True, missing=0):
        operator._list(list(found), calm=calm, missing=missing)
        return api.get("", "ConfigMap", revisions.ENDPOINTS, installerpod.NAMESPACE)["data"]

    a, b, c = (Member(str(n), f"m{n}", (f"https://[fd00::{n}]:2380",), False) for n in (10, 11, 12))
    bootstrap = Member("9", scaling.BOOTSTRAP_MEMBER, ("https://192.0.2.9:2380",), False)
    assert listed(a, b, missing=3) == {}, "of five, two may be those that do not answer"
    assert listed(a, b, bootstrap) == {}
    assert listed(a, b, replace(c, learner=True)) == {}
    assert listed(a, b, calm=False) == {}
    assert listed(a, b, missing=1) == {"a": "fd00::10", "b": "fd00::11"}
    assert listed(a, replace(c, name="")) == {"a": "fd00::10"}, "one that has gone leaves at once"
    assert listed(a, c) == {"a": "fd00::10", "c": "fd00::12"}


def test_a_member_that_the_quorum_needs_stays_and_the_operator_says_why(world, joined):
    operator, api, members, _ = world
    lose(members, 1)
    deleted = joined[:1]
    until(lambda: voters(operator, api, deleted) and condition(api, departures.REMOVAL) == "True")
    assert set(until(lambda: voters(operator, api, deleted))) == {scaling.BOOTSTRAP_MEMBER, "m1", "m2"}
    finding = probe(replace(view(api, deleted), files=members.root / "files"))
    assert (finding.reason, finding.condition) == ("ClusterMemberRemovalController_Error", "Degraded")
    assert "cannot remove member m2, whose node is gone: unhealthy voting etcd members found: m1" in finding.message


@pytest.mark.slow
def test_a_member_that_ends_while_it_is_asked_fails_no_later_test(signer, tmp_path):
    """Python leaves the socket of a connection that is reset before the handshake to the garbage collector."""
    (tmp_path / "ca.crt").write_text(signer.certificate)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def reset() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    connection.close()

        thread = threading.Thread(target=reset)
        thread.start()
        etcd = Etcd([f"https://127.0.0.1:{server.getsockname()[1]}"], str(tmp_path / "ca.crt"), None)
        for _ in range(10):
            with pytest.raises(EtcdError):
                etcd.members()
        server.shutdown(socket.SHUT_RDWR)
        thread.join(10)
    gc.collect()


def test_a_worker_gets_no_static_pod(world):
    operator, api, _, ips = world
    until(lambda: _members(operator))
    step(operator, view(api, [node("w0", ips[1], "worker")]))
    assert not api.pods()


def test_an_arbiter_gets_a_member_of_etcd_and_no_key_of_the_control_plane(world, signer):
    operator, api, members, ips = world
    until(lambda: _members(operator))
    nodes = [node("a0", ips[1], "arbiter")]
    until(lambda: step(operator, view(api, nodes)) and api.pods())
    [pod] = api.pods()
    sources = [
        s["secret"]["name"] for v in pod["spec"]["volumes"] if "projected" in v for s in v["projected"]["sources"]
    ]
    assert sources == ["node-resources-a0"]
    keys = api.get("", "Secret", "node-resources-a0", installerpod.NAMESPACE)["data"].values()
    assert base64.b64encode(signer.key.encode()).decode() not in keys
    [manifest] = api.get("", "ConfigMap", "static-pods-a0-1", installerpod.NAMESPACE)["data"].items()
    assert manifest[0] == "0-etcd_etcd.yaml"
    peers = next(w for w in manifest[1].split() if w.startswith("--initial-cluster="))
    members.start(staticpods.etcd(ips[1], "a0", peers.partition("=")[2]), "a0", ips[1])
    until(
        lambda: step(operator, view(api, nodes)) is not None and "a0" in [m.name for m in _members(operator) if m.votes]
    )


@pytest.mark.parametrize(("running", "servers", "enough"), [(1, 1, True), (1, 2, False), (2, 2, True)])
def test_the_bootstrap_waits_for_as_many_api_servers_as_there_will_be(running, servers, enough):
    api = Api()
    condition = {"type": "EtcdRunningInCluster", "status": "True", "message": "3 members vote"}
    statuses = [{"nodeName": f"m{i}", "currentRevision": 1} for i in range(running)]
    for kind, status in (("Etcd", {"conditions": [condition]}), ("KubeAPIServer", {"nodeStatuses": statuses})):
        api.create({"kind": kind, "metadata": {"name": "cluster"}, "status": status})
    times = iter((0.0, 5.0, 5.0))
    refused = pytest.raises(WaitError, match=f"{running} of {servers} nodes have an API server")
    with contextlib.nullcontext() if enough else refused:
        scaling.wait_for_control_plane(api, 1.0, lambda: next(times), lambda seconds: None, servers=servers)


def _members(operator):
    try:
        return operator.etcd(None).members()
    except EtcdError:
        return []


def test_peers_name_every_started_member_and_the_new_one_last():
    members = [Member("1", "a", ("https://a:2380",), False), Member("2", "", ("https://b:2380",), True)]
    assert scaling.peers_for("b", "https://b:2380", members) == "a=https://a:2380,b=https://b:2380"


# ---- what the installer pod does on the node


def projected(root, files):
    """Return a volume as the kubelet lays it out: real files in a dated directory, links beside it."""
    dated = root / "..2026_01_01"
    for path, text in files.items():
        (dated / path).parent.mkdir(parents=True, exist_ok=True)
        (dated / path).write_text(text)
    (root / "..data").symlink_to(dated.name)
    for name in {path.split("/")[0] for path in files}:
        (root / name).symlink_to(f"..data/{name}")


def test_the_installer_pod_puts_files_and_stages_in_place(tmp_path, monkeypatch, signer):
    files = assets.etcd_files(signer, "m1", ["192.0.2.1"])
    secret = installerpod.resource_secret("s", files)
    pod = installerpod.installer_pod("m1", "image", [secret])
    [volume] = [v for v in pod["spec"]["volumes"] if v["name"] == "files"]
    items = volume["projected"]["sources"][0]["secret"]["items"]
    content = {item["path"]: base64.b64decode(secret["data"][item["key"]]).decode() for item in items}
    assert content == files
    (tmp_path / "files").mkdir()
    (tmp_path / "etcd").mkdir()
    (tmp_path / "pods").mkdir()
    projected(tmp_path / "files", content)
    stages = staticpods.control_plane(CONFIG, "r", "192.0.2.1", "m1", peers="a=b")
    for name, text in installerpod.manifests(stages, IMAGES, files).items():
        (tmp_path / "pods" / name).write_text(text)
    seen = []
    placed = tmp_path / "kubernetes" / "manifests"

    def ready(stage):
        return lambda resources: seen.append((stage, sorted(p.name for p in placed.iterdir()))) or ""

    monkeypatch.setattr(nodeinstall, "CHECKS", {name: ready(name) for name in nodeinstall.CHECKS})
    for _ in range(2):  # a node that lost power in the middle does it all again
        seen.clear()
        nodeinstall.run(tmp_path / "files", tmp_path / "pods", tmp_path / "kubernetes", tmp_path / "etcd")
    key = tmp_path / "kubernetes" / "static-pod-resources" / "etcd-certs" / "server.key"
    assert key.read_text() == files["etcd-certs/server.key"]
    assert key.stat().st_mode & 0o777 == 0o600
    assert [stage for stage, _ in seen] == ["etcd", "kube-apiserver"]
    assert {"etcd-pod.yaml", "kube-apiserver-pod.yaml", "machine-config-server-pod.yaml"} <= {
        p.name for p in placed.iterdir()
    }
    assert (tmp_path / "etcd").stat().st_mode & 0o777 == 0o700


def test_a_node_with_one_cpu_admits_its_control_plane_and_the_installer():
    """A pod that asks for more than is left is refused by the kubelet, or pushes the installer out."""
    stages = staticpods.control_plane(CONFIG, "r", "192.0.2.1", "m1", peers="a=b")
    pods = [pod for stage in stages for pod in stage.pods] + [staticpods.keepalived()]
    asked = {pod.name: int(pod.cpu.removesuffix("m")) for pod in pods}
    installer = installerpod.installer_pod("m1", "image", [])["spec"]["containers"][0]["resources"]["requests"]["cpu"]
    assert sum(asked.values()) + int(installer.removesuffix("m")) <= 1000
    assert max(asked, key=lambda name: asked[name]) == "etcd", "its heartbeats come first"


def test_stages_wait_for_the_one_before(tmp_path):
    answers = ["not yet", "not yet", ""]
    pauses: list[float] = []
    nodeinstall.CHECKS["slow"] = lambda resources: answers.pop(0)
    try:
        nodeinstall.wait("slow", tmp_path, pause=pauses.append)
        assert len(pauses) == 2
        nodeinstall.CHECKS["slow"] = lambda resources: "connection refused"
        with pytest.raises(WaitError, match="connection refused"):
            nodeinstall.wait("slow", tmp_path, seconds=1, clock=iter([0, 0.5, 2]).__next__, pause=pauses.append)
    finally:
        del nodeinstall.CHECKS["slow"]


def test_what_answers_no_http_is_not_ready(tmp_path):
    (ca := tmp_path / "ca.crt").write_text(authority("test").certificate)

    def garble() -> None:
        with server.accept()[0] as line:
            line.recv(4096)
            line.sendall(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=garble)
        thread.start()
        assert "SSH-2.0" in nodeinstall.answers(f"http://127.0.0.1:{server.getsockname()[1]}/readyz", ca)
        thread.join()

"""The agent by which pacemaker runs etcd, with real members on loopback addresses; pacemaker's word is the tests'."""

import base64
import json
import os
import shutil
import signal
import subprocess

import pytest
import requests

from installer.common.certificates import authority
from installer.common.secretfiles import write_private
from lab.release.cluster.fencing import agent, host
from lab.release.cluster.kube.payload import Images
from lab.release.cluster.nodes.etcdapi import Etcd
from lab.release.cluster.pods import assets, pacemaker
from lab.testing.scaling import CONFIG, etcd_argv
from lab.waiting import wait_until

IMAGES = Images("4.18.0", {"etcd": "r.example/n@sha256:etcd"})
NAMES = ("master-0", "master-1")
SECONDS = 20.0
ONLINE, UNCLEAN, GONE = host.Seen(True, False), host.Seen(False, True), host.Seen(False, False)


class Process:
    """A stand-in for host.Etcd without podman and systemd: the plan's own command line with other paths."""

    def __init__(self, place, address, command):
        self.place, self.address, self.command = place, address, command
        self.process = None
        self.started = []

    def active(self):
        return self.process is not None and self.process.poll() is None

    def pull(self, seconds):
        pass

    def start(self, *more):
        self.started.append(more)
        names = {word.partition("=")[0] for word in more}
        command = (word for word in self.command if word.partition("=")[0] not in names)
        words = [*etcd_argv(command, self.place, self.address), *more]
        with (self.place / "log").open("a") as log:
            self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=log, cwd=self.place)

    def stop(self):
        if self.active():
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(10)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(10)


class Node:
    """One of the two: its agent, and its etcd."""

    def __init__(self, root, signer, peers, index):
        me, other = peers[index], peers[1 - index]
        self.name, self.place, self.client = me.name, root / me.name, me.client_url
        files = assets.etcd_files(signer, me.name, [me.address]) | {"etcd-certs/ca.crt": signer.certificate}
        files |= pacemaker.node_files(CONFIG, IMAGES, nodes=peers, index=index, key="k", seed="<cib/>")
        for path, text in files.items():
            write_private(self.place / path, text)
        (self.place / "data").mkdir()
        document = json.loads(files[f"{pacemaker.FOLDER}/{pacemaker.PLAN}"])
        # A member of a cluster that is there already: nobody is when both begin for the first time, here.
        command = [
            word.replace("--initial-cluster-state=existing", "--initial-cluster-state=new")
            for word in document["command"]
        ]
        self.etcd = Process(self.place, me.address, command)
        plan = agent.Plan(me.name, me.url, me.client_url, other.name, other.client_url, self.etcd)
        self.pod = self.place / "manifests-etcd-pod.yaml"
        self.agent = agent.Agent(plan, self.place / pacemaker.FOLDER, self.place / "data", self.pod)

    def members(self):
        pair = (str(self.place / "etcd-certs/server.crt"), str(self.place / "etcd-certs/server.key"))
        members = Etcd([self.client], str(self.place / "etcd-certs/ca.crt"), pair).members()
        return {member.name: member.votes for member in members}

    def _asked(self, what, **body):
        place = self.place / "etcd-certs"
        coded = {key: base64.b64encode(text.encode()).decode() for key, text in body.items()}
        pair = (str(place / "server.crt"), str(place / "server.key"))
        answer = requests.post(
            f"{self.client}/v3/kv/{what}", json=coded, cert=pair, verify=str(place / "ca.crt"), timeout=20
        )
        answer.raise_for_status()
        return answer.json()

    def put(self, key, value):
        self._asked("put", key=key, value=value)

    def get(self, key):
        return base64.b64decode(self._asked("range", key=key)["kvs"][0]["value"]).decode()


@pytest.fixture
def pair(tmp_path, monkeypatch):
    """(one node, the other, pacemaker's properties, what it says of nodes): both run etcd, and vote."""
    assert shutil.which("etcd"), "etcd is missing: run ci/setup"
    net = 64 + os.getpid() % 128
    peers = [pacemaker.Peer(name, f"127.78.{net}.{10 + n}") for n, name in enumerate(NAMES)]
    signer = authority("etcd-signer")
    properties: dict[str, str] = {}
    seen = dict.fromkeys(NAMES, ONLINE)
    monkeypatch.setattr(host, "attribute", lambda name: properties.get(name, ""))
    monkeypatch.setattr(host, "set_attribute", properties.__setitem__)
    monkeypatch.setattr(host, "node", seen.__getitem__)
    monkeypatch.setattr(agent, "POLL", 0.1)
    monkeypatch.setattr(agent, "TOGETHER_SECONDS", 1.0)
    monkeypatch.setattr(agent, "HEALTH_SECONDS", 1.0)
    nodes = [Node(tmp_path, signer, peers, index) for index in range(2)]
    try:
        for node in nodes:
            assert node.agent.start() == agent.SUCCESS
        wait_until(lambda: all(node.agent.healthy() for node in nodes), SECONDS, "etcd")
        yield *nodes, properties, seen
    finally:
        for node in nodes:
            if node.etcd.active():
                node.etcd.kill()


def lose(node, other, seen, how):
    """Return a node ends without a word; the other notices that it has no leader any more."""
    node.etcd.kill()
    seen[node.name] = how
    wait_until(lambda: not other.agent.healthy(), SECONDS, "etcd")


def test_both_vote_and_nobody_stands_alone(pair):
    first, other, properties, _ = pair
    assert first.members() == other.members() == dict.fromkeys(NAMES, True)
    assert [node.agent.monitor() for node in (first, other)] == [agent.SUCCESS] * 2
    assert not properties.get(agent.STANDALONE)
    assert (first.place / pacemaker.FOLDER / pacemaker.RUNNING).exists()


def test_a_node_begins_alone_only_when_the_other_has_been_fenced(pair):
    lost, left, properties, seen = pair
    lose(lost, left, seen, UNCLEAN)
    assert left.agent.monitor() == agent.SUCCESS
    seen[lost.name] = ONLINE
    assert left.agent.monitor() == agent.SUCCESS
    assert agent.STANDALONE not in properties, "the other may serve still: two would"
    # Not even by being started anew.
    left.etcd.stop()
    seen[lost.name] = UNCLEAN
    assert left.agent.start() == agent.SUCCESS
    assert (left.etcd.started[-1], left.agent.healthy()) == ((), False)
    assert agent.STANDALONE not in properties


def test_the_one_that_is_left_serves_alone_and_the_lost_one_comes_back_with_its_data(pair):
    lost, left, properties, seen = pair
    left.put("before", "both")
    lose(lost, left, seen, GONE)
    assert left.agent.monitor() == agent.GENERIC
    assert properties[agent.STANDALONE] == left.name
    # As pacemaker does with what has failed.
    assert (left.agent.stop(), left.agent.start(), left.agent.monitor()) == (agent.SUCCESS,) * 3
    assert left.members() == {left.name: True}
    left.put("meanwhile", "alone")
    assert left.get("before") == "both"
    # What fails from now on is started as it is: its data know of nobody else.
    left.etcd.kill()
    assert (left.agent.monitor(), left.agent.start()) == (agent.NOT_RUNNING, agent.SUCCESS)
    assert left.etcd.started[-1] == ()
    wait_until(left.agent.healthy, SECONDS, "etcd")

    seen[lost.name] = ONLINE
    assert lost.agent.start() == agent.SUCCESS
    wait_until(lost.agent.healthy, SECONDS, "etcd")
    assert lost.members() == dict.fromkeys(NAMES, True)
    assert not properties[agent.STANDALONE]
    assert lost.get("meanwhile") == "alone"


def test_a_node_whose_data_do_not_count_never_begins_alone(pair):
    lost, left, properties, seen = pair
    properties[agent.STANDALONE] = left.name
    lose(left, lost, seen, GONE)
    assert lost.agent.monitor() == agent.SUCCESS
    assert properties[agent.STANDALONE] == left.name


def test_a_node_that_is_stopped_leaves_the_other_able_to_go_on(pair, monkeypatch):
    stopped, left, properties, _ = pair
    monkeypatch.setenv("OCF_RESKEY_CRM_meta_notify_active_uname", " ".join(NAMES))
    monkeypatch.setenv("OCF_RESKEY_CRM_meta_notify_stop_uname", stopped.name)
    assert stopped.agent.stop() == agent.SUCCESS
    assert properties[agent.STANDALONE] == left.name
    wait_until(left.agent.healthy, SECONDS, "etcd")
    assert left.members() == {left.name: True}
    left.put("meanwhile", "alone")
    assert stopped.agent.start() == agent.SUCCESS
    wait_until(stopped.agent.healthy, SECONDS, "etcd")
    assert stopped.get("meanwhile") == "alone"
    assert not properties[agent.STANDALONE]


def test_both_stop_at_once_and_nobody_leaves(pair, monkeypatch):
    first, other, properties, _ = pair
    for what in ("active", "stop"):
        monkeypatch.setenv(f"OCF_RESKEY_CRM_meta_notify_{what}_uname", " ".join(NAMES))
    assert [node.agent.stop() for node in (first, other)] == [agent.SUCCESS] * 2
    assert not properties.get(agent.STANDALONE)
    assert [node.agent.start() for node in (first, other)] == [agent.SUCCESS] * 2
    wait_until(lambda: first.agent.healthy() and other.agent.healthy(), SECONDS, "etcd")
    assert first.members() == dict.fromkeys(NAMES, True)


def test_etcd_is_taken_from_kubelet_once(pair):
    """The manifest of kubelet's is replaced, and only then is the port waited for."""
    node, *_ = pair
    node.etcd.stop()
    node.pod.write_text("kubelet's")
    assert node.agent.start() == agent.SUCCESS
    ours = (node.place / pacemaker.FOLDER / pacemaker.POD).read_text()
    assert node.pod.read_text() == ours
    assert "sleep infinity" in ours

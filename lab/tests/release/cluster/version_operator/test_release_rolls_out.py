"""A whole upgrade of three nodes and back: hand-over, revisions, operators one after the other.

Kubelets and controllers are played; what drives them is all real.
"""

import threading

import pytest
import yaml

from lab.release.cluster import tls
from lab.release.cluster.kube.conditions import Finding
from lab.release.cluster.kube.payload import Images, Manifest
from lab.release.cluster.nodes import revisions, scaling
from lab.release.cluster.nodes.revisions import Wanted
from lab.release.cluster.pods import assets, installerpod, staticpods
from lab.release.cluster.version_operator import operators, rollout, sync, upgrade
from lab.release.cluster.version_operator.operators import Operators
from lab.release.cluster.version_operator.retrieval import PAYLOADS
from lab.release.cluster.version_operator.sync import CONFIG as API
from lab.release.cluster.version_operator.sync import Syncer
from lab.testing.clusterapi import Api, node
from lab.testing.scaling import CONFIG

TAGS = ("etcd", "hyperkube", "machine-config-operator", "agent-installer-csr-approver", "console")
READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
NODES = ("m0", "m1", "m2")
RELATED = {"etcd": "openshift-etcd", "kube-apiserver": "openshift-kube-apiserver", "console": "openshift-console"}


def wanted(version):
    image = f"r@sha256:release-{version}"
    tags = {tag: f"r@sha256:{tag}-{version}" for tag in TAGS}
    return Wanted(CONFIG, Images(version, {**tags, "cluster-version-operator": image}), image)


def payload(version):
    """Return the manifests of a release: three operators and the console's Deployment."""
    spec = {"replicas": 2, "template": {"image": f"r@sha256:console-{version}"}}
    meta = {"name": "console", "namespace": "openshift-console"}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}
    found = [Manifest("0000_50_console_03.yaml", 50, "console", deployment)]
    for level, name in ((10, "etcd"), (20, "kube-apiserver"), (50, "console")):
        status = {
            "versions": [{"name": "operator", "version": version}],
            "relatedObjects": [{"group": "", "resource": "namespaces", "name": RELATED[name]}],
        }
        obj = {"apiVersion": API, "kind": "ClusterOperator", "metadata": {"name": name}, "status": status}
        found.append(Manifest(f"0000_{level}_{name}_90.yaml", level, name, obj))
    return sorted(found, key=lambda m: (m.level, m.component, m.source))


class World(Api):
    """An API server's objects with what kubelets and controllers make of them; ``done`` tells in which order."""

    def __init__(self):
        super().__init__()
        self.done = []

    def get(self, api_version, kind, name, namespace=None):
        found = super().get(api_version, kind, name, namespace)
        return None if found is None else {"apiVersion": api_version, "kind": kind, **found}

    def resource(self, api_version, kind):
        return None

    def list(self, api_version, kind, namespace=None, labels="", **_):
        return super().list(api_version, kind, namespace, labels)

    def merge_patch(self, obj, patch, sub=""):
        return obj

    def create(self, obj):
        if obj["kind"] == "Pod" and obj["metadata"]["name"].startswith(installerpod.INSTALLER):
            obj = {**obj, "status": {"phase": "Succeeded"}}
            _, number, name = obj["metadata"]["name"].split("-")
            texts = super().get("v1", "ConfigMap", f"static-pods-{name}-{number}", installerpod.NAMESPACE)["data"]
            self.done.append(("revision", name))
            for text in texts.values():
                self.run(name, text)
        elif obj["kind"] == "Pod" and obj["metadata"]["name"].startswith("update-"):
            environment = {entry["name"]: entry["value"] for entry in obj["spec"]["containers"][0]["env"]}
            self.done.append(("version operator", obj["spec"]["nodeName"]))
            self.run(obj["spec"]["nodeName"], environment["MANIFEST"])
            obj = {**obj, "status": {"phase": "Succeeded"}}
        return super().create(self._converged(obj))

    def replace(self, obj, sub=""):
        return super().replace(self._converged(obj), sub)

    def _converged(self, obj):
        if obj["kind"] != "Deployment":
            return obj
        self.done.append(("deployment", obj["spec"]["template"]["image"]))
        counts = dict.fromkeys(("replicas", "updatedReplicas", "availableReplicas"), 2)
        return {**obj, "status": {**counts, "observedGeneration": 0}}

    def run(self, name, text):
        """Have a node run a static pod; the same manifest is no new pod."""
        pod = yaml.safe_load(text)
        pod["metadata"]["name"] += f"-{name}"
        notes = pod["metadata"].setdefault("annotations", {})
        notes |= {rollout.MIRROR: "x", rollout.HASH: str(hash(text))}
        pod["spec"]["nodeName"] = name
        pod["status"] = READY
        super().replace(pod)


@pytest.fixture
def world(monkeypatch):
    """Provide three nodes at release 4.18.0, on a clock that each wait moves."""
    clock = [1000.0]
    for module in (sync, rollout):
        monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(operators, "read_config", lambda kube: CONFIG)
    monkeypatch.setattr(operators, "PROBES", dict.fromkeys(RELATED, lambda seen: Finding(True, "fine")))
    monkeypatch.setattr(operators.Scaling, "step", lambda self, seen: False)
    monkeypatch.setattr(upgrade.retrieval, "own_node", lambda kube: "m1")
    world, old = World(), wanted("4.18.0")
    cluster = assets.Cluster(CONFIG, tls.complete(CONFIG, {}), old.release_image, old.images)
    for obj in scaling.bootstrap_objects(cluster, "192.0.2.9"):
        world.create(obj)
    for kind in revisions.KINDS:
        world.create({"apiVersion": revisions.OPERATOR, "kind": kind, "metadata": {"name": "cluster"}})
    for number, name in enumerate(NODES):
        obj = node(name, f"192.0.2.{number}")
        world.create({"apiVersion": "v1", "kind": "Node", **obj, "status": {**obj["status"], **READY}})
        stages = staticpods.control_plane(CONFIG, old.release_image, f"192.0.2.{number}", name)
        for stage in stages:
            for pod in stage.pods:
                world.run(name, pod.manifest(old.images))
    history = [{"state": "Completed", "version": "4.18.0", "image": old.release_image, "completionTime": "t"}]
    version = {"apiVersion": API, "kind": "ClusterVersion", "metadata": {"name": "version"}, "spec": {}}
    world.create({**version, "status": {"history": history, "conditions": []}})
    for manifest in payload("4.18.0"):
        world.create({**manifest.object, "status": manifest.object.get("status", {})})
    world.clock = clock
    return world


class Elsewhere(threading.Event):
    """An event that is never set, whose waits let the operators' loop do a round."""

    def __init__(self, clock, step):
        super().__init__()
        self._clock, self._step = clock, step

    def wait(self, timeout=None):
        self._clock[0] += timeout or 0
        self._step()
        return False


def go(world, version):
    """Upgrade to a release: what the version operator before does, then its own does; the work that is done."""
    target = wanted(version)
    stop = Elsewhere(world.clock, lambda: None)
    rollout.StaticPods(world, target).bring([upgrade.NAMESPACE], stop, "m1")
    syncer = Syncer(world, payload(version), version, target.release_image)
    loop = Operators(world, None, target.images, target.release_image, rollout=syncer.rollout)
    status = world.get(API, "ClusterVersion", "version")["status"]
    assert upgrade.updating(status, target.release_image)
    loop.step()
    work = syncer.update(Elsewhere(world.clock, loop.step))
    syncer.report(work)
    return work


def versions(world):
    return {o["metadata"]["name"]: o["status"]["versions"][0]["version"] for o in world.list(API, "ClusterOperator")}


def test_a_release_rolls_out_and_back(world, monkeypatch):
    monkeypatch.setattr(Syncer, "_hold", lambda self: None)
    first = wanted("4.18.0")
    revisions.Revisions(world, first)._renew("")
    for name in NODES:  # as they were installed
        world.create(
            {
                "kind": "ConfigMap",
                "metadata": {"name": f"static-pods-{name}-1", "namespace": "openshift-etcd"},
                "data": {},
            }
        )
        pod = {"kind": "Pod", "metadata": {"name": f"installer-1-{name}", "namespace": "openshift-etcd"}, "spec": {}}
        world.create({**pod, "spec": {"nodeName": name}})
    world.done.clear()
    for version in ("4.18.1", "4.18.0"):
        assert go(world, version).complete
        target = wanted(version)
        assert world.done == [
            *(("version operator", name) for name in ("m0", "m2", "m1")),
            *(("revision", name) for name in NODES),
            ("deployment", f"r@sha256:console-{version}"),
        ]
        world.done.clear()
        nodes, pods = world.list("v1", "Node"), world.list("v1", "Pod")
        mirrors = [pod for pod in pods if rollout.MIRROR in (pod["metadata"].get("annotations") or {})]
        assert len(mirrors) == 7 * len(NODES)
        assert rollout.outdated(target, nodes, pods, sorted({pod["metadata"]["namespace"] for pod in mirrors})) == []
        assert set(versions(world).values()) == {version}
        assert world.get(API, "ClusterVersion", "version")["status"]["history"][0]["state"] == "Completed"
    assert PAYLOADS in str(mirrors)

"""A release that is asked for: let in or refused by its step, and what the pods on the way tell."""

import json
import re
import threading

import pytest

from lab.release.cluster.errors import ApiError, ClusterError, Unverified, WaitError
from lab.release.cluster.kube.payload import PROFILE, Images
from lab.release.cluster.nodes.revisions import Wanted
from lab.release.cluster.version_operator import retrieval, rollout, upgrade
from lab.release.cluster.version_operator.retrieval import copying_pod, folder, run_pod, trouble
from lab.release.cluster.version_operator.updates import Update
from lab.release.cluster.version_operator.upgrade import Upgrader
from lab.testing.clusterapi import Api
from lab.testing.scaling import CONFIG

OLD, NEW = "r.x/y@sha256:" + "1" * 64, "r.x/y@sha256:" + "2" * 64
VERSION = {"metadata": {"name": "version"}, "spec": {}, "status": {"history": [{"version": "4.18.0", "image": OLD}]}}


@pytest.fixture
def letting_in(monkeypatch, tmp_path):
    """Provide a function: what is told of a payload of version 4.19.0 for a wish, a spec, and whether it is signed."""
    for name in ("manifests", "release-manifests"):
        (tmp_path / name).mkdir()
    stream = {"kind": "ImageStream", "apiVersion": "image.openshift.io/v1", "metadata": {"name": "4.19.0"}}
    files = {
        "image-references": {**stream, "spec": {"tags": []}},
        "release-metadata": {"kind": "cincinnati-metadata-v0", "version": "4.19.0"},
    }
    for name, document in files.items():
        (tmp_path / "release-manifests" / name).write_text(json.dumps(document))
    monkeypatch.setattr(retrieval, "retrieve", lambda kube, update, stop: tmp_path)

    def take(update, spec=None, signed=True):
        def verify(kube, digest, rings, fetch):
            if not signed:
                raise Unverified(f"unable to verify {digest} against keyrings: k")

        monkeypatch.setattr(upgrade.signatures, "verify_in_cluster", verify)
        upgrader = Upgrader(Api(), [], Wanted(CONFIG, Images("4.18.0", {}), OLD), {})
        said = []
        version = {**VERSION, "spec": spec or {}}
        release = upgrader.take(version, update, threading.Event(), lambda: said.append(upgrader.status.accepted))
        assert said[0][:2] == ("Unknown", "RetrievePayload")
        return release, upgrader.status.accepted

    return take, tmp_path


OVERRIDDEN = {"overrides": [{"kind": "Deployment", "name": "x", "unmanaged": True}]}


def test_a_release_is_let_in_with_its_version(letting_in):
    take, _ = letting_in
    release, condition = take(Update("", NEW))
    assert (release.update.version, release.verified, release.risks) == ("4.19.0", True, "")
    assert release.images["cluster-version-operator"] == NEW
    assert condition == ("True", "PayloadLoaded", f'Payload loaded version="4.19.0" image="{NEW}" architecture="amd64"')


@pytest.mark.parametrize(
    ("update", "spec", "signed", "step", "text"),
    [
        (Update("", NEW), {}, False, "RetrievePayload", "The update cannot be verified: unable to verify sha256:2222"),
        (Update("4.18.5", NEW), {}, True, "VerifyPayloadVersion", "4.19.0 does not match the expected upstream"),
        (Update("", NEW), OVERRIDDEN, True, "PreconditionChecks", "ClusterVersionOverridesSet"),
    ],
)
def test_a_release_is_refused_by_its_step(letting_in, update, spec, signed, step, text):
    release, condition = letting_in[0](update, spec, signed)
    assert release is None
    assert condition[:2] == ("False", step)
    assert text in condition[2]


def test_a_payload_that_cannot_be_read_is_refused(letting_in):
    take, root = letting_in
    (root / "release-manifests" / "release-metadata").write_text("{}")
    release, condition = take(Update("", NEW))
    assert (release, condition[1]) == (None, "LoadPayload")


@pytest.mark.parametrize(("name", "refused"), [("openshift-cluster-version", True), ("openshift-extra", False)])
def test_a_payload_that_would_delete_what_its_operator_needs_is_refused(letting_in, name, refused):
    take, root = letting_in
    notes = {PROFILE: "true", "release.openshift.io/delete": "true"}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "annotations": notes}}
    (root / "manifests" / "0000_50_x_01.yaml").write_text(json.dumps(namespace))
    release, condition = take(Update("", NEW, force=True))
    assert (release is None, condition[1]) == (refused, "LoadPayload" if refused else "PayloadLoaded")
    assert (f'0000_50_x_01.yaml: deletes namespace "{name}"' in condition[2]) == refused


def test_force_goes_on_and_keeps_what_was_found(letting_in):
    release, condition = letting_in[0](Update("", NEW, force=True), OVERRIDDEN, signed=False)
    assert condition[:2] == ("True", "PayloadLoaded")
    assert not release.verified
    assert "cannot be verified, but continuing anyway" in release.risks
    assert "ClusterVersionOverridesSet" in release.risks


def pod_status(phase, **state):
    return {"status": {"phase": phase, "containerStatuses": [{"state": state}]}}


@pytest.mark.parametrize(
    ("pod", "text"),
    [
        (pod_status("Pending", waiting={"reason": "ContainerCreating"}), ""),
        (pod_status("Running", running={}), ""),
        (
            pod_status("Pending", waiting={"reason": "ErrImagePull", "message": "manifest\n unknown"}),
            "manifest unknown",
        ),
        (pod_status("Failed", terminated={"exitCode": 1, "message": "no space left"}), "ended with 1: no space left"),
        ({"status": {"phase": "Failed", "reason": "DeadlineExceeded", "message": "too long"}}, "DeadlineExceeded: too"),
    ],
)
def test_what_ails_a_pod_is_told(pod, text):
    assert text in trouble(pod)
    assert bool(trouble(pod)) == bool(text)


class Kubelet(Api):
    """An API whose pods are at once what a kubelet would make of them."""

    def __init__(self, statuses):
        super().__init__()
        self.statuses = iter(statuses)

    def create(self, obj):
        return super().create({**obj, **next(self.statuses)} if obj["kind"] == "Pod" else obj)


def test_a_pod_that_fails_says_why_and_leaves_nothing():
    for status, text in (
        (pod_status("Failed", terminated={"exitCode": 1, "message": "no space left"}), "no space left"),
        (pod_status("Pending", waiting={"reason": "ErrImagePull", "message": "manifest unknown"}), "manifest unknown"),
    ):
        api = Kubelet([status])
        with pytest.raises(ClusterError, match=text):
            run_pod(api, copying_pod(Update("4.19.0", NEW), "m1"), threading.Event(), seconds=10)
        assert api.pods() == []
    api = Kubelet([pod_status("Succeeded")])
    run_pod(api, copying_pod(Update("4.19.0", NEW), "m1"), threading.Event())
    assert api.pods() == []


@pytest.mark.parametrize("version", ["4.18.1+build.7", "4.18.1-a..-", f"4.18.1-{'x' * 300}", ""])
def test_a_pod_has_a_name_that_the_api_takes_whatever_the_version(version):
    name = copying_pod(Update(version, NEW), "m1")["metadata"]["name"]
    assert re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,251}[a-z0-9])", name)


def test_a_pod_that_the_api_refuses_is_not_waited_for():
    class Refusing(Api):
        def create(self, obj):
            raise ApiError("POST", "/pods", 422, "spec.containers[0].image: Invalid value")

    with pytest.raises(ClusterError, match="is refused: spec") as caught:
        run_pod(Refusing(), copying_pod(Update("4.19.0", "r x"), "m1"), threading.Event(), seconds=10)
    assert not isinstance(caught.value, ApiError | WaitError)


def test_payloads_of_two_releases_lie_apart():
    assert folder(OLD) != folder(NEW)
    assert "/" not in folder(OLD)


def test_a_version_operator_that_does_not_start_is_put_back(monkeypatch):
    """Its pod is placed, crashes, and the one before is placed again."""
    monkeypatch.setattr(rollout, "SECONDS", 0.05)
    monkeypatch.setattr(rollout, "POLL_SECONDS", 0.01)
    api, placed = Api(), []
    wanted = Wanted(CONFIG, Images("4.19.0", dict.fromkeys(["cluster-version-operator"], NEW)), NEW)
    [pod] = [pod for pod in rollout.static_pods(wanted, _node(), []) if pod.namespace == upgrade.NAMESPACE]
    mirror = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"{pod.name}-m1", "namespace": pod.namespace, "annotations": {rollout.HASH: "0"}},
        "spec": {"nodeName": "m1", "containers": [{"name": pod.name, "image": OLD}]},
    }
    mirror["metadata"]["annotations"][rollout.MIRROR] = "x"
    api.create(mirror)
    api.create({"apiVersion": "v1", "kind": "Node", **_node()})

    def run(kube, placing, stop, *, seconds, done):
        environment = {entry["name"]: entry["value"] for entry in placing["spec"]["containers"][0]["env"]}
        placed.append(environment["MANIFEST"])
        mirror["metadata"]["annotations"][rollout.HASH] = str(len(placed))
        assert done()

    monkeypatch.setattr(rollout, "run_pod", run)
    with pytest.raises(ClusterError, match="cluster-version-operator of this release does not become ready on m1"):
        rollout.StaticPods(api, wanted).bring([upgrade.NAMESPACE], threading.Event())
    assert NEW in placed[0]
    assert placed[1:] == [""], "nothing but the manifest of before"


def _node():
    addresses = [{"type": "InternalIP", "address": "127.77.0.1"}]
    return {"metadata": {"name": "m1"}, "status": {"addresses": addresses}}

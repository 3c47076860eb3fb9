"""Renewed certificates reach the Secrets that static pods' files come from; what is not ours is left alone."""

import copy
import datetime as dt
from unittest import mock

import pytest

from installer.common import certificates
from lab.release.cluster import tls
from lab.release.cluster.errors import ApiError
from lab.release.cluster.kube.payload import Images
from lab.release.cluster.kube.resources import CERTIFICATE_KIND, NOT_AFTER, config_map
from lab.release.cluster.nodes import scaling
from lab.release.cluster.nodes.certificates import DAY_CONFIG, RETRY_SECONDS, Rotation
from lab.release.cluster.nodes.revisions import OPERATOR
from lab.release.cluster.pki import store
from lab.release.cluster.pods import assets
from lab.release.cluster.pods.installerpod import CONTROL_PLANE, NAMESPACE, PERSONAL, files_of, resource_secret
from lab.testing.clusterapi import Api, node
from lab.testing.scaling import CONFIG

IMAGES = Images("4.18.0", {})
PAIRS = tls.complete(CONFIG, {})


class Known(Api):
    """Serves every kind, and counts what is written."""

    def __init__(self):
        super().__init__()
        self.writes = []

    def resource(self, api_version, kind):
        """Return nothing of use: it is asked whether the kind is there."""

    def create(self, obj):
        created = super().create(copy.deepcopy(obj))
        if created is not None:
            self.writes.append(obj["metadata"]["name"])
        return created

    def replace(self, obj, sub=""):
        self.writes.append(obj["metadata"]["name"])
        return super().replace(copy.deepcopy(obj), sub)


@pytest.fixture
def api():
    made = Known()
    for obj in scaling.bootstrap_objects(assets.Cluster(CONFIG, PAIRS, "r", IMAGES), "192.0.2.9"):
        made.create(obj)
    made.create(config_map("kube-system", "cluster-config-v1", {"install-config": CONFIG.redacted()}))
    master = node("m0", "192.0.2.1")
    made.create({"apiVersion": "v1", "kind": "Node", **master})
    made.create(resource_secret(PERSONAL + "m0", assets.etcd_files(PAIRS["etcd-signer"], "m0", ["192.0.2.1"])))
    step(made)
    made.writes.clear()
    return made


def step(api):
    return Rotation(api, "r", IMAGES).step(dt.datetime.now(dt.UTC))


def files(api, name=CONTROL_PLANE):
    return files_of(api.get("v1", "Secret", name, NAMESPACE))


def test_while_nothing_is_due_nothing_is_written(api):
    assert 3600 < step(api) <= 86400
    assert api.writes == []


def test_what_somebody_asks_for_is_renewed_and_reaches_the_files(api):
    before = files(api)
    del api.get("v1", "Secret", "kubelet-client", "openshift-kube-apiserver")["metadata"]["annotations"][NOT_AFTER]
    step(api)
    changed = {path for path, text in files(api).items() if text != before[path]}
    assert changed == {"kube-apiserver-certs/kubelet-client.crt", "kube-apiserver-certs/kubelet-client.key"}
    [event] = api.list("v1", "Event")
    assert event["reason"] == "TargetUpdateRequired"
    assert "PRIVATE" not in str(event)


@pytest.mark.parametrize("data", [None, {}, {"tls.crt": "/////w==", "tls.key": "eA=="}])
def test_a_secret_that_cannot_be_used_is_made_anew_and_holds_up_no_other(api, data):
    for place in (("openshift-kube-apiserver", "kubelet-client"), ("openshift-etcd", "etcd-signer")):
        stored = api.get("v1", "Secret", *reversed(place))
        stored["data"] = data
    api.get("v1", "Secret", "aggregator-client-signer", store.OPERATOR)["data"]["next.crt"] = "eA=="
    personal = api.get("v1", "Secret", PERSONAL + "m0", NAMESPACE)
    personal["data"] = data and dict.fromkeys(personal["data"], "/////w==")
    step(api)
    kept = store.from_secrets(api.list("v1", "Secret"))
    assert set(kept) == set(store.SIGNERS | store.TARGETS | store.FIXED)
    found = files(api, PERSONAL + "m0")["etcd-certs/server.crt"]
    assert certificates.signed_by(found, kept["etcd-signer"].pair.certificate)
    api.writes.clear()
    step(api)
    assert api.writes == []


@pytest.mark.parametrize("asset", store.FIXED)
def test_without_what_stays_for_ever_nothing_is_written(api, asset):
    namespace, name = store.FIXED[asset]
    api.get("v1", "Secret", name, namespace)["data"] = {}
    assert step(api) == RETRY_SECONDS
    assert api.writes == []


def test_a_certificate_whose_label_is_removed_is_not_made_anew_at_each_look(api):
    for place in (*store.SIGNERS.values(), *store.TARGETS.values()):
        api.get("v1", "Secret", *reversed(place))["metadata"]["labels"] = {}
    before = files(api)
    for _ in range(2):
        step(api)
    assert api.writes == []
    assert files(api) == before


def test_a_signer_that_cannot_be_kept_is_not_trusted(api, monkeypatch):
    namespace, name = store.SIGNERS["kubelet-signer"]
    api.delete("v1", "Secret", name, namespace)
    refusal = ApiError("POST", "/api", 403, "the namespace is being terminated")
    monkeypatch.setattr(api, "create", mock.Mock(side_effect=refusal))
    for _ in range(2):
        with pytest.raises(ApiError):
            step(api)
    trusted = api.get("v1", "ConfigMap", *reversed(store.AUTHORITIES))
    assert trusted["data"]["kubelet-signer"].count("BEGIN CERTIFICATE") == 1


def test_a_successor_of_etcds_signer_is_trusted_at_once_and_members_keep_their_certificates(api):
    before, own = files(api), files(api, PERSONAL + "m0")
    del api.get("v1", "Secret", "etcd-signer", NAMESPACE)["metadata"]["annotations"][NOT_AFTER]
    step(api)
    assert files(api)["etcd-certs/ca.crt"].startswith(before["etcd-certs/ca.crt"])
    assert files(api)["etcd-certs/ca.crt"].count("BEGIN") == 2
    assert files(api, PERSONAL + "m0") == own


def test_a_successor_signs_only_when_all_nodes_run_a_revision_that_trusts_it(api):
    del api.get("v1", "Secret", "etcd-signer", NAMESPACE)["metadata"]["annotations"][NOT_AFTER]
    api.create(resource_secret(f"{CONTROL_PLANE}-1", files(api)))
    step(api)
    api.create(resource_secret(f"{CONTROL_PLANE}-2", files(api)))
    follower = store.from_secrets(api.list("v1", "Secret"))["etcd-signer"].next
    assert follower is not None
    etcd = {"apiVersion": OPERATOR, "kind": "Etcd", "metadata": {"name": "cluster"}}
    for revisions, signs in (((1, 2), False), ((2, 2), True)):
        statuses = [{"nodeName": f"m{at}", "currentRevision": number} for at, number in enumerate(revisions)]
        api.replace(etcd | {"status": {"nodeStatuses": statuses}})
        Rotation(api, "r", IMAGES).step(dt.datetime.now(dt.UTC) + 3 * certificates.DAY)
        own = files(api, PERSONAL + "m0")["etcd-certs/server.crt"]
        assert certificates.signed_by(own, follower.certificate) == signs


def test_a_member_without_a_certificate_of_its_signer_gets_one(api):
    stranger = certificates.authority("another")
    api.replace(resource_secret(PERSONAL + "m0", assets.etcd_files(stranger, "m0", ["192.0.2.1"])))
    step(api)
    found = files(api, PERSONAL + "m0")["etcd-certs/server.crt"]
    assert certificates.signed_by(found, PAIRS["etcd-signer"].certificate)


def test_a_certificate_of_the_users_own_in_the_place_of_the_routers_is_left_alone(api):
    own = {"tls.crt": "eA==", "tls.key": "eA=="}
    stored = api.get("v1", "Secret", "router-certs-default", "openshift-ingress")
    stored["data"], stored["metadata"]["labels"] = own, {}
    step(api)
    kept = api.get("v1", "Secret", "router-certs-default", "openshift-ingress")
    assert kept["data"] == own
    assert CERTIFICATE_KIND not in kept["metadata"]["labels"]


def test_a_length_of_a_day_that_cannot_be_used_is_said_once_and_changes_nothing(api):
    namespace, name = DAY_CONFIG
    api.create(config_map(namespace, name, {"base": "1s"}))
    rotation = Rotation(api, "r", IMAGES)
    api.writes.clear()
    for _ in range(2):
        rotation.step(dt.datetime.now(dt.UTC))
    [event] = api.list("v1", "Event")
    assert event["reason"] == "CertRotationBaseRefused"
    assert "'1s': must be from 30s to 24h" in event["message"]
    assert api.writes == [event["metadata"]["name"]]

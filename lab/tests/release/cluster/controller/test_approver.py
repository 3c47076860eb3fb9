"""Approval of CSRs: the shapes of a kubelet's two requests, and everything one step beside them."""

import base64
import datetime as dt
import ipaddress
import socket
import threading

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from lab.release.cluster.controller import command as approver
from lab.release.cluster.errors import ApiError
from lab.release.cluster.nodes.probes.machine_approver import newcomers
from lab.release.cluster.tls import BOOTSTRAPPER, BOOTSTRAPPER_GROUPS

KEY = ec.generate_private_key(ec.SECP256R1())
NODE = {
    "status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.10"}, {"type": "Hostname", "address": "n1"}]}
}


def csr(signer, user, groups, usages, *, common_name="system:node:n1", organizations=("system:nodes",), names=()):
    subject = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, o) for o in organizations]
    builder = x509.CertificateSigningRequestBuilder().subject_name(
        x509.Name([*subject, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(list(names)), critical=False)
    pem = builder.sign(KEY, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    spec = {"signerName": signer, "username": user, "groups": list(groups), "usages": list(usages)}
    return {"metadata": {"name": "csr-1"}, "spec": {**spec, "request": base64.b64encode(pem).decode()}}


def client(**changes):
    fields = {"user": BOOTSTRAPPER, "groups": BOOTSTRAPPER_GROUPS, "usages": ("digital signature", "client auth")}
    return csr(approver.CLIENT, **{**fields, **changes})


def serving(**changes):
    request = {
        "user": "system:node:n1",
        "groups": ("system:nodes", "system:authenticated"),
        "usages": ("digital signature", "key encipherment", "server auth"),
        "names": (x509.DNSName("n1"), x509.IPAddress(ipaddress.ip_address("192.0.2.10"))),
    }
    return csr(approver.SERVING, **{**request, **changes})


def refusal(request, nodes=None, expected=1):
    return approver.refusal(approver.read_request(request), nodes or {}, expected)


def test_a_kubelets_two_requests_are_approved():
    assert refusal(client()) == ""
    assert refusal(serving(), {"n1": NODE}) == ""


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"user": "system:serviceaccount:default:x"}, "not the node bootstrapper"),
        ({"groups": ("system:authenticated",)}, "not the node bootstrapper"),
        ({"common_name": "system:admin"}, "common name"),
        ({"common_name": "system:node:"}, "common name"),
        ({"organizations": ("system:masters",)}, "organization"),
        ({"organizations": ("system:nodes", "system:masters")}, "organization"),
        ({"usages": ("client auth", "server auth")}, "usages"),
        ({"usages": ("digital signature",)}, "usages"),
        ({"names": (x509.DNSName("api"),)}, "carries no names"),
    ],
)
def test_client_requests_beside_the_shape_are_refused(changes, why):
    assert why in refusal(client(**changes))


def test_a_name_cannot_join_twice_nor_more_nodes_than_asked_for():
    assert "has joined already" in refusal(client(), {"n1": NODE}, 3)
    assert "all 1 nodes" in refusal(client(), {"other": NODE}, 1)


def test_who_would_join_waits_for_an_administrator_and_who_has_joined_is_overlooked():
    asked = [client(), serving(), {**client(), "status": {"conditions": [{"type": "Denied"}]}}]
    broken = {"metadata": {"name": "x"}, "spec": {"signerName": approver.CLIENT, "request": "?"}}
    assert newcomers([*asked, broken], {"other"}) == ["csr-1"]
    assert newcomers(asked, {"n1"}) == []


class Waiting:
    """An API with a node, a CSR of another that waits, and a ClusterVersion of these releases."""

    def __init__(self, *history):
        self.version = {"status": {"history": [{"state": state} for state in history]}}
        self.approved = []

    def get(self, _api_version, _kind, _name):
        return self.version

    def list(self, _api_version, kind):
        return [client()] if kind == "CertificateSigningRequest" else [{**NODE, "metadata": {"name": "other"}}]

    def replace(self, obj, subresource):
        self.approved.append(subresource)


@pytest.mark.parametrize(
    ("history", "approved"), [((), 1), (("Partial",), 1), (("Completed",), 0), (("Partial", "Completed"), 0)]
)
def test_nobody_joins_an_installed_cluster_by_itself_though_nodes_are_fewer_than_asked_for(history, approved):
    api = Waiting(*history)
    approver.Approver(api, 3).step()
    assert api.approved == ["approval"] * approved


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"user": "system:node:n2"}, "asks for"),
        ({"groups": ("system:authenticated",)}, "asks for"),
        ({"usages": ("server auth", "client auth")}, "usages"),
        ({"names": (x509.DNSName("api.example"),)}, "are not the node's"),
        ({"names": (x509.IPAddress(ipaddress.ip_address("192.0.2.11")),)}, "are not the node's"),
        ({"names": (x509.DNSName("n1"), x509.UniformResourceIdentifier("spiffe://x"))}, "neither DNS names"),
        ({"names": ()}, "are not the node's"),
    ],
)
def test_serving_requests_beside_the_node_are_refused(changes, why):
    assert why in refusal(serving(**changes), {"n1": NODE})


def test_serving_waits_for_the_node_and_other_signers_are_not_ours():
    assert "not there yet" in refusal(serving())
    other = csr("kubernetes.io/kube-apiserver-client", BOOTSTRAPPER, BOOTSTRAPPER_GROUPS, ("client auth",))
    assert "not a kubelet's" in refusal(other)


def test_garbage_is_no_request():
    broken = client()
    broken["spec"]["request"] = base64.b64encode(b"nonsense").decode()
    with pytest.raises(ValueError, match="PEM"):
        approver.read_request(broken)


def test_approval_says_who_and_why():
    condition = approver.approval(client(), dt.datetime(2026, 1, 1, tzinfo=dt.UTC))["status"]["conditions"][0]
    assert (condition["type"], condition["reason"]) == ("Approved", "NodeCSRApprove")


def test_the_first_look_comes_as_soon_as_the_cluster_says_how_many_nodes_it_has(monkeypatch):
    stop = threading.Event()

    class Api:
        def list(self, _api_version, _kind):
            stop.set()
            return []

        def watch(self, *_arguments):
            return iter(())

    monkeypatch.setattr(approver, "expected_nodes", lambda _kube: 1)
    monkeypatch.setattr(approver, "POLL_SECONDS", 60.0)
    thread = threading.Thread(target=approver.run, args=(Api(), stop), kwargs={"announce": False}, daemon=True)
    thread.start()
    assert stop.wait(10), "it waited for its next turn"
    thread.join(10)
    assert not thread.is_alive()


def test_an_approver_gives_its_sign_of_life_after_a_look_at_all_requests_alone(monkeypatch):
    stop, done = threading.Event(), []

    class Api:
        def create(self, obj):
            done.append(obj["kind"])

        def list(self, _api_version, kind):
            done.append(kind)
            if done.count(kind) == 1:
                raise ApiError("GET", "/", 0, "no answer")
            return []

        def merge_patch(self, obj, _patch):
            done.append(obj["metadata"]["name"])
            stop.set()

        def watch(self, *_arguments):
            return iter(())

    monkeypatch.setattr(approver, "expected_nodes", lambda _kube: 1)
    monkeypatch.setattr(approver, "POLL_SECONDS", 0.01)
    thread = threading.Thread(target=approver.run, args=(Api(), stop), daemon=True)
    thread.start()
    thread.join(10)
    look = "CertificateSigningRequest"
    assert done == ["Event", look, look, approver.LEASE_PREFIX + socket.gethostname()]


def test_an_approver_looks_when_a_request_changes_and_while_one_waits(monkeypatch):
    stop, more = threading.Event(), threading.Event()
    turns: list[int] = []
    looks: list[int] = []

    class Api:
        def list(self, _api_version, _kind):
            looks.append(len(turns))
            return [client(common_name="x")] if len(looks) in (2, 4) else []

        def get(self, *_arguments):
            return None

        def watch(self, *_arguments):
            more.wait(10)
            yield {}

    def pause(_took, _longest):
        turns.append(1)
        if len(turns) == 5:
            more.set()
        if len(turns) == 200:
            stop.set()
        return 0.001

    monkeypatch.setattr(approver, "expected_nodes", lambda _kube: 1)
    monkeypatch.setattr(approver.pace, "pause", pause)
    approver.run(Api(), stop, announce=False)
    requests = [turn for turn in looks if turn]
    assert len(requests) == 5, "two looks that find one, each at it and at the nodes, and one that finds none"
    assert requests[0] >= 5


@pytest.mark.parametrize(("invoker", "count"), [("user", 3), ("agent-installer", 5), ("assisted-service", 5)])
def test_of_machines_that_a_user_boots_only_the_control_plane_joins_by_itself(invoker, count):
    config = {
        "metadata": {"name": "c"},
        "baseDomain": "d.example",
        "controlPlane": {"name": "master", "replicas": 3},
        "compute": [{"name": "worker", "replicas": 2}],
        "networking": {"machineNetwork": [{"cidr": "192.0.2.0/24"}]},
        "platform": {"none": {}},
        "pullSecret": '{"auths":{}}',
    }
    maps = {"cluster-config-v1": {"install-config": yaml.safe_dump(config)}}
    maps["openshift-install-manifests"] = {"invoker": invoker}

    class Api:
        def get(self, _api_version, _kind, name, _namespace):
            return {"data": maps[name]} if name in maps else None

    assert approver.expected_nodes(Api()) == count
    del maps["cluster-config-v1"]
    assert approver.expected_nodes(Api()) is None

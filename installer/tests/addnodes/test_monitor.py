"""Hosts that are added, as `agent add-nodes monitor` sees them round by round."""

import base64
import json
import logging
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from installer.addnodes import access, monitor
from installer.addnodes.monitor import CLIENT, SERVING, Following, Seen, State, joining_of, problems_of
from installer.errors import ConfigError, WaitError
from installer.hub.kube.kinds import SECRET, Key
from installer.hub.spoke import CSR, NODE, Joining
from installer.testing.hub.apiserver import ApiServer, Store

AT = "127.0.0.1"


def node(ready: bool) -> dict:
    conditions = [{"type": "Ready", "status": str(ready)}]
    addresses = [{"type": "InternalIP", "address": AT}]
    return {"metadata": {"name": "worker-9"}, "status": {"conditions": conditions, "addresses": addresses}}


def csr(signer: str) -> dict:
    return {"metadata": {"name": "csr-1"}, "spec": {"signerName": signer, "username": "u"}}


@pytest.mark.parametrize(
    ("seen", "state"),
    [
        (Seen(), State.INITIAL),
        (Seen(serves=True), State.SERVICE),
        (Seen(serves=True, kubelet=True), State.SERVICE),
        (Seen(kubelet=True), State.KUBELET),
        (Seen(kubelet=True, requests=(csr(CLIENT),)), State.FIRST_CSR),
        (Seen(node=node(False)), State.NOT_READY),
        (Seen(node=node(False), requests=(csr(SERVING),)), State.SECOND_CSR),
        (Seen(node=node(True)), State.READY),
    ],
)
def test_states(seen, state):
    assert seen.state() is state


def test_what_is_seen_later_never_makes_a_host_be_less_far():
    for serves, kubelet, requests in product((False, True), (False, True), ((), (csr(CLIENT),))):
        before = Seen(serves=serves, kubelet=kubelet, requests=requests)
        for ready in (False, True):
            after = Seen(serves=serves, kubelet=kubelet, node=node(ready), requests=requests)
            assert monitor.ORDER.index(after.state()) >= monitor.ORDER.index(before.state())


def test_failed_validations_are_shown_only_while_they_keep_the_host():
    failing = {"id": "has-min-memory", "status": "failure", "message": "1 GiB"}
    rows = json.dumps({"hardware": [failing, {"id": "has-inventory", "status": "success"}]})
    assert problems_of({"status": "insufficient", "validations_info": rows}) == [
        "validation has-min-memory failed: 1 GiB"
    ]
    assert problems_of({"status": "known", "validations_info": rows}) == []
    assert problems_of({"status": "error", "status_info": "disk"}) == ["its installation failed: disk"]


def test_a_hosts_name_comes_from_its_service_or_from_the_inputs():
    inventory = '{"interfaces": [{"ipv4_addresses": ["192.0.2.9/24"], "ipv6_addresses": ["2001:db8::9/64"]}]}'
    host = {"requested_hostname": "Worker-9", "inventory": inventory}
    joining = joining_of("192.0.2.9", host, {"192.0.2.9": "other"})
    assert (joining.name, joining.addresses) == ("worker-9", {"192.0.2.9", "2001:db8::9"})
    assert joining_of("192.0.2.9", {}, {"192.0.2.9": "other"}).name == "other"
    assert joining_of("192.0.2.9", {}, {}) is None


@pytest.fixture
def server(tmp_path: Path):
    running = ApiServer(Store([SECRET, NODE, CSR]))
    document = {
        "clusters": [{"name": "c", "cluster": {"server": running.url}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
        "users": [{"name": "u", "user": {}}],
    }
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **document}))
    yield running
    running.close()


def follow(tmp_path: Path, timeout: float = 0.3, *, approve: bool = False) -> None:
    monitor.monitor(Following(tmp_path / "kubeconfig", (AT,), approve=approve, timeout=timeout), tmp_path)


def test_a_cluster_without_an_image_or_with_expired_tokens_is_refused(server, tmp_path):
    with pytest.raises(ConfigError, match="no image for hosts of this cluster"):
        follow(tmp_path)
    old = access.make(datetime.now(UTC) - access.LIFETIME - timedelta(minutes=1))
    server.store.create(SECRET, access.KEY, SECRET.new(access.KEY, data=old.data()))
    with pytest.raises(ConfigError, match=r"expired at .* make a new image"):
        follow(tmp_path)


def test_a_ready_node_ends_it_and_time_does_with_what_was_last_seen(server, tmp_path, caplog):
    data = access.make(datetime.now(UTC)).data()
    server.store.create(SECRET, access.KEY, SECRET.new(access.KEY, data=data))
    with pytest.raises(WaitError, match=rf"within 0.3 s: {AT}: Initial State"):
        follow(tmp_path)
    caplog.set_level(logging.INFO)
    server.store.create(NODE, Key("", "worker-9"), node(True))
    follow(tmp_path, 30)
    assert f"Node {AT}: Node is Ready" in caplog.text


@pytest.mark.parametrize("status", [429, 500, 503])
def test_an_api_that_is_busy_for_a_moment_is_asked_again(server, tmp_path, monkeypatch, status):
    tokens = access.make(datetime.now(UTC))
    server.store.create(NODE, Key("", "worker-9"), node(True))
    monkeypatch.setattr(access, "watching", lambda *_: server.refusals.append(status) or tokens)
    follow(tmp_path, 30)


def serving(name: str) -> dict:
    """Return a node's request for a certificate to serve with."""
    names = [(NameOID.ORGANIZATION_NAME, "system:nodes"), (NameOID.COMMON_NAME, f"system:node:{name}")]
    builder = x509.CertificateSigningRequestBuilder(x509.Name([x509.NameAttribute(*item) for item in names]))
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
    signed = builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    text = base64.b64encode(signed.public_bytes(serialization.Encoding.PEM)).decode()
    spec = {"signerName": SERVING, "username": f"system:node:{name}", "usages": ["server auth"], "request": text}
    return CSR.new(Key("", f"csr-{name}"), spec=spec)


def test_a_node_is_known_by_its_own_name_once_it_is_there():
    host = monitor._Host(AT, access.make(datetime.now(UTC)))
    host.joining = Joining("dhcp-9", frozenset([AT]))  # as DNS calls it
    assert monitor._look(host, [node(False)], [serving("worker-9")], {})
    assert host.state is State.SECOND_CSR


@pytest.mark.parametrize("approve", [False, True])
def test_only_the_hosts_requests_are_approved_and_only_if_that_is_asked_for(server, tmp_path, approve):
    server.store.create(SECRET, access.KEY, SECRET.new(access.KEY, data=access.make(datetime.now(UTC)).data()))
    server.store.create(NODE, Key("", "worker-9"), node(True))
    for name in ("worker-9", "worker-8"):
        request = serving(name)
        server.store.create(CSR, Key("", request["metadata"]["name"]), request)
    follow(tmp_path, 30, approve=approve)
    approved = {key.name for key, request in server.store.objects[CSR].items() if request.get("status")}
    assert approved == ({"csr-worker-9"} if approve else set())

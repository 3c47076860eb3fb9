"""Requests for certificates that a hub approves in an installed cluster, and all those that it leaves alone."""

from __future__ import annotations

import base64
import copy
import json
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from installer.assisted.enums import Stage
from installer.common.certificates import BOTH, authority, leaf
from installer.errors import ConfigError
from installer.hub import spoke
from installer.hub.kube.api import Api, KubeError
from installer.hub.kube.kinds import Key
from installer.testing.hub.apiserver import ApiServer, Store

HOST = spoke.Joining("worker-0", frozenset({"192.0.2.7", "2001:db8::7"}))
NAMES = {"cn": "system:node:worker-0", "org": "system:nodes", "dns": (), "ips": (), "uri": ""}
CLIENT = {
    "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
    "username": spoke.BOOTSTRAPPER,
    "usages": ["digital signature", "client auth"],
    **NAMES,
}
SERVING = {
    "signerName": "kubernetes.io/kubelet-serving",
    "username": "system:node:worker-0",
    "usages": ["digital signature", "key encipherment", "server auth"],
    **NAMES,
    "dns": ("worker-0",),
    "ips": ("192.0.2.7",),
}
KEY = ec.generate_private_key(ec.SECP256R1())


def request(name: str = "csr-1", **wanted: Any) -> dict[str, Any]:
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, wanted.pop("org")),
            x509.NameAttribute(NameOID.COMMON_NAME, wanted.pop("cn")),
        ]
    )
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    names: list[x509.GeneralName] = [x509.DNSName(item) for item in wanted.pop("dns")]
    names += [x509.IPAddress(ip_address(item)) for item in wanted.pop("ips")]
    names += [x509.UniformResourceIdentifier(item) for item in filter(None, [wanted.pop("uri")])]
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    pem = builder.sign(KEY, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    return spoke.CSR.new(Key("", name), spec={"request": base64.b64encode(pem).decode(), **wanted})


def test_a_kubelets_own_requests_are_known() -> None:
    assert spoke.is_of(request(**CLIENT), HOST)
    assert spoke.is_of(request(**SERVING), HOST)
    assert spoke.is_of(request(**SERVING | {"dns": (), "ips": ("2001:db8::7", "192.0.2.7")}), HOST)


@pytest.mark.parametrize(
    "change",
    [
        {"cn": "system:node:master-0"},
        {"cn": "system:admin"},
        {"org": "system:masters"},
        {"username": "system:node:master-0"},
        {"username": "system:serviceaccount:default:builder"},
        {"signerName": "kubernetes.io/kube-apiserver-client"},
        {"usages": ["digital signature"]},
        {"usages": ["digital signature", "client auth", "server auth"]},
        {"usages": ["digital signature", "cert sign", "client auth"]},
        {"dns": ("worker-0", "api.example")},
        {"ips": ("192.0.2.7", "192.0.2.8")},
        {"uri": "spiffe://x"},
        {"request": "eA=="},
        {"request": "?"},
    ],
    ids=str,
)
@pytest.mark.parametrize("base", [CLIENT, SERVING], ids=["client", "serving"])
def test_no_other_request_is(base: dict[str, Any], change: dict[str, Any]) -> None:
    assert not spoke.is_of(request(**base | change), HOST)


@pytest.fixture
def cluster() -> Iterator[tuple[ApiServer, Api]]:
    server = ApiServer(Store((spoke.CSR, spoke.NODE)))
    api = server.api()
    yield server, api
    api.close()
    server.close()


def test_a_host_is_followed_until_its_node_is_ready(cluster: tuple[ApiServer, Api]) -> None:
    server, api = cluster
    others = CLIENT | {"cn": "system:node:stranger"}
    for name, wanted in (("own", CLIENT), ("others", others)):
        api.create(spoke.CSR, request(name, **wanted))

    def look() -> Stage | None:
        return spoke.follow(api, HOST, {}, datetime.now(UTC))

    assert look() is None
    node = spoke.NODE.new(Key("", "worker-0"), status={"conditions": [{"type": "Ready", "status": "False"}]})
    api.create(spoke.NODE, node)
    api.create(spoke.CSR, request("serving", **SERVING))
    assert look() is Stage.JOINED
    ready = copy.deepcopy(api.get(spoke.NODE, Key("", "worker-0")) or {})
    ready["status"]["conditions"][0]["status"] = "True"
    api.update(spoke.NODE, ready)
    assert look() is Stage.DONE
    decided = {key.name: bool(obj.get("status")) for key, obj in server.store.objects[spoke.CSR].items()}
    assert decided == {"own": True, "others": False, "serving": True}
    # Each is approved once.
    assert len([method for method, path in server.requests if path.endswith("/approval")]) == 2


def config(cluster: dict[str, Any], user: dict[str, Any]) -> str:
    context = {"name": "x", "context": {"cluster": "x", "user": "x"}}
    parts = {"clusters": [{"name": "x", "cluster": cluster}], "users": [{"name": "x", "user": user}]}
    return json.dumps({"contexts": [context], "current-context": "x", **parts})


def test_a_kubeconfigs_token_and_certificates_are_used(cluster: tuple[ApiServer, Api], tmp_path: Path) -> None:
    server, _ = cluster
    with spoke.reached(config({"server": server.url}, {"token": "t"})) as api:
        assert api.list(spoke.NODE)[0] == []
    assert server.tokens[-1] == "Bearer t"
    # Over TLS, where both sides show a certificate.
    ca = authority("spoke")
    own, client = leaf(ca, "127.0.0.1", names=("127.0.0.1",), usages=BOTH), leaf(ca, "admin", names=(), usages=BOTH)
    for name, text in (("ca", ca.certificate), ("crt", own.certificate), ("key", own.key)):
        (tmp_path / name).write_text(text)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(tmp_path / "ca"))
    context.load_cert_chain(tmp_path / "crt", tmp_path / "key")
    context.verify_mode = ssl.CERT_REQUIRED
    secured = ApiServer(Store((spoke.CSR, spoke.NODE)), context=context)

    def encoded(text: str) -> str:
        return base64.b64encode(text.encode()).decode()

    where = {"server": secured.url, "certificate-authority-data": encoded(ca.certificate)}
    who = {"client-certificate-data": encoded(client.certificate), "client-key-data": encoded(client.key)}
    try:
        with spoke.reached(config(where, who)) as api:
            assert api.list(spoke.NODE)[0] == []
        with spoke.reached(config(where, {"token": "t"})) as api, pytest.raises(KubeError):
            api.list(spoke.NODE)
    finally:
        secured.close()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        *((text, "has no current context") for text in ("", "[]", "{", "clusters: []", "current-context: secret")),
        (
            config({"server": "https://x"}, {"exec": {"command": "secret"}}),
            "has user.exec, which a hub does not follow",
        ),
        (config({"server": "https://x"}, {"tokenFile": "/secret"}), "has user.tokenFile"),
        (config({"server": "https://x", "certificate-authority": "/secret"}, {}), "has cluster.certificate-authority"),
        (config({"server": "https://x"}, {"client-key-data": "secret!"}), "client-key-data is not base64"),
    ],
)
def test_a_kubeconfig_that_is_of_no_use_or_of_too_much(text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as refused, spoke.reached(text):
        pass
    assert "secret" not in str(refused.value)

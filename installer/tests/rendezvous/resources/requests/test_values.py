"""Values of the right type that are refused all the same, before anything is changed."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from installer.assisted.errors import BadRequest
from installer.common import certificates
from installer.rendezvous.resources.requests import values

KEY = Ed25519PrivateKey.from_private_bytes(bytes(32)).public_key()
SSH = KEY.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


def auth(text: str) -> str:
    return json.dumps({"auths": {"registry.example": {"auth": base64.b64encode(text.encode()).decode()}}})


def refusal(fields: dict[str, Any], networks: dict[str, Any] | None = None) -> str:
    try:
        values.check_cluster(fields, networks or {})
    except BadRequest as error:
        return str(error)
    return ""


def refusal_of_infra_env(fields: dict[str, Any], *documents: str) -> str:
    try:
        values.check_infra_env(fields, [{"network_yaml": document} for document in documents])
    except BadRequest as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        ("pull_secret", [
            auth("u:p"), auth(":p"), ' {"auths": {"r": {}}}\n',
            '{"auths": {"r": null}}', '{"AUTHS": {"r": {"auth": "dTpw\\n"}}}',
        ], [
            "not json", "[]", "{}", '{"auths": {}}', '{"auths": {"r": "x"}}', auth("user"), '{"auths": null}', "null",
            '{"auths": {"r": {"auth": "***"}}}', '{"auths": {"r": {"auth": 5}}}',
        ]),
        ("base_dns_domain", ["example.com", "lab", "a-b.example.com"], [
            "a b", "example.com\n- evil: 1", "-a.com", "a..b", "x" * 64 + ".com", ".".join(["abcdefgh"] * 30), "a_b.c",
            "x.com.", "A.com", "1.2.3.4", "a", "x" * 63,
        ]),
        ("openshift_version", ["4.18.0", "4.19.0-0.nightly-2025-01-01-000000"], ["x" * 129, "4 18", "4.18\n"]),
        ("ocp_release_image", ["registry.example:5000/release@sha256:" + "0" * 64], ["a b", "x\n", "y" * 2000]),
        ("ssh_public_key", [SSH, f"# mine\n{SSH} me@host\n\n", f'from="192.0.2.1" {SSH}'], [
            "x", f"{SSH}\ny", "ssh-ed25519 AAAA", "ssh-rsa", "ssh-dss !!",
        ]),
        ("http_proxy", ["http://proxy.example:3128", "http://u:p@[2001:db8::1]:3128"], [
            "ftp://x", "https://x", "proxy:3128", "http://", "http://a b", "http://x:0", "http://x:99999", "http://x\n",
            "http://-x",
        ]),
        ("https_proxy", ["https://proxy.example", "http://proxy.example"], ["ftp://x", "//x"]),
        ("no_proxy", ["*", "example.com,.svc,192.0.2.0/24,2001:db8::1", "*.a, lab"], ["a b", "a,,b", "x/33", ","]),
        ("additional_ntp_source", ["192.0.2.1", "ntp.a,2001:db8::1"], [";reboot", "a b", "a,", "fe80::1%eth0"]),
    ],
)  # fmt: skip
def test_texts_of_a_cluster(field: str, good: list[str], bad: list[str]) -> None:
    assert [refusal({field: text}) for text in ["", *good]] == [""] * (len(good) + 1)
    for text in bad:
        assert refusal({field: text}).startswith(f"{field}: "), text


@pytest.mark.parametrize("text", ["::1%eth0", "fe80::1%eth0", "0.0.0.0", "::", "127.0.0.1", "224.0.0.1", "x", ""])
@pytest.mark.parametrize("field", ["api_vips", "ingress_vips"])
def test_addresses_that_no_node_can_have(field: str, text: str) -> None:
    assert refusal({field: [{"ip": text}]}).startswith(f"{field}: ")
    assert refusal({field: [{"ip": "192.0.2.1"}, {"ip": "2001:db8::1"}]}) == ""


def test_a_kind_has_two_addresses_at_most() -> None:
    vips = [{"ip": f"192.0.2.{number}"} for number in (1, 2, 3)]
    assert refusal({"api_vips": vips}) == "api_vips: 3 addresses, at most 2 are allowed"


@pytest.mark.parametrize(
    "cidr", ["0.0.0.0/0", "0.0.0.0/8", "127.0.0.0/8", "224.0.0.0/4", "::/64", "::1/128", "ff00::/8"]
)
@pytest.mark.parametrize("field", ["machine_networks", "service_networks", "cluster_networks"])
def test_networks_that_no_cluster_can_have(field: str, cidr: str) -> None:
    assert refusal({}, {field: [{"cidr": cidr}]}).startswith(f"{field}: {cidr!r} is ")
    assert refusal({}, {field: [{"cidr": "192.0.2.0/24"}]}) == ""


def test_operators_of_nobody() -> None:
    assert refusal({"olm_operators": [{"name": "lso"}]}) == ""
    assert refusal({"olm_operators": [{"name": "x"}, {}]}).count("olm_operators: ") == 2


def test_all_problems_are_told_at_once_and_no_secret() -> None:
    refused = refusal({"pull_secret": "hidden-1", "http_proxy": "ftp://u:hidden-2@x", "base_dns_domain": "a b"})
    assert [part.split(":")[0] for part in refused.split("; ")] == ["base_dns_domain", "pull_secret", "http_proxy"]
    assert "hidden" not in refused


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"additional_trust_bundle": "no pem"}, "additional_trust_bundle: must be PEM"),
        (
            {"additional_trust_bundle": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"},
            "additional_trust",
        ),
        ({"ssh_authorized_key": "x\ny"}, "ssh_authorized_key: line 1 is no"),
        ({"additional_ntp_sources": ";reboot"}, "additional_ntp_sources: ';reboot'"),
        ({"pull_secret": "zzz"}, "pull_secret: "),
        ({"openshift_version": "x" * 100_000}, "openshift_version: "),
        ({"proxy": {"http_proxy": "ftp://x"}}, "proxy.http_proxy: "),
        ({"proxy": {"no_proxy": "a b"}}, "proxy.no_proxy: "),
    ],
)
def test_fields_of_an_infra_env(fields: dict[str, Any], problem: str) -> None:
    assert refusal_of_infra_env(fields).startswith(problem)
    assert refusal_of_infra_env(dict.fromkeys(fields, "")) == ""


@pytest.mark.parametrize("document", ["a: &a [*a]", "[", "- x", "", "a: 1\na: 2"])
def test_documents_that_are_no_network(document: str) -> None:
    assert refusal_of_infra_env({}, "interfaces: []", document).startswith("static_network_config[1].network_yaml: ")


def test_a_trust_bundle_of_certificates() -> None:
    ca_pem = certificates.authority("root").certificate
    assert refusal_of_infra_env({"additional_trust_bundle": ca_pem}) == ""
    key = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"
    assert refusal_of_infra_env({"additional_trust_bundle": ca_pem + key}).startswith("additional_trust_bundle: ")

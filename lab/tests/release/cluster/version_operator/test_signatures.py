"""Signatures of releases, made and checked with the real programs."""

import contextlib
import json

import pytest
import yaml

from lab.release import signing
from lab.release.cluster.errors import Unverified
from lab.release.cluster.kube.payload import Manifest
from lab.release.cluster.version_operator import signatures
from lab.release.stage.store import Store

DIGEST = "sha256:" + "1" * 64
PULLSPEC = f"release.node0.example/node0/lab-release@{DIGEST}"


@pytest.fixture(scope="module")
def machines(tmp_path_factory):
    """Provide the caches of two machines."""
    return [Store(tmp_path_factory.mktemp(name)) for name in ("one", "two")]


def rings(store):
    document = yaml.safe_load(signing.keys_manifest(store))
    return signatures.keyrings([Manifest("x.yaml", 90, "x", document)])


def test_a_signed_release_is_let_in(machines):
    config_map = yaml.safe_load(signing.signature_config_map(machines[0], PULLSPEC))
    assert signatures.SIGNATURES in config_map["metadata"]["labels"]
    found = signatures.stored([config_map], DIGEST)
    signatures.verify(DIGEST, rings(machines[0]), found)
    assert signatures.stored([config_map], "sha256:" + "2" * 64) == []
    assert (machines[0].root / "signing" / "secret.asc").stat().st_mode & 0o777 == 0o600


def test_what_is_not_signed_for_this_cluster_is_not(machines):
    own, other = (signing.signature(store, PULLSPEC) for store in machines)
    tampered = bytearray(own)
    tampered[len(own) // 2] ^= 1
    name = "against keyrings: verifier-public-key-node0-lab"
    for digest, found in (
        (DIGEST, []),
        (DIGEST, [other]),
        (DIGEST, [bytes(tampered)]),
        (DIGEST, [b"nothing of the kind"]),
        ("sha256:" + "2" * 64, [own]),
    ):
        with pytest.raises(Unverified, match=f"unable to verify {digest} {name}"):
            signatures.verify(digest, rings(machines[0]), found)
    with pytest.raises(Unverified, match="No public key"):
        signatures.verify(DIGEST, rings(machines[0]), [other])
    signatures.verify(DIGEST, rings(machines[0]), [other, bytes(tampered), own])


@pytest.mark.parametrize(
    ("key_ends", "signature_ends", "reason"),
    [("never", "never", ""), ("2020-02-01", "never", "the key has expired"), ("never", "1d", "signature expired")],
)
def test_neither_an_expired_signature_nor_an_expired_keys_is_let_in(key_ends, signature_ends, reason):
    with signing._gpg() as gpg:
        then = [*gpg, "--faked-system-time", "20200101T000000"]
        signing._run([*then, "--quick-generate-key", "then", "rsa2048", "sign", key_ends])
        content = {"critical": {"type": signatures.TYPE, "identity": {"docker-reference": "r"}}}
        content["critical"]["image"] = {"docker-manifest-digest": DIGEST}
        signed = signing._run([*then, "--default-sig-expire", signature_ends, "--sign"], json.dumps(content).encode())
        ring = {"verifier-public-key-then": signing._run([*gpg, "--armor", "--export", "then"]).decode()}
    expected = pytest.raises(Unverified, match=reason) if reason else contextlib.nullcontext()
    with expected:
        signatures.verify(DIGEST, ring, [signed])


def test_without_keys_or_digest_nothing_is_let_in(machines):
    with pytest.raises(Unverified, match="incorrectly configured"):
        signatures.verify(DIGEST, {}, [])
    with pytest.raises(Unverified, match="not accessed via digest"):
        signatures.verify("", rings(machines[0]), [])

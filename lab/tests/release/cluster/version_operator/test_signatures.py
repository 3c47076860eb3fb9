"""Signatures of releases, made and checked with the real programs."""

import contextlib
import functools
import json
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
import yaml

from lab.release import signing
from lab.release.cluster.errors import Unverified
from lab.release.cluster.kube.payload import Manifest
from lab.release.cluster.version_operator import signatures, stores
from lab.release.stage.store import Store
from lab.testing.clusterapi import Api

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


@pytest.fixture
def web(tmp_path):
    """Provide a folder that a web server has, and its URL."""
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield tmp_path, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_signatures_are_had_from_stores_when_the_cluster_has_none(machines, web):
    folder, url = web
    place = folder / "release" / DIGEST.replace(":", "=")
    place.mkdir(parents=True)

    def check(*named, default=()):
        api, spec = Api(), {"signatureStores": [{"url": name} for name in named]}
        found = stores.chosen(api, spec, dict(default))
        fetch = functools.partial(stores.signatures, found, DIGEST)
        signatures.verify_in_cluster(api, DIGEST, rings(machines[0]), fetch)

    (place / "signature-1").write_bytes(signing.signature(machines[1], PULLSPEC))
    with pytest.raises(Unverified, match="unable to verify"):
        check(f"{url}/release")
    (place / "signature-2").write_bytes(signing.signature(machines[0], PULLSPEC))
    check(f"{url}/release/")
    check("http://127.0.0.1:1", f"{url}/release")
    check(default=[("store-lab", f"{url}/release\n")])
    with pytest.raises(Unverified, match=r"keyrings: .*127\.0\.0\.1:1/sha256=1+/signature-1: "):
        check("http://127.0.0.1:1", default=[("store-lab", f"{url}/release")])
    (place / "signature-1").write_bytes(bytes(stores.MAX_BYTES + 1))
    with pytest.raises(Unverified, match="larger than 50 KiB"):
        check(f"{url}/release")
    with pytest.raises(Unverified, match=r"spec.signatureStores\[0\].url: 'ftp://x' must be a valid URL"):
        check("ftp://x")


def test_a_store_has_the_cas_that_its_config_map_holds():
    api, spec = Api(), {"signatureStores": [{"url": "https://x", "ca": {"name": "mine"}}]}
    with pytest.raises(Unverified, match=r"ca: ConfigMap openshift-config/mine has no ca-bundle.crt"):
        stores.chosen(api, spec, {})
    meta = {"name": "mine", "namespace": "openshift-config"}
    api.create({"kind": "ConfigMap", "metadata": meta, "data": {"ca-bundle.crt": "pem"}})
    assert stores.chosen(api, spec, {}) == [stores.Store("https://x", "pem")]

"""The key that lab releases are signed with, one a machine, and signatures as a cluster is given them.

The public key is in each release, so a cluster lets in only releases that were signed on the machine that its own was
built on. Signatures are OpenPGP messages of the form that containers/image calls simple signing.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import yaml

from installer.common.secretfiles import write_private
from lab.release.stage import progress
from lab.release.stage.errors import ReleaseError
from lab.release.stage.store import Store

USER = "node0 lab release <release@node0.example>"
SECONDS = 60.0
PROFILE = "include.release.openshift.io/self-managed-high-availability"
#: The release's file with its key, and where a cluster has its signatures.
MANIFEST = "0000_90_cluster-update-keys_configmap.yaml"
NAMESPACE = "openshift-config-managed"


@contextmanager
def _gpg() -> Iterator[Sequence[str]]:
    """Provide gpg's command line, with a keyring of its own that is gone afterwards, its agent too."""
    program = progress.need("gpg", "gpg")
    # gpg's agent listens in this folder, on a socket whose path may have no more than 107 characters.
    with tempfile.TemporaryDirectory(prefix="gpg-", dir="/tmp") as home:
        try:
            yield (program, "--homedir", home, "--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", "")
        finally:
            environment = {**os.environ, "GNUPGHOME": home}
            subprocess.run(["gpgconf", "--kill", "all"], env=environment, timeout=SECONDS, check=False)


def _run(argv: Sequence[str], text: bytes = b"") -> bytes:
    try:
        done = subprocess.run(argv, input=text, capture_output=True, timeout=SECONDS, check=True)
    except (subprocess.SubprocessError, OSError) as error:
        seen = getattr(error, "stderr", None) or str(error).encode()
        raise ReleaseError(f"gpg: {seen.decode(errors='replace').strip()}") from error
    return done.stdout


def _key(store: Store) -> Path:
    """Return the file with this machine's secret key, made when it is not there; the public one is beside it."""
    secret = store.root / "signing" / "secret.asc"
    with store.hold("signing"):
        if not secret.exists():
            secret.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with _gpg() as gpg:
                _run([*gpg, "--quick-generate-key", USER, "rsa3072", "sign", "never"])
                secret.with_name("public.asc").write_bytes(_run([*gpg, "--armor", "--export", USER]))
                write_private(secret, _run([*gpg, "--armor", "--export-secret-keys", USER]))
    return secret


def keys_manifest(store: Store) -> str:
    """Return the manifest by which a release says whose signatures it trusts."""
    public = _key(store).with_name("public.asc").read_text()
    document = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "release-verification",
            "namespace": NAMESPACE,
            "annotations": {PROFILE: "true", "release.openshift.io/verification-config-map": ""},
        },
        "data": {"verifier-public-key-node0-lab": public},
    }
    return str(yaml.safe_dump(document, sort_keys=False))


def signature(store: Store, pullspec: str) -> bytes:
    """Return a signature of a release, which a pullspec names by digest. Raises ReleaseError."""
    name, at, digest = pullspec.partition("@")
    if not at:
        raise ReleaseError(f"{pullspec}: want the release by digest, NAME@sha256:...")
    content = {
        "critical": {
            "type": "atomic container signature",
            "image": {"docker-manifest-digest": digest},
            "identity": {"docker-reference": name},
        },
        "optional": {"creator": "node0 lab.release"},
    }
    key = _key(store)
    with _gpg() as gpg:
        _run([*gpg, "--import", str(key)])
        return _run([*gpg, "--sign", "--output", "-"], json.dumps(content).encode())


def signature_config_map(store: Store, pullspec: str) -> str:
    """Return the ConfigMap, as YAML, that gives a cluster the signature of a release."""
    signed = signature(store, pullspec)
    digest = pullspec.rpartition("@")[2].replace(":", "-")
    document = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": digest,
            "namespace": NAMESPACE,
            "labels": {"release.openshift.io/verification-signatures": ""},
        },
        "binaryData": {f"{digest}-1": base64.b64encode(signed).decode()},
    }
    return str(yaml.safe_dump(document, sort_keys=False))

"""Signatures of releases: OpenPGP messages in ConfigMaps, checked with gpgv against the keys in the own payload."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from lab.release.cluster.errors import Unverified
from lab.release.cluster.kube.client import Kube, Object
from lab.release.cluster.kube.payload import Manifest

NAMESPACE = "openshift-config-managed"
#: Marks the ConfigMap of a payload that has the keys, and in a cluster those that have signatures.
VERIFIER = "release.openshift.io/verification-config-map"
SIGNATURES = "release.openshift.io/verification-signatures"
KEY_PREFIX = "verifier-public-key-"
TYPE = "atomic container signature"
#: gpgv needs milliseconds; under emulation a program's start alone takes a second.
SECONDS = 30.0
#: What gpgv says of signatures that are right and do not count (doc/DETAILS of GnuPG).
_REFUSED = {"EXPSIG": "signature expired", "EXPKEYSIG": "the key has expired", "REVKEYSIG": "the key is revoked"}
_ARMOR = re.compile(r"-----BEGIN PGP PUBLIC KEY BLOCK-----\n(?:[^\n]+\n)*\n(.*?)(?:\n=[^\n]*)?\n-----END", re.DOTALL)


def verification_data(manifests: Iterable[Manifest]) -> dict[str, str]:
    """Return what a payload says of the verification of others: keys, and stores of signatures."""
    for manifest in manifests:
        obj = manifest.object
        if obj["kind"] == "ConfigMap" and VERIFIER in (obj["metadata"].get("annotations") or {}):
            return dict(obj.get("data") or {})
    return {}


def keyrings(manifests: Iterable[Manifest]) -> dict[str, str]:
    """Return the armored public keys of a payload by name; each of them must have signed a release."""
    return {name: text for name, text in verification_data(manifests).items() if name.startswith(KEY_PREFIX)}


def dearmored(text: str) -> bytes:
    """Return an armored public key as gpgv reads it. Raises Unverified for what is none."""
    match = _ARMOR.search(text.replace("\r", ""))
    if match is None:
        raise Unverified("a verifier's public key is not armored")
    return base64.b64decode(match[1])


def stored(config_maps: Sequence[Object], digest: str) -> list[bytes]:
    """Return the signatures that ConfigMaps have for a digest: their keys begin with ``sha256-<hex>-``."""
    prefix = f"{digest.replace(':', '-')}-"
    pairs = [pair for config_map in config_maps for pair in sorted((config_map.get("binaryData") or {}).items())]
    return [base64.b64decode(value) for key, value in pairs if key.startswith(prefix)]


def _opened(signature: bytes, key: bytes) -> bytes:
    """Return the signed content of a message. Raises Unverified when that key has not signed it, or key or signature
    have expired or been revoked: gpgv takes an expired key's for good, and tells only here."""
    with tempfile.TemporaryDirectory() as folder:
        ring, message, content = (Path(folder, name) for name in ("ring.gpg", "message", "content"))
        ring.write_bytes(key)
        message.write_bytes(signature)
        argv = ["gpgv", "--homedir", folder, "--keyring", str(ring), "--status-fd", "1"]
        argv += ["--output", str(content), str(message)]
        try:
            done = subprocess.run(argv, capture_output=True, timeout=SECONDS, check=False, stdin=subprocess.DEVNULL)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Unverified(f"gpgv: {error}") from error
        words = [line.split() for line in done.stdout.decode(errors="replace").splitlines()]
        seen = {line[1] for line in words if len(line) > 1}
        for status, reason in _REFUSED.items():
            if status in seen:
                raise Unverified(reason)
        if done.returncode != 0 or "GOODSIG" not in seen or not content.exists():
            lines = [line.removeprefix("gpgv: ") for line in done.stderr.decode(errors="replace").splitlines()]
            # Before the reason are lines on when the signature was made, by which key.
            reasons = [line for line in lines if not line.startswith(("Signature made", " "))]
            raise Unverified(reasons[0] if reasons else f"gpgv: exit code {done.returncode}")
        return content.read_bytes()


def check_content(content: bytes, digest: str) -> None:
    """Check that the signed content vouches for that digest. Raises Unverified."""
    try:
        critical = json.loads(content)["critical"]
        kind = critical["type"]
        identity, signed = critical["identity"]["docker-reference"], critical["image"]["docker-manifest-digest"]
    except (ValueError, KeyError, TypeError) as error:
        raise Unverified(f"the signature is not valid JSON: {error}") from error
    if kind != TYPE:
        raise Unverified("signature is not the correct type")
    if not identity:
        raise Unverified("signature must have an identity")
    if signed != digest:
        raise Unverified("signature digest does not match")


def verify(digest: str, rings: Mapping[str, str], found: Sequence[bytes]) -> None:
    """Check that for each keyring one of the signatures is its. Raises Unverified, naming the keyrings without."""
    if not rings:
        raise Unverified("the release verifier is incorrectly configured, unable to verify digests")
    if not digest:
        raise Unverified("release images that are not accessed via digest cannot be verified")
    seen: list[str] = []
    lacking = []
    for name, armored in sorted(rings.items()):
        key = dearmored(armored)
        for signature in found:
            try:
                check_content(_opened(signature, key), digest)
                break
            except Unverified as error:
                seen.append(str(error))
        else:
            lacking.append(name)
    if lacking:
        more = f" ({'; '.join(dict.fromkeys(seen))})" if seen else ""
        raise Unverified(f"unable to verify {digest} against keyrings: {', '.join(lacking)}{more}")


def verify_in_cluster(
    kube: Kube, digest: str, rings: Mapping[str, str], fetch: Callable[[], tuple[list[bytes], list[str]]]
) -> None:
    """Check a release's digest against the signatures in the cluster, then also against those that ``fetch`` returns,
    with what went wrong there. Raises Unverified, ApiError."""
    found = stored(kube.list("v1", "ConfigMap", NAMESPACE, SIGNATURES), digest)
    try:
        verify(digest, rings, found)
    except Unverified:
        more, wrong = fetch()
        try:
            verify(digest, rings, [*found, *more])
        except Unverified as error:
            raise Unverified("; ".join([str(error), *wrong])) from error

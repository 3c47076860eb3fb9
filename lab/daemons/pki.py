"""Server certificates of a lab, the SSH key for its nodes, and its Tang server's keys."""

from __future__ import annotations

import hashlib
import json
from base64 import urlsafe_b64encode
from datetime import timedelta
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from installer.common import certificates
from installer.common.certificates import SERVER, YEAR, Pair
from installer.common.secretfiles import write_private

# P-521's coordinates in bytes (RFC 7518 §6.2.1.2).
_COORDINATE = 66
# What a Tang server says of itself is signed with one key; the other gives clients their part of a volume's key.
_SIGNS, _EXCHANGES = "ES512", "ECMR"
_USES = {_SIGNS: ["sign", "verify"], _EXCHANGES: ["deriveKey"]}


def issue(authority: Pair, names: list[str], folder: Path, stem: str = "server", *, expired: bool = False) -> None:
    """Write STEM.crt, a server certificate for DNS names and IP addresses, and STEM.key (0600) into the folder.

    One that is `expired` was valid until an hour ago.
    """
    lifetime = -timedelta(hours=1) if expired else YEAR
    pair = certificates.leaf(authority, names[0], names=names, usages=SERVER, lifetime=lifetime)
    (folder / f"{stem}.crt").write_text(pair.certificate)
    write_private(folder / f"{stem}.key", pair.key)


def make_ssh_key(path: Path) -> str:
    """Write an ECDSA key in OpenSSH's format (0600) to `path`; return the public key's line.

    With FIPS the installer takes no Ed25519.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    write_private(path, private)
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    line = public.decode() + " lab"
    path.with_suffix(".pub").write_text(line + "\n")
    return line


def make_tang_keys(folder: Path) -> None:
    """Make the directory of a Tang server with two new keys, each (0600) in a file named by its thumbprint."""
    folder.mkdir(mode=0o700)
    for algorithm, uses in _USES.items():
        private = ec.generate_private_key(ec.SECP521R1()).private_numbers()
        public = {"x": _number(private.public_numbers.x), "y": _number(private.public_numbers.y)}
        named = {"crv": "P-521", "kty": "EC", **public}
        # RFC 7638 §3: of what makes the key this one, in the order of the names.
        text = json.dumps(named, sort_keys=True, separators=(",", ":"))
        thumbprint = _encoded(hashlib.sha256(text.encode()).digest())
        key = {"alg": algorithm, "key_ops": uses, **named, "d": _number(private.private_value)}
        write_private(folder / f"{thumbprint}.jwk", json.dumps(key))


def tang_thumbprint(folder: Path) -> str:
    """Return the thumbprint of the key that the server signs with, by which clients know it."""
    [signs] = (path for path in folder.iterdir() if json.loads(path.read_bytes())["alg"] == _SIGNS)
    return signs.stem


def _number(value: int) -> str:
    return _encoded(value.to_bytes(_COORDINATE, "big"))


def _encoded(data: bytes) -> str:
    """Encode bytes as JWK has them (RFC 7515, appendix C)."""
    return urlsafe_b64encode(data).rstrip(b"=").decode()

"""The three tokens of an image: JWT, ES256, one scheme each (reference/installer.md §4.5)."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature


@dataclass(frozen=True)
class Tokens:
    """Who may do what: agents, the user's scripts on node0, and watchers (wait-for). The private key is not kept."""

    public_key_pem: str
    agent: str = field(repr=False)
    user: str = field(repr=False)
    watcher: str = field(repr=False)


def _part(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _token(claims: dict[str, str], key: ec.EllipticCurvePrivateKey) -> str:
    """RFC 7515 §3.1 with RFC 7518 §3.4: three lines, where PyJWT takes longer to import than all keys to make."""
    head, body = (json.dumps(part, separators=(",", ":")).encode() for part in ({"alg": "ES256", "typ": "JWT"}, claims))
    signed = f"{_part(head)}.{_part(body)}"
    numbers = decode_dss_signature(key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
    return f"{signed}.{_part(b''.join(number.to_bytes(32) for number in numbers))}"


def make_tokens() -> Tokens:
    """A new key pair and its three tokens, without expiry: an installation image may lie for long before it boots."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    agent, user, watcher = (_token({"auth_scheme": scheme}, key) for scheme in ("agentAuth", "userAuth", "watcherAuth"))
    return Tokens(public.decode(), agent, user, watcher)

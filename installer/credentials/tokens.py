"""The three tokens of an image: JWT, ES256, one scheme each (reference/installer.md §4.5)."""

from __future__ import annotations

from dataclasses import dataclass, field

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec


@dataclass(frozen=True)
class Tokens:
    """Who may do what: agents, the user's scripts on node0, and watchers (wait-for). The private key is not kept."""

    public_key_pem: str
    agent: str = field(repr=False)
    user: str = field(repr=False)
    watcher: str = field(repr=False)


def make_tokens() -> Tokens:
    """A new key pair and its three tokens, without expiry: an installation image may lie for long before it boots."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    agent, user, watcher = (
        jwt.encode({"auth_scheme": scheme}, key, algorithm="ES256")
        for scheme in ("agentAuth", "userAuth", "watcherAuth")
    )
    return Tokens(public.decode(), agent, user, watcher)

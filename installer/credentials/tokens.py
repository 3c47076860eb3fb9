"""The three tokens of an image: JWT, ES256, one scheme each (reference/installer.md §4.5)."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from installer.common.certificates import ec_key, public_pem

SCHEMES = ("agentAuth", "userAuth", "watcherAuth")


@dataclass(frozen=True)
class Tokens:
    """The tokens of agents, the user's scripts on node0, and watchers (wait-for). The private key is not kept."""

    public_key_pem: str
    agent: str = field(repr=False)
    user: str = field(repr=False)
    watcher: str = field(repr=False)


def _part(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _bytes(part: str) -> bytes:
    return base64.b64decode(part.encode() + b"=" * (-len(part) % 4), altchars=b"-_", validate=True)


def _token(claims: dict[str, str | int], key: ec.EllipticCurvePrivateKey) -> str:
    """Sign by RFC 7515 §3.1 with RFC 7518 §3.4: importing PyJWT would take longer than making all keys."""
    head, body = (json.dumps(part, separators=(",", ":")).encode() for part in ({"alg": "ES256", "typ": "JWT"}, claims))
    signed = f"{_part(head)}.{_part(body)}"
    numbers = decode_dss_signature(key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
    return f"{signed}.{_part(b''.join(number.to_bytes(32) for number in numbers))}"


def check(tokens: Tokens, expiry: datetime | None = None) -> None:
    """Raise ValueError, one line, unless each token is of its scheme, expires then, and is signed by the public key's
    owner."""
    limit = _limit(expiry)
    try:
        key = serialization.load_pem_public_key(tokens.public_key_pem.encode())
        if not isinstance(key, ec.EllipticCurvePublicKey):
            raise ValueError
    except (ValueError, UnsupportedAlgorithm):
        raise ValueError("PublicKey is no PEM public key") from None
    named = {"Agent": tokens.agent, "User": tokens.user, "Watcher": tokens.watcher}
    for (name, token), scheme in zip(named.items(), SCHEMES, strict=True):
        signed, _, signature = token.rpartition(".")
        try:
            raw = _bytes(signature)
            numbers = encode_dss_signature(int.from_bytes(raw[:32]), int.from_bytes(raw[32:]))
            key.verify(numbers, signed.encode(), ec.ECDSA(hashes.SHA256()))
            claims = json.loads(_bytes(signed.rpartition(".")[2]))
            if claims != {"auth_scheme": scheme, **limit}:
                raise ValueError
        except (ValueError, InvalidSignature, RecursionError):
            raise ValueError(f"{name}AuthToken is none that PublicKey has signed for {scheme}") from None


def make_tokens(expiry: datetime | None = None) -> Tokens:
    """Make a key pair and its three tokens. Those for an installation have no expiry: its image may lie for long before
    it boots."""
    key = ec_key()
    agent, user, watcher = (_token({"auth_scheme": scheme, **_limit(expiry)}, key) for scheme in SCHEMES)
    return Tokens(public_pem(key), agent, user, watcher)


def _limit(expiry: datetime | None) -> dict[str, str | int]:
    return {} if expiry is None else {"exp": int(expiry.timestamp())}


def expiry_of(token: str) -> datetime | None:
    """Return the time at which a token expires; None for one that does not, or is none."""
    try:
        return datetime.fromtimestamp(int(json.loads(_bytes(token.split(".")[1]))["exp"]), UTC)
    except (ValueError, LookupError, TypeError, OverflowError, OSError, RecursionError):
        return None

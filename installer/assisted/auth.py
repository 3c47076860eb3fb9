"""Tokens: JWT ES256 whose ``auth_scheme`` must be one that the endpoint takes (installer.md §4.5).

Stricter than upstream, which lets any valid token pass everywhere.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import time
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from installer.assisted.errors import ConfigurationError, Forbidden, Unauthorized


class Scheme(StrEnum):
    """The kinds of callers."""

    AGENT = "agentAuth"
    USER = "userAuth"
    WATCHER = "watcherAuth"


# Tokens whose signature need not be checked again.
REMEMBERED = 256
# Characters: far more than a token of ours has. A longer one is refused undecoded.
LONGEST = 4096
HEADERS: Mapping[Scheme, str] = {
    Scheme.AGENT: "X-Secret-Key",
    Scheme.USER: "Authorization",
    Scheme.WATCHER: "Watcher-Authorization",
}
# Which attempt to install a request belongs to, as the install step named it; beyond the specification, and optional.
ATTEMPT_HEADER = "X-Installation-Attempt"
# How the orchestrator gets it from the agent: not as an argument, which other payloads would refuse.
ATTEMPT_VARIABLE = "INSTALLATION_ATTEMPT"


class Authenticator:
    """Checks tokens against the public key. With auth_type ``none`` everything passes (tests, ``--help``)."""

    def __init__(self, auth_type: str, public_key_base64: str) -> None:
        self._open = auth_type == "none"
        self._key: Any = None
        # (scheme, expiry) by the token's digest: to check a signature costs about as much as all else of a request, and
        # all requests carry the same three tokens.
        self._proofs: dict[bytes, tuple[str, float]] = {}
        if self._open:
            return
        if auth_type != "agent-installer-local":
            raise ConfigurationError("AUTH_TYPE", f"{auth_type!r} is not one of none, agent-installer-local")
        if not public_key_base64:
            raise ConfigurationError("EC_PUBLIC_KEY_PEM", "must hold the public key, base64 of PEM")
        try:
            text = base64.b64decode(public_key_base64, validate=True)
        except binascii.Error:
            raise ConfigurationError("EC_PUBLIC_KEY_PEM", "is not base64") from None
        # Here, not at the first request, which would wait for it.
        import jwt  # noqa: F401
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.serialization import load_pem_public_key

        try:
            # openshift-install calls the same content by another name (pkg/asset/agent/gencrypto/authconfig.go).
            self._key = load_pem_public_key(text.replace(b" EC PUBLIC KEY-", b" PUBLIC KEY-"))
        except (ValueError, UnsupportedAlgorithm):
            raise ConfigurationError("EC_PUBLIC_KEY_PEM", "is not a PEM public key") from None
        if not isinstance(self._key, ec.EllipticCurvePublicKey) or not isinstance(self._key.curve, ec.SECP256R1):
            raise ConfigurationError("EC_PUBLIC_KEY_PEM", "is not a key on the curve P-256, which ES256 needs")

    def recognized(self, headers: Mapping[str, str], allowed: frozenset[Scheme]) -> Scheme | None:
        """Return the scheme of a token whose signature was checked before; None when it would have to be checked."""
        if self._open:
            return Scheme.USER if Scheme.USER in allowed else min(allowed)
        for scheme in sorted(allowed):
            seen = self._recall(_digest(headers.get(HEADERS[scheme], "")))
            if seen is not None and seen[0] == scheme and time.time() < seen[1]:
                return scheme
        return None

    def check(self, headers: Mapping[str, str], allowed: frozenset[Scheme]) -> Scheme:
        """Return the scheme that the caller proves. Raises Unauthorized, or Forbidden for a good token of another
        scheme."""
        if self._open:
            return Scheme.USER if Scheme.USER in allowed else min(allowed)
        problem = ""
        missing = f"no token: one of {', '.join(sorted(HEADERS[scheme] for scheme in allowed))} is needed"
        for scheme in sorted(allowed):
            token = headers.get(HEADERS[scheme], "")
            if not token:
                continue
            proven = self._scheme_of(token)
            if proven == scheme:
                return scheme
            problem = f"a token of scheme {proven} was given in {HEADERS[scheme]}: it is unauthorized to access"
        raise Forbidden(problem) if problem else Unauthorized(missing)

    def _scheme_of(self, text: str) -> str:
        digest = _digest(text)
        proof = self._recall(digest)
        if proof is None:
            proof = self._proofs[digest] = self._verified(text)
            if len(self._proofs) > REMEMBERED:
                del self._proofs[next(iter(self._proofs))]
        if time.time() >= proof[1]:
            raise Unauthorized("the token has expired")
        return proof[0]

    def _recall(self, digest: bytes) -> tuple[str, float] | None:
        """Return the memory of a token, which becomes the last to be forgotten."""
        proof = self._proofs.pop(digest, None)
        if proof is not None:
            self._proofs[digest] = proof
        return proof

    def _verified(self, token: str) -> tuple[str, float]:
        import jwt

        if token[:7].lower() == "bearer ":
            raise Unauthorized("the token is not valid: it must not begin with 'Bearer '")
        if len(token) > LONGEST:
            raise Unauthorized(f"the token is not valid: it has more than {LONGEST} characters")
        try:
            claims = jwt.decode(token, self._key, algorithms=["ES256"])
        except jwt.ExpiredSignatureError:
            raise Unauthorized("the token has expired") from None
        except (jwt.InvalidTokenError, ValueError) as error:
            raise Unauthorized(f"the token is not valid: {error}") from None
        return str(claims.get("auth_scheme", "")), float(claims.get("exp", "inf"))


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="surrogateescape")).digest()

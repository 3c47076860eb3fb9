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

from installer.rendezvous.errors import ConfigurationError, Unauthorized


class Scheme(StrEnum):
    """Who is asking."""

    AGENT = "agentAuth"
    USER = "userAuth"
    WATCHER = "watcherAuth"


REMEMBERED = 256
HEADERS: Mapping[Scheme, str] = {
    Scheme.AGENT: "X-Secret-Key",
    Scheme.USER: "Authorization",
    Scheme.WATCHER: "Watcher-Authorization",
}


class Authenticator:
    """Checks tokens against the public key. With auth_type ``none`` everything passes (tests, ``--help``)."""

    def __init__(self, auth_type: str, public_key_base64: str) -> None:
        self._open = auth_type == "none"
        self._key = b""
        # (scheme, expiry) by the token's digest: a signature's check costs more than all else of a request, and the
        # same three tokens come with every one.
        self._known: dict[bytes, tuple[str, float]] = {}
        if self._open:
            return
        if auth_type != "agent-installer-local":
            raise ConfigurationError("AUTH_TYPE", f"{auth_type!r} is not one of none, agent-installer-local")
        if not public_key_base64:
            raise ConfigurationError("EC_PUBLIC_KEY_PEM", "must hold the public key, base64 of PEM")
        try:
            self._key = base64.b64decode(public_key_base64, validate=True)
        except binascii.Error:
            raise ConfigurationError("EC_PUBLIC_KEY_PEM", "is not base64") from None
        if b"BEGIN PUBLIC KEY" not in self._key:
            raise ConfigurationError("EC_PUBLIC_KEY_PEM", "is not a PEM public key")

    def check(self, headers: Mapping[str, str], allowed: frozenset[Scheme]) -> Scheme | None:
        """The scheme that the caller proved. Raises Unauthorized. An empty ``allowed`` is open to all."""
        if self._open or not allowed:
            return None
        problem = f"no token: one of {', '.join(sorted(HEADERS[scheme] for scheme in allowed))} is needed"
        for scheme in sorted(allowed):
            token = headers.get(HEADERS[scheme], "")
            if not token:
                continue
            found = self._scheme_of(token.removeprefix("Bearer "))
            if found == scheme:
                return scheme
            problem = f"a token of scheme {found} was given in {HEADERS[scheme]}"
        raise Unauthorized(problem)

    def _scheme_of(self, token: str) -> str:
        digest = hashlib.sha256(token.encode()).digest()
        known = self._known.get(digest)
        if known is None:
            known = self._verified(token)
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            self._known[digest] = known
        if time.time() >= known[1]:
            raise Unauthorized("the token has expired")
        return known[0]

    def _verified(self, token: str) -> tuple[str, float]:
        import jwt

        try:
            claims = jwt.decode(token, self._key, algorithms=["ES256"])
        except jwt.ExpiredSignatureError:
            raise Unauthorized("the token has expired") from None
        except (jwt.InvalidTokenError, ValueError) as error:
            raise Unauthorized(f"the token is not valid: {error}") from None
        return str(claims.get("auth_scheme", "")), float(claims.get("exp", "inf"))

"""Certificates that users give to their routes: parsed, checked and written anew, so nothing else of theirs is."""

from __future__ import annotations

import functools

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

#: Certificates that are kept, of about 6 KB each: every round goes through all of them, so with one more than are kept,
#: each is parsed anew, which takes 40 ms for a key of RSA.
KEPT = 8192


def _chain(text: str) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(text.encode())
    except (ValueError, UnsupportedAlgorithm, x509.InvalidVersion):
        raise ValueError("must be certificates as PEM") from None


def _pem(certificates: list[x509.Certificate]) -> str:
    return "".join(c.public_bytes(Encoding.PEM).decode() for c in certificates)


@functools.lru_cache(maxsize=KEPT)
def bundle(text: str) -> str:
    """Return the certificates of CAs, written anew. Raises ValueError."""
    return _pem(_chain(text))


@functools.lru_cache(maxsize=KEPT)
def served(certificate: str, key: str, authorities: str = "") -> str:
    """Return what haproxy reads: a certificate, those of its CAs, and its key. Raises ValueError with the rule."""
    chain = _chain(certificate)
    try:
        secret = load_pem_private_key(key.encode(), None)
        public = secret.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        private = secret.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ValueError("must have a key as PEM, without a password") from None
    try:
        certified = chain[0].public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    except (ValueError, UnsupportedAlgorithm):
        raise ValueError("must have a public key of a kind that is known here") from None
    if certified != public:
        raise ValueError("is not that of the key")
    return _pem(chain) + (_pem(_chain(authorities)) if authorities.strip() else "") + private

"""Certificates: chains that verify, names and lifetimes, and signers that cannot sign."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from installer.common.certificates import BOTH, DAY, SERVER, Pair, authority, check, leaf

CA = authority("a CA", unit="openshift")


def loaded(pair: Pair) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pair.certificate.encode())


@pytest.mark.parametrize(("with_rsa", "kind"), [(False, ec.EllipticCurvePublicKey), (True, rsa.RSAPublicKey)])
def test_an_authority(with_rsa: bool, kind: type) -> None:
    pair = authority("x", with_rsa=with_rsa)
    check(pair)
    assert isinstance(loaded(pair).public_key(), kind)
    ssl.create_default_context(cadata=pair.certificate)
    loaded(leaf(pair, "y")).verify_directly_issued_by(loaded(pair))


def test_a_leaf() -> None:
    pair = leaf(CA, "a leaf", organizations=("a", "b"), names=("host.example", "192.0.2.1", "::1"), usages=BOTH)
    check(pair)
    certificate = loaded(pair)
    certificate.verify_directly_issued_by(loaded(CA))
    assert certificate.subject.rfc4514_string() == "CN=a leaf,O=b,O=a"
    assert certificate.issuer.rfc4514_string() == "CN=a CA,OU=openshift"
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["host.example"]
    assert [str(ip) for ip in names.get_values_for_type(x509.IPAddress)] == ["192.0.2.1", "::1"]
    assert list(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == list(BOTH)
    assert "PRIVATE KEY" not in repr(pair)


def test_a_name_longer_than_x520_allows() -> None:
    der = loaded(leaf(CA, "x" * 73, organizations=("y" * 73,))).public_bytes(serialization.Encoding.DER)
    assert b"x" * 73 in der
    assert b"y" * 73 in der


@pytest.mark.parametrize("lifetime", [30 * DAY, -timedelta(hours=1)])
def test_lifetimes(lifetime: timedelta) -> None:
    certificate, now = loaded(leaf(CA, "x", usages=SERVER, lifetime=lifetime)), datetime.now(UTC)
    assert abs(certificate.not_valid_after_utc - now - lifetime) < timedelta(minutes=1)
    assert abs(certificate.not_valid_before_utc - now + DAY) < timedelta(minutes=1)


ED25519 = ed25519.Ed25519PrivateKey.generate().private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
)


@pytest.mark.parametrize(
    ("pair", "rule"),
    [
        (Pair("x", CA.key), "certificate is no PEM certificate"),
        (Pair(CA.certificate, "x"), "key is no PEM private key"),
        (Pair(CA.certificate, ED25519.decode()), "key is neither RSA nor ECDSA"),
    ],
)
def test_signers_that_cannot_sign(pair: Pair, rule: str) -> None:
    for use in (check, lambda signer: leaf(signer, "x")):
        with pytest.raises(ValueError, match=f"^{rule}$"):
            use(pair)


def test_parts_of_two_pairs() -> None:
    with pytest.raises(ValueError, match=r"^certificate and key do not belong together$"):
        check(Pair(CA.certificate, authority("other").key))

"""Certificates and their keys, PEM: authorities, and what they sign.

Keys are ECDSA P-256, which are made in no time, and whose handshakes cost a small or emulated host a tenth of RSA's.
Every certificate is valid from a day before now, for hosts whose clock is slow.
"""

from __future__ import annotations

import ipaddress
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAY = timedelta(days=1)
YEAR = 365 * DAY
TEN_YEARS = 10 * YEAR
RSA_BITS = 2048
#: Every certificate is valid for so long before it was made.
EARLY = DAY

CLIENT = (ExtendedKeyUsageOID.CLIENT_AUTH,)
SERVER = (ExtendedKeyUsageOID.SERVER_AUTH,)
BOTH = (*CLIENT, *SERVER)

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, both PEM."""

    certificate: str
    key: str = field(repr=False)


def ec_key() -> ec.EllipticCurvePrivateKey:
    """Make a P-256 key."""
    return ec.generate_private_key(ec.SECP256R1())


def private_pem(key: PrivateKey) -> str:
    """Return a private key as OpenSSL's traditional PEM, without encryption."""
    form = serialization.PrivateFormat.TraditionalOpenSSL
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()


def public_pem(key: PrivateKey) -> str:
    """Return the public part of a key as PEM."""
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(serialization.Encoding.PEM, form).decode()


def authority(
    common_name: str, *, unit: str = "node0", lifetime: timedelta = TEN_YEARS, with_rsa: bool = False
) -> Pair:
    """Make a self-signed CA. An RSA key takes long; other threads run meanwhile."""
    key = rsa.generate_private_key(65537, RSA_BITS) if with_rsa else ec_key()
    name = _name(common_name, (), unit)
    builder = _builder(name, name, key, lifetime, ca=True)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    return _signed(builder, key, key)


def leaf(
    signer: Pair,
    common_name: str,
    *,
    organizations: Sequence[str] = (),
    names: Sequence[str] = (),
    usages: Sequence[x509.ObjectIdentifier] = CLIENT,
    lifetime: timedelta = TEN_YEARS,
) -> Pair:
    """Make a certificate for `names` (DNS names and IP addresses), signed by `signer`. Its key is ECDSA.

    Raises ValueError, one line, where the signer's certificate or key cannot be used.
    """
    issuer, issuer_key = _loaded(signer)
    key = ec_key()
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    builder = _builder(_name(common_name, organizations), issuer.subject, key, lifetime, ca=False)
    builder = builder.add_extension(x509.ExtendedKeyUsage(list(usages)), critical=False)
    builder = builder.add_extension(identifier, critical=False)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName([_alternative(n) for n in names]), critical=False)
    return _signed(builder, key, issuer_key)


def check(pair: Pair) -> None:
    """Raise ValueError, one line, unless the certificate and the key can be read and belong together."""
    certificate, key = _loaded(pair)
    try:
        same = key.public_key() == certificate.public_key()
    except (ValueError, UnsupportedAlgorithm):
        same = False
    if not same:
        raise ValueError("certificate and key do not belong together")


def validity(text: str) -> tuple[datetime, datetime]:
    """Return when a certificate (PEM) was made, if it was made here, and when it ends. Raises ValueError."""
    certificate = x509.load_pem_x509_certificate(text.encode())
    return certificate.not_valid_before_utc + EARLY, certificate.not_valid_after_utc


def issuer(text: str) -> str:
    """Return the common name of who signed a certificate (PEM); empty without one. Raises ValueError."""
    names = x509.load_pem_x509_certificate(text.encode()).issuer.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[0].value) if names else ""


def signed_by(text: str, authority_text: str) -> bool:
    """Return whether a certificate was signed with the key of a CA, both PEM. Raises ValueError."""
    try:
        x509.load_pem_x509_certificate(text.encode()).verify_directly_issued_by(
            x509.load_pem_x509_certificate(authority_text.encode())
        )
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _loaded(pair: Pair) -> tuple[x509.Certificate, PrivateKey]:
    try:
        certificate = x509.load_pem_x509_certificate(pair.certificate.encode())
    except ValueError:
        raise ValueError("certificate is no PEM certificate") from None
    try:
        # Checking that the factors of an RSA key are primes would take longer than all the rest.
        key = serialization.load_pem_private_key(pair.key.encode(), None, unsafe_skip_rsa_key_validation=True)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ValueError("key is no PEM private key") from None
    if not isinstance(key, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey):
        raise ValueError("key is neither RSA nor ECDSA")
    return certificate, key


def _name(common_name: str, organizations: Sequence[str], unit: str = "") -> x509.Name:
    parts = [(NameOID.ORGANIZATION_NAME, text) for text in organizations]
    parts += [(NameOID.ORGANIZATIONAL_UNIT_NAME, unit)] if unit else []
    with warnings.catch_warnings():
        # OpenShift's node-bootstrapper has 73 characters where X.520 allows 64; Go does not check, and nor must we.
        warnings.filterwarnings("ignore", "Attribute's length")
        attributes = [x509.NameAttribute(oid, text) for oid, text in parts]
        return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common_name, _validate=False)])


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: PrivateKey, lifetime: timedelta, *, ca: bool
) -> x509.CertificateBuilder:
    now = datetime.now(UTC).replace(microsecond=0)
    usage = x509.KeyUsage(
        digital_signature=True,
        key_encipherment=True,
        key_cert_sign=ca,
        crl_sign=False,
        content_commitment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - EARLY)
        .not_valid_after(now + lifetime)
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        .add_extension(usage, critical=True)
    )


def _signed(builder: x509.CertificateBuilder, key: PrivateKey, issuer_key: PrivateKey) -> Pair:
    certificate = builder.sign(issuer_key, hashes.SHA256())
    return Pair(certificate.public_bytes(serialization.Encoding.PEM).decode(), private_pem(key))

"""Certificates of the cluster (reference/cluster.md §7.2).

Two deviations, on purpose. What OpenShift lets live for 24 hours (its operators rotate it) lives 30 days here, since
a lab that is kept overnight must still work and nothing rotates these. And keys are ECDSA P-256, not RSA 2048: they are
made on the host that is being installed, where software emulation makes an RSA key cost a second and every handshake
several times as much; signers that the user brings may be RSA. Every certificate is valid from one day back, so a host
whose clock is behind still accepts it.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from lab.release.cluster.errors import ConfigError

DAY = dt.timedelta(days=1)
TEN_YEARS = 3650 * DAY
YEAR = 365 * DAY
SHORT = 30 * DAY

CLIENT = (ExtendedKeyUsageOID.CLIENT_AUTH,)
SERVER = (ExtendedKeyUsageOID.SERVER_AUTH,)
BOTH = (*CLIENT, *SERVER)


@dataclass(frozen=True)
class KeyPair:
    """A certificate and its private key, both PEM text."""

    cert: str
    key: str = field(repr=False)

    def __repr__(self) -> str:
        return "KeyPair(...)"  # a key never gets into a log by accident


def _key() -> tuple[ec.EllipticCurvePrivateKey, str]:
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    return key, pem.decode()


def new_service_account_keys() -> KeyPair:
    """Return the key that signs service account tokens; ``cert`` holds the public key, PEM."""
    key, pem = _key()
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return KeyPair(public.decode(), pem)


def _name(common_name: str, organizations: Sequence[str], units: Sequence[str]) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, text) for text in organizations]
    attributes += [x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, text) for text in units]
    with warnings.catch_warnings():
        # OpenShift's node-bootstrapper has 73 characters where X.520 allows 64; Go does not check, and nor must we.
        warnings.filterwarnings("ignore", "Attribute's length")
        return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common_name, _validate=False)])


def _builder(subject: x509.Name, issuer: x509.Name, lifetime: dt.timedelta) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC).replace(microsecond=0)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - DAY)
        .not_valid_after(now + lifetime)
    )


def _usage(*, signing: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_encipherment=True,
        key_cert_sign=signing,
        crl_sign=False,
        content_commitment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def new_ca(common_name: str, lifetime: dt.timedelta = TEN_YEARS, unit: str = "openshift") -> KeyPair:
    """Return a self-signed CA."""
    key, pem = _key()
    name = _name(common_name, (), (unit,))
    cert = (
        _builder(name, name, lifetime)
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_usage(signing=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return KeyPair(cert.public_bytes(serialization.Encoding.PEM).decode(), pem)


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def issue(
    ca: KeyPair,
    common_name: str,
    *,
    organizations: Sequence[str] = (),
    names: Sequence[str] = (),
    usages: Sequence[x509.ObjectIdentifier] = CLIENT,
    lifetime: dt.timedelta = SHORT,
) -> KeyPair:
    """Return a leaf certificate signed by ``ca``; ``names`` are DNS names and IP addresses.

    Raises ConfigError when ``ca`` is not a certificate with an RSA or EC key.
    """
    try:
        issuer = x509.load_pem_x509_certificate(ca.cert.encode())
        issuer_key = serialization.load_pem_private_key(ca.key.encode(), None)
    except ValueError as error:
        raise ConfigError("signer", "", f"not a PEM certificate and key ({error})") from error
    if not isinstance(issuer_key, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey):
        raise ConfigError("signer", "", "the key of a signer must be RSA or EC")
    key, pem = _key()
    builder = (
        _builder(_name(common_name, organizations, ()), issuer.subject, lifetime)
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signing=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(list(usages)), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName([_alternative(n) for n in names]), critical=False)
    cert = builder.sign(issuer_key, hashes.SHA256())
    return KeyPair(cert.public_bytes(serialization.Encoding.PEM).decode(), pem)

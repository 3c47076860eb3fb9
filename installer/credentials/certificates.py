"""Certificates that are made with the image: the cluster's four signers, and the rendezvous service's own CA.

Names, lifetimes and use: reference/cluster.md §7.2. Valid from a day before now, for hosts whose clock is behind. The
signers are RSA, since openshift-install reads nothing else; the rest is ECDSA P-256, which is made in no time, and
whose handshakes cost a small or emulated host a tenth of RSA's.
"""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

RSA_BITS = 2048
CA_YEARS = 10
BACKDATE = datetime.timedelta(days=1)

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
PublicKey = rsa.RSAPublicKey | ec.EllipticCurvePublicKey

SIGNERS = (
    "admin-kubeconfig-signer",
    "kube-apiserver-lb-signer",
    "kube-apiserver-localhost-signer",
    "kube-apiserver-service-network-signer",
)
# Which signers the user's kubeconfig trusts, in the order of its bundle (reference/cluster.md §7.1).
SERVING_SIGNERS = (
    "kube-apiserver-localhost-signer",
    "kube-apiserver-service-network-signer",
    "kube-apiserver-lb-signer",
)


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, both PEM."""

    certificate: bytes
    key: bytes = field(repr=False)


def _name(common_name: str, organization: str = "", unit: str = "") -> x509.Name:
    parts = [(NameOID.ORGANIZATION_NAME, organization), (NameOID.ORGANIZATIONAL_UNIT_NAME, unit)]
    attributes = [x509.NameAttribute(oid, value) for oid, value in parts if value]
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _key_pem(key: PrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def _builder(subject: x509.Name, issuer: x509.Name, key: PublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATE)
        .not_valid_after(now + datetime.timedelta(days=365 * CA_YEARS))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*, ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
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


def signer(common_name: str) -> Pair:
    """Return a self-signed RSA CA of ten years. The key takes long; other threads run meanwhile."""
    return _self_signed(rsa.generate_private_key(65537, RSA_BITS), common_name, "openshift")


def authority(common_name: str) -> Pair:
    """Return a self-signed ECDSA CA of ten years."""
    return _self_signed(ec.generate_private_key(ec.SECP256R1()), common_name, "node0")


def _self_signed(key: PrivateKey, common_name: str, unit: str) -> Pair:
    name = _name(common_name, unit=unit)
    certificate = (
        _builder(name, name, key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_usage(ca=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return Pair(certificate.public_bytes(serialization.Encoding.PEM), _key_pem(key))


def check(pair: Pair) -> None:
    """Raise ValueError, one line, unless the certificate and the key can be read and belong together."""
    try:
        certificate = x509.load_pem_x509_certificate(pair.certificate)
    except ValueError:
        raise ValueError("certificate is no PEM certificate") from None
    try:
        key = serialization.load_pem_private_key(pair.key, None, unsafe_skip_rsa_key_validation=True)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ValueError("key is no PEM private key") from None
    try:
        same = key.public_key() == certificate.public_key()
    except (ValueError, UnsupportedAlgorithm):
        same = False
    if not same:
        raise ValueError("certificate and key do not belong together")


def leaf(
    signer: Pair,
    common_name: str,
    *,
    organization: str = "",
    addresses: tuple[str, ...] = (),
    client: bool = False,
    server: bool = False,
) -> Pair:
    """Return a certificate of ten years with an ECDSA key, signed by `signer`, for IP addresses and the given uses.

    Raises ValueError when the signer's certificate or key cannot be read.
    """
    issuer = x509.load_pem_x509_certificate(signer.certificate)
    # These keys are our own: checking that their factors are primes would take longer than all the rest.
    issuer_key = serialization.load_pem_private_key(signer.key, None, unsafe_skip_rsa_key_validation=True)
    if not isinstance(issuer_key, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey):
        raise ValueError("the signer's key is neither RSA nor ECDSA")
    key = ec.generate_private_key(ec.SECP256R1())
    uses = [
        *([ExtendedKeyUsageOID.CLIENT_AUTH] if client else []),
        *([ExtendedKeyUsageOID.SERVER_AUTH] if server else []),
    ]
    builder = (
        _builder(_name(common_name, organization), issuer.subject, key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(ca=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
    )
    if addresses:
        names = [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    certificate = builder.sign(issuer_key, hashes.SHA256())
    return Pair(certificate.public_bytes(serialization.Encoding.PEM), _key_pem(key))

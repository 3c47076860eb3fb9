"""The lab's certificate authority, its server certificates, the SSH key for its nodes, and its Tang server's keys."""

from __future__ import annotations

import datetime
import hashlib
import ipaddress
import json
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from installer.common.secretfiles import write_private

# P-521's coordinates in bytes (RFC 7518 §6.2.1.2).
_COORDINATE = 66
# What a Tang server says of itself is signed with one key; the other gives clients their part of a volume's key.
_SIGNS, _EXCHANGES = "ES512", "ECMR"
_USES = {_SIGNS: ["sign", "verify"], _EXCHANGES: ["deriveKey"]}
_PRIVATE = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


@dataclass(frozen=True)
class Authority:
    """A certificate authority that exists as long as its lab."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @classmethod
    def make(cls, name: str) -> Authority:
        """A fresh one, valid from a day ago (clocks in VMs may lag) for a year."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
        certificate = (
            _builder(subject, subject, key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        return cls(key, certificate)

    @property
    def pem(self) -> bytes:
        """The authority's certificate."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def issue(
        self, names: list[str], certificate: Path, key: Path, *, expired: bool = False, mutual: bool = False
    ) -> None:
        """Write a server certificate for DNS names and IP addresses, followed by its key's file (0600).

        One that is `expired` was valid until an hour ago; one that is `mutual` is a client's as well.
        """
        private = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, *([ExtendedKeyUsageOID.CLIENT_AUTH] if mutual else [])]
        signed = (
            _builder(subject, self.certificate.subject, private, expired=expired)
            .add_extension(x509.SubjectAlternativeName([_alternative(n) for n in names]), critical=False)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False)
            .sign(self.key, hashes.SHA256())
        )
        certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        write_private(key, private.private_bytes(*_PRIVATE))


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, *, expired: bool = False
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    end = now - datetime.timedelta(hours=1) if expired else now + datetime.timedelta(days=365)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(end)
    )


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def make_ssh_key(path: Path) -> str:
    """Write an ECDSA key in OpenSSH's format (0600) to `path`; returns the public key's line. With FIPS the installer
    takes no Ed25519."""
    key = ec.generate_private_key(ec.SECP256R1())
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    write_private(path, private)
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    line = public.decode() + " lab"
    path.with_suffix(".pub").write_text(line + "\n")
    return line


def make_tang_keys(folder: Path) -> None:
    """Make the directory of a Tang server with a fresh pair of keys, each (0600) in a file that is named by its
    thumbprint."""
    folder.mkdir(mode=0o700)
    for algorithm, uses in _USES.items():
        private = ec.generate_private_key(ec.SECP521R1()).private_numbers()
        public = {"x": _number(private.public_numbers.x), "y": _number(private.public_numbers.y)}
        named = {"crv": "P-521", "kty": "EC", **public}
        # RFC 7638 §3: of what makes the key this one, in the order of the names.
        text = json.dumps(named, sort_keys=True, separators=(",", ":"))
        thumbprint = _encoded(hashlib.sha256(text.encode()).digest())
        key = {"alg": algorithm, "key_ops": uses, **named, "d": _number(private.private_value)}
        write_private(folder / f"{thumbprint}.jwk", json.dumps(key))


def tang_thumbprint(folder: Path) -> str:
    """By what clients know the server: the thumbprint of the key that it signs with."""
    [signs] = (path for path in folder.iterdir() if json.loads(path.read_bytes())["alg"] == _SIGNS)
    return signs.stem


def _number(value: int) -> str:
    return _encoded(value.to_bytes(_COORDINATE, "big"))


def _encoded(data: bytes) -> str:
    """As JWK has it (RFC 7515, appendix C)."""
    return urlsafe_b64encode(data).rstrip(b"=").decode()

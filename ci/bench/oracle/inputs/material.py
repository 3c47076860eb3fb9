"""Certificates and a private key for inputs: made once and kept, so that the same inputs are asked about again."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Material:
    """PEM texts: two authorities' certificates, and a private key that nothing trusts."""

    certificate: str
    other: str
    key: str = field(repr=False)


def material(folder: Path) -> Material:
    """The material that is kept in `folder`; made where there is none."""
    path = folder / "material.json"
    if not path.exists():
        fresh = Material(_authority("one"), _authority("other"), _key_pem(ec.generate_private_key(ec.SECP256R1())))
        folder.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}")
        part.write_text(json.dumps(asdict(fresh)))
        part.rename(path)
    return Material(**json.loads(path.read_text()))


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    pkcs8, none = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, pkcs8, none).decode()


def _authority(name: str) -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{name}.test.example")])
    begin = datetime.now(UTC) - timedelta(days=1)
    builder = x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(begin).not_valid_after(begin + timedelta(days=36500))
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()

"""The user's files by which registries are asked: a pull secret, and certificates to trust."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509

from installer.common.redact import shown_registry
from lab.errors import SubjectError

#: Bytes that such a file may have: the whole world's CAs are a fifth of a MiB.
BIGGEST = 4 << 20
# The blocks that Go's x509.CertPool takes out of a file; whatever else is there it passes over.
_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_PRIVATE_KEY = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----")


def pull_secret(value: str | None) -> Path | None:
    """Return the file of `--pull-secret`, if it is given. Raises SubjectError for what is none."""
    if value is None:
        return None
    source = f"--pull-secret {value}"
    content = _content(value, source)
    try:
        document = json.loads(content)
        auths = document["auths"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise SubjectError(source, "is no pull secret: want JSON with auths by registry") from error
    if not isinstance(auths, dict) or not auths:
        raise SubjectError(source, "auths is empty: it has no credentials for any registry")
    # Without the values, which are secret; somebody may have written one in a name's place.
    if odd := [shown_registry(registry) for registry, entry in auths.items() if not isinstance(entry, dict)]:
        raise SubjectError(source, f"auths: {', '.join(odd)}: must be a mapping with auth")
    if "credsStore" not in document and (
        odd := [shown_registry(registry) for registry in auths if not _has_login(auths[registry])]
    ):
        raise SubjectError(source, f"auths: {', '.join(odd)}: auth must be the base64 of USER:PASSWORD")
    return Path(value)


def hosts_of(path: Path) -> set[str]:
    """Return the registries that a pull secret has credentials for; they may be written with a scheme and a path."""
    names = json.loads(path.read_bytes())["auths"]
    return {name.rpartition("://")[2].partition("/")[0].replace("index.docker.io", "docker.io") for name in names}


def _has_login(entry: dict[str, object]) -> bool:
    """Return whether an entry has a login: containers-auth.json(5), and what openshift-install takes for one."""
    if "credsStore" in entry:
        return True
    try:
        user, colon, password = base64.b64decode(str(entry.get("auth") or ""), validate=True).partition(b":")
    except (binascii.Error, ValueError):
        return False
    return bool(user and colon and password)


def ca(value: str | None) -> Path | None:
    """Return the file of `--ca`, if it is given. Raises SubjectError where none of what is in it can be trusted."""
    if value is None:
        return None
    source = f"--ca {value}"
    content = _content(value, source)
    certificates = list(_certificates(content))
    if not certificates:
        if _PRIVATE_KEY.search(content):
            raise SubjectError(source, "is a private key: want the certificates of CAs, PEM")
        raise SubjectError(source, "has no certificate: want those of CAs, PEM (-----BEGIN CERTIFICATE-----)")
    # In a bundle that many use some will have expired; one of all of them is no use.
    now = datetime.now(UTC)
    if all(certificate.not_valid_after_utc < now for certificate in certificates):
        last = max(certificates, key=lambda certificate: certificate.not_valid_after_utc)
        raise SubjectError(source, f"has expired: {_name(last)} was valid until {last.not_valid_after_utc:%Y-%m-%d}")
    if all(certificate.not_valid_before_utc > now for certificate in certificates):
        first = min(certificates, key=lambda certificate: certificate.not_valid_before_utc)
        begins = f"{first.not_valid_before_utc:%Y-%m-%d}"
        raise SubjectError(source, f"is not valid yet: {_name(first)} is from {begins} on, by this machine's clock")
    return Path(value)


def _certificates(content: bytes) -> Iterator[x509.Certificate]:
    """Yield those that can be read."""
    for block in _CERTIFICATE.findall(content):
        try:
            yield x509.load_pem_x509_certificate(block)
        except ValueError:
            continue


def _name(certificate: x509.Certificate) -> str:
    return certificate.subject.rfc4514_string() or f"serial number {certificate.serial_number}"


def _content(value: str, source: str) -> bytes:
    """Read a file. Raises SubjectError; a pipe is none: skopeo reads it again, and so do other processes."""
    path = Path(value)
    try:
        if path.exists() and not path.is_file():
            raise SubjectError(source, "cannot be read: it is not a regular file")
        with path.open("rb") as file:
            content = file.read(BIGGEST + 1)
    except (OSError, ValueError) as error:
        raise SubjectError(source, f"cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if len(content) > BIGGEST:
        raise SubjectError(source, f"is bigger than {BIGGEST >> 20} MiB")
    return content

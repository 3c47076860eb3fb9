"""auth/kubeconfig: the router's CA is put in front of the cluster's (reference/cluster.md §7.4)."""

from __future__ import annotations

import base64
import binascii
import re
from pathlib import Path
from typing import Any

from installer.common.formats import YamlError
from installer.common.inputs import read_text
from installer.dirlock import locked
from installer.errors import EXIT_INSTALL_FAILED, StateError, WaitError
from installer.files import write_whole

CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----\s+[A-Za-z0-9+/=\s]+?-----END CERTIFICATE-----")


def blocks(pem: str) -> list[str]:
    """Return the certificates of a bundle, each once, in order; text around them is dropped."""
    return list(dict.fromkeys(block.replace("\r", "") for block in CERTIFICATE.findall(pem)))


def merge(router: str, current: str) -> str:
    """Return a bundle of ``router`` followed by what ``current`` has besides. Merging twice changes nothing more."""
    merged = list(dict.fromkeys([*blocks(router), *blocks(current)]))
    return "".join(block + "\n" for block in merged)


def check(pem: str) -> None:
    """Raise WaitError (exit 6) unless the bundle holds certificates that can be read."""
    from cryptography import x509

    try:
        x509.load_pem_x509_certificates(pem.encode())
    except ValueError as error:
        raise WaitError(
            f"ca-bundle.crt of ConfigMap openshift-config-managed/default-ingress-cert is no PEM bundle: {error}",
            EXIT_INSTALL_FAILED,
        ) from error


def with_router_ca(text: str, router: str) -> str:
    """Return the kubeconfig ``text`` with ``router`` merged into the CA of each cluster. Raises StateError."""
    from installer.common.formats.yamltext import dump, load

    try:
        document: Any = load(text)
        for entry in document["clusters"]:
            cluster = entry["cluster"]
            encoded = "".join(str(cluster.get("certificate-authority-data") or "").split())
            current = base64.b64decode(encoded, validate=True).decode()
            cluster["certificate-authority-data"] = base64.b64encode(merge(router, current).encode()).decode()
    except (YamlError, TypeError, KeyError, AttributeError, UnicodeDecodeError, binascii.Error) as error:
        # A file of the user's, which may have any shape.
        raise StateError(f"the kubeconfig cannot be read: {type(error).__name__}: {error}") from error
    return dump(document)


def add_router_ca(path: Path, router: str, patience: float = 60.0) -> bool:
    """Merge ``router`` into the file; gives whether it changed. Raises WaitError for a bad bundle, StateError.

    ``path`` is auth/kubeconfig of an asset directory. Who writes there is waited for, for ``patience`` seconds.
    """
    check(router)
    with locked(path.parent.parent, patience):
        try:
            old = read_text(path)
            new = with_router_ca(old, router)
            if new != old:
                write_whole(path, new.encode())
        except OSError as error:
            raise StateError(f"cannot rewrite {path}: {error.strerror or error}") from error
    return new != old

"""The addresses of scheduler, workers and collectors, and the key by which they know one another."""

from __future__ import annotations

import ipaddress
import ssl
from pathlib import Path
from typing import TYPE_CHECKING

from ci.informer.errors import InformerError
from installer.common.numbers import whole

if TYPE_CHECKING:
    from distributed.security import Security

#: A certificate that is its own authority, and its key: whoever has them may run programs on all hosts.
CERTIFICATE, KEY = "cert.pem", "key.pem"


def host_and_port(address: str, what: str) -> tuple[str, int]:
    """Return the parts of HOST:PORT. Raises InformerError, which calls the address `what`."""
    host, _, port = address.rpartition(":")
    try:
        number = whole(port, 0, 65535)
    except ValueError:
        host, number = "", 0
    if not host:
        raise InformerError(f"{what}: {address!r}: must be HOST:PORT")
    return host, number


def checked(address: str, keys: Path | None) -> tuple[str, Security | None]:
    """Return an address (HOST:PORT) as Dask wants it, and its security. Without keys only this machine itself may be
    meant.

    Raises InformerError.
    """
    host, _ = host_and_port(address, "address")
    if keys is not None:
        return f"tls://{address}", _security(keys)
    try:
        local = ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        local = host == "localhost"
    if not local:
        raise InformerError(f"address: {address!r}: --tls: missing; without keys anybody could run programs there")
    return f"tcp://{address}", None


def _security(folder: Path) -> Security:
    from distributed.security import Security

    certificate, key = str(folder / CERTIFICATE), str(folder / KEY)
    sides = ("client", "scheduler", "worker")
    parts = {f"tls_{side}_{what}": path for side in sides for what, path in (("cert", certificate), ("key", key))}
    security = Security(tls_ca_file=certificate, require_encryption=True, **parts)
    try:
        # The empty password is so that nobody is asked for one.
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(certificate, key, password="")
    except OSError as error:
        reason = "no certificate with its key" if isinstance(error, ssl.SSLError) else error.strerror
        raise InformerError(f"--tls: {folder}: {CERTIFICATE}, {KEY}: {reason}") from error
    return security

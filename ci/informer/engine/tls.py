"""TLS keys of scheduler, hosts and collectors. Whoever has them may run programs on all hosts."""

from __future__ import annotations

import ipaddress
import ssl
from pathlib import Path
from typing import TYPE_CHECKING

from ci.informer.errors import InformerError
from lab.daemons.pki import Authority
from lab.numbers import whole

if TYPE_CHECKING:
    from distributed.security import Security

CA, CERTIFICATE, KEY = "ca.crt", "engine.crt", "engine.key"


def make(folder: Path) -> None:
    """Write a CA's certificate, and a certificate with its key that all sides show. The CA's own key is not kept.

    Raises InformerError where there are some already.
    """
    if there := [name for name in (CA, CERTIFICATE, KEY) if (folder / name).exists()]:
        raise InformerError(f"{folder / there[0]}: exists already; hosts that have it would be shut out")
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Two names: a certificate that is named as its issuer passes for a self-signed one.
    authority = Authority.make("node0-ci authority")
    authority.issue(["node0-ci"], folder / CERTIFICATE, folder / KEY, mutual=True)
    (folder / CA).write_bytes(authority.pem)


def security(folder: Path) -> Security:
    """What Dask wants to know of these files. Raises InformerError where one is missing or broken."""
    files = [folder / name for name in (CA, CERTIFICATE, KEY)]
    for file in files:
        try:
            file.read_bytes()
        except OSError as error:
            raise InformerError(f"{file}: {error.strerror} (node0-ci keys {folder} makes all three)") from error
    ca, certificate, key = map(str, files)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(ca)
    except ssl.SSLError as error:
        raise InformerError(f"{ca}: no certificate: {error.reason}") from error
    try:
        context.load_cert_chain(certificate, key, password="")  # so that nobody is asked for one
    except ssl.SSLError as error:
        raise InformerError(f"{certificate}, {key}: no certificate with its key: {error.reason}") from error
    sides = ("client", "scheduler", "worker")
    parts = {f"tls_{side}_{what}": path for side in sides for what, path in (("cert", certificate), ("key", key))}
    from distributed.security import Security

    return Security(tls_ca_file=ca, require_encryption=True, **parts)


def host_and_port(address: str, what: str) -> tuple[str, int]:
    """The parts of HOST:PORT. Raises InformerError, which calls the address `what`."""
    host, _, port = address.rpartition(":")
    try:
        number = whole(port, 0, 65535)
    except ValueError:
        host, number = "", 0
    if not host:
        raise InformerError(f"{what}: {address!r}: must be HOST:PORT")
    return host, number


def checked(address: str, keys: Path | None) -> tuple[str, Security | None]:
    """An address (HOST:PORT) as Dask wants it, and its security. Without keys only this machine itself may be meant.

    Raises InformerError.
    """
    host, _ = host_and_port(address, "address")
    if keys is not None:
        return f"tls://{address}", security(keys)
    try:
        local = ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        local = host == "localhost"
    if not local:
        raise InformerError(f"address: {address!r}: --tls: missing; without keys anybody could run programs there")
    return f"tcp://{address}", None

"""The address of a service, the CA that its certificate is verified by, and its time limits."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from installer.assisted.errors import ClientError

#: What every path of the API begins with, common.sh's and the page's api.js too (tests/assisted/test_base.py).
BASE = "/api/assisted-install/v2"


@dataclass(frozen=True)
class Timeouts:
    """Upper limits in seconds, on a monotonic clock.

    ``connect`` until there is a connection, ``silence`` between two pieces of an answer, ``request`` for a whole
    request with its answer, ``transfer`` for one that carries a file.
    """

    connect: float = 60.0
    silence: float = 60.0
    request: float = 300.0
    transfer: float = 3600.0


@dataclass(frozen=True)
class Endpoint:
    """A server's address; ``context`` is its TLS, None for plain HTTP. Any number of clients may share one.

    ``server_name``: the name or address in its certificate, where that is not ``host``.
    """

    host: str
    port: int
    context: ssl.SSLContext | None = field(default=None, repr=False)
    server_name: str = ""

    @property
    def url(self) -> str:
        """``https://HOST:PORT``, IPv6 in brackets."""
        return f"http{'s' if self.context else ''}://{address(self.host)}:{self.port}"


def address(host: str) -> str:
    """Return a host as URLs have it: IPv6 in brackets."""
    return f"[{host}]" if ":" in host else host


def endpoint(url: str, *, ca_file: Path | None = None, ca_pem: str = "", insecure: bool = False) -> Endpoint:
    """Return the server of ``url``, whose certificate this CA alone may have signed, or one of the system's if none is
    given.

    ``insecure``: any certificate will do. Raises ClientError for what is no URL or no CA.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or parts.scheme not in ("http", "https"):
        raise ClientError("service URL", None, f"{url!r} is not an http or https URL")
    if parts.scheme == "http":
        return Endpoint(host, port or 80)
    try:
        context = ssl.create_default_context(cafile=str(ca_file) if ca_file else None, cadata=ca_pem or None)
    except (OSError, ValueError, TypeError) as error:  # the last two for what is not ASCII
        raise ClientError(f"CA file {ca_file}" if ca_file else "CA", None, str(error)) from None
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return Endpoint(host, port or 443, context)

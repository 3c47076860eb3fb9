"""The user's load balancer as seen from outside: several connections, of which some lead to a machine that is gone."""

from __future__ import annotations

import logging
import socket
import ssl
from urllib.parse import urlsplit

log = logging.getLogger("installer.waitfor")

#: Connections of one look, and looks in a row that have to agree: servers that restart are away for seconds.
CONNECTIONS = 6
LOOKS = 5
API_PORT = 6443


def answered(host: str, port: int, seconds: float) -> bool:
    """Return whether a server behind the load balancer takes part in a TLS handshake. Raises OSError where even the
    load balancer does not answer."""
    # Nothing is sent: who it is matters to the client, which checks it. Nor are the system's authorities read for it.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection((host, port), seconds) as line:
        try:
            with context.wrap_socket(line, server_hostname=host):
                return True
        except OSError:
            return False


class Balancer:
    """Looks at the API's load balancer from time to time; tells once of servers behind it that are gone."""

    def __init__(self, url: str, seconds: float) -> None:
        parts = urlsplit(url)
        self._host, self._port, self._seconds = parts.hostname or "", parts.port or API_PORT, seconds
        self._bad_looks, self._told = 0, False

    def look(self) -> None:
        """Make a few connections, and log a warning where part of them fail at several looks in a row."""
        if self._told:
            return
        try:
            good = sum(answered(self._host, self._port, self._seconds) for _ in range(CONNECTIONS))
        except OSError:
            good = 0
        self._bad_looks = self._bad_looks + 1 if 0 < good < CONNECTIONS else 0
        if self._bad_looks >= LOOKS:
            self._told = True
            log.warning(
                "%d of %d connections to %s:%d end without an answer: the load balancer still points at the bootstrap "
                "machine, or at a master that is down; take the bootstrap machine out of its backends for the ports "
                "%d and 22623",
                CONNECTIONS - good,
                CONNECTIONS,
                self._host,
                self._port,
                self._port,
            )

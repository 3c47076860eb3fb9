"""The rendezvous service's page as seen from the lab's network."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

from drivers.browser import Page, chromium
from lab.host.namespaces import enter_argv
from lab.lab import Lab
from lab.layout import bracketed

SERVICE_PORT = 8090
LIVE = "document.getElementById('connection').textContent === 'Live'"
LIVE_SECONDS = 120.0


def served_certificate(address: str, port: int, ca_pem: str) -> bytes:
    """Return a server's certificate (PEM), verified against the CA. Raises OSError."""
    context = ssl.create_default_context(cadata=ca_pem)
    with (
        socket.create_connection((address, port), timeout=30) as plain,
        context.wrap_socket(plain, server_hostname=address) as secure,
    ):
        served = secure.getpeercert(binary_form=True)
    assert served is not None, f"{address}:{port} showed no certificate"
    return ssl.DER_cert_to_PEM_cert(served).encode()


@contextmanager
def watching(lab: Lab, address: str, ca_pem: str) -> Iterator[Page]:
    """Provide the service's page in a Chromium within the lab's network, connected to its stream."""
    certificate = lab.inside(served_certificate, address, SERVICE_PORT, ca_pem)
    profile = lab.layout.root / "browser"
    with chromium(profile, certificate, enter_argv(lab.init, []), lab.artifacts / "browser.log") as page:
        page.open(f"https://{bracketed(address)}:{SERVICE_PORT}/")
        page.until(LIVE, LIVE_SECONDS)
        yield page


def card(host_name: str) -> str:
    """Return a JavaScript expression for the page's text about a host, which is empty while there is none."""
    cards = "[...document.querySelectorAll('#hosts article')]"
    return f"({cards}.find(a => a.querySelector('h3').textContent === {json.dumps(host_name)})?.innerText ?? '')"

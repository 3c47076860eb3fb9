"""The rendezvous host: is it there, is it this machine; and the start of what follows from the answer."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import ipaddress
import json
import os
import socket
import ssl
import tempfile
from pathlib import Path
from typing import Any

from installer.tui import host

PORT = 8090
TRY_SECONDS = 5.0
#: The unit that has a network which was set up here installed with the host.
COPY_NETWORK = "agent-set-host-copy-network-arg.service"
NODE_ZERO = host.ROOT / "etc/assisted/node0"
_CA_KEY = host.ROOT / "opt/agent/service-ca/ca.key"
# The certificate is valid from when its CA is: this machine's clock may be set later.
_CA_CONFIG = """\
[ca]
default_ca = service
[service]
dir = {work}
database = $dir/index
rand_serial = yes
new_certs_dir = $dir
default_md = sha256
policy = any
unique_subject = no
x509_extensions = server
[any]
commonName = supplied
[server]
basicConstraints = critical, CA:false
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth
subjectAltName = IP:{address}
authorityKeyIdentifier = keyid
"""


class Failed(Exception):
    """A wish that could not be carried out: one line."""


def normalised(text: str) -> str:
    """Return an IP address in its one spelling. Raises Failed."""
    try:
        address = ipaddress.ip_address(text.strip().strip("[]"))
    except ValueError:
        raise Failed(f"{text.strip() or 'An empty text'} is no IPv4 or IPv6 address") from None
    if address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local:
        raise Failed(f"{address} is no address that other machines reach a host at")
    return str(address)


def bracketed(address: str) -> str:
    """Return an address as URLs have it."""
    return f"[{address}]" if ":" in address else address


def url_of(address: str) -> str:
    """Return the page's address."""
    return f"https://{bracketed(address)}:{PORT}/"


def chosen() -> str:
    """Return the rendezvous IP that was chosen; empty before that."""
    return host.variables(host.ENVIRONMENT).get("NODE_ZERO_IP", "")


def token() -> str:
    """Return the token with which a person may change something."""
    return host.variables(host.ENVIRONMENT).get("USER_AUTH_TOKEN", "")


def _ask(address: str, method: str, path: str, **headers: str) -> tuple[int, bytes]:
    """Ask the service, and return status and body. Raises OSError, http.client.HTTPException."""
    context = ssl.create_default_context(cafile=str(host.TLS / "ca.crt"))
    connection = http.client.HTTPSConnection(address, PORT, timeout=TRY_SECONDS, context=context)
    with contextlib.closing(connection):
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read()


def code(address: str, method: str = "GET") -> dict[str, Any]:
    """Return what became of the page's one-time code; POST makes another (page/codes.py). Raises Failed."""
    try:
        status, body = _ask(address, method, "/page/code", Authorization=token())
        answer = json.loads(body)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise Failed(f"The service does not answer: {error}") from error
    if status != 200:
        raise Failed(f"The service answers {status}: {answer.get('message') or answer.get('reason')}")
    return dict(answer)


def why_not(address: str) -> str:
    """Look for the service at an address. Returns why it is not there, with what was tried; empty if it answers."""
    way = host.route_to(address)
    if not way:
        return (
            f"There is no route to {address} from this machine: it is on none of its networks, and no gateway is set."
        )
    tried = f"Tried {url_of(address)} {way}:"
    try:
        status, _ = _ask(address, "GET", "/ready")
    except ssl.SSLCertVerificationError as error:
        why = f"its certificate is not of this image's CA ({error.verify_message})"
        return f"{tried} a service answers, but {why}. It belongs to another image, or to another address."
    except ConnectionRefusedError:
        return (
            f"{tried} the machine is there, but nothing listens on port {PORT}. Its service may still be starting, or "
            "it is not the rendezvous host."
        )
    except (OSError, http.client.HTTPException) as error:
        if isinstance(error, TimeoutError | socket.timeout):
            reason = f"no answer within {TRY_SECONDS:g} s"
        else:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        code, _ = host.run("ping", "-c", "1", "-W", "2", address, seconds=5)
        there = "It answers a ping." if code == 0 else "It does not answer a ping either."
        return f"{tried} {reason}. {there}"
    return "" if status == 200 else f"{tried} the service answers {status}, it is not ready yet."


def make_certificate(address: str) -> None:
    """Make the service's certificate for this address, with the image's key and CA. Raises Failed."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        (work / "index").touch()
        (work / "config").write_text(_CA_CONFIG.format(work=work, address=address))
        ca = str(host.TLS / "ca.crt")
        code, dates = host.run("openssl", "x509", "-in", ca, "-noout", "-startdate", "-dateopt", "iso_8601")
        start = "".join(letter for letter in dates.partition("=")[2] if letter.isdigit())
        request, certificate = str(work / "request"), work / "certificate"
        for words in (
            ["req", "-new", "-key", str(host.TLS / "service.key"), "-subj", "/CN=assisted-service", "-out", request],
            [
                *("ca", "-batch", "-notext", "-config", str(work / "config"), "-cert", ca, "-keyfile", str(_CA_KEY)),
                *("-startdate", f"{start}Z", "-days", "3650", "-in", request, "-out", str(certificate)),
            ],
        ):
            if code == 0:
                code, dates = host.run("openssl", *words)
        if code:
            raise Failed(f"openssl could not make the service's certificate: {dates}")
        write(host.TLS / "service.crt", certificate.read_text(), 0o600)


def fingerprint() -> str:
    """Return the SHA-256 fingerprint of the service's certificate, as browsers show it; empty without one."""
    try:
        der = ssl.PEM_cert_to_DER_cert((host.TLS / "service.crt").read_text())
    except (OSError, ValueError):
        return ""
    digest = hashlib.sha256(der).hexdigest().upper()
    return ":".join(digest[index : index + 2] for index in range(0, len(digest), 2))


def write(path: Path, text: str, mode: int) -> None:
    """Write a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
        file.write(text)
        os.fchmod(file.fileno(), mode)
    os.replace(file.name, path)


def choose(address: str) -> None:
    """Make an address the rendezvous IP, and start what a host does then. Raises Failed.

    Another choice that was made before is ended first.
    """
    units = host.UNITS.read_text().split()
    if chosen():
        forget()
    if address in host.own_addresses():
        make_certificate(address)
    text = host.TEMPLATE.read_text()
    text = text.replace("{{.RendezvousIP}}", address).replace("{{.RendezvousHost}}", bracketed(address))
    write(host.ENVIRONMENT, text, 0o600)
    code, why = host.run("systemctl", "enable", "--now", "--no-block", *units)
    if code:
        raise Failed(f"systemctl could not start the services: {why}")


def forget() -> None:
    """End what was started for the rendezvous IP, so that another can be chosen. Raises Failed."""
    code, why = host.run("systemctl", "stop", *host.UNITS.read_text().split())
    if code:
        raise Failed(f"systemctl could not stop the services: {why}")
    for path in (host.ENVIRONMENT, NODE_ZERO, *(host.ROOT / "etc/issue.d").glob("*.issue")):
        path.unlink(missing_ok=True)


def network_changed() -> None:
    """Tell the service, where there is one already, that this host's network is another."""
    if chosen():
        host.run("systemctl", "restart", "--no-block", COPY_NETWORK)

"""A real haproxy with the ingress controller's configuration, servers behind it, and curl in front of it."""

from __future__ import annotations

import base64
import contextlib
import functools
import hashlib
import json
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

from installer.common import certificates
from installer.common.certificates import DAY, SERVER, Pair
from installer.common.ports import free_port
from lab.release.cluster.ingress.claims import Claim
from lab.release.cluster.ingress.config import Settings, render
from lab.release.cluster.ingress.endpoints import Server
from lab.release.cluster.ingress.haproxy import CONFIG, MASTER, Haproxy
from lab.release.cluster.ingress.health import Health, serve
from lab.waiting import wait_until

APPS = "apps.c.test.node0.example"


def route(name: str, namespace: str = "ns", *, created: str = "2026-01-01T00:00:00Z", **spec: Any) -> dict[str, Any]:
    """Return a Route to the Service `name`, as the API has it."""
    notes = spec.pop("annotations", {})
    meta = {"name": name, "namespace": namespace, "uid": f"uid-{namespace}-{name}", "creationTimestamp": created}
    whole = {"host": f"{name}.{APPS}", "to": {"kind": "Service", "name": name, "weight": 100}, **spec}
    return {"metadata": {**meta, "annotations": notes, "resourceVersion": "1"}, "spec": whole}


@functools.cache
def authority() -> Pair:
    """Return a CA."""
    return certificates.authority("router-ca", unit="test", lifetime=DAY)


def pair(*names: str) -> Pair:
    """Return a certificate of that CA."""
    return certificates.leaf(authority(), names[0], organizations=(), names=names, usages=SERVER, lifetime=DAY)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *arguments: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        if self.headers.get("Upgrade") == "websocket":
            self.send_response(101)
            self.send_header("Upgrade", "websocket")
            self.send_header("Connection", "Upgrade")
            key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455 §1.3
            accepted = base64.b64encode(hashlib.sha1(key.encode(), usedforsecurity=False).digest()).decode()
            self.send_header("Sec-WebSocket-Accept", accepted)
            self.end_headers()
            self.wfile.write(self.rfile.readline())
            self.close_connection = True
            return
        headers = {name.lower(): self.headers.get_all(name) for name in self.headers}
        label = cast(_Echo, self.server).label
        body = json.dumps({"server": label, "path": self.path, "headers": headers}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class _Echo(ThreadingHTTPServer):
    daemon_threads = True
    label = ""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing: a health check goes away."""


@contextlib.contextmanager
def echo(
    label: str, certificate: Pair | None = None, directory: Path | None = None, *, address: str = "127.0.0.1"
) -> Iterator[Server]:
    """Serve what was asked as JSON, with ``label`` as its name; with TLS when there is a certificate."""
    server = _Echo((address, 0), _Handler)
    server.label = label
    if certificate is not None and directory is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        pem = directory / f"{label}.pem"
        pem.write_text(certificate.certificate + certificate.key)
        context.load_cert_chain(pem)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    try:
        yield Server(label, address, server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()


@dataclass
class Answer:
    """An answer as curl saw it."""

    status: int
    headers: dict[str, str]
    body: str

    @property
    def seen(self) -> Any:
        """The request that the server got."""
        return json.loads(self.body)


@dataclass
class Router:
    """A haproxy in the directory ``run``."""

    run: Path
    ports: tuple[int, int, int]
    process: subprocess.Popen[bytes] | None = None
    settings: Settings = field(init=False)
    haproxy: Haproxy = field(init=False)
    health: Health = field(default_factory=Health)

    def __post_init__(self) -> None:
        http, https, stats = self.ports
        default = pair(f"*.{APPS}")
        pem = default.certificate + default.key
        ports = {"http_port": http, "https_port": https, "stats_port": stats}
        self.settings = Settings(str(self.run), pem, authority().certificate, **ports)
        program = shutil.which("haproxy", path="/usr/sbin:/usr/bin")
        assert program, "haproxy is missing: run ci/setup"
        self.haproxy = Haproxy(self.run, program)
        (self.run / "ca.crt").write_text(authority().certificate)

    def load(self, *claims: tuple[Claim, Sequence[Server]]) -> None:
        """Bring these claims into force, the oldest first."""
        self.haproxy.put(functools.partial(render, claims, self.settings))
        if self.process is None:
            self.health.say()
            serve(self.health, self.run / "controller.sock")
            self.start()
        else:
            self.haproxy.reload()

    def start(self) -> None:
        """Start haproxy from what is in place."""
        argv = [self.haproxy.program, "-W", "-db", "-S", str(self.run / MASTER), "-f", str(self.run / CONFIG)]
        with (self.run / "haproxy.log").open("wb") as log:
            self.process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=log)
        seen = (self.run / "haproxy.log").read_text
        wait_until(lambda: self.stats("/healthz") == 200, 20, "haproxy to answer", seen)

    def stats(self, path: str) -> int:
        """Return the status of a path on the port for its health; 0 without an answer."""
        return self._curl(f"http://127.0.0.1:{self.settings.stats_port}{path}").status

    def get(self, url: str, *options: str) -> Answer:
        """GET a URL of a host behind the router; its certificate must be of the test's CA."""
        ports = {"http": self.settings.http_port, "https": self.settings.https_port}
        connect = ["--connect-to", f"::127.0.0.1:{ports[url.split('://')[0]]}"]
        return self._curl(url, "--cacert", str(self.run / "ca.crt"), *connect, *options)

    def _curl(self, url: str, *options: str) -> Answer:
        argv = ["curl", "-sS", "-i", "--http1.1", "--max-time", "20", "--noproxy", "*", *options, url]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=30)
        if done.returncode:
            return Answer(0, {}, done.stderr)
        head, _, body = done.stdout.replace("\r\n", "\n").partition("\n\n")
        first, *lines = head.splitlines()
        headers = {name.lower(): text.strip() for name, _, text in (line.partition(":") for line in lines)}
        return Answer(int(first.split()[1]), headers, body)

    def close(self) -> None:
        """End it."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait(20)


@contextlib.contextmanager
def router(run: Path, ports: tuple[int, int, int] | None = None) -> Iterator[Router]:
    """Have a haproxy until the end, on the ports of HTTP, HTTPS and its health, or any."""
    made = Router(run, ports or (free_port(), free_port(), free_port()))
    try:
        yield made
    finally:
        made.close()

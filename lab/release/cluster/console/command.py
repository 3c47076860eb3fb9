"""The console: one page that shows the cluster's state as the API tells it at that moment."""

from __future__ import annotations

import argparse
import html
import logging
import signal
import socket
import ssl
import sys
import threading
from collections.abc import Iterable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from lab.release.cluster.errors import ClusterError
from lab.release.cluster.kube.client import Kube, Object
from lab.release.cluster.kube.conditions import find
from lab.release.cluster.kube.resources import CONFIG

log = logging.getLogger(__name__)

PORT = 8443
HANDSHAKE_SECONDS = 20.0
_STYLE = (
    "body{font:15px/1.5 sans-serif;margin:2em;max-width:70em}table{border-collapse:collapse;margin-bottom:2em}"
    "td,th{border-bottom:1px solid #ccc;padding:.3em 1em .3em 0;text-align:left;vertical-align:top}"
)


def _table(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{html.escape(text)}</th>" for text in heads)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<h2>{html.escape(title)}</h2><table><tr>{head}</tr>{body}</table>"


def _status(obj: Object, kind: str, field: str = "status") -> str:
    condition = find((obj.get("status") or {}).get("conditions") or [], kind)
    return str((condition or {}).get(field, ""))


def page(version: Object | None, operators: list[Object], nodes: list[Object]) -> str:
    """Return the page as HTML."""
    history = ((version or {}).get("status") or {}).get("history") or []
    release = history[0]["version"] if history else "unknown"
    progress = _status(version or {}, "Progressing", "message")
    rows = [
        (
            o["metadata"]["name"],
            _status(o, "Available"),
            _status(o, "Progressing"),
            _status(o, "Degraded"),
            _status(o, "Available", "message"),
        )
        for o in operators
    ]
    machines = [
        (
            n["metadata"]["name"],
            _status(n, "Ready"),
            (n.get("status") or {}).get("nodeInfo", {}).get("kubeletVersion", ""),
        )
        for n in nodes
    ]
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>Cluster {html.escape(release)}</title>"
        f"<style>{_STYLE}</style><h1>Cluster version {html.escape(release)}</h1><p>{html.escape(progress)}</p>"
        + _table("Cluster operators", ("Name", "Available", "Progressing", "Degraded", "Message"), rows)
        + _table("Nodes", ("Name", "Ready", "Kubelet"), machines)
        + "</html>"
    )


def handler(kube: Kube) -> type[BaseHTTPRequestHandler]:
    """Return a request handler that reads the cluster for every page."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        server_version = "console"
        timeout = 60

        def log_message(self, format: str, *args: Any) -> None:
            log.debug(format, *args)

        def do_GET(self) -> None:
            status, kind = 200, "text/html; charset=utf-8"
            if self.path == "/health":
                text, kind = "ok", "text/plain"
            elif self.path.split("?", 1)[0] != "/":
                status, text, kind = 404, "not found", "text/plain"
            else:
                try:
                    text = page(
                        kube.get(CONFIG, "ClusterVersion", "version"),
                        kube.list(CONFIG, "ClusterOperator"),
                        kube.list("v1", "Node"),
                    )
                except ClusterError as error:
                    log.warning("%s", error)
                    status, text, kind = 503, "The cluster's API does not answer.", "text/plain"
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(body)

    return Handler


class Server(ThreadingHTTPServer):
    """A server with TLS, in each family, that does not mind clients that go away, as a router's health check does."""

    daemon_threads = True
    address_family = socket.AF_INET6

    def __init__(self, port: int, handler: type[BaseHTTPRequestHandler], certificate: Path) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._certificate = certificate
        self._loaded = 0
        self._load()
        super().__init__(("::", port), handler)

    def _load(self) -> None:
        """Take the certificate's files (`tls.crt`, `tls.key`), if they have changed: one that is renewed appears there.
        Raises OSError."""
        changed = (self._certificate / "tls.crt").stat().st_mtime_ns
        if changed != self._loaded:
            self._context.load_cert_chain(self._certificate / "tls.crt", self._certificate / "tls.key")
            self._loaded = changed

    def server_bind(self) -> None:
        """Take IPv4 as well."""
        self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()

    def get_request(self) -> tuple[ssl.SSLSocket, Any]:
        """Accept a connection; its handshake is left to its own thread."""
        connection, address = super().get_request()
        try:
            self._load()
        except OSError as error:
            log.warning("the certificate stays as it was: %s", error)
        connection.settimeout(HANDSHAKE_SECONDS)
        return self._context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False), address

    def handle_error(self, request: Any, client_address: Any) -> None:
        """One line instead of a traceback."""
        log.debug("%s: %s", client_address, sys.exc_info()[1])


def main(argv: Sequence[str] | None = None) -> int:
    """Return the command line."""
    parser = argparse.ArgumentParser(prog="console")
    parser.add_argument("--certificate", type=Path, required=True, help="the directory with tls.crt and tls.key")
    arguments = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    try:
        server = Server(PORT, handler(Kube.in_cluster()), arguments.certificate)
    except (ClusterError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 5.0}, daemon=True).start()
    stop.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())

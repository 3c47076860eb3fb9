"""A small HTTP server for boot media: `python -m lab.daemons.httpd DIRECTORY ADDRESS PORT [TLS-PORT CERTIFICATE KEY]`.

Supports ranges, since firmware and virtual-media emulators fetch parts of an image. Runs until it is killed.
"""

from __future__ import annotations

import os
import re
import socket
import ssl
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

_RANGE = re.compile(r"^bytes=(\d+)-(\d*)$")


class Handler(SimpleHTTPRequestHandler):
    """Files of one directory, whole or in part; no listings."""

    protocol_version = "HTTP/1.1"

    def list_directory(self, path: str | os.PathLike[str]) -> None:
        """Refuse: there are no listings."""
        self.send_error(HTTPStatus.NOT_FOUND)

    def copyfile(self, source: Any, outputfile: Any) -> None:
        """Copy within the kernel (sendfile): boot media are large, and emulation keeps the CPUs busy."""
        outputfile.flush()
        self.connection.sendfile(source)

    def do_GET(self) -> None:
        """Send a file, or the part of it that a Range header asks for (RFC 9110 §14.2; one range only)."""
        wanted = _RANGE.fullmatch(self.headers.get("Range", ""))
        path = self.translate_path(self.path)
        if wanted is None or not os.path.isfile(path):
            super().do_GET()
            return
        size = os.path.getsize(path)
        first = int(wanted[1])
        last = min(int(wanted[2]) if wanted[2] else size - 1, size - 1)
        if first > last:
            self.send_response(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE)
            self.send_header("Content-Range", f"bytes */{size}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(HTTPStatus.PARTIAL_CONTENT)
        self.send_header("Content-Type", self.guess_type(path))
        self.send_header("Content-Range", f"bytes {first}-{last}/{size}")
        self.send_header("Content-Length", str(last - first + 1))
        self.end_headers()
        with open(path, "rb") as source:
            self.wfile.flush()
            self.connection.sendfile(source, first, last - first + 1)


class _IPv6Server(ThreadingHTTPServer):
    address_family = socket.AF_INET6


def _server(directory: Path, address: str, port: int, pair: tuple[Path, Path] | None) -> ThreadingHTTPServer:
    kind = _IPv6Server if ":" in address else ThreadingHTTPServer
    server = kind((address, port), partial(Handler, directory=directory))
    if pair is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*pair)
        # Each connection's thread does its own handshake: a client that says nothing holds up nobody.
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    return server


@contextmanager
def serving(directory: Path, address: str, port: int, pair: tuple[Path, Path] | None = None) -> Iterator[int]:
    """Serve a directory in a thread for the length of the block, by HTTPS with a certificate and its key; its port."""
    server = _server(directory, address, port, pair)
    thread = Thread(target=server.serve_forever, args=(0.1,), daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def main(argv: list[str]) -> None:
    """Serve for ever."""
    directory, address, port, *secure = argv
    with ExitStack() as stack:
        if secure:
            tls_port, certificate, key = secure
            pair = (Path(certificate), Path(key))
            stack.enter_context(serving(Path(directory), address, int(tls_port), pair))
        _server(Path(directory), address, int(port), None).serve_forever()


if __name__ == "__main__":
    main(sys.argv[1:])

"""HTTPS for BMCs, with the versions of TLS that they speak."""

from __future__ import annotations

import ssl
from pathlib import Path
from threading import Thread
from typing import Any

from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

_VERSIONS = {"1.1": ssl.TLSVersion.TLSv1_1, "1.2": ssl.TLSVersion.TLSv1_2}


class _Silent(WSGIRequestHandler):
    """Requests are logged by who answers them."""

    def log(self, type: str, message: str, *args: Any) -> None:
        """Log nothing."""


def context(certificate: Path, key: Path, tls: str) -> ssl.SSLContext:
    """A server's side of TLS: this version only. Machines of 2015 speak 1.1, which OpenSSL has at level 0 only."""
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if tls == "1.1":
        server_side.set_ciphers("DEFAULT:@SECLEVEL=0")
    server_side.minimum_version = server_side.maximum_version = _VERSIONS[tls]
    server_side.load_cert_chain(certificate, key)
    return server_side


def serve(application: Any, address: str, port: int, tls: ssl.SSLContext | None) -> BaseWSGIServer:
    """Answer there in threads of this process, from now on until its `shutdown`."""
    server = make_server(address, port, application, threaded=True, request_handler=_Silent, ssl_context=tls)
    Thread(target=server.serve_forever, args=(0.1,), name=f"bmc-{server.server_port}", daemon=True).start()
    return server

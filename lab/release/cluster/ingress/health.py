"""The controller's health, as haproxy asks for it; it is part of /healthz/ready, by which an ingress address moves."""

from __future__ import annotations

import socketserver
import threading
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

#: How long a round may take: a reload and its check under an emulated CPU.
STALE_SECONDS = 120.0


class Health:
    """The controller's last word: the problem that it has, if any, and when it said so."""

    def __init__(self) -> None:
        self._problem = "the controller has just begun"
        self._at = time.monotonic()

    def say(self, problem: str = "") -> None:
        """Say that a round is done, and what was wrong with it."""
        self._problem, self._at = problem, time.monotonic()

    @property
    def problem(self) -> str:
        """The problem that it has; empty when all is well."""
        silent = time.monotonic() - self._at
        if silent > STALE_SECONDS:
            return f"the controller has not finished a round for {silent:.0f} s"
        return self._problem


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Pass over clients that are gone."""


def serve(health: Health, path: Path) -> None:
    """Answer at a socket, in a thread of its own: 200, or 503 with the problem."""

    class Handler(BaseHTTPRequestHandler):
        timeout = 10

        def log_message(self, format: str, *args: Any) -> None:
            """Log no requests: there is one every few seconds."""

        def do_GET(self) -> None:
            problem = health.problem
            body = (problem or "ok").encode()
            self.send_response(503 if problem else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    path.unlink(missing_ok=True)
    server = _Server(str(path), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 5.0}, daemon=True).start()

"""A web application as a cluster's user writes one: notes, each a ConfigMap of the application's namespace.

PUT /NAME answers 201 once the note is kept, GET /NAME returns it; of several replicas each answers the same. A pod runs
this file from a ConfigMap (workload.yaml), with Python's own library alone.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import threading
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

PORT = 8080
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
#: An API server of three may be gone while the Service still has its address: another try finds another.
TRIES, TRY_SECONDS = 3, 2.0
CREATED, OK, CONFLICT, UNAVAILABLE = 201, 200, 409, 503


def ask(method: str, path: str = "", body: object = None) -> tuple[int, Any]:
    """Return the API's status and answer about ConfigMaps of this namespace; UNAVAILABLE when no try was answered."""
    folder = f"https://kubernetes.default.svc/api/v1/namespaces/{(ACCOUNT / 'namespace').read_text()}/configmaps"
    headers = {"Authorization": f"Bearer {(ACCOUNT / 'token').read_text()}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(folder + path, data, headers, method=method)
    context = ssl.create_default_context(cafile=ACCOUNT / "ca.crt")
    seen: object = ""
    for _ in range(TRIES):
        try:
            with urllib.request.urlopen(request, timeout=TRY_SECONDS, context=context) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code < 500:
                return error.code, error.reason
            seen = error
        except OSError as error:
            seen = error
    return UNAVAILABLE, f"{os.environ['HOSTNAME']}: {seen}"


class Handler(BaseHTTPRequestHandler):
    """One note a path."""

    def _answer(self, status: int, text: object) -> None:
        body = str(text).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        """Return a note; / says that the application runs."""
        if self.path == "/":
            self._answer(OK, "notes")
            return
        status, found = ask("GET", self.path)
        self._answer(status, found["data"]["text"] if status == OK else found)

    def do_PUT(self) -> None:
        """Keep a note. One that is there already was kept by a try whose answer was lost."""
        name, text = self.path.strip("/"), self.rfile.read(int(self.headers["Content-Length"])).decode()
        note = {"metadata": {"name": name, "labels": {"kind": "note"}}, "data": {"text": text}}
        status, found = ask("POST", body=note)
        self._answer(*((CREATED, name) if status in (CREATED, CONFLICT) else (status, found)))


class Server(ThreadingHTTPServer):
    """A server of both families: a pod may have addresses of either alone."""

    address_family = socket.AF_INET6


def main() -> None:
    """Serve until SIGTERM."""
    server = Server(("::", PORT), Handler)
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    server.serve_forever()


if __name__ == "__main__":
    main()

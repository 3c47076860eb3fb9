"""A server of Ignition that wants a token: `python -m scenarios.testing.ignitionguard ADDRESS PORT UPSTREAM`.

The token is in the environment's IGNITION_TOKEN. Who has it is given what UPSTREAM, a machine config server's URL
without a path, answers. A line is printed for each request.
"""

from __future__ import annotations

import os
import sys
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

UPSTREAM_SECONDS = 30
TOKEN = "IGNITION_TOKEN"


def serve(address: str, port: int, upstream: str, token: str) -> None:
    """Serve until the process is ended."""

    class Guard(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = self._answer()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _answer(self) -> tuple[int, bytes]:
            if self.headers["Authorization"] != f"Bearer {token}":
                return 401, b"{}"
            # The version of Ignition that the caller reads.
            headers = {"Accept": self.headers["Accept"] or "*/*"}
            try:
                request = urllib.request.Request(upstream + self.path, headers=headers)
                with urllib.request.urlopen(request, timeout=UPSTREAM_SECONDS) as answer:
                    return answer.status, answer.read()
            except urllib.error.HTTPError as error:
                return error.code, error.read()
            except OSError:
                return 502, b"{}"

        def log_message(self, format: str, *args: object) -> None:
            print(self.client_address[0], format % args, flush=True)

    ThreadingHTTPServer((address, port), Guard).serve_forever()


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]), sys.argv[3], os.environ[TOKEN])

"""Strangers at a BMC's address: one line, whatever they say."""

import itertools
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from drivers.errors import DriverError
from drivers.redfish import Service

ROOT = b'{"Systems": {"@odata.id": "%s"}, "RedfishVersion": "1.0.0", "Name": "x", "Id": "x", "Members": %s}'


@pytest.fixture(scope="module")
def bmc():
    """Provide a server that answers all requests alike; its `answer` is (status, body)."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            status, body = self.server.answer
            self.send_response(status)
            self.send_header("Location", "http://[")
            self.send_header("Content-Length", str(len(body) if isinstance(body, bytes) else 1 << 40))
            self.end_headers()
            with suppress(OSError):
                for piece in [body] if isinstance(body, bytes) else body:
                    self.wfile.write(piece)

        do_POST = do_GET

        def log_message(self, *_):
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("status", [200, 302, 401, 500])
@pytest.mark.parametrize(
    "body",
    [
        b"", b"no JSON", b"\xff\xfe", b"[]", b"3", b"null", b"[" * 100_000, b'{"Systems": 4, "@odata.id": 3}',
        ROOT % (b"http://[/", b"[]"), ROOT % (b"/", b"[3]"), ROOT % (b"/", b'[{"@odata.id": 5}]'), ROOT % (b"/", b"3"),
    ],
    ids=range(12),
)  # fmt: skip
def test_an_answer_that_is_none(bmc, status, body):
    bmc.answer = status, body
    service = Service(f"http://127.0.0.1:{bmc.server_port}/redfish/v1/", "u", "p", patience=0, timeout=5)
    with pytest.raises(DriverError, match=r"^BMC http://127.0.0.1:\d+: list systems: .+$"):
        service.systems()


def dripping():
    """Yield a byte now and then."""
    while True:
        time.sleep(0.05)
        yield b" "


@pytest.mark.parametrize("body", [lambda: itertools.repeat(bytes(1 << 20)), dripping], ids=["fast", "slow"])
def test_an_answer_without_an_end(bmc, body, monkeypatch):
    bmc.answer = 200, body()
    monkeypatch.setattr("drivers.redfish.service.REQUEST_SECONDS", 0.5 if body is dripping else 60)
    service = Service(f"http://127.0.0.1:{bmc.server_port}/redfish/v1/", "u", "p", patience=0, timeout=5)
    with pytest.raises(DriverError, match=r"list systems: .*its answer has no end within 16 MiB and "):
        service.systems()

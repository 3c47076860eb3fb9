"""Fixtures that several modules use."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

import pytest

from lab.host.paths import state_dir
from lab.testing.live import tiny_iso  # noqa: F401 - a fixture

# What has ended of one worker's labs is another's test, until it looks: nobody else may clear it away.
if _worker := os.environ.get("PYTEST_XDIST_WORKER"):
    os.environ["NODE0_STATE"] = str(state_dir() / f"test-{_worker}")


@pytest.fixture
def beside_labs() -> Iterator[Path]:
    """Provide a folder on the labs' file system, where an image costs no copy; /tmp may be another."""
    with TemporaryDirectory(prefix="test-", dir=state_dir()) as folder:
        yield Path(folder)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[[type[SimpleHTTPRequestHandler]], str]]:
    """Serve the files of tmp_path by a handler that logs nothing, until the test ends: serve(handler) -> URL."""
    running: list[tuple[ThreadingHTTPServer, Thread]] = []

    def start(handler: type[SimpleHTTPRequestHandler]) -> str:
        class Silent(handler):  # type: ignore[valid-type, misc]
            def log_message(self, *_args: Any) -> None:
                """Nothing."""

        httpd = ThreadingHTTPServer(("127.0.0.1", 0), partial(Silent, directory=str(tmp_path)))
        thread = Thread(target=httpd.serve_forever, args=(0.02,))
        thread.start()
        running.append((httpd, thread))
        return f"http://127.0.0.1:{httpd.server_port}"

    yield start
    for httpd, thread in running:
        httpd.shutdown()
        thread.join()
        httpd.server_close()

"""Metrics of the operator, as Prometheus reads them: clusters and hosts by state, reconciles, requests, validations."""

from __future__ import annotations

import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import accumulate

from installer.errors import ConfigError
from installer.hub.kube.kinds import AGENT, AGENT_CLUSTER_INSTALL, BARE_METAL_HOST, Json
from installer.hub.kube.manager import BUCKETS, Manager

Labels = Mapping[str, str]
CONTENT_TYPE = "text/plain; version=0.0.4"


def text(manager: Manager, is_leading: bool) -> str:
    """Return all metrics."""
    caches = manager.hub.caches
    lines = [*_metric("node0_hub_leading", "Whether this operator acts", "gauge", [({}, float(is_leading))])]
    for name, title, kind, path in (
        ("clusters", "Clusters by state", AGENT_CLUSTER_INSTALL, ("debugInfo", "state")),
        ("agents", "Agents by state", AGENT, ("debugInfo", "state")),
        ("bare_metal_hosts", "BareMetalHosts by state", BARE_METAL_HOST, ("provisioning", "state")),
    ):
        objects = caches[kind].list() if kind in caches else []
        states = Counter(_state(obj, path) for obj in objects)
        lines += _metric(
            f"node0_hub_{name}", title, "gauge", [({"state": key}, n) for key, n in sorted(states.items())]
        )
    failing = Counter(
        item for kind in (AGENT_CLUSTER_INSTALL, AGENT) for obj in caches[kind].list() for item in _failing(obj)
    )
    rows: list[tuple[Labels, float]] = [({"validation": name}, number) for name, number in sorted(failing.items())]
    lines += _metric("node0_hub_failing_validations", "Objects that fail a validation", "gauge", rows)
    rows = [({"method": method}, number) for method, number in sorted(manager.hub.api.requests.items())]
    lines += _metric("node0_hub_api_requests_total", "Requests to the API server", "counter", rows)
    rows = [({"kind": runner.controller.kind.name}, len(runner.queue)) for runner in manager.runners]
    lines += _metric("node0_hub_queue_length", "Objects to be reconciled now", "gauge", rows)
    rows = [({"kind": runner.controller.kind.name}, runner.failed) for runner in manager.runners]
    lines += _metric("node0_hub_reconcile_errors_total", "Reconciles that failed or were put off", "counter", rows)
    lines += _durations(manager)
    return "\n".join(lines) + "\n"


def _state(obj: Json, path: Iterable[str]) -> str:
    value = obj.get("status") or {}
    for name in path:
        value = value.get(name) or {}
    return str(value or "new")


def _failing(obj: Json) -> Iterator[str]:
    for items in ((obj.get("status") or {}).get("validationsInfo") or {}).values():
        yield from (str(item.get("id")) for item in items if item.get("status") in ("failure", "error"))


def _metric(name: str, title: str, kind: str, rows: Iterable[tuple[Labels, float]]) -> Iterator[str]:
    yield f"# HELP {name} {title}"
    yield f"# TYPE {name} {kind}"
    for labels, value in rows:
        yield f"{name}{_labels(labels)} {value:g}"


def _labels(labels: Labels) -> str:
    """Return labels in braces; their values are states, kinds and ids, which need no escapes."""
    return "{" + ",".join(f'{name}="{value}"' for name, value in labels.items()) + "}" if labels else ""


def _durations(manager: Manager) -> Iterator[str]:
    name = "node0_hub_reconcile_seconds"
    yield f"# HELP {name} Durations of reconciles"
    yield f"# TYPE {name} histogram"
    for runner in manager.runners:
        kind = {"kind": runner.controller.kind.name}
        counts = list(accumulate(runner.counts[bound] for bound in BUCKETS))
        for bound, count in zip(BUCKETS, counts, strict=True):
            limit = "+Inf" if bound == float("inf") else f"{bound:g}"
            yield f"{name}_bucket{_labels({**kind, 'le': limit})} {count}"
        yield f"{name}_sum{_labels(kind)} {runner.seconds:.6f}"
        yield f"{name}_count{_labels(kind)} {counts[-1]}"


@contextmanager
def served(manager: Manager, is_leading: Callable[[], bool], address: tuple[str, int]) -> Iterator[int]:
    """Serve /metrics at an address and port for the block, and give the port. Raises ConfigError."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Answer with the metrics of now."""
            if self.path != "/metrics":
                self.send_error(404)
                return
            content = text(manager, is_leading()).encode()
            self.send_response(200)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Log no requests."""

    class Server(ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        daemon_threads = True

    try:
        server = Server(address, Handler)
    except OSError as error:
        raise ConfigError(f"--metrics {address[0]}:{address[1]}: cannot listen: {error.strerror or error}") from None
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()

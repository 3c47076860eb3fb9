"""Around an orchestrator under test: programs that really run and are recorded, a service and an API over HTTP.

What happens is noted in one file, in its order: ``run PROGRAM ARG …`` for a program, ``PUT …``/``GET …`` for a request,
whatever else a test notes. So a test can say what was waited for before what.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
import yaml

from installer.assisted.auth import Scheme
from installer.assisted.client import AssistedClient
from installer.assisted.endpoint import BASE, endpoint
from installer.hostsys import system as hostsys
from installer.hostsys.system import HostSystem
from installer.orchestrator import disk
from installer.orchestrator.flow import Plan, Run
from installer.orchestrator.report import Reporter
from installer.testing.service.rendezvous_kit import make_tls

SEPARATOR = "\037"
#: Recorded and passed on to the program behind it: the host's namespaces are those of the test.
NSENTER = 'while [ "$1" != -- ]; do shift; done; shift; exec "$@"\n'


class Timeline:
    """Notes in their order, from any process."""

    def __init__(self, file: Path) -> None:
        self.file = file
        file.touch()

    def note(self, text: str) -> None:
        """Write a line."""
        with self.file.open("a") as out:
            out.write(text + "\n")

    def all(self) -> list[str]:
        """All lines, in their order."""
        return [line.replace(SEPARATOR, " ") for line in self.file.read_text().splitlines()]

    def programs(self) -> list[str]:
        """Command lines in their order, without nsenter's."""
        lines = [line.removeprefix("run ") for line in self.all() if line.startswith("run ")]
        return [line for line in lines if not line.startswith("nsenter ")]

    def argv(self, program: str) -> list[list[str]]:
        """Arguments of each run of a program, told apart even where they have spaces."""
        runs = [
            line.split(SEPARATOR)[1:]
            for line in self.file.read_text().splitlines()
            if line.startswith(f"run{SEPARATOR}")
        ]
        return [run[1:] for run in runs if run[0] == program]

    def stages(self, host: str = "h") -> list[tuple[str, str]]:
        """List the reports on a host: stage and info."""
        begin = f"PUT /infra-envs/i/hosts/{host}/progress "
        bodies = [json.loads(line.removeprefix(begin)) for line in self.all() if line.startswith(begin)]
        return [(body["current_stage"], body.get("progress_info", "")) for body in bodies]

    def order(self, *texts: str) -> None:
        """Assert that each text is in a note, after the one before."""
        notes, at = self.all(), -1
        for text in texts:
            place = next((i for i, note in enumerate(notes) if i > at and text in note), None)
            assert place is not None, f"{text!r} does not come after note {at} of:\n" + "\n".join(notes)
            at = place


class Programs:
    """A folder of programs that the host has; each run is noted."""

    def __init__(self, folder: Path, timeline: Timeline) -> None:
        self.folder, self._timeline = folder, timeline
        folder.mkdir()
        self.add("nsenter", NSENTER)

    def add(self, name: str, script: str = "") -> None:
        """Add a shell script; its arguments are the program's."""
        record = f"{{ printf run; printf '{SEPARATOR}%s' {name} \"$@\"; echo; }} >> {self._timeline.file}\n"
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{record}{script}")
        path.chmod(0o755)

    def says(self, name: str, text: str, code: int = 0) -> None:
        """Add a program that answers this."""
        file = self.folder / f".{name}.out"
        file.write_text(text)
        self.add(name, f"cat {file}\nexit {code}\n")

    def fails(self, name: str, words: str = "scripted failure", code: int = 1) -> None:
        """Add a program that prints this on its standard error and ends with `code`."""
        self.add(name, f"echo '{words}' >&2\nexit {code}\n")


class Service:
    """Stands for the rendezvous service; a test changes what it answers."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.hosts: list[dict[str, Any]] = [{"id": "h", "status": "installing-in-progress"}]
        self.files: dict[str, bytes] = {}
        self.host_ignition = b""
        self.uploads: list[bytes] = []
        #: Statuses of the next answers; 200 when empty.
        self.statuses: list[int] = []
        self.headers: list[dict[str, str]] = []
        self.url = ""

    def answer(self, method: str, path: str, query: dict[str, str], body: bytes) -> tuple[int, bytes]:
        """Return the service's answer: status and body."""
        status = self.statuses.pop(0) if self.statuses else 200
        if status != 200:
            return status, b'{"reason": "scripted refusal"}'
        if path == "/clusters/c/hosts":
            assert query in ({"with-inventory": "true"}, {})
            return 200, json.dumps(self.hosts).encode()
        if path == "/clusters/c/downloads/files":
            return (200, self.files[query["file_name"]]) if query["file_name"] in self.files else (404, b"{}")
        if path == "/infra-env/i/hosts/h/downloads/ignition":
            return 200, self.host_ignition
        if path == "/clusters/c/logs":
            self.uploads.append(body)
        return 200, b""


@contextmanager
def serving(service: Service, tls: Path | None = None) -> Iterator[Service]:
    """Provide the service on HTTP, or on HTTPS with the certificates that are made in a folder."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _any(self) -> None:
            parts = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path = parts.path.removeprefix(BASE)
            text = body.decode() if self.headers.get("Content-Type") == "application/json" else ""
            service.headers.append(dict(self.headers.items()))
            service.timeline.note(f"{self.command} {path} {text}".rstrip())
            status, answer = service.answer(self.command, path, dict(parse_qsl(parts.query)), body)
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_PUT = do_POST = _any

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        service.url = f"http://127.0.0.1:{server.server_address[1]}"
        if tls is not None:
            make_tls(tls)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls / "service.crt", tls / "service.key")
            server.socket = context.wrap_socket(server.socket, server_side=True)
            service.url = service.url.replace("http:", "https:")
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield service
        server.shutdown()


class Cluster:
    """Stands for the new cluster's API, on TLS and for known clients only."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {"/api/v1/nodes": {"items": []}}
        self.requests: list[tuple[str, str]] = []
        self.connections = 0
        self.kubeconfig = ""

    def node(self, name: str, role: str = "master", ready: bool = True, address: str = "") -> None:
        """Add a node of the cluster."""
        labels = {f"node-role.kubernetes.io/{role}": ""} if role else {}
        conditions = [
            {"type": "MemoryPressure", "status": "False" if ready else "True"},
            {"type": "Ready", "status": "True" if ready else "False"},
        ]
        addresses = [{"type": "Hostname", "address": name}, {"type": "InternalIP", "address": address}]
        status = {"conditions": conditions, "addresses": addresses if address else None}
        item = {"metadata": {"name": name, "labels": labels}, "status": status}
        self.answers["/api/v1/nodes"]["items"].append(item)

    def event(self, namespace: str, name: str, reason: str = "") -> None:
        """Add an event of the cluster."""
        events = self.answers.setdefault(f"/api/v1/namespaces/{namespace}/events", {"items": []})
        events["items"].append({"metadata": {"name": name}, "reason": reason})


@contextmanager
def api_server(folder: Path) -> Iterator[Cluster]:
    """Provide the API on HTTPS; ``kubeconfig`` holds what opens it."""
    make_tls(folder)
    cluster = Cluster()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(folder / "ca.crt"))
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.load_cert_chain(folder / "service.crt", folder / "service.key")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            cluster.connections += 1
            super().setup()

        def do_GET(self) -> None:
            cluster.requests.append((self.path, self.headers.get("Accept", "")))
            answer = cluster.answers.get(self.path, 404)
            if answer == "lost":
                self.close_connection = True
                return
            status = answer if isinstance(answer, int) else 200
            body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            pass  # a client that went away

    with Server(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()

        def encoded(name: str) -> str:
            return base64.b64encode((folder / name).read_bytes()).decode()

        place = {
            "server": f"https://127.0.0.1:{server.server_address[1]}",
            "certificate-authority-data": encoded("ca.crt"),
        }
        user = {"client-certificate-data": encoded("service.crt"), "client-key-data": encoded("service.key")}
        cluster.kubeconfig = yaml.safe_dump({"clusters": [{"cluster": place}], "users": [{"user": user}]})
        yield cluster
        server.shutdown()


class Site:
    """One host with its programs, and the service."""

    def __init__(self, folder: Path, service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = folder / "root"
        self.root.mkdir()
        self.timeline, self.service = service.timeline, service
        self.programs = Programs(folder / "programs", self.timeline)
        path = f"{self.programs.folder}:/usr/bin:/bin"
        monkeypatch.setattr(hostsys, "PATH", path)
        monkeypatch.setattr(disk, "PATH", path)
        monkeypatch.setenv("PATH", path)
        self.host = HostSystem(self.root)
        self.clients: list[AssistedClient] = []
        self.naps: list[float] = []
        #: What happens in the world during each pause, in this order; a pause without any fails the test.
        self.meanwhile: list[Callable[[], object]] = []

    def sleep(self, seconds: float) -> None:
        """Note how long, and let the next thing happen meanwhile."""
        self.naps.append(seconds)
        assert self.meanwhile, "still waiting, and nothing will happen any more:\n" + "\n".join(self.timeline.all())
        self.meanwhile.pop(0)()

    def client(self, url: str = "") -> AssistedClient:
        """Return an agent's client of the service, or of another."""
        client = AssistedClient(endpoint(url or self.service.url), Scheme.AGENT, "the token")
        self.clients.append(client)
        return client

    def reporter(self) -> Reporter:
        """Return a reporter of this host's stages."""
        return Reporter(self.client(), "i", "c", "h", sleep=self.sleep)

    def run(self, role: str, count: int, **plan: Any) -> Run:
        """Return a run of the orchestrator in this role, in a control plane of `count`."""
        planned = Plan(role=role, boot_device="/dev/disk/by-id/wanted", control_plane_count=count, **plan)
        return Run(plan=planned, host=self.host, reporter=self.reporter(), sleep=self.sleep)


def data(text: str) -> dict[str, str]:
    """Contents of a file in an Ignition config."""
    return {"source": "data:;base64," + base64.b64encode(text.encode()).decode()}

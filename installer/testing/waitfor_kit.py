"""A kit for tests of wait-for: real HTTPS servers in this process for the service's API and the cluster's API.

Both are driven by a scenario: a list of moments, each with how the world looks; a test moves from one to the next
when wait-for has looked at the present one often enough.
"""

from __future__ import annotations

import base64
import json
import logging
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from installer.assisted.auth import HEADERS, Scheme
from installer.assisted.endpoint import BASE
from installer.common.certificates import SERVER, Pair, authority, leaf
from installer.observe import foreign
from installer.waitfor.command import execute
from installer.waitfor.settings import Settings, Target

TOKEN = "watcher-token-of-the-test"
PASSWORD = "aaaaa-bbbbb-ccccc-ddddd"


@dataclass
class Moment:
    """A state of the world. None for ``cluster``/``kube``: that API is down."""

    cluster: dict[str, Any] | None = None
    hosts: list[dict[str, Any]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    _: KW_ONLY
    kube: dict[str, Any] | None = None
    evaluations: int = 2


class World:
    """The scenario; moves on each time the REST API or the kube API has been asked for life often enough.

    ``openshift``: whether the service is as narrow as OpenShift's: what a watcher may not ask for is a 401.
    """

    openshift = False

    def __init__(self, moments: list[Moment]) -> None:
        self.moments = moments
        self.index = 0
        self.looks = 0
        self.archive = b""
        self.lock = threading.Lock()
        self.refused: list[str] = []

    def look(self) -> None:
        """Whoever waits looks once more; after as many looks as the moment has, the next one comes."""
        with self.lock:
            self.looks += 1
            if self.looks > self.now.evaluations and self.index + 1 < len(self.moments):
                self.index += 1
                self.looks = 0

    @property
    def now(self) -> Moment:
        """The moment that it is."""
        return self.moments[self.index]

    def log(self) -> list[dict[str, Any]]:
        """All events up to now, each once: a log only grows."""
        events: list[dict[str, Any]] = []
        for moment in self.moments[: self.index + 1]:
            events += [item for item in moment.events if item not in events]
        return events

    def rest(self, path: str, headers: Any) -> tuple[int, Any]:
        """Return the service's answer: status and body."""
        if headers.get(HEADERS[Scheme.WATCHER]) != TOKEN:
            self.refused.append(path)
            return 401, {"code": 401, "message": "token is unknown"}
        path, _, query = path.removeprefix(BASE).partition("?")
        offset = int(parse_qs(query).get("offset", ["0"])[0])
        moment = self.now
        if moment.cluster is None:
            return 0, None
        if self.openshift and path.endswith(("/hosts", "/logs")):
            return 401, {"code": "401", "reason": "unauthenticated for invalid credentials"}
        within = {"hosts": moment.hosts} if self.openshift else {}
        return {
            "/infra-envs": (200, [{"id": "ie"}]),
            "/clusters": (200, [{"id": "c"}]),
            "/clusters/c": (200, {"id": "c", "pull_secret": "very secret", **moment.cluster, **within}),
            "/infra-envs/ie/hosts": (200, moment.hosts),
            "/events": (200, self.log()[offset:]),
            "/clusters/c/logs": (200, self.archive) if self.archive else (404, {"reason": "no logs"}),
        }.get(path, (404, {"code": "404", "reason": f"no {path}"}))

    def kube(self, path: str, headers: Any) -> tuple[int, Any]:
        """Return the answer of the cluster's API: status and body."""
        if path == "/version":
            # Asked first in each evaluation, whether or not it answers.
            self.look()
        state = self.now.kube
        if state is None:
            return 0, None
        if path == "/version":
            version = dict.fromkeys(
                ("major", "minor", "gitVersion", "gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler",
                 "platform"), "1",
            )  # fmt: skip
            return 200, version
        if path.endswith("/clusterversions/version"):
            self.look()
        if path in state:
            return 200, state[path]
        return 404, {"kind": "Status", "code": 404}


def server(
    ask: Any, pair: Pair | None, folder: Any, *, client_ca: str = "", dated: Callable[[], str] | None = None
) -> ThreadingHTTPServer:
    """Without a pair it speaks plain HTTP. ``dated`` makes the answers' Date, none if it is empty; by default it is the
    present."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            url = urlsplit(self.path)
            status, body = ask(
                f"{url.path.rstrip('/')}?{url.query}" if url.query else url.path.rstrip("/"), self.headers
            )
            if status == 0:
                self.close_connection = True
                return
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response_only(status)
            date = self.date_time_string() if dated is None else dated()
            if date:
                self.send_header("Date", date)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            pass

    if pair is None:
        return Server(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    (folder / "c.pem").write_text(pair.certificate + pair.key)
    context.load_cert_chain(folder / "c.pem")
    if client_ca:
        context.load_verify_locations(cadata=client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    listener = Server(("127.0.0.1", 0), Handler)
    listener.socket = context.wrap_socket(listener.socket, server_side=True, do_handshake_on_connect=False)
    return listener


@contextmanager
def serving(*servers: ThreadingHTTPServer) -> Iterator[None]:
    """Serve for the length of the block."""
    threads = [threading.Thread(target=server.serve_forever, args=(0.02,)) for server in servers]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()
        for thread in threads:
            thread.join()


SERVICE_CA, KUBE_CA, ROUTER_CA, OTHER_CA = (authority(f"{name}-ca") for name in ("service", "kube", "router", "other"))
QUICK = Settings(
    interval=0.03, connect_timeout=2, read_timeout=2, bootstrap=60, initialize=60, operators=60, stable_for=0.2,
    operators_interval=0.05, console=1, failing_for=0.1, failing_for_remeasured=0.4, ready_limit=1.5, notice_every=0.1,
    unreachable_after=0.1, lost_after=0.1, logs_wait=1, ssh_port=1,
)  # fmt: skip


def _serving(signer: Pair) -> Pair:
    return leaf(signer, "server", names=("127.0.0.1",), usages=SERVER)


def _foreign(part: dict[str, Any]) -> dict[str, Any]:
    """Return openshift-install's own form of our part of the state."""
    expected = part["expectedHosts"]
    deployment = {"clusterName": part["clusterName"], "baseDomain": part["baseDomain"]}
    wanted = {"controlPlaneAgents": expected["controlPlane"]}
    return {
        foreign.AUTH: {"WatcherAuthToken": part["watcherToken"]},
        foreign.IGNITION: {"RendezvousIP": part["rendezvousIP"]},
        foreign.DEPLOYMENT: {"Config": {"spec": deployment}},
        foreign.INSTALL: {"Config": {"spec": {"platformType": part["platform"], "provisionRequirements": wanted}}},
        foreign.HOSTS: {"Hosts": [{"hostname": name} for name in expected["names"]]},
    }


class Run:
    """One call of wait-for in a scenario."""

    def __init__(self, tmp_path: Any, caplog: pytest.LogCaptureFixture) -> None:
        self.dir = tmp_path / "assets"
        self.tmp, self.caplog = tmp_path, caplog
        caplog.set_level(logging.DEBUG, "installer.waitfor")

    def __call__(
        self,
        moments: list[Moment],
        *,
        names: Sequence[str] = ("master-0",),
        target: Target = "bootstrap-complete",
        settings: Settings = QUICK,
        archive: bytes = b"",
        openshift: bool = False,
        ca: Pair = SERVICE_CA,
        token: str = TOKEN,
        timeout: float | None = None,
        dated: Callable[[], str] | None = None,
        macs: Sequence[str] = (),
        by: Callable[[Target, Path, float | None, Settings], int] = execute,
    ) -> int:
        """Wait for `target` in a world of these moments; the exit code. With `openshift` in a directory of
        openshift-install, whose service speaks plain HTTP. `macs`: one of each host, in the order of `names`.
        `by`: who waits."""
        self.world = world = World(moments)
        world.archive, world.openshift = archive, openshift
        folders = [self.tmp / name for name in ("rest", "kube")]
        for folder in folders:
            folder.mkdir()
        rest = server(world.rest, None if openshift else _serving(SERVICE_CA), folders[0])
        kube = server(world.kube, _serving(KUBE_CA), folders[1], client_ca=KUBE_CA.certificate, dated=dated)
        (self.dir / "auth").mkdir(parents=True)
        described = {"macAddresses": [[mac] for mac in macs]} if macs else {}
        part = {
            "rendezvousIP": "127.0.0.1", "serviceCACert": ca.certificate, "watcherToken": token,
            "clusterName": "ostest", "baseDomain": "x.example", "platform": "none",
            "expectedHosts": {"names": list(names), "controlPlane": len(names), "arbiters": 0, "workers": 0}
            | described,
            "places": {"hosts": [f"agent-config.yaml: hosts[{index}]" for index in range(len(macs))]},
        }  # fmt: skip
        state = _foreign(part) if openshift else {"node0": part}
        (self.dir / ".openshift_install_state.json").write_text(json.dumps(state))
        admin = leaf(KUBE_CA, "system:admin")
        parts = {"ca": KUBE_CA.certificate, "c": admin.certificate, "k": admin.key}
        coded = {name: base64.b64encode(text.encode()).decode() for name, text in parts.items()}
        (self.dir / "auth" / "kubeconfig").write_text(yaml.safe_dump({
            "clusters": [{"name": "ostest", "cluster": {
                "server": f"https://127.0.0.1:{kube.server_port}", "certificate-authority-data": coded["ca"]}}],
            "contexts": [{"name": "admin", "context": {"cluster": "ostest", "user": "admin"}}],
            "current-context": "admin",
            "users": [{"name": "admin", "user": {
                "client-certificate-data": coded["c"], "client-key-data": coded["k"]}}],
        }))  # fmt: skip
        (self.dir / "auth" / "kubeadmin-password").write_text(PASSWORD)
        with serving(rest, kube):
            return by(target, self.dir, timeout, replace(settings, rest_port=rest.server_port))

    def lines(self, level: str = "") -> list[str]:
        """List the messages of a level, or of all levels."""
        return [r.message for r in self.caplog.records if r.name == "installer.waitfor" and level in ("", r.levelname)]


def host(name: str, status: str, stage: str = "", info: str = "", **checks: tuple[str, str]) -> dict[str, Any]:
    """Return a host as the service lists it; `checks` are its validations: status and message."""
    validations = [{"id": k.replace("_", "-"), "status": s, "message": m} for k, (s, m) in checks.items()]
    validations.append({"id": "has-inventory", "status": "success", "message": "Valid inventory exists for the host"})
    return {
        "id": f"id-{name}", "requested_hostname": name, "status": status, "status_info": info or status,
        "progress": {"current_stage": stage} if stage else {},
        "validations_info": json.dumps({"hardware": validations}), "installer_args": json.dumps(["--token", TOKEN]),
    }  # fmt: skip


def event(message: str, severity: str = "info") -> dict[str, Any]:
    """Return an event of the service."""
    return {"event_time": "2024-01-01T00:00:00Z", "name": "n", "severity": severity, "message": message}


def cluster(status: str, info: str = "", **checks: tuple[str, str]) -> dict[str, Any]:
    """Return a cluster as the service shows it; `checks` are its validations: status and message."""
    validations = [{"id": k.replace("_", "-"), "status": s, "message": m} for k, (s, m) in checks.items()]
    return {
        "status": status,
        "status_info": info or status,
        "validations_info": json.dumps({"configuration": validations}),
    }


BOOTSTRAP_CM = "/api/v1/namespaces/kube-system/configmaps/bootstrap"
INGRESS_CM = "/api/v1/namespaces/openshift-config-managed/configmaps/default-ingress-cert"
VERSION = "/apis/config.openshift.io/v1/clusterversions/version"
OPERATORS = "/apis/config.openshift.io/v1/clusteroperators"
NODES = "/api/v1/nodes"
ROUTE = "/apis/route.openshift.io/v1/namespaces/openshift-console/routes/console"
TOO_SMALL = ("failure", "Too little memory for any role: found 2048 MiB, at least 4096 MiB needed")


def config_map(**data: str) -> dict[str, Any]:
    """Return a ConfigMap with these data."""
    return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "x"}, "data": data}


def conditions(**states: tuple[str, str]) -> dict[str, Any]:
    """Return the status of an object with these conditions: status and message."""
    since = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"conditions": [
        {"type": kind, "status": status, "message": message, "reason": "R", "lastTransitionTime": since}
        for kind, (status, message) in states.items()
    ]}  # fmt: skip


def version(available: str, progressing: str, message: str) -> dict[str, Any]:
    """Return the ClusterVersion."""
    return {"metadata": {"name": "version"}, "status": conditions(
        Available=(available, "m"), Failing=("False", ""), Progressing=(progressing, message))}  # fmt: skip


def operator(name: str, progressing: str = "False", available: str = "True") -> dict[str, Any]:
    """Return a ClusterOperator."""
    return {"metadata": {"name": name}, "status": conditions(
        Available=(available, "it is"), Progressing=(progressing, "p"), Degraded=("False", ""))}  # fmt: skip


def nodes(**ready: str) -> dict[str, Any]:
    """Return a NodeList: status of the condition Ready by the node's name with _ for -."""
    items = [
        {"metadata": {"name": name.replace("_", "-")}, "status": conditions(Ready=(status, f"it is {status}"))}
        for name, status in ready.items()
    ]
    return {"kind": "NodeList", "apiVersion": "v1", "metadata": {}, "items": items}


DONE = {BOOTSTRAP_CM: config_map(status="complete")}

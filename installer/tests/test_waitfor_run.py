"""wait-for against real HTTPS servers in this process: the rendezvous service's API and the cluster's API.

Both are driven by a scenario: a list of moments, each with how the world looks; a test moves from one to the next
when wait-for has looked at the present one often enough.
"""

from __future__ import annotations

import base64
import io
import ipaddress
import json
import logging
import ssl
import stat
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from installer.waitfor import kubeconfig
from installer.waitfor.command import execute
from installer.waitfor.settings import Settings

TOKEN = "watcher-token-of-the-test"
PASSWORD = "aaaaa-bbbbb-ccccc-ddddd"


class Authority:
    """A throw-away CA."""

    def __init__(self, name: str) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{name}-ca")])
        self.cert = self._builder(self.name, self.key).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        ).sign(self.key, hashes.SHA256())  # fmt: skip
        self.pem = self.cert.public_bytes(serialization.Encoding.PEM).decode()

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
        )

    def issue(self, name: str, address: str = "127.0.0.1") -> tuple[str, str]:
        """(certificate, key) as PEM, for the address."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        san = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
        cert = self._builder(subject, key).add_extension(san, critical=False).sign(self.key, hashes.SHA256())
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return cert.public_bytes(serialization.Encoding.PEM).decode(), pem.decode()


@dataclass
class Moment:
    """How the world looks. None for ``cluster``/``kube``: that API is down."""

    cluster: dict[str, Any] | None = None
    hosts: list[dict[str, Any]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    kube: dict[str, Any] | None = None
    evaluations: int = 2


class World:
    """The scenario; moves on each time the REST API or the kube API has been asked for life often enough."""

    def __init__(self, moments: list[Moment]) -> None:
        self.moments = moments
        self.index = 0
        self.looks = 0
        self.archive = b""
        self.lock = threading.Lock()
        self.refused: list[str] = []

    def look(self) -> None:
        with self.lock:
            self.looks += 1
            if self.looks > self.now.evaluations and self.index + 1 < len(self.moments):
                self.index += 1
                self.looks = 0

    @property
    def now(self) -> Moment:
        return self.moments[self.index]

    def log(self) -> list[dict[str, Any]]:
        """All events up to now, each once: a log only grows."""
        found: list[dict[str, Any]] = []
        for moment in self.moments[: self.index + 1]:
            found += [item for item in moment.events if item not in found]
        return found

    def rest(self, path: str, headers: Any) -> tuple[int, Any]:
        if headers.get("Watcher-Authorization") != TOKEN:
            self.refused.append(path)
            return 401, {"code": 401, "message": "token is unknown"}
        path, _, query = path.removeprefix("/api/assisted-install/v2").partition("?")
        offset = int(parse_qs(query).get("offset", ["0"])[0])
        moment = self.now
        if moment.cluster is None:
            return 0, None
        return {
            "/infra-envs": (200, [{"id": "ie"}]),
            "/clusters": (200, [{"id": "c"}]),
            "/clusters/c": (200, {"id": "c", "pull_secret": "very secret", **moment.cluster}),
            "/infra-envs/ie/hosts": (200, moment.hosts),
            "/events": (200, self.log()[offset:]),
            "/clusters/c/logs": (200, self.archive) if self.archive else (404, {"reason": "no logs"}),
        }.get(path, (404, {"code": "404", "reason": f"no {path}"}))

    def kube(self, path: str, headers: Any) -> tuple[int, Any]:
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


def server(ask: Any, cert: str, key: str, folder: Any, client_ca: str = "") -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            found = urlsplit(self.path)
            status, body = ask(
                f"{found.path.rstrip('/')}?{found.query}" if found.query else found.path.rstrip("/"), self.headers
            )
            if status == 0:
                self.close_connection = True
                return
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
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

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    (folder / "c.pem").write_text(cert + key)
    context.load_cert_chain(folder / "c.pem")
    if client_ca:
        context.load_verify_locations(cadata=client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    made = Server(("127.0.0.1", 0), Handler)
    made.socket = context.wrap_socket(made.socket, server_side=True, do_handshake_on_connect=False)
    return made


@contextmanager
def serving(*servers: ThreadingHTTPServer) -> Iterator[None]:
    threads = [threading.Thread(target=one.serve_forever, args=(0.02,)) for one in servers]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for one in servers:
            one.shutdown()
            one.server_close()
        for thread in threads:
            thread.join()


SERVICE_CA, KUBE_CA, ROUTER_CA, OTHER_CA = (Authority(name) for name in ("service", "kube", "router", "other"))
QUICK = Settings(
    interval=0.03, connect_timeout=2, read_timeout=2, bootstrap=60, initialize=60, operators=60, stable_for=0.2,
    operators_interval=0.05, console=1, settle=0.1, settle_remeasured=0.4, ready_limit=1.5, notice_every=0.1,
    unreachable_after=0.1, lost_after=0.1, logs_wait=1, ssh_port=1,
)  # fmt: skip


class Run:
    """One call of wait-for in a scenario."""

    def __init__(self, tmp_path: Any, caplog: pytest.LogCaptureFixture) -> None:
        self.dir = tmp_path / "assets"
        self.tmp, self.caplog = tmp_path, caplog
        caplog.set_level(logging.DEBUG, "installer.waitfor")

    def __call__(self, moments: list[Moment], *, names=("master-0",), target="bootstrap-complete", settings=QUICK,
                 archive=b"", ca=SERVICE_CA, token=TOKEN, timeout=None) -> int:  # fmt: skip
        self.world = world = World(moments)
        world.archive = archive
        folders = [self.tmp / name for name in ("rest", "kube")]
        for folder in folders:
            folder.mkdir()
        rest = server(world.rest, *SERVICE_CA.issue("service"), folders[0])
        kube = server(world.kube, *KUBE_CA.issue("kube"), folders[1], KUBE_CA.pem)
        (self.dir / "auth").mkdir(parents=True)
        part = {
            "rendezvousIP": "127.0.0.1", "serviceCACert": ca.pem, "watcherToken": token, "clusterName": "ostest",
            "baseDomain": "x.example", "platform": "none",
            "expectedHosts": {"names": list(names), "controlPlane": len(names), "arbiters": 0, "workers": 0},
        }  # fmt: skip
        (self.dir / ".openshift_install_state.json").write_text(json.dumps({"node0": part}))
        cert, key = KUBE_CA.issue("system:admin")
        coded = {n: base64.b64encode(v.encode()).decode() for n, v in (("ca", KUBE_CA.pem), ("c", cert), ("k", key))}
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
            return execute(target, self.dir, timeout, replace(settings, rest_port=rest.server_port))

    def lines(self, level: str = "") -> list[str]:
        return [r.message for r in self.caplog.records if r.name == "installer.waitfor" and level in ("", r.levelname)]


@pytest.fixture
def run(tmp_path, caplog):
    return Run(tmp_path, caplog)


def host(name: str, status: str, stage: str = "", info: str = "", **checks: tuple[str, str]) -> dict[str, Any]:
    found = [{"id": k.replace("_", "-"), "status": s, "message": m} for k, (s, m) in checks.items()]
    found.append({"id": "has-inventory", "status": "success", "message": "Valid inventory exists for the host"})
    return {
        "id": f"id-{name}", "requested_hostname": name, "status": status, "status_info": info or status,
        "progress": {"current_stage": stage} if stage else {},
        "validations_info": json.dumps({"hardware": found}), "installer_args": json.dumps(["--token", TOKEN]),
    }  # fmt: skip


def event(message: str, severity: str = "info") -> dict[str, Any]:
    return {"event_time": "2024-01-01T00:00:00Z", "name": "n", "severity": severity, "message": message}


def cluster(status: str, info: str = "", **checks: tuple[str, str]) -> dict[str, Any]:
    found = [{"id": k.replace("_", "-"), "status": s, "message": m} for k, (s, m) in checks.items()]
    return {"status": status, "status_info": info or status, "validations_info": json.dumps({"configuration": found})}


BOOTSTRAP_CM = "/api/v1/namespaces/kube-system/configmaps/bootstrap"
INGRESS_CM = "/api/v1/namespaces/openshift-config-managed/configmaps/default-ingress-cert"
VERSION = "/apis/config.openshift.io/v1/clusterversions/version"
OPERATORS = "/apis/config.openshift.io/v1/clusteroperators"
ROUTE = "/apis/route.openshift.io/v1/namespaces/openshift-console/routes/console"
TOO_SMALL = ("failure", "Too little memory for any role: found 2048 MiB, at least 4096 MiB needed")


def config_map(**data: str) -> dict[str, Any]:
    return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "x"}, "data": data}


def conditions(**states: tuple[str, str]) -> dict[str, Any]:
    since = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"conditions": [
        {"type": kind, "status": status, "message": message, "reason": "R", "lastTransitionTime": since}
        for kind, (status, message) in states.items()
    ]}  # fmt: skip


def version(available: str, progressing: str, message: str) -> dict[str, Any]:
    return {"metadata": {"name": "version"}, "status": conditions(
        Available=(available, "m"), Failing=("False", ""), Progressing=(progressing, message))}  # fmt: skip


def operator(name: str, progressing: str = "False", available: str = "True") -> dict[str, Any]:
    return {"metadata": {"name": name}, "status": conditions(
        Available=(available, "it is"), Progressing=(progressing, "p"), Degraded=("False", ""))}  # fmt: skip


DONE = {BOOTSTRAP_CM: config_map(status="complete")}
# A single node from nothing to its reboot: both APIs die there, and the installed system's API comes back.
SINGLE_NODE = [
    Moment(),
    Moment(cluster("insufficient"), [host("master-0", "discovering")], [event("registered")]),
    Moment(
        cluster("ready"), [host("master-0", "known")], [event("registered"), event("slow disk", "warning")],
        evaluations=1,
    ),
    Moment(cluster("preparing-for-installation"), [host("master-0", "preparing-for-installation")]),
    Moment(cluster("installing"), [host("master-0", "installing-in-progress", "Waiting for bootkube")],
           kube={BOOTSTRAP_CM: config_map(status="progressing")}),
    Moment(cluster("installing"), [host("master-0", "installing-in-progress", "Rebooting")], [event("rebooting")],
           kube={}),
    Moment(evaluations=8),
]  # fmt: skip


def test_single_node_through_its_reboot(run):
    assert run([*SINGLE_NODE, Moment(kube=DONE)]) == 0
    info, all_lines = run.lines("INFO"), run.lines()
    wanted = [
        "Waiting for cluster install to initialize", "Cluster is not ready for install. Check validations",
        "Cluster is ready for install", "Cluster is preparing for installation", "Bootstrap Kube API Initialized",
        "Cluster installation in progress", "Bootstrap configMap status is complete", "Bootstrap is complete",
        "cluster bootstrap is complete",
    ]  # fmt: skip
    assert list(dict.fromkeys(line for line in info if line in wanted)) == wanted
    assert sum("rebooting into its installed system" in line for line in info) == 1
    assert all_lines.count("registered") == 1
    assert "slow disk" in run.lines("WARNING")
    assert not run.lines("ERROR")
    kept = json.loads((run.dir / "logs" / "events.json").read_text())
    assert [item["message"] for item in kept] == ["registered", "slow disk", "rebooting"]
    assert not run.world.refused


def log_archive() -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as tar:
        for name in ("master-0.log", "../../evil"):
            info = tarfile.TarInfo(name)
            info.size = 4
            tar.addfile(info, io.BytesIO(b"text"))
    return file.getvalue()


def test_too_small_host_ends_with_the_cause_first_and_logs(run):
    small = host("master-0", "insufficient", has_min_memory=TOO_SMALL, ntp_synced=("failure", "no NTP"))
    waits = host("master-0", "discovering", has_min_memory=("pending", "Missing inventory"))
    not_ready = cluster("insufficient", all_hosts_are_ready_to_install=("failure", "1 host is not ready"))
    packed = log_archive()
    code = run([Moment(cluster("insufficient"), [waits], evaluations=6), Moment(not_ready, [small])], archive=packed)
    assert code == 5
    errors = run.lines("ERROR")
    assert errors[:2] == [
        f"Host master-0 validation has-min-memory failed: {TOO_SMALL[1]}",
        "Cluster validation all-hosts-are-ready-to-install failed: 1 host is not ready",
    ]
    assert errors[2] == "Bootstrap failed to complete"
    assert "bootstrap process returned error" in errors[3]
    assert f"Host master-0 validation: {TOO_SMALL[1]}" in run.lines("WARNING")
    logs = run.dir / "logs"
    assert (logs / "cluster" / "master-0.log").read_text() == "text"
    assert (logs / "cluster-logs.tar.gz").read_bytes() == packed
    assert not (run.dir / "evil").exists()
    kept = (logs / "hosts.json").read_text() + (logs / "cluster.json").read_text()
    assert "found 2048 MiB" in kept
    assert TOKEN not in kept
    assert "very secret" not in kept


def test_refused_logs_do_not_hide_the_cause(run):
    small = host("master-0", "insufficient", has_min_memory=TOO_SMALL)
    assert run([Moment(cluster("insufficient"), [small])]) == 5
    assert any("No logs could be downloaded" in line for line in run.lines("WARNING"))


def test_a_missing_host_is_named_at_the_time_out(run):
    moments = [Moment(cluster("insufficient"), [host("master-0", "known")])]
    assert run(moments, names=("master-0", "master-1"), timeout=0.5) == 5
    errors = run.lines("ERROR")
    assert errors[0] == "Host master-1 never registered (1 of 2 expected hosts registered)"
    assert "timed out after 0.5s" in errors[-1]
    assert "waited for the bootstrap's kube API" in errors[-1]
    assert "cluster was insufficient" in errors[-1]


def test_failed_stage_ends_at_once(run):
    failed = host("master-0", "error", "Writing image to disk", "Failed - no space left on device")
    failed["logs_info"] = "completed"
    moments = [Moment(cluster("installing"), [host("master-0", "installing-in-progress", "Installing")]),
               Moment(cluster("error", "Cluster has hosts in error"), [failed])]  # fmt: skip
    assert run(moments, archive=log_archive()) == 5
    assert run.lines("ERROR")[0] == (
        "Host master-0 failed at stage Writing image to disk: Failed - no space left on device"
    )


def test_nobody_answers(run):
    assert run([Moment()], settings=replace(QUICK, unreachable_after=0), timeout=0.5) == 5
    assert "Waiting for cluster install to initialize" in run.lines("INFO")
    assert any("Cannot access Rendezvous Host 127.0.0.1: port 1" in line for line in run.lines("INFO"))
    assert "waited for the rendezvous service on 127.0.0.1 to come up" in run.lines("ERROR")[-1]


def test_cancelled(run):
    assert run([Moment(cluster("cancelled", "by user"), [host("master-0", "cancelled")])]) == 5
    assert run.lines("ERROR")[0] == "Cluster cancelled: by user"


def test_ready_without_progress(run):
    assert run([Moment(cluster("ready"), [host("master-0", "known")])]) == 5
    assert "failed to progress after all hosts available" in run.lines("ERROR")[-1]


def test_preparing_again_and_wrong_boot_order(run):
    moments = [
        Moment(cluster("preparing-for-installation"), [host("master-0", "preparing-failed")]),
        Moment(cluster("ready", "image pull failed"), [host("master-0", "known")]),
        Moment(cluster("installing-pending-user-action"),
               [host("master-0", "installing-pending-user-action", "Rebooting", "boots from the wrong disk")]),
        Moment(kube=DONE),
    ]  # fmt: skip
    assert run(moments) == 0
    assert "Failed to prepare cluster installation, retrying: image pull failed" in run.lines("INFO")
    assert "Host master-0 boots from the wrong disk" in run.lines("WARNING")


@pytest.mark.parametrize(("ca", "token", "text"), [(OTHER_CA, TOKEN, "TLS with"), (SERVICE_CA, "other", "401 token")])
def test_another_images_service_is_told_once(run, ca, token, text):
    assert run([Moment(cluster("ready"), [])], ca=ca, token=token, timeout=0.4) == 5
    found = [line for line in run.lines("WARNING") if text in line]
    assert len(found) == 1
    assert "was the host booted from the image in" in found[0]


def test_service_lost_before_the_reboot(run):
    moments = [Moment(cluster("installing"), [host("master-0", "installing-in-progress", "Installing")]), Moment()]
    assert run(moments, timeout=0.8) == 5
    assert sum("cluster bootstrap did not complete" in line for line in run.lines("ERROR")) == 1
    assert "host master-0 was installing-in-progress at stage Installing" in run.lines("ERROR")[-1]


READY_CLUSTER = {
    **DONE,
    VERSION: version("True", "False", "Cluster version is 4"),
    OPERATORS: {"items": [operator("etcd"), operator("console")]},
    INGRESS_CM: config_map(**{"ca-bundle.crt": ROUTER_CA.pem}),
    ROUTE: {"spec": {"tls": {"termination": "edge"}}, "status": {"ingress": [
        {"host": "console.apps.x", "conditions": [{"type": "Admitted", "status": "True"}]}]}},
}  # fmt: skip


def test_install_complete(run):
    half = version("False", "True", "Working towards 4: 5 of 10 done (50% complete)")
    moments = [Moment(kube=DONE), Moment(kube={VERSION: half}), Moment(kube=READY_CLUSTER)]
    assert run(moments, target="install-complete") == 0
    path = run.dir / "auth" / "kubeconfig"
    tail = run.lines("INFO")[-5:]
    assert tail == [
        "Checking to see if there is a route at openshift-console/console...",
        "Install complete!",
        f"To access the cluster as the system:admin user when using 'oc', run\n    export KUBECONFIG={path}",
        "Access the OpenShift web-console here: https://console.apps.x",
        f'Login to the console with user: "kubeadmin", and password: "{PASSWORD}"',
    ]
    assert [r.secret for r in run.caplog.records if PASSWORD in r.message] == [True]
    assert any("50% complete" in line for line in run.lines("DEBUG"))
    merged = base64.b64decode(
        yaml.safe_load(path.read_text())["clusters"][0]["cluster"]["certificate-authority-data"]
    ).decode()
    assert kubeconfig.blocks(merged) == [ROUTER_CA.pem.strip(), KUBE_CA.pem.strip()]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_install_complete_without_a_console(run):
    state = {key: value for key, value in READY_CLUSTER.items() if key != ROUTE}
    assert run([Moment(kube=state)], target="install-complete") == 0
    assert any("no console" in line for line in run.lines("WARNING"))
    assert run.lines("INFO")[-1].startswith("To access the cluster")


def test_cluster_that_does_not_initialize(run):
    state = {**DONE, VERSION: version("False", "True", "Working towards 4: waiting on dns"),
             OPERATORS: {"items": [operator("dns", "True", "False")]}}  # fmt: skip
    assert run([Moment(kube=state)], target="install-complete", timeout=1) == 6
    errors = run.lines("ERROR")
    assert errors[0] == "Cluster operator dns Available is False with R: it is"
    assert errors[-1].startswith("failed to initialize the cluster: Working towards 4: waiting on dns")


def test_missing_router_ca(run):
    state = {key: value for key, value in READY_CLUSTER.items() if key != INGRESS_CM}
    assert run([Moment(kube=state)], target="install-complete") == 6
    assert "default-ingress-cert is missing" in run.lines("ERROR")[-1]


def test_unstable_operator(run):
    state = {**READY_CLUSTER, OPERATORS: {"items": [operator("etcd"), operator("machine-config", "True")]}}
    assert run([Moment(kube=state)], target="install-complete", timeout=1.5) == 7
    assert run.lines("ERROR")[-1].endswith(": machine-config")


def test_no_state(tmp_path, caplog):
    assert execute("bootstrap-complete", tmp_path) == 1
    assert len(caplog.records) == 1
    assert "cannot read the state" in caplog.records[0].message


def test_interrupt(run, monkeypatch):
    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("installer.waitfor.bootstrap.time.sleep", interrupt)
    assert run([Moment(cluster("ready"), [])]) == 8
    assert "interrupted" in run.lines("ERROR")[-1]

"""A row of the table of faults as a swarm: the real service, agents over hosts of data, and the real `wait-for`."""

from __future__ import annotations

import base64
import json
import logging
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from http.server import ThreadingHTTPServer
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import yaml

from ci.tests.faults.hosts import SPEED, STARTED_AGAIN_SECONDS, FailingHost, Truth
from installer.agent.swarm.command import PULL_SECRET
from installer.agent.swarm.host import Site
from installer.assisted.endpoint import endpoint
from installer.assisted.errors import ClientError
from installer.credentials.certificates import authority, leaf
from installer.testing.service.rendezvous_kit import Running
from installer.testing.service.service_kit import INSTALLER
from installer.testing.waitfor_kit import DONE, server, serving
from installer.waitfor.command import execute
from installer.waitfor.settings import Settings
from lab import faults as real
from lab.topology import Topology
from scenarios.catalogue import simulated
from scenarios.catalogue.faulty import Outcome, Row

INFRA_ENV = "6d3f6d5a-0000-4000-8000-00000000fa17"
POLL_SECONDS = 0.03
LIMIT_SECONDS = 90.0
#: The API of the cluster, whose CA all rows share.
KUBE_CA = authority("kube-ca")
WITHIN = Settings()
#: wait-for's patience, so many times less.
QUICK = Settings(
    interval=0.05,
    interval_quiet=0.05,
    settle=WITHIN.settle / SPEED,
    # The service asks hosts to measure again each minute, a swarm's as well.
    settle_remeasured=WITHIN.settle_remeasured,
    ready_limit=WITHIN.ready_limit / SPEED,
    notice_every=0.5,
    missing_after=WITHIN.missing_after / SPEED,
    unreachable_after=WITHIN.unreachable_after / SPEED,
    # A busy machine starts a service anew no faster for a swarm.
    lost_after=WITHIN.lost_after,
    logs_wait=0.2,
    ssh_port=1,
)
VERSION = dict.fromkeys(
    ("major", "minor", "gitVersion", "gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform"), "1"
)


def _short(seconds: float) -> str:
    return f"{max(round(1000 * seconds / SPEED), 100)}ms"


class SwarmLane:
    """The service, its hosts and its cluster; what faults do to them."""

    def __init__(self, directory: Path, topology: Topology) -> None:
        self.directory, self.topology = directory, topology
        self.truth = Truth()
        binary = directory / "openshift-install"
        binary.write_text(INSTALLER)
        binary.chmod(0o755)
        self.service = Running(
            directory, INSTALLER_BINARY=str(binary), BOOTSTRAP_HOST_MAC=topology.nodes[0].mac, INFRA_ENV_ID=INFRA_ENV,
            MONITOR_INTERVAL="100ms", HOST_DISCONNECTION_TIMEOUT=_short(180), BOOTSTRAP_DISCONNECTION_GRACE=_short(120),
            HOST_PREPARE_TIMEOUT=_short(480), PREPARE_FOR_INSTALLATION_TIMEOUT=_short(600), DISK_CHECK_TIMEOUT="1s",
            HOST_INSTALLING_TIMEOUT=_short(1200), INSTALLER_IMAGE="r.example/agent-installer-orchestrator@sha256:1",
        )  # fmt: skip
        site = Site(IPv4Network(topology.machine_network))
        agents = endpoint(self.service.url, ca_file=self.service.ca)
        token = self.service.keys.token("agentAuth")
        self.hosts = {
            node.name: FailingHost(
                number, node.name, node.ip, node.mac, site=site, truth=self.truth, server=agents, token=token
            )
            for number, node in enumerate(topology.nodes)
        }
        self.installed = False
        self.over = threading.Event()
        self._lock = threading.Lock()

    # -- the service -----------------------------------------------------------------------------------------------

    def register(self) -> None:
        """The cluster and its infra-env, as the image brings them."""
        user, topology = self.service.client(), self.topology
        body: dict[str, Any] = {
            "name": topology.cluster_name,
            "base_dns_domain": topology.base_domain,
            "openshift_version": "4.18.0",
            "pull_secret": PULL_SECRET,
            "machine_networks": [{"cidr": topology.machine_network}],
            "control_plane_count": len(topology.masters),
            "platform": {"type": topology.platform},
        }
        if topology.api_vip:
            body |= {"api_vips": [{"ip": topology.api_vip}], "ingress_vips": [{"ip": topology.ingress_vip}]}
        cluster = user.register_cluster(body)
        user.register_infra_env({"name": topology.name, "pull_secret": PULL_SECRET, "cluster_id": cluster["id"]})
        for host in self.hosts.values():
            host.infra_env = INFRA_ENV

    def kill_service(self, *, forget: bool = False, after: float = STARTED_AGAIN_SECONDS) -> None:
        """SIGKILL, and its unit starts it again; with `forget` its host has lost its memory."""
        with self._lock:
            self.service.kill()
            if forget:
                shutil.rmtree(self.directory / "data", ignore_errors=True)
            time.sleep(after / SPEED)
            self.service.start()
            if forget:
                self.register()

    def freeze_service(self, frozen: bool) -> None:
        """SIGSTOP, SIGCONT."""
        assert self.service.process is not None
        self.service.process.send_signal(signal.SIGSTOP if frozen else signal.SIGCONT)

    def rest(self, path: str) -> Any:
        """As moments ask it. Raises OSError while nobody answers."""
        try:
            return self.service.client("watcherAuth").call("GET", f"/{path}")
        except ClientError as error:
            raise OSError(str(error)) from error

    def console_log(self, host: str) -> Path:
        """A swarm has no consoles."""
        raise AssertionError(f"{host} has no console")

    def drive(self) -> None:
        """Install as soon as all is ready, as the rendezvous host does; note when the cluster has its API."""
        while not self.over.wait(POLL_SECONDS):
            try:
                [cluster] = self.service.client().call("GET", "/clusters")
                if cluster["status"] == "ready" and cluster["total_host_count"] == len(self.hosts):
                    self.service.client().call("POST", f"/clusters/{cluster['id']}/actions/install")
                self.installed = self.installed or cluster["status"] in ("finalizing", "installed")
            except (ClientError, ValueError):
                continue

    def kube(self, path: str, _headers: Any) -> tuple[int, Any]:
        """The cluster's API: nobody until the hosts are done."""
        if not self.installed:
            return 0, None
        return (200, VERSION) if path == "/version" else (200, DONE[path]) if path in DONE else (404, {"code": 404})

    # -- wait-for --------------------------------------------------------------------------------------------------

    def state(self, api: ThreadingHTTPServer) -> Path:
        """The asset directory, as `create image` leaves it."""
        folder, nodes = self.directory / "assets", self.topology.nodes
        (folder / "auth").mkdir(parents=True)
        part = {
            "rendezvousIP": "127.0.0.1",
            "serviceCACert": self.service.ca.read_text(),
            "watcherToken": self.service.keys.token("watcherAuth"),
            "clusterName": self.topology.cluster_name,
            "baseDomain": self.topology.base_domain,
            "platform": self.topology.platform,
            "expectedHosts": {
                "names": [node.name for node in nodes],
                "macAddresses": [[node.mac] for node in nodes],
                "controlPlane": len(self.topology.masters),
                "arbiters": 0,
                "workers": len(self.topology.workers),
            },
        }
        (folder / ".openshift_install_state.json").write_text(json.dumps({"node0": part}))
        admin = leaf(KUBE_CA, "system:admin", client=True)
        parts = {"ca": KUBE_CA.certificate, "crt": admin.certificate, "key": admin.key}
        coded = {name: base64.b64encode(data).decode() for name, data in parts.items()}
        cluster = {"server": f"https://127.0.0.1:{api.server_port}", "certificate-authority-data": coded["ca"]}
        user = {"client-certificate-data": coded["crt"], "client-key-data": coded["key"]}
        kubeconfig = {
            "clusters": [{"name": "c", "cluster": cluster}],
            "contexts": [{"name": "admin", "context": {"cluster": "c", "user": "admin"}}],
            "current-context": "admin",
            "users": [{"name": "admin", "user": user}],
        }
        (folder / "auth/kubeconfig").write_text(yaml.safe_dump(kubeconfig))
        return folder

    def end(self) -> None:
        """Everything ends."""
        self.over.set()
        for host in self.hosts.values():
            host.end()
        with self._lock:
            if self.service.process is not None:
                self.service.kill()
            self.service.stop()


class _Lines(logging.Handler):
    """What one thread logs, as the command prints it."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []
        self._mine = threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it."""
        if record.thread == self._mine:
            text = record.getMessage().replace('"', '\\"')
            self.lines.append(f'level={record.levelname.lower()} msg="{text}"')


@contextmanager
def _said() -> Iterator[_Lines]:
    log, lines = logging.getLogger("installer.waitfor"), _Lines()
    log.addHandler(lines)
    log.setLevel(logging.DEBUG)
    try:
        yield lines
    finally:
        log.removeHandler(lines)


# -- faults ----------------------------------------------------------------------------------------------------------

Undo = Callable[[], None]


def _nothing() -> None:
    return


def _process(lane: SwarmLane, fault: Any) -> Undo:
    """Kill and Freeze."""
    host, frozen = lane.hosts[fault.node], isinstance(fault, real.Freeze)
    if fault.process == "assisted-service":
        assert fault.node == lane.topology.nodes[0].name, "the service runs on the rendezvous host"
        (lane.freeze_service(True) if frozen else lane.kill_service())
        return (lambda: lane.freeze_service(False)) if frozen else _nothing
    if fault.process == "agent":
        (host.freeze_agent(True) if frozen else host.kill_agent())
        return (lambda: host.freeze_agent(False)) if frozen else _nothing
    assert (fault.process, frozen) == ("orchestrator", False), f"no {fault.process} can be so in a swarm"
    host.kill_orchestrator()
    return _nothing


def _power(lane: SwarmLane, fault: Any) -> Undo:
    """PowerCut and Reset."""
    host, first = lane.hosts[fault.node], fault.node == lane.topology.nodes[0].name
    host.power_off()

    def on() -> None:
        if first:
            lane.kill_service(forget=True)
        host.power_on()

    if isinstance(fault, real.Reset):
        on()
        return _nothing
    return on


def _cables(lane: SwarmLane, nodes: tuple[str, ...]) -> Undo:
    def pull(cut: bool) -> None:
        for node in nodes:
            lane.hosts[node].cut = cut

    pull(True)
    return lambda: pull(False)


def _member(found: set[str], value: str) -> Undo:
    found.add(value)
    return lambda: found.discard(value)


def _images(lane: SwarmLane, part: str, why: str) -> Undo:
    lane.truth.images[part] = why
    return lambda: lane.truth.images.clear()


def _set(target: Any, name: str, value: Any) -> Undo:
    before = getattr(target, name)
    setattr(target, name, value)
    return lambda: setattr(target, name, before)


def _cloned(lane: SwarmLane, fault: simulated.Cloned) -> Undo:
    lane.hosts[fault.node].id = lane.hosts[fault.of].id
    return _nothing


def _unlike(lane: SwarmLane, fault: simulated.Unlike) -> Undo:
    lane.hosts[fault.node].unlike = {name: getattr(fault, name) for name in fault.__struct_fields__ if name != "node"}
    return _nothing


def _step(lane: SwarmLane, fault: simulated.StepFails) -> Undo:
    failing = lane.hosts[fault.node].steps_failing
    failing[fault.step] = (fault.how, fault.error)
    return lambda: failing.clear()


#: What each fault is among hosts of data; returns what undoes it.
BEGIN: Mapping[type, Callable[[SwarmLane, Any], Undo]] = {
    real.Kill: _process,
    real.Freeze: _process,
    real.PowerCut: _power,
    real.Reset: _power,
    real.LinkDown: lambda lane, fault: _cables(lane, (fault.node,)),
    real.Partition: lambda lane, fault: _cables(lane, fault.nodes),
    real.Loss: lambda lane, fault: _set(lane.truth, "loss", fault.percent),
    real.Duplicate: lambda lane, fault: _member(lane.truth.taken, fault.address),
    real.NameMissing: lambda lane, fault: _member(lane.truth.unknown, fault.name),
    real.RegistryRefuses: lambda lane, fault: _images(lane, "", "unauthorized: authentication required"),
    real.RegistryCertificate: lambda lane, fault: _images(lane, "", "x509: certificate has expired"),
    real.RegistryImage: lambda lane, fault: _images(lane, fault.image, "manifest unknown"),
    simulated.Cloned: _cloned,
    simulated.Replayed: lambda lane, fault: _set(lane.truth, "replayed", True),
    simulated.SlowDisk: lambda lane, fault: _set(lane.hosts[fault.node], "sync_ms", fault.ms),
    simulated.ClockOff: lambda lane, fault: _set(lane.hosts[fault.node], "clock_off", fault.seconds),
    simulated.Unlike: _unlike,
    simulated.StepFails: _step,
}


def _drive(lane: SwarmLane, row: Row, began: float, limit: float, *, broken: threading.Event) -> bool:
    """Begin and end the row's faults; whether their moment came. `broken` is set when they have begun."""
    at = began if row.begin.seconds is None else began - row.begin.seconds * (1 - 1 / SPEED)
    if not row.begin.wait(lane, at, limit, lane.over, poll=POLL_SECONDS):
        return False
    undo = [BEGIN[type(fault)](lane, fault) for fault in row.faults]
    broken.set()
    if row.end is not None:
        now = time.monotonic()
        at = now if row.end.seconds is None else now - row.end.seconds * (1 - 1 / SPEED)
        if row.end.wait(lane, at, limit, lane.over, poll=POLL_SECONDS):
            for one in reversed(undo):
                one()
    return True


def run(row: Row, directory: Path, topology: Topology) -> Outcome:
    """Install with the row's faults, up to where `wait-for` ends. Raises AssertionError where they did not begin."""
    limit = row.told.minutes * 60 / SPEED if row.told else LIMIT_SECONDS
    directory.mkdir(parents=True)
    lane = SwarmLane(directory, topology)
    pair = leaf(KUBE_CA, "server", addresses=("127.0.0.1",), server=True)
    (directory / "kube").mkdir()
    api = server(lane.kube, pair, directory / "kube", client_ca=KUBE_CA.certificate.decode())
    outcomes: list[bool | BaseException] = []
    broken = threading.Event()

    def disturb() -> None:
        try:
            outcomes.append(_drive(lane, row, began, LIMIT_SECONDS, broken=broken))
        except BaseException as error:
            outcomes.append(error)
            broken.set()

    try:
        lane.service.start()
        lane.register()
        with serving(api), _said() as lines:
            folder = lane.state(api)
            settings = replace(QUICK, rest_port=lane.service.port)
            began = time.monotonic()
            threads = [threading.Thread(target=disturb), threading.Thread(target=lane.drive)]
            # What is broken from the start is so before the first agent says anything.
            threads[0].start()
            if row.begin.seconds == 0:
                broken.wait(LIMIT_SECONDS)
            for host in lane.hosts.values():
                host.start()
            threads[1].start()
            code = execute("bootstrap-complete", folder, limit, settings)
            took = time.monotonic() - began
            lane.over.set()
            for thread in threads:
                thread.join(LIMIT_SECONDS)
    finally:
        lane.end()
    [happened] = outcomes or [False]
    if isinstance(happened, BaseException):
        raise happened
    assert happened or not row.faults, f"{row.name} did not begin: all was over after {took:.1f} s"
    return Outcome(code, "\n".join(lines.lines), took)

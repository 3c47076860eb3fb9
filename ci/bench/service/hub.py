"""Hundreds of simulated hosts in clusters of ten through one hub: a real API server, the operator with webhooks, the
service, all in a network of their own.

The hosts poll all the time, as real ones do. Nothing is installed: clusters are held. What is measured is the operator.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ci.bench.measure import TICK, table
from installer.testing.hub.swarm_kit import Clusters
from installer.testing.hub.world_kit import VERSION
from installer.testing.service.service_kit import standalone
from lab.host.namespaces import CLONE_NEWNET, setns
from lab.testing.hub import LoopbackHub, loopback_hub
from lab.waiting import wait_until

CLUSTER_SIZE = 10
# Deadline of each phase; until the operator serves metrics (s).
LONGEST, START_SECONDS = 900.0, 60.0
# The operator is at rest when it has written nothing for so long, and is then watched for so long (s).
QUIET_SECONDS, REST_SECONDS = 20.0, 60.0
_METRICS, _WEBHOOK = 18095, 18096
_NODE0 = (sys.executable, "-m", "installer")


def samples(text: str, name: str, label: str) -> dict[str, float]:
    """Return a metric's values by one of its labels, summed over the others."""
    found: dict[str, float] = {}
    for labels, value in re.findall(rf"^{name}\{{(.*)\}} (\S+)$", text, re.MULTILINE):
        [of] = re.findall(rf'{label}="([^"]*)"', labels)
        found[of] = found.get(of, 0.0) + float(value)
    return found


def quantile(buckets: Mapping[str, float], share: float) -> str:
    """Return the upper bound of the bucket that this share of all is in or below."""
    ordered = sorted(buckets.items(), key=lambda item: float(item[0].replace("+Inf", "inf")))
    return next(bound for bound, count in ordered if count >= share * ordered[-1][1])


class Operator:
    """The running process, as the machine and its metrics show it."""

    def __init__(self, pid: int) -> None:
        self._pid = pid

    def metrics(self) -> str:
        """Return its metrics."""
        with urllib.request.urlopen(f"http://127.0.0.1:{_METRICS}/metrics", timeout=30) as answer:
            return str(answer.read().decode())

    def requests(self) -> dict[str, float]:
        """Return its requests to the API server so far, by method."""
        return samples(self.metrics(), "node0_hub_api_requests_total", "method")

    def writes(self) -> float:
        """Return those that write; a lease is renewed six times a minute by PUT."""
        return sum(number for method, number in self.requests().items() if method != "GET")

    def cpu(self) -> float:
        """Return its processor time so far, in seconds."""
        fields = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def memory_mib(self) -> int:
        """Return the most memory that it has had resident."""
        status = Path(f"/proc/{self._pid}/status").read_text()
        return int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) // 1024


@contextmanager
def _running(*words: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("ab") as output:
        process = subprocess.Popen([*_NODE0, *words], stdout=output, stderr=output)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(60)


def _timed(what: str, done: Callable[[], bool], seen: Callable[[], object]) -> float:
    began = time.monotonic()
    wait_until(done, LONGEST, what, seen, poll=2)
    return time.monotonic() - began


def measure(hub: LoopbackHub, work: Path, hosts: int) -> list[tuple[str, str]]:
    """Return the figures, seen from within the hub's network."""
    subprocess.run([*_NODE0, "hub", "install", "--kubeconfig", str(hub.kubeconfig)], check=True, capture_output=True)
    count = -(-hosts // CLUSTER_SIZE)
    kubeconfig = ("--kubeconfig", str(hub.kubeconfig))
    own = ("--metrics", f"127.0.0.1:{_METRICS}", "--webhook", f"127.0.0.1:{_WEBHOOK}")
    (work / "place").mkdir()
    with standalone(work / "place", versions=(VERSION,)) as service:
        access = ("--service", f"{service.url}/", "--token", str(service.dir / "auth/user-token"))
        run = ("hub", "run", *kubeconfig, "--dir", str(work / "operator"), *access, "--ca", str(service.ca), *own)
        with _running(*run, log=work / "operator.log") as process:
            operator, clusters = Operator(process.pid), Clusters(hub.kubeconfig, count, CLUSTER_SIZE)
            wait_until(operator.metrics, START_SECONDS, "the operator's metrics", poll=1)
            began = time.monotonic()
            clusters.apply(service)
            imaged = _timed("images", lambda: len(clusters.infra_envs()) == count, clusters.infra_envs)
            ids = [word for identity in clusters.infra_envs() for word in ("--infra-env-id", identity)]
            agent = ["--url", f"{service.url}/", "--ca", str(service.ca)]
            agent += ["--token", str(service.dir / "auth/agent-token")]
            with _running("swarm", str(hosts), *agent, *ids, "--seconds", str(2 * LONGEST), log=work / "swarm.log"):
                bound = _timed("all Agents to be bound", lambda: clusters.bound() == hosts, clusters.bound)
                settled = _settled(operator)
                busy, used = time.monotonic() - began, operator.cpu()
                before = operator.requests()
                time.sleep(REST_SECONDS)
                rest = {method: number - before.get(method, 0) for method, number in operator.requests().items()}
                idle = operator.cpu() - used
                text, memory = operator.metrics(), operator.memory_mib()
    buckets = samples(text, "node0_hub_reconcile_seconds_bucket", "le")
    total = buckets["+Inf"]
    return [
        ("images of all clusters", f"{imaged:.0f} s after the last kubectl apply"),
        ("all Agents bound", f"{bound:.0f} s after the first host began to register, 20 a second"),
        ("settled", f"{settled:.0f} s later, which is {QUIET_SECONDS:.0f} s without a write"),
        ("operator's processor", f"{used / busy:.2f} cores in these {busy:.0f} s, {idle / REST_SECONDS:.3f} at rest"),
        ("operator's memory", f"{memory} MiB at most"),
        (
            "reconciles",
            f"{total:.0f}, {100 * buckets['0.25'] / total:.2f} % under 250 ms, p99 under {quantile(buckets, 0.99)} s",
        ),
        (
            f"requests at rest, in {REST_SECONDS:.0f} s",
            ", ".join(f"{method} {number:.0f}" for method, number in sorted(rest.items()) if number) or "none",
        ),
    ]


def _settled(operator: Operator) -> float:
    """Return the seconds until the operator has written nothing but its lease for a while."""
    began = last = time.monotonic()
    lease = QUIET_SECONDS / 10 + 1
    seen = operator.writes()
    while time.monotonic() - last < QUIET_SECONDS:
        time.sleep(1)
        now = operator.writes()
        if now - seen > lease:
            seen, last = now, time.monotonic()
        if time.monotonic() - began > LONGEST:
            raise SystemExit(f"the operator still writes after {LONGEST:.0f} s: {operator.requests()}")
    return time.monotonic() - began


def _join(init: int) -> None:
    """Have this thread, and all that it starts, live in the network of a process."""
    with open(f"/proc/{init}/ns/net") as file:
        setns(file.fileno(), CLONE_NEWNET)


def run(hosts: int) -> None:
    """Measure and print."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        hub = stack.enter_context(loopback_hub(folder / "hub"))
        # Of its namespaces that of the network alone: /proc there knows no process of this one.
        pool = stack.enter_context(ThreadPoolExecutor(1, initializer=_join, initargs=(hub.init,)))
        rows = pool.submit(measure, hub, folder, hosts).result()
    table(f"hub: {hosts} hosts in {-(-hosts // CLUSTER_SIZE)} clusters, which poll every 5 s", rows)

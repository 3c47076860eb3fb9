"""The number of hosts that one `node0 service` on one processor core holds, at the polling intervals that it tells its
agents.

The service runs on one core, the swarm (`node0-lab swarm`) on the others. More and more hosts come, a step at a time,
until the 99th percentile of a step is above the limit. Latencies are seen by the agents, over TLS.
"""

from __future__ import annotations

import json
import os
import re
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ci.bench.measure import table
from installer.common.ports import free_port

STEP = 500
LIMIT_MS = 250.0
HOLD_SECONDS = 20.0
LONGEST = 600.0
START_SECONDS = 60.0
LOGS_MIB = 300
# Words of the swarm by the shape's name: what one service is really asked to hold at a time.
SHAPES: Mapping[str, tuple[str, ...]] = {
    "clusters of 5": ("--cluster-size", "5"),
    "clusters of 50": ("--cluster-size", "50"),
    "in no cluster": ("--clusters", "0"),
}


def _program(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


def _ready(url: str, ca: Path) -> bool:
    try:
        context = ssl.create_default_context(cafile=str(ca))
        with urllib.request.urlopen(f"{url}ready", context=context, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


@contextmanager
def service(directory: Path, core: int) -> Iterator[tuple[int, str]]:
    """(process, URL) of a `node0 service` in a folder, on one core. Raises SystemExit when it does not start."""
    port = free_port()
    url = f"https://127.0.0.1:{port}/"
    with (directory / "service.log").open("ab") as log:
        process = subprocess.Popen(
            [_program("node0"), "service", "--dir", str(directory), "--listen", f"127.0.0.1:{port}"], stderr=log
        )
    try:
        os.sched_setaffinity(process.pid, {core})
        end = time.monotonic() + START_SECONDS
        while not _ready(url, directory / "tls/ca.crt"):
            if process.poll() is not None or time.monotonic() > end:
                log_tail = (directory / "service.log").read_text()[-1000:]
                raise SystemExit(f"the service did not answer within {START_SECONDS:.0f} s: {log_tail}")
            time.sleep(0.1)
        yield process.pid, url
    finally:
        process.terminate()
        process.wait(30)


def lag(url: str, ca: Path) -> dict[str, float]:
    """Milliseconds of the service's loop: turns on the clock and on its processor, 99th percentile and longest."""
    context = ssl.create_default_context(cafile=str(ca))
    with urllib.request.urlopen(f"{url}metrics", context=context, timeout=60) as answer:
        text = answer.read().decode()
    samples = re.findall(r'^event_loop_(lag|cpu)_seconds\{quantile="(0\.99|1)"\} (\S+)$', text, re.MULTILINE)
    return {f"{kind} {'longest' if part == '1' else 'p99'}": 1000 * float(value) for kind, part, value in samples}


def _curl(directory: Path, who: str, *words: str) -> subprocess.CompletedProcess[bytes]:
    names = {"agent": "X-Secret-Key", "user": "Authorization", "watcher": "Watcher-Authorization"}
    token = (directory / f"auth/{who}-token").read_text().strip()
    argv = ["curl", "-sS", "--fail", "--cacert", str(directory / "tls/ca.crt"), "-H", f"{names[who]}: {token}", *words]
    return subprocess.run(argv, capture_output=True, check=False, timeout=LONGEST)


def read_logs(directory: Path, url: str, stop: threading.Event, counts: list[str]) -> None:
    """Send a cluster's logs once there is one, and read all of them again and again; tells how often."""
    api = f"{url}api/assisted-install/v2/clusters"
    (directory / "logs.tar.gz").write_bytes(os.urandom(LOGS_MIB * 1024**2))
    sent = read = 0
    cluster = ""
    while not stop.wait(1.0):
        if not cluster:
            clusters = json.loads(_curl(directory, "user", api).stdout or b"[]")
            cluster = clusters[0]["id"] if clusters else ""
        elif not sent:
            form = ("-F", f"upfile=@{directory / 'logs.tar.gz'}", f"{api}/{cluster}/logs?logs_type=controller")
            sent = _curl(directory, "agent", *form).returncode == 0
        else:
            all_logs = ("-o", "/dev/null", f"{api}/{cluster}/logs?logs_type=all")
            read += _curl(directory, "watcher", *all_logs).returncode == 0
    counts.append(f"all.tar of {LOGS_MIB} MiB read {read} times meanwhile" if cluster else "no logs: in no cluster")


def starved(pid: int, stop: threading.Event, waits: list[float]) -> None:
    """Measure how long the thread of the service's loop was ready and had no core, in seconds: of each second, or
    longer if it had none for longer. Where that is much, others on the machine were measured, not the service."""

    def so_far() -> float:
        # Counted when it gets a core again (Documentation/scheduler/sched-stats.rst).
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9

    last = so_far()
    while not stop.wait(1.0):
        now = so_far()
        waits.append(now - last)
        last = now


def measure(hosts: int, words: tuple[str, ...]) -> dict[str, Any]:
    """Return the swarm's own report for one shape, against a service of its own whose logs are read meanwhile."""
    cores = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as work, service(Path(work), cores[-1]) as (pid, url):
        auth = Path(work) / "auth"
        argv = [_program("node0-lab"), "swarm", str(hosts), "--url", url, "--ca", str(Path(work) / "tls/ca.crt")]
        argv += ["--token", str(auth / "agent-token"), "--user-token", str(auth / "user-token"), *words]
        argv += ["--p99", str(LIMIT_MS), "--step", str(min(STEP, hosts)), "--hold", str(HOLD_SECONDS)]
        argv += ["--seconds", str(LONGEST), "--service-pid", str(pid), "--json"]
        swarm = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        os.sched_setaffinity(swarm.pid, set(cores[:-1]) or set(cores))
        stop, counts, waits = threading.Event(), list[str](), list[float]()
        observers = [
            threading.Thread(target=read_logs, args=(Path(work), url, stop, counts)),
            threading.Thread(target=starved, args=(pid, stop, waits)),
        ]
        for observer in observers:
            observer.start()
        try:
            answer, _ = swarm.communicate(timeout=LONGEST + 120)
        finally:
            stop.set()
            for observer in observers:
                observer.join()
        turns = lag(url, Path(work) / "tls/ca.crt")
    try:
        report: dict[str, Any] = {**json.loads(answer), "lag": turns, "logs": counts[0], "waits": waits}
    except ValueError:
        raise SystemExit(f"the swarm ended with {swarm.returncode} and no report") from None
    return report


def rows(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the figures of a swarm's report."""
    used = report["service"]
    lines = [
        (
            f"{step['hosts']} hosts",
            f"p99 {step['p99_ms']:7.1f} ms, while {step['arriving_seconds']:.0f} s of arriving "
            f"{step['p99_arriving_ms']:7.1f} ms; {step['requests_per_second']:.0f} requests/s, "
            f"swarm up to {step['swarm_late_ms']:.0f} ms late"
            + (f"; {step['failures']} failed" if step["failures"] else ""),
        )
        for step in report["steps"]
    ]
    held = f"{report['held']} hosts" + ("" if report["held"] < report["hosts"] else " (all there were)")
    lines += [
        (f"held, p99 under {report['limit_ms']:.0f} ms", held),
        ("service's processor", f"{used['cpu_percent']} % of a core, {used['cpu_ms_per_request']} ms a request"),
        ("swarm's own processor", f"{report['swarm_cpu_percent']} % of a core"),
        (
            "service's loop",
            f"a turn's lag: p99 {report['lag']['lag p99']:.1f} ms, max {report['lag']['lag longest']:.1f} ms; its own "
            f"processor p99 {report['lag']['cpu p99']:.1f} ms, max {report['lag']['cpu longest']:.1f} ms",
        ),
        (
            "service without a core",
            f"{sum(report['waits']):.1f} s in all, {max(report['waits'], default=0):.1f} s at once or in one second",
        ),
        ("logs", report["logs"]),
        ("service's memory", f"{used['memory_mib']} MiB, {used['memory_kib_per_host']} KiB a host"),
    ]
    return lines


def run(hosts: int) -> None:
    """Measure and print each shape."""
    for name, words in SHAPES.items():
        table(f"swarm, {name}: one service on one core, polls every 5 s", rows(measure(hosts, words)))

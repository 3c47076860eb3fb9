"""``python -m installer.agent.swarm``: many agents in one process, each the agent's own code over a host of data.

Every host has a thread, as an agent has; what differs from a real one is what its steps answer (swarm_host.py).
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import threading
import time
from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from installer.agent.containers import AgentContext
from installer.agent.errors import Refused
from installer.agent.hostsys import HostSystem
from installer.agent.loop import Agent
from installer.agent.steps import StepContext
from installer.agent.swarm_host import API, INGRESS, RESERVED, SimulatedHost, Site
from installer.rendezvous.auth import Scheme
from installer.rendezvous.errors import ClientError
from installer.rendezvous.restclient import RestClient

MOST_HOSTS, LONGEST = 5000, 24 * 3600.0
STACK = 256 * 1024
LAST_WORDS = 10.0
PULL_SECRET = '{"auths":{"swarm.invalid":{"auth":"c3dhcm06c3dhcm0="}}}'
PERCENTILES = (50, 90, 99, 100)


class Stopped(BaseException):
    """The time is up. No Exception: an agent survives those."""


@dataclass
class Tally:
    """What the agents' requests came to; seconds by kind of request."""

    seconds: dict[str, array[float]] = field(default_factory=dict)
    errors: Counter[str] = field(default_factory=Counter)
    registered: set[str] = field(default_factory=set)
    refused: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, kind: str, seconds: float, error: str = "") -> None:
        """Count one request."""
        with self.lock:
            self.seconds.setdefault(kind, array("d")).append(seconds)
            if error:
                self.errors[error] += 1

    @property
    def requests(self) -> int:
        """How many there were."""
        with self.lock:
            return sum(len(found) for found in self.seconds.values())


class TimedClient(RestClient):
    """A client whose calls are timed."""

    tally: Tally

    def call(self, method: str, path: str, *args: Any, **kwargs: Any) -> Any:
        """As RestClient's."""
        kind = f"{method} {path.rpartition('/')[2]}"
        begin = time.perf_counter()
        try:
            found = super().call(method, path, *args, **kwargs)
        except ClientError as error:
            self.tally.note(kind, time.perf_counter() - begin, f"{kind}: {error.status or error.detail}")
            raise
        self.tally.note(kind, time.perf_counter() - begin)
        return found


@dataclass(frozen=True)
class Plan:
    """What to do: hosts, the service, seconds in all and until the last host has started."""

    hosts: int
    url: str
    token: str
    ca: Path | None
    infra_env_id: str
    network: IPv4Network
    seconds: float
    ramp: float
    stage_seconds: float = 1.0


class Swarm:
    """Runs a plan; ``stop`` ends it early."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.tally = plan, Tally()
        self.stop = threading.Event()
        self._site = Site(plan.network, plan.stage_seconds, self._sleep)

    def _sleep(self, seconds: float) -> None:
        if self.stop.wait(seconds):
            raise Stopped

    def _one(self, number: int) -> None:
        plan = self.plan
        host = SimulatedHost(number, self._site)
        client = TimedClient(plan.url, plan.token, Scheme.AGENT, plan.ca, keep_alive=True)
        client.tally = self.tally
        identity = AgentContext(plan.url, plan.infra_env_id, host.id, plan.token, str(plan.ca or ""), False, "")
        # No real host is looked at: what its root would be does not exist.
        context = StepContext(HostSystem(Path("/nonexistent")), identity, client, table=host.steps())
        agent = Agent(context, 5.0, self._sleep)
        try:
            self._sleep(plan.ramp * number / plan.hosts)
            while True:
                agent.register()
                with self.tally.lock:
                    self.tally.registered.add(host.id)
                agent.serve()
        except Refused as error:
            with self.tally.lock:
                self.tally.refused[f"{error.status}: {error.detail}"] += 1
        except Stopped:
            pass
        finally:
            client.close()

    def run(self, done: Callable[[], bool] = lambda: False) -> float:
        """Run for the plan's time, or until ``done``; the seconds that it took."""
        threading.stack_size(STACK)
        # The hook would print a traceback for every step that the end of time interrupts.
        threading.excepthook = _quiet
        begin = time.monotonic()
        threads = [threading.Thread(target=self._one, args=(n,), daemon=True) for n in range(self.plan.hosts)]
        for thread in threads:
            thread.start()
        while time.monotonic() - begin < self.plan.seconds and not self.stop.wait(0.2) and not done():
            if not any(thread.is_alive() for thread in threads):
                break
        took = time.monotonic() - begin
        self.stop.set()
        # Requests under way have a time-out of their own; those that are stuck do not hold up the report.
        end = time.monotonic() + LAST_WORDS
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))
        return took


def _quiet(args: threading.ExceptHookArgs) -> None:
    if not issubclass(args.exc_type, Stopped):
        sys.__excepthook__(args.exc_type, args.exc_value or args.exc_type(), args.exc_traceback)


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """Milliseconds by percentile (nearest rank); ``p100`` is the longest."""
    ordered = sorted(seconds)
    ranks = {f"p{p}": ordered[max(0, -(-len(ordered) * p // 100) - 1)] for p in PERCENTILES}
    return {name: round(value * 1000, 1) for name, value in ranks.items()}


def cpu_of(pid: int) -> tuple[float, float]:
    """(seconds of processor time so far, resident MiB) of a process. Raises OSError."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK"), int(fields[21]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def report(swarm: Swarm, took: float, cpu: tuple[float, float] | None = None) -> dict[str, Any]:
    """What a run came to, ready for JSON; latencies in ms, ``cpu`` as (seconds used, MiB)."""
    tally = swarm.tally
    with tally.lock:
        found: dict[str, Any] = {
            "hosts": swarm.plan.hosts,
            "registered": len(tally.registered),
            "seconds": round(took, 1),
            "requests": sum(len(times) for times in tally.seconds.values()),
            "latency_ms": {
                kind: {"count": len(times), **percentiles(times)} for kind, times in sorted(tally.seconds.items())
            },
            "errors": dict(tally.errors),
            "refused": dict(tally.refused),
        }
    found["requests_per_second"] = round(found["requests"] / took, 1)
    if cpu is not None:
        found["service"] = {"cpu_percent": round(100 * cpu[0] / took, 1), "memory_mib": round(cpu[1], 1)}
        found["service"]["cpu_ms_per_request"] = round(1000 * cpu[0] / max(1, found["requests"]), 2)
    return found


def told(found: dict[str, Any]) -> str:
    """The same for a person."""
    lines = [
        f"{found['registered']} of {found['hosts']} hosts registered",
        f"{found['requests']} requests in {found['seconds']} s: {found['requests_per_second']} a second",
        f"{'latency in ms':<20} {'count':>7}" + "".join(f"{f'p{p}':>9}" for p in PERCENTILES),
    ]
    for kind, row in found["latency_ms"].items():
        lines.append(f"{kind:<20} {row['count']:>7}" + "".join(f"{row[f'p{p}']:>9}" for p in PERCENTILES))
    if "service" in found:
        used = found["service"]
        lines.append(
            f"service: {used['cpu_percent']} % of one processor, {used['cpu_ms_per_request']} ms a request, "
            f"{used['memory_mib']} MiB"
        )
    lines += [f"error: {text} ({count} times)" for text, count in sorted(found["errors"].items())]
    lines += [f"refused: {text} ({count} hosts)" for text, count in sorted(found["refused"].items())]
    return "\n".join(lines)


def make_infra_env(user: RestClient, network: IPv4Network) -> str:
    """A cluster for the swarm and its infra-env, whose id is returned. Raises ClientError."""
    versions = user.call("GET", "/openshift-versions") or {"4.18.0": {}}
    cluster = user.call(
        "POST",
        "/clusters",
        {
            "name": "swarm",
            "base_dns_domain": "swarm.invalid",
            "openshift_version": next(iter(versions)),
            "pull_secret": PULL_SECRET,
            "control_plane_count": 3,
            "platform": {"type": "baremetal"},
            "machine_networks": [{"cidr": str(network)}],
            "api_vips": [{"ip": str(network[API])}],
            "ingress_vips": [{"ip": str(network[INGRESS])}],
        },
    )
    body = {"name": "swarm", "pull_secret": PULL_SECRET, "cluster_id": cluster["id"]}
    return str(user.call("POST", "/infra-envs", body)["id"])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="swarm", description="Many simulated agents against a rendezvous service")
    add = parser.add_argument
    add("hosts", type=int, metavar="N", help=f"how many (at most {MOST_HOSTS})")
    add("--url", required=True, help="the service, https://ADDRESS:8090/")
    add("--token", required=True, type=Path, metavar="FILE", help="the agents' token")
    add("--ca", type=Path, metavar="FILE", help="CA of the service (default: the system's)")
    add("--infra-env-id", default="", metavar="ID", help="where hosts register (default: made, with a cluster)")
    add("--user-token", type=Path, metavar="FILE", help="the user's token, to make a cluster and its infra-env")
    add("--network", type=IPv4Network, default=IPv4Network("10.64.0.0/16"), help="of the hosts (default: %(default)s)")
    add("--seconds", type=float, default=60.0, metavar="S", help="how long (default: 60)")
    add("--ramp", type=float, metavar="S", help="until the last host has started (default: 20 hosts a second)")
    add("--service-pid", type=int, metavar="PID", help="the service's process on this machine: tell its load")
    add("--json", action="store_true", help="tell it as JSON")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0 when every host registered and no request failed, else 1; 2 for a wrong command line."""
    parser = _parser()
    args = parser.parse_args(argv)
    if not 0 < args.hosts <= MOST_HOSTS:
        parser.error(f"N must be 1 to {MOST_HOSTS}")
    if not 0 < args.seconds <= LONGEST:
        parser.error(f"--seconds must be at most {LONGEST:.0f}")
    if args.hosts + RESERVED >= args.network.num_addresses:
        parser.error(f"--network {args.network} has too few addresses for {args.hosts} hosts")
    if not args.infra_env_id and not args.user_token:
        parser.error("give --infra-env-id, or --user-token to have one made")
    logging.basicConfig(level=logging.ERROR, format="%(message)s", stream=sys.stderr)
    logging.getLogger("agent").setLevel(logging.CRITICAL)
    try:
        token = args.token.read_text().strip()
        infra_env_id = args.infra_env_id
        if not infra_env_id:
            user = RestClient(args.url, args.user_token.read_text().strip(), Scheme.USER, args.ca)
            infra_env_id = make_infra_env(user, args.network)
        ramp = args.hosts / 20 if args.ramp is None else args.ramp
        plan = Plan(args.hosts, args.url, token, args.ca, infra_env_id, args.network, args.seconds, ramp)
        before = cpu_of(args.service_pid) if args.service_pid else None
        swarm = Swarm(plan)
        took = swarm.run()
        cpu = None
        if before is not None:
            after = cpu_of(args.service_pid)
            cpu = (after[0] - before[0], after[1])
    except (OSError, ClientError) as error:
        print(f"swarm: {error}", file=sys.stderr)
        return 1
    found = report(swarm, took, cpu)
    print(json.dumps(found) if args.json else told(found))
    return 0 if found["registered"] == args.hosts and not found["errors"] and not found["refused"] else 1


if __name__ == "__main__":
    sys.exit(main())

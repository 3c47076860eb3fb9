"""Runs many agents in one process, a thread each, and counts the results of their requests."""

from __future__ import annotations

import sys
import threading
import time
from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from installer.agent.containers import AgentContext
from installer.agent.errors import Refused
from installer.agent.loop import Agent
from installer.agent.steps import StepContext
from installer.agent.swarm.host import SimulatedHost, Site
from installer.assisted.auth import Scheme
from installer.assisted.client import AssistedClient
from installer.assisted.endpoint import endpoint
from installer.assisted.errors import ClientError
from installer.hostsys.system import HostSystem

STACK = 256 * 1024
SHUTDOWN_SECONDS = 10.0
# How much later than planned the last host of a step may have registered.
ARRIVAL_GRACE = 60.0
# A thread that has its answer waits for at most this long (s) per other thread that is computing: part of what is
# measured, and Python's own 5 ms would be most of it.
SWITCH = 0.0005
# How often it looks whether a step is over (s).
LOOK = 0.2


class Stopped(BaseException):
    """The time is up. No Exception: an agent survives those."""


@dataclass(kw_only=True)
class Tally:
    """The agents' requests by kind (when each ended, monotonic; how long it took; both in s), and their errors."""

    samples: dict[str, tuple[array[float], array[float]]] = field(default_factory=dict)
    errors: Counter[str] = field(default_factory=Counter)
    registered: set[str] = field(default_factory=set)
    refused: Counter[str] = field(default_factory=Counter)
    # When requests began (monotonic) that have no answer yet, by thread.
    waiting: dict[int, float] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self) -> None:
        """Note the beginning of this thread's request."""
        with self.lock:
            self.waiting[threading.get_ident()] = time.monotonic()

    def note(self, kind: str, error: str = "") -> None:
        """Note the end of this thread's request."""
        end = time.monotonic()
        with self.lock:
            ends, took = self.samples.setdefault(kind, (array("d"), array("d")))
            ends.append(end)
            took.append(end - self.waiting.pop(threading.get_ident()))
            if error:
                self.errors[error] += 1

    def seconds(self, begin: float = 0.0, end: float = float("inf")) -> dict[str, list[float]]:
        """List the durations (s) of requests that ended from ``begin`` to ``end``, by kind."""
        with self.lock:
            return {
                kind: [each for at, each in zip(ends, took, strict=True) if begin <= at <= end]
                for kind, (ends, took) in self.samples.items()
            }

    def unanswered(self) -> list[float]:
        """List the waiting times of requests without an answer yet: what hangs is slow, though it never ends."""
        now = time.monotonic()
        with self.lock:
            return [now - begin for begin in self.waiting.values()]

    def counts(self) -> tuple[int, int, int]:
        """(hosts registered, hosts refused, requests failed) so far."""
        with self.lock:
            return len(self.registered), self.refused.total(), self.errors.total()


class TimedClient(AssistedClient):
    """A client whose calls are timed."""

    tally: Tally

    def call(self, method: str, path: str, *args: Any, **kwargs: Any) -> Any:
        """As AssistedClient's."""
        kind = f"{method} {path.rpartition('/')[2]}"
        self.tally.begin()
        try:
            answer = super().call(method, path, *args, **kwargs)
        except ClientError as error:
            self.tally.note(kind, f"{kind}: {error.status or error.reason}")
            raise
        self.tally.note(kind)
        return answer


@dataclass(frozen=True)
class Plan:
    """A run's tasks.

    Hosts are dealt to the infra-envs ``share`` by ``share``, ``rate`` hosts start in a second, all is over after
    ``seconds``. With ``step`` that many start at a time; each step is held for ``hold`` seconds after its last host
    has registered; the first whose 99th percentile is above ``limit`` (s), or in which a request fails, is the last.
    """

    hosts: int
    url: str
    token: str = field(repr=False)
    ca: Path | None
    _: KW_ONLY
    infra_envs: tuple[str, ...]
    network: IPv4Network
    seconds: float
    rate: float = 20.0
    share: int = 0
    step: int = 0
    hold: float = 15.0
    limit: float | None = None
    stage_seconds: float = 1.0

    def infra_env_of(self, number: int) -> str:
        """Return the infra-env in which host ``number`` registers."""
        return self.infra_envs[number // (self.share or self.hosts) % len(self.infra_envs)]


@dataclass(frozen=True, kw_only=True)
class Step:
    """Hosts started so far, and of this step alone: seconds by phase, latencies at p99 (s), requests, failures.

    ``late``: how much later than planned the swarm itself woke up, at most (s). Its agents' latencies include that.
    """

    hosts: int
    registered: int
    arriving: float
    holding: float
    requests: int
    p99_arriving: float
    p99: float
    failures: int
    late: float

    def good(self, limit: float | None) -> bool:
        """Did everybody register, and was every request answered in time?"""
        return self.registered == self.hosts and not self.failures and (limit is None or self.p99 <= limit)


def rank(values: Sequence[float], percent: int) -> float:
    """Return the percentile by nearest rank; 0 of nothing."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)] if ordered else 0.0


class Swarm:
    """Runs a plan; ``stop`` ends it early. Raises ClientError for what is no URL or no CA."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.tally = plan, Tally()
        self.steps: list[Step] = []
        # Seconds of processor that the swarm itself used: near one a second, it is the limit, not the service.
        self.cpu = 0.0
        self._late = 0.0
        self.stop = threading.Event()
        # One for all: a context of TLS for each would hold each CA as many times.
        self._endpoint = endpoint(plan.url, ca_file=plan.ca)
        self._site = Site(plan.network, plan.stage_seconds, self._sleep)
        self._threads: list[threading.Thread] = []

    def _sleep(self, seconds: float) -> None:
        if self.stop.wait(seconds):
            raise Stopped

    def _one(self, number: int, delay: float) -> None:
        plan = self.plan
        host = SimulatedHost(number, self._site)
        client = TimedClient(self._endpoint, Scheme.AGENT, plan.token)
        client.tally = self.tally
        infra_env = plan.infra_env_of(number)
        identity = AgentContext(
            url=plan.url,
            infra_env_id=infra_env,
            host_id=host.id,
            token=plan.token,
            ca_file=str(plan.ca or ""),
            insecure=False,
            agent_image="",
        )
        # No real host is looked at: what its root would be does not exist.
        context = StepContext(host=HostSystem(Path("/nonexistent")), agent=identity, client=client, table=host.steps())
        agent = Agent(context, 5.0, self._sleep)
        try:
            self._sleep(delay)
            while True:
                agent.register()
                with self.tally.lock:
                    self.tally.registered.add(host.id)
                agent.serve()
        except Refused as error:
            with self.tally.lock:
                self.tally.refused[f"{error.status}: {error.reason}"] += 1
        except Stopped:
            pass
        finally:
            client.close()

    def _wait(self, end: float, done: Callable[[], bool]) -> bool:
        """Wait until ``done``; False when the time is up, all is to end, or nobody is left."""
        while time.monotonic() < end:
            if done():
                return True
            begin = time.monotonic()
            is_over = self.stop.wait(LOOK)
            self._late = max(self._late, time.monotonic() - begin - LOOK)
            if is_over or not any(thread.is_alive() for thread in self._threads):
                return False
        return False

    def _step(self, count: int, end: float, done: Callable[[], bool]) -> Step:
        first, failed = len(self._threads), self.tally.counts()[2]
        began, self._late = time.monotonic(), 0.0
        new = [
            threading.Thread(target=self._one, args=(first + n, n / self.plan.rate), daemon=True) for n in range(count)
        ]
        for thread in new:
            thread.start()
        self._threads += new
        hosts = len(self._threads)
        patience = min(end, began + count / self.plan.rate + ARRIVAL_GRACE)
        self._wait(patience, lambda: done() or sum(self.tally.counts()[:2]) >= hosts)
        arrived = time.monotonic()
        self._wait(min(end, arrived + self.plan.hold) if self.plan.step else end, done)
        over = time.monotonic()
        before = [each for times in self.tally.seconds(began, arrived).values() for each in times]
        after = [each for times in self.tally.seconds(arrived, over).values() for each in times]
        after += self.tally.unanswered()
        registered, _, failures = self.tally.counts()
        return Step(
            hosts=hosts,
            registered=registered,
            arriving=arrived - began,
            holding=over - arrived,
            requests=len(before) + len(after),
            p99_arriving=rank(before, 99),
            p99=rank(after, 99),
            failures=failures - failed,
            late=self._late,
        )

    def run(self, done: Callable[[], bool] = lambda: False) -> float:
        """Run for the plan's time, until ``done`` or beyond the limit; the seconds that it took."""
        threading.stack_size(STACK)
        sys.setswitchinterval(SWITCH)
        # The hook would print a traceback for every step that the end of time interrupts.
        threading.excepthook = _quiet
        begin, cpu = time.monotonic(), time.process_time()
        end = begin + self.plan.seconds
        try:
            while (left := self.plan.hosts - len(self._threads)) > 0 and time.monotonic() < end and not done():
                self.steps.append(self._step(min(left, self.plan.step or left), end, done))
                if self.plan.step and not self.steps[-1].good(self.plan.limit):
                    break
        finally:
            took, self.cpu = time.monotonic() - begin, time.process_time() - cpu
            self.stop.set()
            # Requests under way have a time-out of their own; those that are stuck do not hold up the report.
            end = time.monotonic() + SHUTDOWN_SECONDS
            for thread in self._threads:
                thread.join(max(0.0, end - time.monotonic()))
        return took


def _quiet(args: threading.ExceptHookArgs) -> None:
    if not issubclass(args.exc_type, Stopped):
        sys.__excepthook__(args.exc_type, args.exc_value or args.exc_type(), args.exc_traceback)

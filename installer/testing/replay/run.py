"""A replay: one seed, one site, its trace and the first invariant that broke."""

from __future__ import annotations

import asyncio
import logging
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any
from unittest import mock

from aiohttp import web
from aiohttp.typedefs import Handler

from installer.agent.swarm.host import Site
from installer.assisted.auth import Scheme
from installer.assisted.client import AssistedClient
from installer.assisted.endpoint import BASE, endpoint
from installer.assisted.errors import ClientError, PrepareError, StoreError
from installer.hostsys.commands import Completed
from installer.orchestrator import controlplane
from installer.rendezvous.prepare.installer import Job
from installer.testing.replay.faults import Luck, Plan, draw
from installer.testing.replay.invariants import Invariants
from installer.testing.replay.machines import URL, Machine
from installer.testing.replay.seams import EPOCH, replaced
from installer.testing.replay.service import Process, made
from installer.testing.replay.site import Cluster
from installer.testing.replay.turns import VirtualLoop, Workers
from installer.testing.replay.user import User
from installer.testing.replay.wire import Network
from installer.testing.service.rendezvous_kit import Keys, make_keys

NETWORK = IPv4Network("192.0.2.0/24")
#: Somebody whose token ends in the middle (s after the start).
GUEST_END = 400.0
GUEST_PAUSE = 90.0


@cache
def _keys() -> Keys:
    return make_keys()


@dataclass
class Outcome:
    """A replay's trace, a line an event; the cluster's last status; what broke first, empty for nothing."""

    seed: int
    plan: Plan
    trace: list[str] = field(default_factory=list)
    status: str = ""
    #: How often each kind of fault has struck.
    struck: Counter[str] = field(default_factory=Counter)
    broken: str = ""


class _Exceptions(logging.Handler):
    """A traceback in the log of the service or an agent: a bug of its own."""

    def __init__(self, broken: Callable[[str], None]) -> None:
        super().__init__(logging.ERROR)
        self._broken = broken

    def emit(self, record: logging.LogRecord) -> None:
        # A caller that has gone in the middle of its request is none, nor is a disk that is full.
        if record.exc_info and not isinstance(record.exc_info[1], ConnectionError | StoreError | None):
            self._broken(f"{record.getMessage()}: {_place(record.exc_info[1])}")


def _place(error: BaseException) -> str:
    """Return an exception in words, with where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}: {error}{where}"


class Replay:
    """One site with its service, from the first request to the end."""

    def __init__(self, seed: int, plan: Plan, folder: Path) -> None:
        self.outcome = Outcome(seed, plan)
        self._plan = plan
        self._loop = VirtualLoop(f"replay {seed}")
        self._workers = Workers(self._loop)
        luck = self._luck = Luck(seed, plan, self._loop.time)
        self._struck = luck.struck = self.outcome.struck
        self._loop.slow_seconds = lambda: luck.seconds("generator", 30.0)
        self._network = Network(self._workers, luck, self._address)
        machines: list[Machine] = []
        self._invariants = Invariants(machines, self._wall, self._loop.time, self._break, self._note)
        self._cluster = Cluster(
            self._workers,
            luck,
            folder / "hosts",
            agent_token=_keys().token(Scheme.AGENT),
            note=self._note,
            watcher=self._invariants,
        )
        self._cluster.machines = machines
        machines += [Machine(number, Site(NETWORK), self._cluster) for number in range(plan.size)]
        self._process = Process(
            folder / "service",
            _keys(),
            generate=self._generate,
            observed=self._observed,
            changed=self._changed,
            **plan.settings,
        )
        self._wall_ahead = EPOCH
        self._changes = 0
        self._over = asyncio.Event()
        self._dying = False

    def run(self) -> Outcome:
        """Run it to its end."""
        seed = f"replay {self.outcome.seed}"
        with ExitStack() as stack:
            stack.enter_context(
                replaced(seed, self._workers, connect=self._network.connect, run=self._program, wall=self._wall)
            )
            stack.enter_context(mock.patch.object(controlplane, "KubeApi", self._cluster.api))
            handler = _Exceptions(self._break)
            for name in ("assisted-service", "agent", "assisted-installer", "aiohttp.server"):
                logger = logging.getLogger(name)
                stack.enter_context(mock.patch.object(logger, "handlers", [handler]))
                stack.enter_context(mock.patch.object(logger, "propagate", False))
            self._loop.set_exception_handler(self._failed)
            asyncio.set_event_loop(self._loop)
            try:
                self._loop.run_until_complete(self._all())
            finally:
                self._workers.stop_all()
                asyncio.set_event_loop(None)
                self._loop.close()
        return self.outcome

    async def _all(self) -> None:
        await self._start()
        self._workers.start("user", "user", self._use)
        self._workers.start("guest", "guest", self._visit)
        self._schedule()
        await self._over.wait()
        while (store := self._process.store) is None:
            await asyncio.sleep(1.0)
        self.outcome.status = ", ".join(cluster.status for cluster in store.clusters())
        if not self.outcome.broken:
            self._invariants.ended(store, self._plan.is_mild)
        self._dying = True
        self._workers.stop_all()
        self._network.cut()
        await self._process.kill()
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    # What the site sees

    def _wall(self) -> float:
        return self._wall_ahead + self._loop.moment

    def _note(self, who: str, text: str) -> None:
        self.outcome.trace.append(f"{self._loop.moment:12.3f} {who:<9} {text}")

    def _break(self, text: str) -> None:
        # What a killed process still does is nobody's concern.
        if not self.outcome.broken and not self._dying:
            self.outcome.broken = text
            self._note("BROKEN", text)
            self._loop.call_soon(self._over.set)

    def _failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is not None and traceback.extract_tb(error.__traceback__)[-1].filename.endswith("web_protocol.py"):
            return  # aiohttp's own, when a connection is lost at the moment at which its request is complete
        self._break(f"{context['message']}: {_place(error) if error is not None else ''}")

    def _machine(self) -> Machine:
        name = self._workers.me().host
        return next(machine for machine in self._cluster.machines if machine.name == name)

    def _address(self, host: str) -> str:
        names = {machine.name: machine.ip for machine in self._cluster.machines}
        return names.get(host, {"user": "192.0.2.250", "guest": "192.0.2.251"}.get(host, "192.0.2.252"))

    def _program(self, command: Any, timeout: float, *, env: Any = None, feed: Any = None, **options: Any) -> Completed:
        return self._machine().run(command, env or {}, feed)

    def _generate(self, job: Job) -> dict[str, bytes]:
        if self._luck.fails("generator"):
            raise PrepareError("openshift-install", "it failed")
        return made(job)

    async def _observed(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        store = self._process.store
        reason = self._invariants.before(store, request) if store is not None else ""
        answer = await handler(request)
        path = request.path.removeprefix(BASE)
        if not (path.endswith("/instructions") and answer.status in (200, 204)):
            self._note(request.remote or "", f"{request.method} {path}: {answer.status}")
        self._invariants.after(request, reason, answer)
        return answer

    def _changed(self) -> None:
        store = self._process.store
        if store is None:
            return
        self._invariants.look(store)
        self._changes += 1
        if self._changes == self._plan.restart_at_change:
            self._loop.call_soon(self._kill, 20.0)

    # Those who use it

    def _use(self) -> None:
        User(self._plan, self._cluster, self._invariants, _keys().token(Scheme.USER)).work()
        self._loop.call_soon(self._over.set)

    def _visit(self) -> None:
        """Ask again and again with a token that ends."""
        token = _keys().token(Scheme.USER, exp=int(EPOCH + GUEST_END))
        self._invariants.ends[token] = EPOCH + GUEST_END
        client = AssistedClient(endpoint(URL), Scheme.USER, token)
        while self._loop.time() < 4 * GUEST_END:
            self._workers.sleep(GUEST_PAUSE)
            try:
                client.clusters()
            except ClientError as error:
                if error.status is not None and error.status >= 500:
                    self._note("guest", f"got {error.status}")

    # Faults

    def _schedule(self) -> None:
        at, plan = self._loop.call_at, self._plan
        for item in plan.restarts:
            at(item.begin, self._kill, item.end - item.begin)
        for item in plan.full:
            at(item.begin, self._fill, True)
            at(item.end, self._fill, False)
        for item in plan.partitions:
            at(item.begin, self._note, item.host, f"is cut off until {item.end:.0f}")
        for item in plan.power:
            at(item.begin, self._cut_power, item.host)
        for item in plan.kills:
            at(item.begin, self._kill_process, item.host, item.end - item.begin)
        for moment, seconds in plan.clock:
            at(moment, self._set_clock, seconds)
        for moment, seconds in plan.suspend:
            at(moment, self._suspend, seconds)

    async def _start(self) -> None:
        try:
            accept = await self._process.start()
        except StoreError as error:
            self._note("service", f"does not start: {error}")
            self._loop.call_later(5.0, self._start_again)
            return
        assert self._process.store is not None
        self._invariants.restarted(self._process.store)
        self._process.fill(self._invariants.full)
        self._network.accept = accept
        self._note("service", "serves")

    def _start_again(self) -> None:
        self._starting = self._loop.create_task(self._start())

    def _kill(self, seconds: float) -> None:
        if self._process.store is None or self._dying:
            return
        self._strike("restart", "service", f"is killed, for {seconds:.0f} s")
        self._network.cut()
        self._dying = True
        self._starting = self._loop.create_task(self._revive(max(1.0, seconds)))

    async def _revive(self, seconds: float) -> None:
        await self._process.kill()
        self._dying = False
        await asyncio.sleep(seconds)
        if not self._over.is_set() or self._process.store is None:
            await self._start()

    def _fill(self, is_full: bool) -> None:
        self._strike("full disk", "service", f"its disk is {'full' if is_full else 'free again'}")
        self._invariants.full = is_full
        self._process.fill(is_full)

    def _strike(self, kind: str, who: str, text: str) -> None:
        self._struck[kind] += 1
        self._note(who, text)

    def _live(self, host: str) -> Machine | None:
        return next((machine for machine in self._cluster.machines if machine.name == host and machine.is_live), None)

    def _cut_power(self, host: str) -> None:
        machine = self._live(host)
        if machine is not None:
            self._strike("power", host, "loses its power")
            machine.boot_live()

    def _kill_process(self, host: str, seconds: float) -> None:
        machine = self._live(host)
        if machine is None:
            return
        self._struck["kill"] += 1
        if seconds:
            machine.kill_agent(seconds)
        else:
            machine.kill_orchestrator()

    def _set_clock(self, seconds: float) -> None:
        self._strike("clock", "service", f"its clock is set by {seconds:.0f} s")
        self._wall_ahead += seconds

    def _suspend(self, seconds: float) -> None:
        self._strike("suspend", "all", f"stands still for {seconds:.0f} s")
        self._loop.moment += seconds


def replay(seed: int, plan: Plan | None = None) -> Outcome:
    """Replay a seed in a folder of its own, by its own plan unless another is given."""
    with tempfile.TemporaryDirectory(prefix="replay-") as folder:
        return Replay(seed, plan or draw(seed), Path(folder)).run()

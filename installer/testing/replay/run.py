"""A replay: one seed, one site, its trace and the first invariant that broke."""

from __future__ import annotations

import asyncio
import random
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any
from unittest import mock

from aiohttp import web
from aiohttp.typedefs import Handler

from installer.agent.swarm.host import Site
from installer.hostsys.commands import Completed
from installer.orchestrator import controlplane
from installer.rendezvous.prepare.installer import Job
from installer.testing.replay.machines import Machine
from installer.testing.replay.seams import EPOCH, replaced
from installer.testing.replay.service import Process, made
from installer.testing.replay.site import Cluster
from installer.testing.replay.turns import VirtualLoop, Workers
from installer.testing.replay.user import TERMINAL, User
from installer.testing.replay.wire import Fate, Network
from installer.testing.service.rendezvous_kit import make_keys

KEYS = make_keys()
TOKENS = {name: KEYS.token(name) for name in ("agentAuth", "userAuth")}
NETWORK = IPv4Network("192.0.2.0/24")


class Calm:
    """Everything takes about as long as usual, and nothing fails."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(f"{seed} luck")

    def delay(self) -> float:
        """Return a few milliseconds."""
        return 0.001 + self._random.expovariate(1 / 0.003)

    def fate(self, host: str) -> Fate:
        """Let everything arrive."""
        return Fate.ARRIVES

    def seconds(self, what: str, usual: float) -> float:
        """Return a time around the usual one."""
        return usual * self._random.lognormvariate(0, 0.5)

    def fails(self, what: str) -> bool:
        """Let nothing fail."""
        return False


@dataclass
class Outcome:
    """A replay's trace, a line an event, and what broke first."""

    seed: int
    trace: list[str] = field(default_factory=list)
    broken: str = ""
    end: str = ""


class Replay:
    """One site with its service, from the first request to the end."""

    def __init__(self, seed: int, folder: Path) -> None:
        name = f"replay {seed}"
        self.outcome = Outcome(seed)
        self.loop = VirtualLoop(name)
        self.workers = Workers(self.loop)
        self.luck = Calm(name)
        self.network = Network(self.workers, self.luck, self._address)
        self.cluster = Cluster(
            self.workers,
            self.luck,
            folder / "hosts",
            agent_token=TOKENS["agentAuth"],
            note=self.note,
            written=self.written,
        )
        self.process = Process(folder / "service", KEYS, generate=self._generate, observed=self._observed)
        site = Site(NETWORK)
        self.size = 3
        self.machines = self.cluster.machines
        self.machines += [Machine(n, site, self.cluster) for n in range(self.size)]

    def wall(self) -> float:
        """Return the wall clock, s since the epoch."""
        return EPOCH + self.loop.moment

    def note(self, who: str, text: str) -> None:
        """Add a line to the trace."""
        self.outcome.trace.append(f"{self.loop.moment:12.3f} {who:<9} {text}")

    def written(self, machine: Machine, device: str, attempt: str, how: str) -> None:
        """Take note of a disk whose content is lost."""
        self.note(machine.name, f"{device} is {how} in attempt {attempt}")

    def _address(self, host: str) -> str:
        return next((machine.ip for machine in self.machines if machine.name == host), "192.0.2.250")

    def _generate(self, job: Job) -> dict[str, bytes]:
        return made(job)

    def _run(self, command: Any, timeout: float, *, env: Any = None, feed: Any = None, **options: Any) -> Completed:
        name = self.workers.me().host
        return next(machine for machine in self.machines if machine.name == name).run(command, env or {}, feed)

    async def _observed(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        answer = await handler(request)
        self.note(
            "service", f"{answer.status} {request.method} {request.path.removeprefix('/api/assisted-install/v2')}"
        )
        return answer

    def _user(self) -> None:
        user = User(self.workers, TOKENS["userAuth"], NETWORK, self.note)
        user.register(self.size)
        for machine in self.machines:
            machine.infra_env_id = user.infra_env_id
            self.loop.call_soon(machine.boot_live)
        user.wait_for("ready", seconds=1800)
        user.act("install")
        self.outcome.end = user.wait_for(*TERMINAL, seconds=12 * 3600)
        self.note("user", f"sees {self.outcome.end}")
        self.loop.call_soon(self.over.set)

    async def _all(self) -> None:
        self.over = asyncio.Event()
        self.network.accept = await self.process.start()
        self.workers.start("user", "user", self._user)
        await self.over.wait()
        self.workers.stop_all()
        self.network.cut()
        await self.process.end()

    def run(self) -> Outcome:
        """Run it to its end."""
        with ExitStack() as stack:
            stack.enter_context(
                replaced(
                    f"replay {self.outcome.seed}",
                    self.workers,
                    connect=self.network.connect,
                    run=self._run,
                    wall=self.wall,
                )
            )
            stack.enter_context(mock.patch.object(controlplane, "KubeApi", self.cluster.api))
            asyncio.set_event_loop(self.loop)
            try:
                self.loop.run_until_complete(self._all())
            finally:
                self.workers.stop_all()
                self.loop.close()
                asyncio.set_event_loop(None)
        return self.outcome


def replay(seed: int) -> Outcome:
    """Replay a seed in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="replay-") as folder:
        return Replay(seed, Path(folder)).run()

"""Faults drawn from a seed: what the network loses, which programs fail, when the service and the machines go down.

Each seed has some kinds of faults and not the others, as swarm testing has it: a site that suffers from everything
never gets far enough to suffer from the rest. After ``CALM`` seconds nothing goes wrong any more, so that all must come
to an end.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from installer.assisted.enums import Stage
from installer.testing.replay.wire import Fate

#: Until when there are faults, s.
CALM = 3600.0
#: Kinds that every installation must survive: they are over soon, and everybody asks again.
MILD = ("latency", "reset", "late", "restart", "clock", "suspend")
#: Kinds after which a cluster may also fail, if it says so.
HARSH = (
    "loss",
    "partition",
    "full disk",
    "power",
    "programs",
    "slow",
    "wrong boot",
    "generator",
    "cancel",
    "reset user",
    "hang",
    "kill",
)
#: Kinds with draws of their own, so that what other seeds draw did not change when they came.
_LATER = frozenset({"late", "kill"})
#: Programs that may fail, and how often they do while "programs" is on.
FAILING: Mapping[str, float] = {
    "coreos-installer": 0.03,
    "pull": 0.1,
    "api": 0.1,
    "wipefs": 0.1,
    "realpath": 0.05,
    "systemctl": 0.03,
    "systemd-run": 0.05,
    "bootkube": 0.15,
    "operators": 0.1,
    **{f"step {kind}": 0.02 for kind in ("inventory", "connectivity-check", "ntp-synchronizer", "domain-resolution")},
}
#: What fails of other kinds.
OTHERS: Mapping[str, tuple[str, float]] = {
    "boot from disk": ("wrong boot", 0.4),
    "boot hangs": ("hang", 0.25),
    "bootkube hangs": ("hang", 0.25),
    "generator": ("generator", 0.4),
}
TIMED = (Stage.STARTING, Stage.INSTALLING, Stage.WAITING_BOOTKUBE, Stage.REBOOTING, Stage.JOINED)
SLOW = ("write", "pull", "bootkube", "join", "ready", "generator", "step installation-disk-speed-check")


@dataclass(frozen=True, kw_only=True)
class Interval:
    """From when until when something is out of order, s; ``host``: where, empty for the service."""

    begin: float
    end: float
    host: str = ""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A seed's faults, and its site: hosts, the service's settings, what its user does."""

    size: int
    kinds: frozenset[str]
    settings: Mapping[str, str]
    #: When the service is killed, and when it is there again.
    restarts: tuple[Interval, ...] = ()
    #: After which change of the store it is killed as well: between what is kept and its answer.
    restart_at_change: int | None = None
    partitions: tuple[Interval, ...] = ()
    full: tuple[Interval, ...] = ()
    #: When a machine loses its power and boots the discovery image again.
    power: tuple[Interval, ...] = ()
    #: When a host's agent is killed, and when it is there again; without a time between, its orchestrator is killed.
    kills: tuple[Interval, ...] = ()
    #: When the service's wall clock is set, and by how much, s.
    clock: tuple[tuple[float, float], ...] = ()
    #: When all stands still, and for how long, s.
    suspend: tuple[tuple[float, float], ...] = ()
    #: After how many seconds of an installation its user cancels or resets it, by attempt; and what follows.
    impatience: tuple[tuple[float, str], ...] = ()
    #: Hosts whose disk the user chooses, and which: its number.
    chosen: Mapping[int, int] = field(default_factory=dict)
    attempts: int = 1

    @property
    def is_mild(self) -> bool:
        """Return whether the cluster must be installed in spite of it all."""
        return self.kinds <= frozenset(MILD)


def draw(seed: int) -> Plan:
    """Draw a seed's plan."""
    draws = random.Random(f"replay {seed} plan")
    mild_only = draws.random() < 0.4
    of_later = random.Random(f"replay {seed} later")
    kinds = frozenset(
        kind
        for kind in (MILD if mild_only else (*MILD, *HARSH))
        if (of_later if kind in _LATER else draws).random() < 0.35
    )
    size = draws.choice((1, 3, 3, 3, 5))
    names = [f"swarm-{number}" for number in range(size)]

    def times(kind: str, most: int, draws: random.Random = draws) -> list[float]:
        count = draws.randint(1, most) if kind in kinds else 0
        # Most of what matters happens in the first quarter of an hour.
        return sorted(min(draws.expovariate(1 / 500.0), CALM - 1) for _ in range(count))

    def intervals(kind: str, most: int, mean: float, *, hosts: bool = False) -> tuple[Interval, ...]:
        return tuple(
            Interval(
                begin=at, end=min(CALM, at + draws.expovariate(1 / mean)), host=draws.choice(names) if hosts else ""
            )
            for at in times(kind, most)
        )

    user = [kind for kind in ("cancel", "reset user") if kind in kinds]
    attempts = draws.randint(2, 3) if user else 1
    return Plan(
        size=size,
        kinds=kinds,
        settings={
            "NEXT_INSTRUCTION_SECONDS": draws.choice(("5", "10")),
            **({} if kinds <= frozenset(MILD) else _short_times(draws)),
        },
        # Shorter than the patience of everybody who asks: reports are repeated for two minutes.
        restarts=tuple(
            Interval(begin=item.begin, end=min(item.end, item.begin + 60)) for item in intervals("restart", 4, 15.0)
        ),
        restart_at_change=draws.randint(1, 150) if "restart" in kinds and draws.random() < 0.7 else None,
        partitions=intervals("partition", 3, 200.0, hosts=True),
        full=intervals("full disk", 2, 120.0),
        power=intervals("power", 2, 1.0, hosts=True),
        kills=tuple(
            Interval(
                begin=at,
                end=at + of_later.choice((0.0, 10.0, 120.0)),
                host=of_later.choice(names),
            )
            for at in times("kill", 4, of_later)
        ),
        clock=tuple((at, draws.choice((-3600.0, -300.0, 40.0, 400.0, 7200.0))) for at in times("clock", 3)),
        suspend=tuple((at, draws.choice((20.0, 90.0, 600.0))) for at in times("suspend", 2)),
        impatience=tuple(
            (draws.expovariate(1 / draws.choice((100.0, 900.0))), draws.choice(user))
            for _ in range(attempts - (draws.random() < 0.7))
        )
        if user
        else (),
        chosen={number: draws.randrange(3) for number in range(size) if draws.random() < 0.5},
        attempts=attempts,
    )


def _variable(stage: Stage) -> str:
    return f"HOST_STAGE_{stage.value.upper().replace(' ', '_')}_TIMEOUT"


def _short_times(draws: random.Random) -> dict[str, str]:
    """Shorten some of the service's time-outs, so that they are met."""
    return {
        **{_variable(stage): "900s" for stage in TIMED},
        _variable(Stage.WRITING): draws.choice(("60s", "900s", "900s", "900s")),
        _variable(Stage.WAITING_CONTROL_PLANE): draws.choice(("600s", "1800s")),
        "HOST_PREPARE_TIMEOUT": draws.choice(("60s", "480s", "480s", "480s")),
        "PREPARE_FOR_INSTALLATION_TIMEOUT": draws.choice(("120s", "600s", "600s")),
        "HOST_INSTALLING_TIMEOUT": draws.choice(("120s", "1200s")),
        "PENDING_USER_ACTION_TIMEOUT": "1800s",
    }


class Luck:
    """The luck of this moment, by the plan and the draws of its seed (machines.Luck, wire.Weather)."""

    def __init__(self, seed: int, plan: Plan, now: Callable[[], float]) -> None:
        self._plan, self._now = plan, now
        self._late = random.Random(f"replay {seed} late")
        self._network = random.Random(f"replay {seed} network")
        self._programs = random.Random(f"replay {seed} programs")
        #: How often each kind has struck.
        self.struck = Counter[str]()
        self._slow = {what: self._programs.choice((1.0, 1.0, 3.0, 8.0)) for what in SLOW}

    def _is_on(self, kind: str) -> bool:
        return kind in self._plan.kinds and self._now() < CALM

    def delay(self) -> float:
        """Return the time (s) that the next piece takes: milliseconds, or seconds for some where there is latency."""
        usual = 0.001 + self._network.expovariate(1 / 0.003)
        if self._is_on("latency") and self._network.random() < 0.1:
            self.struck["latency"] += 1
            return usual + self._network.expovariate(1 / 2.0)
        return usual

    def fate(self, host: str) -> Fate:
        """Return what becomes of the next piece."""
        cut_off = any(item.host == host and item.begin <= self._now() < item.end for item in self._plan.partitions)
        draw = self._network.random()
        if cut_off or (self._is_on("loss") and draw < 0.02):
            self.struck["partition" if cut_off else "loss"] += 1
            return Fate.LOST
        if self._is_on("reset") and draw < 0.03:
            self.struck["reset"] += 1
            return Fate.RESET
        if self._is_on("late") and self._late.random() < 0.02:
            self.struck["late"] += 1
            return Fate.LATE
        return Fate.ARRIVES

    def lateness(self) -> float:
        """Return how much later (s) a piece arrives than its sender gives up the connection."""
        return min(30.0, self._late.expovariate(1 / 8.0))

    def seconds(self, what: str, usual: float) -> float:
        """Return how long something takes, s."""
        factor = self._slow.get(what, 1.0) if self._is_on("slow") else 1.0
        self.struck["slow"] += factor > 1
        return usual * factor * self._programs.lognormvariate(0, 0.5)

    def fails(self, what: str) -> bool:
        """Return whether a program fails now."""
        kind, share = OTHERS.get(what, ("programs", FAILING.get(what, 0.0)))
        fails = self._programs.random() < share and self._is_on(kind)
        self.struck[kind] += fails
        return fails

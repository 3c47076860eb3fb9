"""Simulated years of nights: how many planted regressions the judge finds, and how many false alarms it raises."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import NamedTuple

from ci.informer.arithmetic.flakes import Outcome, counted
from ci.informer.arithmetic.proportions import Counts
from ci.informer.history.model import Run, Step
from ci.informer.judging.watching import Levels, Watch

#: The first night; the last one of the longest simulation is no later than today.
FIRST = date(2016, 1, 1)
WITHIN = 3
#: Regressions of this many points and fewer are planted too, but whether they are found is not counted.
SMALL = 10.0
MONTH = 365 / 12
#: Nights that the history has before the first one that is judged: as much as a baseline needs.
BEFORE = 40

#: What a red run of a history says of itself.
_REASONS = {Outcome.FAILED: "made up by node0-ci simulate: a flake, or a regression"}


@dataclass(frozen=True)
class World:
    """The parameters of a simulation; rates and shares from 0 to 1, points of a regression in percent."""

    nights: int = 365
    jobs: int = 20
    runs: int = 10
    flakes: float = 0.02
    _: KW_ONLY
    voids: float = 0.005
    planted: int = 10
    points: tuple[float, float] = (3.0, 30.0)
    lasts: tuple[int, int] = (7, 21)


@dataclass(frozen=True)
class Planted:
    """A regression: from `night` (0 is the first) on, `nights` long, so many points more of the runs fail."""

    job: int
    night: int
    nights: int
    points: float

    def active(self, night: int) -> bool:
        """Tell whether the job has it in a night."""
        return self.night <= night < self.night + self.nights


class SimulatedRun(NamedTuple):
    """One run's outcome and how long it took, in seconds."""

    outcome: Outcome
    seconds: float


class Runner:
    """Runs one job: the same seed gives the same runs. Invalid runs are repeated, as in real nights."""

    def __init__(self, seed: int, job: int, world: World, planted: Planted | None) -> None:
        self._random = random.Random(f"{seed} {job}")
        self._world, self._planted = world, planted
        self._usual = self._random.uniform(300, 2400)

    def runs(self, night: int, count: int) -> Iterator[SimulatedRun]:
        """So many valid runs, and the invalid ones among them."""
        world, generator = self._world, self._random
        rate = world.flakes
        if self._planted is not None and self._planted.active(night):
            rate += self._planted.points / 100
        while count > 0:
            seconds = self._usual * generator.lognormvariate(0, 0.08)
            if generator.random() < world.voids:
                yield SimulatedRun(Outcome.VOID, seconds)
                continue
            count -= 1
            yield SimulatedRun(Outcome.FAILED if generator.random() < rate else Outcome.PASSED, seconds)

    def counts(self, night: int, count: int) -> Counts:
        """As `runs`, counted."""
        return counted([run.outcome for run in self.runs(night, count)])


@dataclass(kw_only=True)
class Year:
    """The findings of so many nights. `asked` are runs that were wanted beyond the nightly ones; `big` and `small`
    count regressions of more than ten points and of fewer."""

    nights: int = 0
    found: int = 0
    big: int = 0
    small: int = 0
    small_found: int = 0
    false_alarms: int = 0
    asked: int = 0

    def __add__(self, other: Year) -> Year:
        return Year(**{name: value + getattr(other, name) for name, value in vars(self).items()})

    @property
    def monthly(self) -> float:
        """False alarms a month."""
        return self.false_alarms / (self.nights / MONTH)

    @property
    def line(self) -> str:
        """The last line of `node0-ci simulate`."""
        return f"found {self.found} of {self.big} within {WITHIN} nights, {self.monthly:.2f} false alarms a month"


def plant(seed: int, world: World) -> list[Planted]:
    """Regressions, each in a job of its own. Raises ValueError for more regressions than jobs."""
    if world.planted > world.jobs:
        raise ValueError(f"planted: {world.planted} is more than there are jobs ({world.jobs})")
    if world.nights < WITHIN:
        raise ValueError(f"nights: {world.nights} is less than {WITHIN}")
    generator = random.Random(f"{seed} planted")
    return [
        Planted(
            job,
            generator.randint(0, world.nights - WITHIN),
            generator.randint(*world.lasts),
            generator.uniform(*world.points),
        )
        for job in generator.sample(range(world.jobs), world.planted)
    ]


def _judge(seed: int, job: int, world: World, levels: Levels, *, planted: Planted | None) -> Year:
    """One job's year."""
    runner, watch, year = Runner(seed, job, world, planted), Watch(levels), Year()
    if planted is not None:
        year.big, year.small = int(planted.points > SMALL), int(planted.points <= SMALL)
    was_found = False
    for night in range(-BEFORE, world.nights):
        finding = watch.night(
            FIRST + timedelta(days=night),
            runner.counts(night, world.runs),
            lambda count, night=night: runner.counts(night, count),  # type: ignore[misc]
        )
        if night == -1:
            watch.asked = 0
        if finding is None or night < 0:
            continue
        if planted is None or not planted.active(night):
            year.false_alarms += not finding.again
        elif not was_found:
            was_found, in_time = True, night < planted.night + WITHIN
            year.found += in_time and bool(year.big)
            year.small_found += in_time and bool(year.small)
    year.asked = watch.asked
    return year


def simulate(seed: int, world: World = World(), levels: Levels = Levels()) -> Year:  # noqa: B008 - frozen
    """Return a year (or as many nights as the world has), judged."""
    by_job = {planted.job: planted for planted in plant(seed, world)}
    jobs = (_judge(seed, job, world, levels, planted=by_job.get(job)) for job in range(world.jobs))
    return sum(jobs, Year(nights=world.nights))


def nightly_runs(seed: int, world: World) -> Iterator[Run]:
    """Yield the nightly runs of a year, those before it included, as a history has them."""
    by_job = {planted.job: planted for planted in plant(seed, world)}
    for job in range(world.jobs):
        runner, name = Runner(seed, job, world, by_job.get(job)), f"job-{job:02}@simulated"
        for night in range(-BEFORE, world.nights):
            began = datetime.combine(FIRST + timedelta(days=night), time(22), UTC)
            payload = f"{began:%Y-%m-%d}"
            for place, run in enumerate(runner.runs(night, world.runs)):
                yield Run(
                    job=name,
                    payload=payload,
                    key=f"simulated {seed} {name} {payload} {place}",
                    began=f"{began + timedelta(minutes=place):%Y-%m-%dT%H:%M:%SZ}",
                    seconds=round(run.seconds, 1),
                    steps=[
                        Step("install", 0.0, round(run.seconds, 1), run.outcome, error=_REASONS.get(run.outcome, ""))
                    ],
                    void="simulated" if run.outcome is Outcome.VOID else "",
                    ended=run.outcome,
                )

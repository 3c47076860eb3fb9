"""The slowness of a payload's green runs against those before: its step, and whose step that is.

A busy host slows all steps, a slower component one. So each run's steps are divided by the run's own speed first: the
median of what its steps took of what they usually take. A step is slower when its P50 has risen by more than 15 % of
what the whole run takes, and a Mann-Whitney test, corrected for the number of steps, finds it longer. A few runs have
too few orders for that: of three and five none is rarer than one in 56. There each run must lie above all before by
more than is notable, which chance makes seldom as well.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from ci.informer.arithmetic.aggregate import LEVEL
from ci.informer.arithmetic.durations import ENOUGH, NOTABLE, slower
from ci.informer.history.stages import component_of
from ci.informer.history.store import History, Row

#: The least green runs on the payload, and the least steps of a run, by which its speed can be estimated.
LEAST_RUNS, LEAST_STEPS = 3, 4
#: How many earlier runs are compared with, the latest ones.
MOST_BEFORE = 50
#: The least seconds of a step that tells of its host's speed; phases that are the lab's, not the release's.
_TELLING = 1.0
_LABS = ("wait for the machine", "lab up", "insert media", "power on")


@dataclass(frozen=True, kw_only=True)
class Slower:
    """A step that takes longer: P50 in seconds at the usual speed of the host, and the whole run's before."""

    step: str
    component: str
    now: float
    before: float
    whole: float
    p: float

    def __str__(self) -> str:
        share = (self.now - self.before) / self.whole
        whose = f", component {self.component}" if self.component else ""
        return (
            f"{self.step} takes {self.now:.0f} s, before {self.before:.0f} s: {share:+.0%} of a run"
            f" (p {self.p:.2g}){whose}"
        )


def _leaves(history: History, row: Row) -> dict[str, float]:
    """Seconds of each step of a run that has no steps below it."""
    steps = history.steps(row.id)
    return {
        step.name: step.seconds
        for step, after in zip_longest(steps, steps[1:])
        if step is not None and (after is None or after.depth <= step.depth)
    }


def _at_usual_speed(runs: Sequence[Mapping[str, float]], usual: Mapping[str, float]) -> list[dict[str, float]]:
    scaled = []
    for run in runs:
        shares = [seconds / usual[name] for name, seconds in run.items() if usual.get(name, 0) >= _TELLING]
        if len(shares) >= LEAST_STEPS and (speed := statistics.median(shares)) > 0:
            scaled.append({name: run[name] / speed for name in usual if name in run})
    return scaled


def slowest(history: History, ours: Sequence[Row], others: Sequence[Row]) -> Slower | None:
    """Return the step that is slower by most in green runs on a payload than in those before, if there is one."""
    now = [row for row in ours if row.outcome.good]
    before = [row for row in others if row.outcome.good][-MOST_BEFORE:]
    if len(now) < LEAST_RUNS or len(before) < ENOUGH:
        return None
    return judged([_leaves(history, row) for row in now], [_leaves(history, row) for row in before])


def judged(now: Sequence[Mapping[str, float]], before: Sequence[Mapping[str, float]]) -> Slower | None:
    """As `slowest`, for runs that are given as the seconds of their steps."""
    before_names = dict.fromkeys(name for run in before for name in run if name not in _LABS)
    names = [name for name in before_names if all(name in run for run in now)]
    usual = {name: statistics.median([run[name] for run in before if name in run]) for name in names}
    sample, base = _at_usual_speed(now, usual), _at_usual_speed(before, usual)
    if len(sample) < LEAST_RUNS or len(base) < ENOUGH:
        return None
    whole = statistics.median([sum(run.values()) for run in base])
    worst: Slower | None = None
    for name in names:
        recent, earlier = [run[name] for run in sample], [run[name] for run in base if name in run]
        rise = statistics.median(recent) - statistics.median(earlier)
        if rise <= NOTABLE * whole or (p := slower(recent, earlier)) >= LEVEL:
            continue
        if p >= LEVEL / len(names) and min(recent) - max(earlier) <= NOTABLE * whole:
            continue
        if worst is None or rise > worst.now - worst.before:
            worst = Slower(
                step=name,
                component=component_of(name),
                now=statistics.median(recent),
                before=statistics.median(earlier),
                whole=whole,
                p=p,
            )
    return worst

"""Watching jobs night by night: when is a job worse than it was, and when is it as it was again.

The logarithm of a likelihood ratio rises with failures and falls with passes. It is taken since each night that may
have been the first bad one, and the greatest counts (E. S. Page, "Continuous inspection schemes", Biometrika 41, 1954):
so a failure more makes no alarm less likely, whenever it was. Both of its likelihoods are Beta-binomials: of the job's
own history, and of one with ten points more of failures, so a history that is short, or that could have come out
otherwise, promises little. At its warning level more runs are asked for the same night, until it falls back or reaches
the alarm level: Wald's sequential test, which needs the fewest runs (A. Wald, "Sequential tests of statistical
hypotheses", 1945). An alarm has to be a regression by component readiness as well. The same code judges real nights
(`node0-ci verdict`) and simulated ones (`node0-ci simulate`), where its levels were chosen.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import date
from typing import NamedTuple

from ci.informer.arithmetic.aggregate import baseline
from ci.informer.arithmetic.flakes import worse_likelier
from ci.informer.arithmetic.proportions import Counts
from ci.informer.arithmetic.regression import assess, reopens

#: A function that asks for a number of further runs of a job tonight; fewer may come, or none.
Again = Callable[[int], Counts]


@dataclass(frozen=True, kw_only=True)
class Levels:
    """The effects that are looked for, and the levels of the ratio; docs/informer.md has what others give in simulated
    years.

    `worse` is the rise of the failure rate that is looked for, `reach` the number of nights in which it may have begun,
    `batch` and `most` are runs that are asked for at once and in a night. `prior_runs` and `prior_failures` are what a
    job is taken to have had before its history, of which it must have `least` runs to be judged.
    """

    worse: float = 0.10
    reach: int = 20
    warning: float = 0.05
    alarm: float = 7.5
    closing: float = 3.0
    batch: int = 5
    most: int = 100
    least: int = 10
    prior_runs: int = 50
    prior_failures: int = 1

    @property
    def prior(self) -> Counts:
        """Counts that stand for a job of which nothing is known."""
        return Counts(self.prior_runs, self.prior_failures)

    def usual(self, base: Counts) -> Counts:
        """Return the counts that a job's nights are held against, by those of its baseline. Where it is known to fail
        thrice as often as the prior, that counts for one failure of two runs."""
        flaky = base.failures >= 3 and base.failure_rate > 3 * self.prior.failure_rate
        return base + (Counts(2, 1) if flaky else self.prior)


@dataclass(frozen=True)
class Finding:
    """A regression that a night showed. `since` is the first night that is likely to have had it; `again` says that one
    closed a few days ago is back."""

    since: date
    seen: date
    sample: Counts
    base: Counts
    _: KW_ONLY
    p: float
    again: bool = False


class _Stretch(NamedTuple):
    """The nights since one of them, and the ratio of their runs."""

    ratio: float
    since: date
    sample: Counts


@dataclass
class Watch:
    """One job. Nights are given in the order of their dates."""

    levels: Levels = Levels()
    finding: Finding | None = None  # the regression that is open
    closed: date | None = None  # when the last one was
    _: KW_ONLY
    asked: int = 0  # runs asked for so far
    wanted: int = 0  # runs asked for tonight that did not come
    _nights: list[tuple[date, Counts]] = field(default_factory=list)  # since the last finding came, or went
    #: Nights without an open regression, each with the runs of all up to it.
    _good: list[tuple[date, Counts]] = field(default_factory=list)

    def base(self, day: date) -> Counts:
        """Return the runs that a day's are held against: nights without an open regression, from thirty days that end
        ten days before."""
        first, last = (bisect_left(self._good, edge, key=lambda pair: pair[0]) for edge in baseline(day))
        before, until = self._total(first), self._total(last)
        return Counts(until.runs - before.runs, until.failures - before.failures)

    def _total(self, nights: int) -> Counts:
        """Return the runs of the first so many nights without an open regression."""
        return self._good[nights - 1][1] if nights else Counts()

    def night(self, day: date, counts: Counts, again: Again = lambda runs: Counts()) -> Finding | None:
        """Judge a night's runs; a finding where they show a regression that was not open."""
        self.wanted = 0
        base = self.base(day)
        usual = self.levels.usual(base)
        self._nights = [*self._nights, (day, counts)][-self.levels.reach :]
        if self.finding is not None:
            if _greatest(self._stretches(usual, -1)) >= self.levels.closing:
                self.finding, self.closed, self._nights = None, day, []
            return None
        stretches = self._settled(usual, again)
        if base.runs < self.levels.least:
            # Held against what an unknown job is taken to have had, whatever fails now and then would be a regression.
            self._passed()
            return None
        likely = [stretch for stretch in stretches if stretch.ratio >= self.levels.alarm]
        regressed = [
            (release, assessment.p) for release in likely if (assessment := assess(release.sample, usual)).status.bad
        ]
        if not regressed:
            self._passed()
            return None
        worst, p = max(regressed, key=lambda pair: pair[0].ratio)
        back = self.closed is not None and reopens(self.closed, day)
        self.finding, self._nights = Finding(worst.since, day, worst.sample, base, p=p, again=back), []
        return self.finding

    def _passed(self) -> None:
        """Take tonight's runs as history."""
        day, counts = self._nights[-1]
        self._good.append((day, self._total(len(self._good)) + counts))

    def _settled(self, usual: Counts, again: Again) -> list[_Stretch]:
        """Judge the nights, this one with the runs that were asked for."""
        left = self.levels.most
        while True:
            stretches = self._stretches(usual)
            if not self.levels.warning <= _greatest(stretches) < self.levels.alarm or left <= 0:
                return stretches
            more = again(min(self.levels.batch, left))
            if not more.runs:
                self.wanted = min(self.levels.batch, left)
                return stretches
            left -= more.runs
            self.asked += more.runs
            day, counts = self._nights[-1]
            self._nights[-1] = day, counts + more

    def _stretches(self, usual: Counts, sign: int = 1) -> list[_Stretch]:
        """Return the ratio since each night that may be the first; with the sign -1 for the opposite: the job is as it
        was.

        Without its passes before the first failure a stretch has a greater ratio, so it begins with a failure.
        """
        stretches: list[_Stretch] = []
        if sign > 0 and not any(counts.failures for _, counts in self._nights):
            return stretches
        likelier, runs, failures = worse_likelier(usual, self.levels.worse), 0, 0
        for day, counts in reversed(self._nights):
            runs, failures = runs + counts.runs, failures + counts.failures
            if sign < 0 or counts.failures:
                sample = Counts(runs, failures)
                stretches.append(_Stretch(sign * likelier(sample), day, sample))
        return stretches


def _greatest(stretches: Sequence[_Stretch]) -> float:
    return max((stretch.ratio for stretch in stretches), default=0.0)

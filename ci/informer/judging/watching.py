"""Watching jobs night by night: when is a job worse than it was, and when is it as it was again.

The logarithm of a likelihood ratio rises with failures, falls with passes, and begins again at zero (E. S. Page,
"Continuous inspection schemes", Biometrika 41, 1954). Both of its likelihoods are Beta-binomials: of the job's own
history, and of one with ten points more of failures, so a history that is short, or that could have come out otherwise,
promises little. At its warning level more runs are asked for the same night, until it falls back or reaches the alarm
level: Wald's sequential test, which needs the fewest runs (A. Wald, "Sequential tests of statistical hypotheses",
1945). An alarm has to be a regression by component readiness as well. The same code judges real nights (`node0-ci
verdict`) and simulated ones (`node0-ci simulate`), where its levels were chosen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from datetime import date

from ci.informer.arithmetic.aggregate import baseline
from ci.informer.arithmetic.flakes import worse_likelier
from ci.informer.arithmetic.proportions import Counts
from ci.informer.arithmetic.regression import assess, reopens

#: Asks for so many more runs of a job tonight; fewer may come, or none.
Again = Callable[[int], Counts]


@dataclass(frozen=True, kw_only=True)
class Levels:
    """What is looked for, and the levels of the sum; docs/informer.md has what others give in simulated years.

    `worse` is the rise of the failure rate that is looked for, `batch` and `most` are runs that are asked for at once
    and in a night. `prior_runs` and `prior_failures` are what a job is taken to have had before its history.
    """

    worse: float = 0.10
    warning: float = 0.2
    alarm: float = 7.5
    closing: float = 3.0
    batch: int = 5
    most: int = 60
    prior_runs: int = 50
    prior_failures: int = 1

    @property
    def prior(self) -> Counts:
        """What is known of a job before anything is."""
        return Counts(self.prior_runs, self.prior_failures)


@dataclass(frozen=True)
class Finding:
    """A regression that a night showed. `since` is the first night that is likely to have had it; `again` says that one
    closed a few days ago is back."""

    since: date
    seen: date
    sample: Counts
    base: Counts
    p: float
    again: bool = False


@dataclass
class Watch:
    """One job. Nights are told in the order of their dates."""

    levels: Levels = Levels()
    finding: Finding | None = None  # the regression that is open
    closed: date | None = None  # when the last one was
    _: KW_ONLY
    asked: int = 0  # runs asked for so far
    wanted: int = 0  # runs asked for tonight that did not come
    _score: float = 0.0
    _since: date | None = None
    _sample: Counts = field(default_factory=Counts)
    _good: list[tuple[date, Counts]] = field(default_factory=list)

    def base(self, day: date) -> Counts:
        """The runs that a day's are held against: nights without an open regression, from thirty days that end ten
        days before."""
        begin, end = baseline(day)
        return sum((counts for one, counts in self._good if begin <= one < end), Counts())

    def night(self, day: date, counts: Counts, again: Again = lambda runs: Counts()) -> Finding | None:
        """Judge a night's runs; a finding where they show a regression that was not open."""
        self.wanted = 0
        base = self.base(day)
        usual = base + self.levels.prior
        if self.finding is not None:
            # The same ratio, for the opposite: that the job is as it was.
            self._add(day, counts, usual, -1)
            if self._score >= self.levels.closing:
                self.finding, self.closed = None, day
                self._calm()
            return None
        counts = self._settled(day, counts, usual, again)
        if self._score < self.levels.alarm or not (regressed := assess(self._sample, usual)).status.bad:
            self._good.append((day, counts))
            return None
        back = self.closed is not None and reopens(self.closed, day)
        self.finding = Finding(self._since or day, day, self._sample, base, regressed.p, back)
        self._calm()
        return self.finding

    def _settled(self, day: date, counts: Counts, usual: Counts, again: Again) -> Counts:
        """All of the night's runs, with those that were asked for."""
        self._add(day, counts, usual)
        all_runs, left = counts, self.levels.most
        while self.levels.warning <= self._score < self.levels.alarm and left > 0:
            more = again(min(self.levels.batch, left))
            if not more.runs:
                self.wanted = min(self.levels.batch, left)
                break
            left -= more.runs
            self.asked += more.runs
            all_runs += more
            self._add(day, more, usual)
        return all_runs

    def _add(self, day: date, counts: Counts, usual: Counts, sign: int = 1) -> None:
        self._sample += counts
        self._score = sign * worse_likelier(self._sample, usual, self.levels.worse)
        if self._score <= 0:
            self._calm()
        else:
            self._since = self._since or day

    def _calm(self) -> None:
        self._score, self._since, self._sample = 0.0, None, Counts()

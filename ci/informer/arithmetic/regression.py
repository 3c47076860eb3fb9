"""Regressions of a test or job: the last week against a month before the last good release.

Sippy's component readiness (openshift/sippy, pkg/api/componentreadiness: assessComponentStatus and what it calls in
component_report.go; the adjustments of middleware/regressiontracker; the bases of middleware/releasefallback; the
hysteresis of regressiontracker.go). Its views want 95 % of new tests, its other figures are the defaults of
utils/queryparamparser.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, timedelta
from enum import Enum

from ci.informer.arithmetic.proportions import Counts, fisher_worse

SAMPLE_DAYS = 7
BASE_DAYS = 30
REOPEN_DAYS = 5
#: Releases before the last one whose runs may be the basis, and the share of the basis' runs that they must have.
EARLIER, ENOUGH = 1, 0.6


class Status(Enum):
    """Component readiness' words for a test, the worst first."""

    EXTREME = "extreme regression"
    REGRESSED = "regression"
    MISSING = "not run"
    UNCHANGED = "no significant change"
    NEW = "new, no history"
    IMPROVED = "significant improvement"

    @property
    def bad(self) -> bool:
        """Tell whether it is a regression."""
        return self in (Status.EXTREME, Status.REGRESSED)


@dataclass(frozen=True, kw_only=True)
class Rules:
    """Sippy's defaults: percentages and percentage points, as Sippy has them."""

    confidence: int = 95
    minimum_failures: int = 3
    pity: int = 5
    extreme: int = 15
    new_pass_rate: int = 95
    new_runs: int = 6


#: Rules for a regression that is open: it stays one until it is clearly better.
OPEN_RULES = Rules(confidence=90, pity=3)


@dataclass(frozen=True)
class Assessment:
    """A status, and the p that made it so (1.0 where none was needed)."""

    status: Status
    p: float = 1.0


def best_basis(base: Counts, earlier: Iterable[Counts]) -> Counts:
    """Return the counts of the release that passed most: the last one's, or those of one before (newest first) that
    has at least six tenths of the runs. A new test has no basis, whatever earlier releases had."""
    for counts in earlier:
        # Where a test ran is not where it runs now; then no older release is a basis either.
        if not base.runs or (counts.runs and counts.runs / base.runs < ENOUGH):
            break
        if counts.pass_rate > base.pass_rate:
            base = counts
    return base


def assess(sample: Counts, base: Counts, rules: Rules = Rules()) -> Assessment:
    """Compare a test's runs with those before. Flakes count as passes in both."""
    if not base.runs:
        return Assessment(_new(sample, rules))
    if not sample.runs:
        return Assessment(Status.MISSING)
    # Before all else: a sample with fewer failures has not improved either.
    if sample.failures < rules.minimum_failures:
        return Assessment(Status.UNCHANGED)
    # The differences of Sippy's floats: 100 % to 95 % is more than five points there, 95 % to 90 % is not.
    worse, limit = base.pass_rate - sample.pass_rate, 1 - rules.confidence / 100
    if worse <= 0:
        p = fisher_worse(base, sample)
        return Assessment(Status.IMPROVED if p < limit else Status.UNCHANGED, p)
    if worse <= rules.pity / 100:
        return Assessment(Status.UNCHANGED)
    p = fisher_worse(sample, base)
    if p >= limit:
        return Assessment(Status.UNCHANGED, p)
    return Assessment(Status.EXTREME if worse > rules.extreme / 100 else Status.REGRESSED, p)


def _new(sample: Counts, rules: Rules) -> Status:
    """Judge a test without history by its share of passes; twice the failures that are allowed are extreme."""
    share = sample.pass_rate * 100
    enough = sample.runs >= rules.new_runs and sample.failures >= rules.minimum_failures
    if not enough or share >= rules.new_pass_rate:
        return Status.NEW
    return Status.EXTREME if share < rules.new_pass_rate - (100 - rules.new_pass_rate) else Status.REGRESSED


def sample_window(day: date) -> tuple[date, date]:
    """First day of the sample that ends with `day`, and the first day after it."""
    end = day + timedelta(days=1)
    return end - timedelta(days=SAMPLE_DAYS), end


def base_window(last_good: date) -> tuple[date, date]:
    """First day of the history before the last good release, and the first day that is no part of it."""
    return last_good - timedelta(days=BASE_DAYS), last_good


def reopens(closed: date, day: date) -> bool:
    """Tell whether a regression that was closed is the same one when it is seen again on a day."""
    return closed <= day <= closed + timedelta(days=REOPEN_DAYS)

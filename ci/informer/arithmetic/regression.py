"""Regressions of a test or job: the last week against a month before the last good release.

Sippy's component readiness (openshift/sippy, pkg/api/component_report.go: assessComponentStatus and the Default...
constants; pkg/api/componentreadiness/regressiontracker.go: regressionHysteresisDays).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from enum import Enum

from ci.informer.arithmetic.proportions import Counts, fisher_worse

SAMPLE_DAYS = 7
BASE_DAYS = 30
REOPEN_DAYS = 5


class Status(Enum):
    """Component readiness' words for a test, the worst first."""

    EXTREME = "extreme regression"
    REGRESSED = "regression"
    NEW_REGRESSED = "new, and fails too often"
    UNCHANGED = "no significant change"
    IMPROVED = "significant improvement"
    NEW = "new, no history"
    MISSING = "not run"

    @property
    def bad(self) -> bool:
        """Tell whether it is a regression."""
        return self in (Status.EXTREME, Status.REGRESSED, Status.NEW_REGRESSED)


@dataclass(frozen=True, kw_only=True)
class Rules:
    """Sippy's defaults: shares from 0 to 1, points in hundredths of a share."""

    confidence: float = 0.95
    minimum_failures: int = 3
    pity: int = 5
    extreme: int = 15
    new_pass_rate: float = 0.95
    new_runs: int = 6


@dataclass(frozen=True)
class Assessment:
    """A status, and the p that made it so (1.0 where none was needed)."""

    status: Status
    p: float = 1.0


def points_worse(sample: Counts, base: Counts) -> float:
    """By how many percentage points fewer of the sample passed; negative when more did."""
    # One division of whole numbers: 95 % to 90 % is five points, and not 5.000000000000004.
    if not (sample.runs and base.runs):
        return 0.0
    return 100 * (base.passes * sample.runs - sample.passes * base.runs) / (base.runs * sample.runs)


def assess(sample: Counts, base: Counts, rules: Rules = Rules()) -> Assessment:
    """Compare a test's runs with those before. Flakes count as passes in both."""
    if not sample.runs:
        return Assessment(Status.MISSING)
    if not base.runs:
        failing = sample.runs >= rules.new_runs and sample.pass_rate < rules.new_pass_rate
        return Assessment(Status.NEW_REGRESSED if failing else Status.NEW)
    worse = points_worse(sample, base)
    if worse <= 0:
        p = fisher_worse(base, sample)
        return Assessment(Status.IMPROVED if p < 1 - rules.confidence else Status.UNCHANGED, p)
    if sample.failures < rules.minimum_failures or worse <= rules.pity:
        return Assessment(Status.UNCHANGED)
    p = fisher_worse(sample, base)
    if p >= 1 - rules.confidence:
        return Assessment(Status.UNCHANGED, p)
    return Assessment(Status.EXTREME if worse > rules.extreme else Status.REGRESSED, p)


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

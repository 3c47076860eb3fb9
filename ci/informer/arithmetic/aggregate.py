"""Aggregated jobs: of some runs of one job on one release, how many must pass for the history that the job has.

OpenShift's job-run-aggregator (openshift/ci-tools, pkg/jobrunaggregator/jobrunaggregatoranalyzer/pass_fail.go) has it
as a table for up to twelve runs; here is the rule that gives the rows of three runs and more, number for number.
"""

from __future__ import annotations

from datetime import date, timedelta
from functools import cache

from ci.informer.arithmetic.proportions import Counts, fisher_worse

LEVEL = 0.05
#: Runs that the history is taken to have: with it the rule gives the aggregator's table.
CORPUS = 250
#: One run fewer than the test asks for suffices, of three runs and more ("our current sample missed by one").
GRACE, GRACE_FROM = 1, 3
#: Days between the end of the baseline and the day that is judged (the aggregator's weeklyAverageFromTenDays).
BASELINE_ENDS = 10
#: Days of the baseline. The aggregator's week holds hundreds of runs; a nightly has ten a night or fewer.
BASELINE_DAYS = 30
#: What the aggregator assumes of a test that has no history, in percent.
WITHOUT_HISTORY = 70
#: Runs below which a history excuses nothing: one that failed would let nine of ten fail.
SHORT = 6


@cache
def required_passes(runs: int, percentage: int) -> int:
    """Compute how many of these runs must pass where `percentage` (0 to 100) of the history's did.

    The least number at which a one-sided Fisher test at 0.05 does not find the runs worse than the history, less one.
    """
    base = Counts(CORPUS, CORPUS - round(CORPUS * percentage / 100))
    strict = next((n for n in range(runs) if fisher_worse(Counts(runs, runs - n), base) >= LEVEL), runs)
    return max(0, strict - GRACE) if runs >= GRACE_FROM else strict


def percentage_of(base: Counts) -> int:
    """Return the history's share of passes in whole percent, rounded down; 70 where there is no history, and no less
    where it is short."""
    share = 100 * base.passes // base.runs if base.runs else WITHOUT_HISTORY
    return max(share, WITHOUT_HISTORY) if base.runs < SHORT else share


def accepted(sample: Counts, base: Counts) -> bool:
    """Tell whether enough runs of an aggregated job passed. At least one must, whatever the history."""
    return sample.passes >= max(1, required_passes(sample.runs, percentage_of(base)))


def baseline(day: date) -> tuple[date, date]:
    """First day of the history that a day's runs are held against, and the first day that is no part of it."""
    end = day - timedelta(days=BASELINE_ENDS)
    return end - timedelta(days=BASELINE_DAYS), end

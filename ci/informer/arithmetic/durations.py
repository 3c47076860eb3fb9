"""Durations: P50, P95 and the longest. Never a mean: one hung run would move it by more than a regression does."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

NOTABLE = 0.15
#: The least durations on each side from which a drift is computed.
ENOUGH = 5


@dataclass(frozen=True)
class Durations:
    """Seconds: half of the runs took at most `p50`, 95 of 100 at most `p95`."""

    count: int
    p50: float
    p95: float
    longest: float

    def __str__(self) -> str:
        return f"P50 {self.p50:.0f} s, P95 {self.p95:.0f} s, max {self.longest:.0f} s"


def summary(seconds: Sequence[float]) -> Durations | None:
    """Return the summary of these durations; None where there are none.

    Percentiles are interpolated as R's type 7 does (R. J. Hyndman, Y. Fan, "Sample quantiles in statistical packages",
    The American Statistician 50, 1996).
    """
    if not seconds:
        return None
    if len(seconds) == 1:
        return Durations(1, seconds[0], seconds[0], seconds[0])
    cuts = statistics.quantiles(seconds, n=100, method="inclusive")
    return Durations(len(seconds), cuts[49], cuts[94], max(seconds))


def slower(recent: Sequence[float], before: Sequence[float]) -> float:
    """Return the probability that durations which are no longer than those before look as long as these: the
    Mann-Whitney test, one-sided (H. B. Mann, D. R. Whitney, "On a test of whether one of two random variables is
    stochastically larger than the other", Annals of Mathematical Statistics 18, 1947). 1 where a side has none."""
    from scipy.stats import mannwhitneyu

    if not recent or not before:
        return 1.0
    return float(mannwhitneyu(recent, before, alternative="greater").pvalue)


def drift(recent: Sequence[float], before: Sequence[float]) -> float | None:
    """By which share of its former value the P50 has moved (0.2: a fifth longer); None for too few durations, or none
    that took time."""
    now, then = summary(recent), summary(before)
    if now is None or then is None or min(now.count, then.count) < ENOUGH or then.p50 <= 0:
        return None
    return now.p50 / then.p50 - 1


def notable(moved: float | None) -> bool:
    """Tell whether a drift is worth a line: over 15 %, in either direction."""
    return moved is not None and abs(moved) > NOTABLE

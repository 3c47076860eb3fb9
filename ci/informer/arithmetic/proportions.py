"""Shares of failures: how sure a share is, and whether one is worse than another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Counts:
    """So many runs, so many of them failed. Raises ValueError when more failed than ran."""

    runs: int = 0
    failures: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.failures <= self.runs:
            raise ValueError(f"{self.failures} failures of {self.runs} runs")

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.runs + other.runs, self.failures + other.failures)

    def __str__(self) -> str:
        return f"{self.failures} of {self.runs} failed"

    @property
    def passes(self) -> int:
        """Runs that did not fail."""
        return self.runs - self.failures

    @property
    def pass_rate(self) -> float:
        """Share that passed, 0 to 1; 0 where nothing ran, as Sippy has it (getSuccessRate)."""
        return self.passes / self.runs if self.runs else 0.0

    @property
    def failure_rate(self) -> float:
        """Share that failed, 0 to 1; 0 where nothing ran."""
        return self.failures / self.runs if self.runs else 0.0


def wilson(counts: Counts, confidence: float = 0.95) -> tuple[float, float]:
    """Return the interval that the true share of failures lies in, with this confidence; 0 and 1 where nothing ran.

    E. B. Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22 (1927); method 3 of
    R. G. Newcombe, "Two-sided confidence intervals for the single proportion", Statistics in Medicine 17 (1998).
    """
    from scipy.stats import binomtest

    if not counts.runs:
        return 0.0, 1.0
    interval = binomtest(counts.failures, counts.runs).proportion_ci(confidence, method="wilson")
    return float(interval.low), float(interval.high)


def fisher_worse(sample: Counts, base: Counts) -> float:
    """Compute how probable as many failures in the sample are, or more, were it no worse than the base: p of a
    one-sided test.

    R. A. Fisher, "The design of experiments" (1935), as Sippy and ci-tools' job-run-aggregator use it.
    """
    from scipy.stats import fisher_exact

    table = [[sample.failures, sample.passes], [base.failures, base.passes]]
    return float(fisher_exact(table, alternative="greater").pvalue)


def adjusted(ps: Sequence[float]) -> list[float]:
    """P-values corrected for being this many: of those that are then under 0.05, at most 5 in 100 are chance.

    Y. Benjamini, Y. Hochberg, "Controlling the false discovery rate", JRSS B 57 (1995).
    """
    from scipy.stats import false_discovery_control

    return [float(p) for p in false_discovery_control(ps, method="bh")] if ps else []

"""The kinds of jobs: one blocks a release, informs about it, or is too new for either; the figures of issue 21.

The kinds are those of OpenShift's release-controller (lab.md §2: blocking and `optional: true`, which informs).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ci.informer.arithmetic.proportions import Counts

# Shares of runs, from 0 to 1; seconds are of the 95th percentile of durations.
INFORMING_PASS_RATE = 0.70
#: Runs that a share of passes rests on; with fewer a job is new (as new tests are, regression.Rules.new_runs).
INFORMING_RUNS = 6
BLOCKING_DAYS = 14
BLOCKING_FLAKES = 0.01
BLOCKING_SECONDS = 3600.0


class Kind(Enum):
    """The effect of a job's failure on a release."""

    NEW = "new"
    INFORMING = "informing"
    BLOCKING = "blocking"


@dataclass(frozen=True)
class Record:
    """The facts about a job: days since its first run, its runs, how many of them were flakes, P95 in seconds."""

    days: int
    counts: Counts
    flakes: int
    p95: float


def promoted(record: Record) -> tuple[Kind, str]:
    """Return the kind that a job has earned, and what it lacks for the next higher one (empty when it blocks).

    Flakes are runs that failed or needed a second attempt, on releases that were good.
    """
    counts = record.counts
    if counts.runs < INFORMING_RUNS:
        return Kind.NEW, f"{counts.runs} runs of {INFORMING_RUNS}"
    if counts.pass_rate < INFORMING_PASS_RATE:
        return Kind.NEW, f"{counts.pass_rate:.0%} passed of {INFORMING_PASS_RATE:.0%}"
    if record.days < BLOCKING_DAYS:
        return Kind.INFORMING, f"{record.days} days of {BLOCKING_DAYS}"
    flaky = (counts.failures + record.flakes) / counts.runs
    if flaky >= BLOCKING_FLAKES:
        return Kind.INFORMING, f"{flaky:.1%} flakes, under {BLOCKING_FLAKES:.0%} wanted"
    if record.p95 > BLOCKING_SECONDS:
        return Kind.INFORMING, f"P95 of {record.p95 / 60:.0f} min, at most {BLOCKING_SECONDS / 60:.0f} wanted"
    return Kind.BLOCKING, ""

"""Flakes: what attempts amount to, and how often to try again."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import Enum

from ci.informer.arithmetic.proportions import Counts

#: How probable it may be that a healthy job fails in each of its attempts.
RISK = 0.01
#: Attempts beyond which another one is no use.
MOST = 5


class Outcome(Enum):
    """The outcome of a run."""

    PASSED = "passed"
    FLAKE = "flake"
    FAILED = "failed"
    VOID = "void"
    SKIPPED = "skipped"

    @property
    def good(self) -> bool:
        """Tell whether it counts as a pass."""
        return self in (Outcome.PASSED, Outcome.FLAKE)


def of_attempts(attempts: Sequence[Outcome]) -> Outcome:
    """Judge a run by its attempts, in their order: a pass after a failure is a flake; an invalid attempt says nothing.

    Sippy counts so (getSuccessRate takes successes and flakes together), and so does the aggregator, where a pass in
    one run outweighs that run's failures (getNumberOfPasses). But nothing that has passed is tried again, so that a
    failure after a pass is no attempt's: two tests are called the same, and one of them has failed.
    """
    judged = [attempt for attempt in attempts if attempt not in (Outcome.VOID, Outcome.SKIPPED)]
    if not judged:
        return Outcome.VOID if Outcome.VOID in attempts else Outcome.SKIPPED
    if not judged[-1].good:
        return Outcome.FAILED
    return Outcome.PASSED if set(judged) == {Outcome.PASSED} else Outcome.FLAKE


def counted(outcomes: Sequence[Outcome]) -> Counts:
    """Run and failures; an invalid or skipped run is neither."""
    judged = [outcome for outcome in outcomes if outcome not in (Outcome.VOID, Outcome.SKIPPED)]
    return Counts(len(judged), sum(1 for verdict in judged if verdict is Outcome.FAILED))


def all_fail(attempts: int, history: Counts) -> float:
    """Compute how probable it is that each of so many attempts fails by flakes alone.

    The Beta-binomial: the flake rate is Beta(failures + 1/2, passes + 1/2) after this history (H. Jeffreys, "An
    invariant form for the prior probability", 1946), so a short history promises little. J. G. Skellam, "A probability
    distribution derived from the binomial", JRSS B 10 (1948).
    """
    return math.prod((history.failures + 0.5 + failed) / (history.runs + 1 + failed) for failed in range(attempts))


def attempts_wanted(history: Counts, risk: float = RISK, most: int = MOST) -> int:
    """After how many failures in a row a failure is believed: at the least so many that flakes make them with a
    probability under `risk`, at most `most`."""
    return next((count for count in range(1, most) if all_fail(count, history) < risk), most)


def worse_likelier(history: Counts, rise: float) -> Callable[[Counts], float]:
    """Compute how much likelier a sample is after a history with so much more failures (a share) than after this one:
    the logarithm of the ratio, above 0 where a rise is likelier. It is a function of the sample, as one history is held
    against many.

    Both are Beta-binomials, as `all_fail` has it, of as many runs: what a short history leaves open is in both. Each
    failure raises the ratio, each pass lowers it, the less the more of the sample says the same. `history` must have
    failures and passes.
    """
    log_gamma, failures, passes = math.lgamma, history.failures, history.passes
    many = min(failures + rise * history.runs, history.runs - 0.5)
    few = history.runs - many
    unsampled = log_gamma(many) + log_gamma(few) - log_gamma(failures) - log_gamma(passes)

    def ratio(sample: Counts) -> float:
        failed, passed = sample.failures, sample.passes
        worse = log_gamma(many + failed) + log_gamma(few + passed)
        return worse - log_gamma(failures + failed) - log_gamma(passes + passed) - unsampled

    return ratio

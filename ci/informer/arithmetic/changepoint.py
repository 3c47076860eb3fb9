"""Change points: where the values of a series have changed.

A part of the series is cut where the ranks before and after differ most, if more than chance explains, and so are its
parts (A. J. Scott, M. Knott, "A cluster analysis method for grouping means in the analysis of variance", Biometrics 30,
1974). A part that has no such place is searched in windows, half as long and half again, so that a regression that was
mended soon is found as well (S. Kovacs et al., "Seeded binary segmentation", Biometrika 110, 2023). `ci/bench/run
judges` scores it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

LEVEL = 0.01
#: The least values before and after a change, and of a window.
LEAST, WINDOW = 5, 16


@dataclass(frozen=True)
class Change:
    """The first index with the new values, and how probable such a difference is where nothing changed."""

    index: int
    p: float


def ranks(values: Sequence[float]) -> list[float]:
    """Return the rank of each value, from 1; what is equal shares the middle of its ranks."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranked, begin = [0.0] * len(values), 0
    while begin < len(order):
        end = begin
        while end < len(order) and values[order[end]] == values[order[begin]]:
            end += 1
        for position in order[begin:end]:
            ranked[position] = (begin + end + 1) / 2
        begin = end
    return ranked


def repeated(values: Sequence[float]) -> float:
    """Return how much each value says again what the one before it said, 0 to 0.99: the autocorrelation at lag 1, less
    its standard error where nothing repeats.

    It is seen in how much more values two apart differ than neighbours, in the mean of the ranks' squares, so that a
    few changes of the level count for little: 0 of independent values, near 1 of a trend or a random walk. Of two
    values (passed, failed) only changes of the level make stretches.
    """
    ranked = ranks(values)
    near, far = ([(after - before) ** 2 for before, after in zip(ranked, ranked[lag:], strict=False)] for lag in (1, 2))
    if len(set(values)) <= 2 or not far:
        return 0.0
    ratio = sum(far) / len(far) / (sum(near) / len(near))
    return min(max(ratio - 1 - 1 / math.sqrt(len(values)), 0.0), 0.99)


def likeliest(values: Sequence[float], again: float = 0.0) -> Change | None:
    """Return the most probable change in a series, whatever its distribution; None for a series too short for one, and
    for equal values.

    The place is where Student's t of the ranks before and after is greatest (W. J. Conover, R. L. Iman, "Rank
    transformations as a bridge", The American Statistician 35, 1981). p is that of the t; of two values, which t would
    take for surer than they are, Fisher's; times the number of places (C. E. Bonferroni, 1936). Values that repeat what
    was said before (`again`, see `repeated`) count as fewer: (1 - r) / (1 + r) as many (G. V. Bayley, J. M. Hammersley,
    "The effective number of independent observations in an autocorrelated time series", JRSS Suppl. 8, 1946).
    """
    ranked, count = ranks(values), len(values)
    total, spread = 0.0, sum((rank - (count + 1) / 2) ** 2 for rank in ranked)
    best, where = 0.0, 0
    for index, rank in enumerate(ranked, 1):
        total += rank
        if LEAST <= index <= count - LEAST:
            share = (total - index * (count + 1) / 2) ** 2 * count / (index * (count - index)) / spread if spread else 0
            if share > best:
                best, where = share, index
    if not where:
        return None
    if len(set(values)) == 2:
        return Change(where, min(1.0, count * _fisher(values, where)))
    effective = count * (1 - again) / (1 + again) - 2
    return Change(where, min(1.0, count * _student(best, effective)) if effective > 1 else 1.0)


def _student(share: float, degrees: float) -> float:
    """Return the two-sided p of a t by the share of the variance that it explains."""
    from scipy.special import stdtr

    return 2 * float(stdtr(degrees, -math.sqrt(degrees * share / max(1 - share, 1e-12))))


def _fisher(values: Sequence[float], index: int) -> float:
    """Return the two-sided p of so many of the greater value before an index, and after."""
    from scipy.stats import fisher_exact

    high = max(values)
    table = [[sum(value == high for value in part), len(part)] for part in (values[:index], values[index:])]
    return float(fisher_exact([[highs, count - highs] for highs, count in table]).pvalue)


def _windows(count: int) -> Iterator[list[tuple[int, int]]]:
    """Yield the windows of a series: halves that overlap by half, then quarters, down to the least."""
    size = count // 2
    while size >= WINDOW:
        begins = [*range(0, count - size, max(1, size // 2)), count - size]
        yield [(begin, begin + size) for begin in begins]
        size //= 2


def _change(values: Sequence[float], level: float) -> Change | None:
    """Return the surest change of a part under a level: of all of it, else of windows, the longest first."""
    again = repeated(values)
    for windows in ([(0, len(values))], *_windows(len(values))):
        changes = [
            Change(begin + change.index, min(1.0, change.p * len(windows)))
            for begin, end in windows
            if (change := likeliest(values[begin:end], again))
        ]
        if changes and (surest := min(changes, key=lambda change: change.p)).p < level:
            return surest
    return None


def change_points(values: Sequence[float], level: float = LEVEL) -> list[Change]:
    """All change points, in order."""
    changes: list[Change] = []
    parts = [(0, len(values))]
    while parts:
        begin, end = parts.pop()
        if (change := _change(values[begin:end], level)) is not None:
            middle = begin + change.index
            changes.append(Change(middle, change.p))
            parts += [(begin, middle), (middle, end)]
    return sorted(changes, key=lambda change: change.index)

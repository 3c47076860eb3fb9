"""Change points: where the values of a series have changed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

LEVEL = 0.01
#: The least values of a part that is searched for a change.
SHORTEST = 8


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


def lasting(ranked: Sequence[float]) -> float:
    """Return how much each value says again what the one before said, 0 to 0.99: autocorrelation at lag 1.

    It is seen in how much more values two apart differ than neighbours, in the median of their squares, so that
    changes of the level count for nothing: 0 of independent values, near 1 of a random walk or a trend.
    """
    near, far = ([(b - a) ** 2 for a, b in zip(ranked, ranked[lag:], strict=False)] for lag in (1, 2))
    if len(far) < 1 or not (usual := median(near)):
        return 0.0
    return min(max(median(far) / usual - 1, 0.0), 0.99)


def pettitt(values: Sequence[float]) -> Change | None:
    """Return the most probable change in a series, whatever its distribution; None for fewer than two values or equal
    ones.

    A. N. Pettitt, "A non-parametric approach to the change-point problem", Applied Statistics 28 (1979): U_t is
    Mann and Whitney's of the first t values against the rest, p about 2 exp(-6 K^2 / (n^3 + n^2)) for K, the greatest.
    It holds for durations and for passes and failures (0 and 1) alike. The change is where U_t is greatest for its
    variance, as K favours the middle. Values that repeat what those before them said are fewer than they are: the
    variance of U_t is (1 + r) / (1 - r) times as great (G. V. Bayley, J. M. Hammersley, "The effective number of
    independent observations in an autocorrelated time series", JRSS Suppl. 8, 1946).
    """
    ranked, count = ranks(values), len(values)
    rank_sum, greatest, likeliest, where = 0.0, 0.0, 0.0, 0
    for index, rank in enumerate(ranked[:-1], 1):
        rank_sum += rank
        statistic = abs(2 * rank_sum - index * (count + 1))
        greatest = max(greatest, statistic)
        if (scaled := statistic**2 / (index * (count - index))) > likeliest:
            likeliest, where = scaled, index
    if not where:
        return None
    repeated = lasting(ranked)
    exponent = 6 * greatest**2 / (count**3 + count**2) * (1 - repeated) / (1 + repeated)
    return Change(where, min(1.0, 2 * math.exp(-exponent)))


def change_points(values: Sequence[float], level: float = LEVEL) -> list[Change]:
    """All change points, in order: the series is cut at the best one, and so are its parts.

    Binary segmentation: A. J. Scott, M. Knott, "A cluster analysis method for grouping means in the analysis of
    variance", Biometrics 30 (1974).
    """
    changes: list[Change] = []
    parts = [(0, len(values))]
    while parts:
        begin, end = parts.pop()
        change = pettitt(values[begin:end]) if end - begin >= SHORTEST else None
        if change is not None and change.p < level:
            middle = begin + change.index
            changes.append(Change(middle, change.p))
            parts += [(begin, middle), (middle, end)]
    return sorted(changes, key=lambda change: change.index)

"""Change points: where the values of a series have changed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

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


def pettitt(values: Sequence[float]) -> Change | None:
    """Return the most probable change in a series, whatever its distribution; None for fewer than two values or equal
    ones.

    A. N. Pettitt, "A non-parametric approach to the change-point problem", Applied Statistics 28 (1979): U_t is
    Mann and Whitney's of the first t values against the rest, p about 2 exp(-6 K^2 / (n^3 + n^2)). It holds for
    durations and for passes and failures (0 and 1) alike.
    """
    count, rank_sum, best, where = len(values), 0.0, 0.0, 0
    for index, rank in enumerate(ranks(values)[:-1], 1):
        rank_sum += rank
        statistic = abs(2 * rank_sum - index * (count + 1))
        if statistic > best:
            best, where = statistic, index
    if not where:
        return None
    return Change(where, min(1.0, 2 * math.exp(-6 * best**2 / (count**3 + count**2))))


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

"""Scores of change points against those that annotators saw.

G. J. J. van den Burg, C. K. I. Williams, "An evaluation of change point detection algorithms", arXiv 2003.06222 (2020).
The first index counts as a change point in every list, so that an empty list can be scored.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise

MARGIN = 5


def _matched(truth: Iterable[int], found: Iterable[int]) -> int:
    """Count the points of the truth near which one was found; each that was found counts for one."""
    left, count = set(found), 0
    for point in sorted(truth):
        near = [(abs(point - other), other) for other in left if abs(point - other) <= MARGIN]
        if near:
            left.remove(min(near)[1])
            count += 1
    return count


def f1(annotations: Sequence[Collection[int]], found: Collection[int]) -> float:
    """Compute F1, 0 to 1: precision against what any annotator saw, recall as the mean of all annotators'."""
    seen, points = [{0, *annotation} for annotation in annotations], {0, *found}
    precision = _matched(set[int]().union(*seen), points) / len(points)
    recall = sum(_matched(annotation, points) / len(annotation) for annotation in seen) / len(seen)
    return 2 * precision * recall / (precision + recall)


def _parts(points: Iterable[int], count: int) -> list[tuple[int, int]]:
    return list(pairwise([*sorted({0, *points}), count]))


def covering(annotations: Sequence[Collection[int]], found: Collection[int], count: int) -> float:
    """Compute how well the parts that were found cover each annotator's, 0 to 1, in a series of `count` values: the
    best Jaccard index of each part, by its length."""
    ours = _parts(found, count)
    total = 0.0
    for annotation in annotations:
        for begin, end in _parts(annotation, count):
            best = max(
                (min(end, last) - max(begin, first)) / (max(end, last) - min(begin, first)) for first, last in ours
            )
            total += (end - begin) * best
    return total / count / len(annotations)

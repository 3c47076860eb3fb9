"""The pause between two looks of a loop at the cluster."""

from __future__ import annotations

#: A look may take this part of the loop's time: on an emulated CPU looks are slow and so come seldom.
SHARE = 0.1


def pause(took: float, longest: float, shortest: float = 1.0) -> float:
    """Return the seconds to wait after a look of ``took`` seconds: nine times that, within the bounds."""
    return min(longest, max(shortest, took * (1 - SHARE) / SHARE))

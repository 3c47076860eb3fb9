"""Replays of whole installations."""

from __future__ import annotations

from installer.testing.replay.run import replay


def test_a_seed_has_one_trace() -> None:
    """A compact cluster is installed through the real service, the same way each time."""
    first, second = replay(1), replay(1)
    assert first.end == "installed", first.trace[-20:]
    assert first.trace == second.trace
    assert replay(2).trace != first.trace

"""Replays of whole installations: one trace a seed, bugs that are found, and seeds that once found one."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from installer.testing.replay.faults import Plan, draw
from installer.testing.replay.planted import BUGS, planted
from installer.testing.replay.run import replay

pytestmark = pytest.mark.slow

CALM = Plan(size=3, kinds=frozenset(), settings={}, chosen={0: 2})
SHOW = "from installer.testing.replay.run import replay; print('\\n'.join(replay(77).trace))"


def test_a_calm_site_is_installed() -> None:
    """A compact cluster is installed through the real service, on the disks that were chosen."""
    outcome = replay(1, CALM)
    assert (outcome.status, outcome.broken) == ("installed", "")
    written = [line for line in outcome.trace if "swarm-0" in line and " is written in " in line]
    assert len(written) == 1
    assert "0000:02" in written[0]


def test_a_seed_has_one_trace_in_every_process() -> None:
    """Neither the order of hashes nor anything that a process has of its own shows in a trace."""
    traces = {
        subprocess.run(
            [sys.executable, "-c", SHOW],
            env={"PYTHONHASHSEED": number, "PYTHONPATH": ":".join(sys.path)},
            check=True,
            capture_output=True,
            timeout=120,
        ).stdout
        for number in ("1", "2")
    }
    assert len(traces) == 1
    assert traces.pop().count(b"\n") > 100


def test_seeds_differ() -> None:
    """Other seeds have other faults."""
    assert len({repr(draw(seed)) for seed in range(50)}) == 50
    assert {kind for seed in range(50) for kind in draw(seed).kinds} >= {"full disk", "restart", "cancel", "clock"}


@pytest.mark.parametrize(
    "name",
    [
        "tokens: they are good for ever once they were",
        "state table: a cluster is finalizing with its first master",
        "store: the last host of a change is not written",
    ],
)
def test_a_planted_bug_breaks_an_invariant(name: str) -> None:
    """Plant a wrong line in the installer, and see it found in a site whose service is restarted."""
    plan = replace(draw(0), size=3, kinds=frozenset({"restart"}), settings={}, chosen={}, impatience=(), attempts=1)
    plan = replace(plan, restart_at_change=60, partitions=(), full=(), power=(), clock=(), suspend=(), restarts=())
    assert replay(1, plan).broken == ""
    with planted(name):
        assert replay(1, plan).broken


@pytest.mark.parametrize("seed", [2070, 5108])
def test_a_seed_that_found_a_fault(seed: int) -> None:
    """2070: a restarted service gave another state the same ETag; 5108: a report was given up after a standstill."""
    assert replay(seed).broken == ""


def test_planted_bugs_are_lines_of_the_installer() -> None:
    """Each can be planted, and is gone afterwards."""
    for name in BUGS:
        with planted(name):
            pass
    assert replay(1, CALM).broken == ""

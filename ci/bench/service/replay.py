"""Installations with faults under a virtual clock: one to read, how many an hour, and how many planted bugs are found.

A seed that broke an invariant is printed with the command that shows its trace.
"""

from __future__ import annotations

import time
from collections import Counter

from ci.bench.measure import table
from installer.testing.replay.faults import HARSH, MILD
from installer.testing.replay.planted import BUGS, planted
from installer.testing.replay.run import Outcome, replay

HOUR = 3600.0
#: Replays of one seed that must have the same trace.
SAME = 100


def run(seed: int | None, seeds: int, with_bugs: bool) -> None:
    """Print a seed's trace, or the figures of many. Raises SystemExit with 1 when an invariant broke."""
    if seed is not None:
        _show(replay(seed))
    elif with_bugs:
        _plant()
    else:
        _measure(seeds)


def _show(outcome: Outcome) -> None:
    print(f"seed {outcome.seed}: {outcome.plan}")
    print("\n".join(outcome.trace))
    print(f"the cluster is {outcome.status}; {outcome.broken or 'every invariant held'}")
    if outcome.broken:
        raise SystemExit(1)


def _measure(seeds: int) -> None:
    begin, ends, struck, broken = time.process_time(), Counter[str](), Counter[str](), 0
    for seed in range(seeds):
        outcome = replay(seed)
        ends[outcome.status] += 1
        struck.update(kind for kind, count in outcome.struck.items() if count)
        if outcome.broken:
            broken += 1
            print(f"seed {seed}: {outcome.broken}; its trace: ci/bench/run replay --replay {seed}", flush=True)
    seconds = time.process_time() - begin
    print(f"{seeds} installations, {seconds / seeds:.2f} s of one core each: {seeds / seconds * HOUR:.0f} in an hour")
    table("the cluster is at last", [(name, str(count)) for name, count in ends.most_common()])
    table("installations in which it struck", [(kind, str(struck[kind])) for kind in (*MILD, *HARSH)])
    traces = {"\n".join(replay(seeds).trace) for _ in range(SAME)}
    print(f"{SAME} replays of seed {seeds}: {len(traces)} different traces")
    if broken or len(traces) > 1:
        raise SystemExit(1)


def _found(name: str) -> str:
    """Return after how much a bug is found, and how; empty when it is not within its share of an hour."""
    begin, seed, spent = time.process_time(), 0, 0.0
    with planted(name):
        while spent < HOUR / len(BUGS):
            outcome = replay(seed)
            seed, spent = seed + 1, time.process_time() - begin
            if outcome.broken:
                return f"{seed} seeds, {spent:.0f} s: {outcome.broken[:100]}"
    return ""


def _plant() -> None:
    count = 0
    for name in BUGS:
        found = _found(name)
        count += bool(found)
        print(f"{name}: {found or 'not found'}", flush=True)
    print(f"{count} of {len(BUGS)} found")

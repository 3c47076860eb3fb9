"""`ci/bench/run oracle-service`: the agreement of both services over many scenarios."""

from __future__ import annotations

import tempfile
from pathlib import Path

from ci.bench.measure import table
from ci.bench.oracle.service import drive, verdicts
from ci.bench.oracle.service.changes import CHANGES
from ci.bench.oracle.service.programs import both
from ci.bench.oracle.service.worlds import worlds


def compared(count: int, seed: int) -> list[verdicts.Compared]:
    """Scenarios drawn from the seed, played to both."""
    with tempfile.TemporaryDirectory(prefix="oracle-service-") as name, both(Path(name)) as (theirs, ours):
        made = worlds(count, seed, CHANGES)
        left = drive.play_all(theirs, made)
        right = drive.play_all(ours, worlds(count, seed, CHANGES))
        return [verdicts.compare(one, other) for one, other in zip(left, right, strict=True)]


def run(count: int, seed: int) -> None:
    """Compare, and print. SystemExit without the real service."""
    found = compared(count, seed)
    table("node0's service against the real assisted-service", verdicts.agreement(found))
    for what, often, example in verdicts.grouped(found):
        print(f"{often:4} {what}   [{example}]")

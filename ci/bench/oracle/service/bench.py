"""`ci/bench/run oracle-service`: the agreement of both services over many scenarios and requests."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ci.bench.measure import table
from ci.bench.oracle.service import drive, installing, requests, verdicts
from ci.bench.oracle.service.changes import CHANGES
from ci.bench.oracle.service.programs import Api, both
from ci.bench.oracle.service.worlds import worlds


def scenarios(theirs: Api, ours: Api, count: int, seed: int) -> list[verdicts.Compared]:
    """Scenarios drawn from the seed, played to both."""
    left = drive.play_all(theirs, worlds(count, seed, CHANGES))
    right = drive.play_all(ours, worlds(count, seed, CHANGES))
    return [verdicts.compare(one, other) for one, other in zip(left, right, strict=True)]


def _print(title: str, differences: Sequence[tuple[str, int, str]]) -> None:
    print(f"\n{title}")
    for what, often, example in differences:
        print(f"{often:4} {what}   [{example}]")


def run(count: int, seed: int) -> None:
    """Compare, and print. SystemExit without the real service."""
    asked = requests.every()
    with tempfile.TemporaryDirectory(prefix="oracle-service-") as name, both(Path(name)) as (theirs, ours):
        results = scenarios(theirs, ours, count, seed)
        with ThreadPoolExecutor(2) as pool:
            codes = list(pool.map(lambda api: requests.asked(api, asked), (theirs, ours)))
        steps, unequal = installing.compared(theirs, ours)
    table("node0's service against the real assisted-service", verdicts.agreement(results))
    _print("differences (docs/rendezvous.md)", verdicts.grouped(results))
    same = sum(left == right for left, right in zip(*codes, strict=True))
    table("status codes", [("equal", f"{same:6} of {len(asked):6} ({100 * same / len(asked):5.1f} %)")])
    _print("differences (docs/rendezvous.md)", requests.differences(asked, *codes))
    table("from actions/install on: the steps that hosts get", steps)
    print("\ndifferences (docs/rendezvous.md)", *unequal, sep="\n")

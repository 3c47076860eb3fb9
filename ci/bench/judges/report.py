"""The scores of all judges, a line each."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from ci.bench.judges import broken, changepoints, nightly


def run(data: Path | None, otava: Path | None, seeds: Sequence[int]) -> None:
    """Print the scores. `data` is the folder of others' data; without it their scores are skipped, and said to be."""
    if data is None:
        print("others' data: skipped: neither --data DIR nor $NODE0_JUDGES_DATA names their folder")
    for line in chain(broken.lines(seeds), nightly.lines(data, seeds), changepoints.lines(data, otava, seeds)):
        print(line, flush=True)

"""The scores of all judges, a line each."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from ci.bench.judges import broken, changepoints, nightly
from ci.bench.judges.reading import DataError


def run(data: Path | None, otava: Path | None, seeds: Sequence[int]) -> None:
    """Print the scores. `data` is the folder of others' data; without it their scores are skipped, and said to be.
    Where some of it is broken, the others' scores come first, and then the command fails."""
    if data is None:
        print("others' data: skipped: neither --data DIR nor $NODE0_JUDGES_DATA names their folder")
    problems = []
    for lines in (
        broken.lines(seeds),
        nightly.lines(data, seeds),
        nightly.confirmed_lines(data),
        changepoints.turing_lines(data, otava),
        changepoints.otava_lines(otava, seeds),
    ):
        try:
            for line in lines:
                print(line, flush=True)
        except DataError as error:
            problems.append(f"judges: {error}")
    if problems:
        sys.exit("\n".join(problems))

"""The steps of `create image`, one after another, from the start of its process to its end.

Work beside them (the copy of the base ISO, the keys) counts as waiting in the step that needs its result.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ci.bench.measure import table

#: Functions of installer/create/image.py that are called one after another, and what each does in words.
STEPS: Mapping[str, str] = {
    "read": "read the inputs and the state",
    "check": "check them, networks included",
    "resolve_payload": "resolve release image and base ISO",
    "secrets_for": "keys, certificates, tokens",
    "render_iso": "render the Ignition config",
    "prepare_iso": "write the ISO beside its place",
    "write": "credentials and state; all put in place",
}
BEGIN, IMPORTS, END = "start Python, read the command line, begin copy and keys", "import the rest", "end the process"


@dataclass(frozen=True)
class Step:
    """The time of a step, and the processor time that the process used meanwhile; both in seconds."""

    seconds: float
    work: float = 0.0


# Imports in the same order as the command, which begins the copy and the keys before most of them.
_TRACED = """
import contextlib, json, sys, time
marks = {}
def mark(name):
    marks[name] = time.monotonic(), time.process_time()
from installer import cli
from installer.create import prefetch as first
steps, (begin, imports) = json.loads(sys.argv[2]), json.loads(sys.argv[3])
inner = first.prefetch
def noted(function, name):
    def traced(*values, **named):
        result = function(*values, **named)
        mark(name)
        return result
    return traced
@contextlib.contextmanager
def prefetch(directory):
    with inner(directory) as prefetched:
        mark(begin)
        from installer.create import image
        mark(imports)
        for name, text in steps.items():
            setattr(image, name, noted(getattr(image, name), text))
        yield prefetched
first.prefetch = prefetch
code = cli.main(["agent", "create", "image", "--dir", sys.argv[1], "--log-level", "error"])
print(json.dumps(marks))
sys.exit(code)
"""


def steps_of(directory: Path, env: Mapping[str, str]) -> dict[str, Step]:
    """Return the steps of one run in an asset directory. Raises SystemExit when it fails.

    What the process does between its last mark and its end is not in its processor time.
    """
    command = [sys.executable, "-c", _TRACED, str(directory), json.dumps(dict(STEPS)), json.dumps([BEGIN, IMPORTS])]
    at = time.monotonic()
    completed = subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True, check=False)
    end = time.monotonic()
    if completed.returncode:
        raise SystemExit(f"create image failed: {completed.stderr[-500:]}")
    taken: dict[str, Step] = {}
    worked = 0.0
    # The clock is one for all processes of a machine (clock_gettime(2), CLOCK_MONOTONIC).
    for name, (mark, work) in json.loads(completed.stdout.splitlines()[-1]).items():
        taken[name] = Step(mark - at, work - worked)
        at, worked = mark, work
    return {**taken, END: Step(end - at)}


def show(title: str, first: Mapping[str, Step], later: Sequence[Mapping[str, Step]]) -> None:
    """Print the steps of a first run, and the medians of later ones, which find the release in the cache."""

    def line(steps: Sequence[Step], others: Sequence[Sequence[Step]]) -> str:
        """Return the sums of steps: of the first run, and the medians of the others'."""
        columns = [[sum(step.seconds for step in run), sum(step.work for step in run)] for run in (steps, *others)]
        medians = [statistics.median(column) for column in zip(*columns[1:], strict=True)]
        return "  ".join(f"{seconds:7.3f} s ({work:5.3f})" for seconds, work in (columns[0], medians))

    rows = [(name, line([step], [[run[name]] for run in later])) for name, step in first.items()]
    table(title, [*rows, ("all", line([*first.values()], [[*run.values()] for run in later]))])

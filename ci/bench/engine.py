"""What `node0-ci run` adds to the runs themselves: one program run by it and in a plain loop, side by side."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from ci.bench.measure import seconds_of, table

ROOT = Path(__file__).parents[2]
#: Runs, and the seconds that each takes by itself; seconds of an installation of one node in a container.
RUNS, SECONDS, INSTALL = 10, 2.0, 108.0
#: Stand-in for a scenario: sleeps, then writes artefacts.
_PROGRAM = f"""
import json, pathlib, sys, time
root = pathlib.Path(next(w for w in sys.argv if w.startswith("--artifacts=")).partition("=")[2])
time.sleep({SECONDS})
folder = root / "sno"
folder.mkdir(parents=True)
phase = {{"name": "install", "began": "2026-01-01T00:00:00Z", "at": 0, "depth": 0, "seconds": 1.0, "outcome": "passed"}}
(folder / "phases.json").write_text(json.dumps([phase]))
(folder / "tests.json").write_text(json.dumps([{{"name": "t", "outcome": "passed", "seconds": 1}}]))
"""


def run() -> None:
    """Print the seconds that a run costs more, and what that is of an installation."""
    with tempfile.TemporaryDirectory(prefix="node0-bench-") as name:
        folder = Path(name)
        (folder / "program.py").write_text(_PROGRAM)
        program = [sys.executable, str(folder / "program.py")]
        number = iter(range(1000))

        def plain() -> None:
            for _ in range(RUNS):
                place = folder / "plain" / str(next(number))
                subprocess.run([*program, f"--artifacts={place}", "-k", "sno]"], cwd=ROOT, check=True)

        def engine() -> None:
            words = ["--history", str(folder / f"history-{next(number)}.db"), "run", "sno", "-n", str(RUNS)]
            words += ["--artifacts", str(folder / "engine"), "--program", *program]
            argv = [sys.executable, "-m", "ci.informer.cli", *words]
            subprocess.run(argv, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)

        taken = [(seconds_of(engine), seconds_of(plain)) for _ in range(3)]  # in turn
        with_engine, without = (statistics.median(column) for column in zip(*taken, strict=True))
    more = (with_engine - without) / RUNS
    rows = [
        (f"{RUNS} runs in a loop", f"{without:6.2f} s"),
        (f"{RUNS} runs by node0-ci run", f"{with_engine:6.2f} s"),
        ("more a run, its start included", f"{more:6.2f} s"),
        (f"of an installation of {INSTALL:.0f} s", f"{100 * more / INSTALL:6.2f} %"),
    ]
    table(f"node0-ci run against a plain loop, {RUNS} runs of {SECONDS:g} s", rows)

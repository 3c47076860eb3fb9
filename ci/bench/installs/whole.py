"""`ci/bench/run install`: a whole installation between two floors."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from ci.bench.installs import floor
from ci.bench.measure import table
from scenarios.catalogue.ids import topology_of

ROOT = Path(__file__).parents[3]


def install(scenario: str) -> float:
    """Install a scenario once, warm; seconds from the lab's start to install-complete, by its own phases."""
    shortest = f"scenarios/test_install.py::test_console_answers[{scenario}]"
    argv = [sys.executable, "-m", "pytest", "-q", "--weekly", shortest]
    begin = time.monotonic()
    completed = subprocess.run(argv, cwd=ROOT, check=False)
    if completed.returncode:
        raise SystemExit(f"the scenario failed with {completed.returncode}")
    phases = json.loads((ROOT / "artifacts" / scenario / "phases.json").read_text())
    rows = [(entry["name"], f"{entry['seconds']:6.1f} s") for entry in phases]
    total = sum(float(entry["seconds"]) for entry in phases if entry["depth"] == 0)
    rows += [("all phases", f"{total:6.1f} s"), ("with collecting evidence", f"{time.monotonic() - begin:6.1f} s")]
    table(f"scenario {scenario}, warm", rows)
    return total


def run(scenario: str) -> None:
    """Print the floor, the installation, and its ratio to the floor's mean."""
    topology = topology_of(scenario)
    before = floor.run(scenario, topology)
    taken = install(scenario)
    # A machine's speed may change by a quarter within the hour: the floor is what it was on either side.
    mean = (before + floor.run(scenario, topology)) / 2
    rows = [("floor, mean of before and after", f"{mean:6.1f} s")]
    table("install against its floor", [*rows, ("ratio, target under 2.0", f"{taken / mean:.2f}")])

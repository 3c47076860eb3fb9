"""Runs jobs: each is a scenario in pytest, bounded in time; its artefacts are loaded into the history."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from ci.informer import clusters, triage
from ci.informer.arithmetic.flakes import Outcome
from ci.informer.errors import InformerError
from ci.informer.history import artifacts
from ci.informer.history.model import Run
from ci.informer.history.store import History, Row
from ci.informer.review import watched
from lab.redact import redact

ROOT = Path(__file__).parents[2]
#: How often a run that is void is repeated, and runs that one suspicious night may have on top.
VOID_RETRIES, MOST_MORE = 2, 60
#: Seconds that pytest has to collect evidence once its time is up.
_GRACE = 120.0
_LATE = 124  # as timeout(1) has it
_NOTHING_COLLECTED = 5  # pytest's exit code
_TAIL = 2000
_ID = re.compile(r"[a-z0-9]+(?:[_-][a-z0-9]+)*")

Say = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """What to run: scenarios, on a payload, on a kind of machines, so often each; `limit` is in seconds."""

    payload: str
    scenarios: Sequence[str]
    machines: str = "vm"
    rounds: int = 1
    limit: float = 7200.0
    more: int = MOST_MORE
    program: Sequence[str] = (sys.executable, "-m", "pytest", "scenarios/")
    arguments: Sequence[str] = ()


def argv_of(plan: Plan, scenario: str, folder: Path) -> list[str]:
    """The command of one run. A bracket ends a scenario's id, so that its variants are not meant."""
    options = ["--weekly", "--machines", plan.machines, f"--artifacts={folder}", "-k", f"{scenario}]"]
    return [*plan.program, *options, *plan.arguments]


def _stop(process: subprocess.Popen[bytes]) -> None:
    for number, patience in ((signal.SIGINT, _GRACE), (signal.SIGKILL, None)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience)


def _finished(argv: Sequence[str], log: Path, limit: float) -> int:
    """Run a command to its end or to its limit; its exit code."""
    with log.open("wb") as out:
        # A group of its own: what it started ends with it.
        process = subprocess.Popen(argv, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            return process.wait(limit)
        except subprocess.TimeoutExpired:
            _stop(process)
            return _LATE
        except BaseException:
            _stop(process)
            raise


def _attempted(plan: Plan, scenario: str, folder: Path) -> Run:
    """One run of a scenario. What leaves no artefacts is void: it says nothing about the product."""
    folder.mkdir(parents=True)
    began, start = datetime.now(UTC), time.monotonic()
    code = _finished(argv_of(plan, scenario, folder), folder / "pytest.log", plan.limit)
    tail = redact((folder / "pytest.log").read_bytes()[-_TAIL:].decode(errors="replace"))
    if code == _NOTHING_COLLECTED:
        raise InformerError(f"scenario: {scenario!r}: no test has this id (python -m pytest scenarios/ --collect-only)")
    stamp, job = f"{began:%Y-%m-%dT%H:%M:%SZ}", f"{scenario}@{plan.machines}"
    try:
        [run] = artifacts.load(folder, plan.payload)
    except (InformerError, ValueError):
        why = (
            f"not done after {plan.limit:.0f} s" if code == _LATE else f"pytest ended with {code} and left no artefacts"
        )
        text = {"message": tail}
        return Run(job, plan.payload, f"run {folder}", stamp, time.monotonic() - start, (), (), text, str(folder), why)
    run = replace(run, job=job, key=f"run {folder}", began=stamp)
    if code == _LATE and run.outcome.good:
        return replace(run, ended=Outcome.FAILED, attempts=())
    if code and run.outcome.good:
        # Killed in mid-run, or it broke itself: what had passed until then is not all that was to be tested.
        return replace(run, void=f"pytest ended with {code} although no test failed", evidence={"message": tail})
    return run


def _recorded(history: History, plan: Plan, scenario: str, folder: Path, say: Say) -> Row:
    """A run and what repeats it when it is void; the last row."""
    for attempt in range(1 + VOID_RETRIES):
        stamp = f"{datetime.now(UTC):%Y%m%dT%H%M%S}"
        place = folder / scenario / stamp
        while place.exists():
            place = place.with_name(place.name + "x")
        [number] = history.add([_attempted(plan, scenario, place)])
        triage.label(history, triage.read())
        clusters.assign(history)
        row = history.run(number)
        whose = f" ({row.label}: {row.advice})" if row.label else ""
        say(f"{row.job}: {row.outcome.value} after {row.seconds:.0f} s{whose}")
        if row.outcome is not Outcome.VOID or attempt == VOID_RETRIES:
            break
        say(f"{row.job}: void, run again")
    return row


def run(history: History, plan: Plan, folder: Path, say: Say) -> list[Row]:
    """Run all jobs, round by round, then what a suspicion asks for. The rows of all that ran. Raises InformerError."""
    for scenario in plan.scenarios:
        if not _ID.fullmatch(scenario):
            raise InformerError(f"scenario: {scenario!r}: must be an id like sno-ipv4-static-uefi")
    rows = [_recorded(history, plan, scenario, folder, say) for _ in range(plan.rounds) for scenario in plan.scenarios]
    left = plan.more
    for scenario in plan.scenarios:
        while left > 0 and (wanted := watched(history.runs(job=f"{scenario}@{plan.machines}")).wanted):
            say(f"{scenario}: a failure more than usual, {min(wanted, left)} more runs")
            count = min(wanted, left)
            left -= count
            rows += [_recorded(history, plan, scenario, folder, say) for _ in range(count)]
    return rows

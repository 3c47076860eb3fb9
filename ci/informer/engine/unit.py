"""One run of a job: what is to be run, and running it: a scenario in pytest, bounded in time."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType

import msgspec

from ci.informer.arithmetic.flakes import Outcome
from ci.informer.errors import InformerError
from ci.informer.history import artifacts
from ci.informer.history.model import LIMIT, Run
from ci.informer.history.model import Attempt as RunAttempt
from installer.common.redact import redact
from lab.errors import EvidenceError
from lab.evidence.folder import has_evidence, mark_of, marks_of, put_mark
from lab.host.budget import Amount, need_of
from lab.subject.hardware import Hardware, sized
from lab.topology import MachineKind

ROOT = Path(__file__).parents[3]
#: Seconds that pytest has to collect evidence once its time is up.
_GRACE = 120.0
_LATE = 124  # as timeout(1) has it
_NOTHING_COLLECTED = 5  # pytest's exit code
_TAIL = 2000
#: What runs scenarios. Each host has its own Python, so it is named and not given as a path.
PYTEST = ("python", "-m", "pytest", "scenarios/")


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """One run that is to be made: a scenario on a payload, on a kind of machines, for at most `limit` seconds.

    `key` names it among all runs that there ever are. `folder` is where its evidence goes. `needs` is what its lab
    takes of the host, `digest` the release image that it installs; empty: the lab release.
    """

    key: str
    payload: str
    scenario: str
    machines: MachineKind = "vm"
    limit: float = LIMIT
    folder: str = ""
    needs: Amount = Amount()
    digest: str = ""
    kvm: bool = False
    program: tuple[str, ...] = PYTEST
    arguments: tuple[str, ...] = ()

    @property
    def job(self) -> str:
        """The job that it is a run of."""
        return f"{self.scenario}@{self.machines}"

    def argv(self, folder: Path) -> list[str]:
        """Its command. Brackets hold a scenario's id: neither its variants are meant, nor all whose ids end so."""
        options = ["--weekly", "--machines", self.machines, f"--artifacts={folder}", "-k", f"[{self.scenario}]"]
        program = (sys.executable, *self.program[1:]) if self.program == PYTEST else self.program
        return [*program, *options, *self.arguments]


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a unit: its run; or `error`, one line, where it could not be run at all."""

    run: Run | None = None
    error: str = ""
    host: str = ""


def needs_of(scenario: str, machines: MachineKind, limits: Mapping[str, Hardware] = MappingProxyType({})) -> Amount:
    """Compute what a scenario's lab takes of its host; nothing for what is no scenario: pytest tells that. A row of
    faults is called by its scenario and a word more. `limits` are what a release demands of machines, if it is not the
    lab's."""
    from scenarios.catalogue.ids import topology_of  # half of the start of any command

    for scenario_id in (scenario, scenario.rpartition("-")[0]):
        with contextlib.suppress(ValueError):
            topology = (
                topology_of(scenario_id, lambda shape: sized(shape, limits)) if limits else topology_of(scenario_id)
            )
            return need_of(topology.with_machines(machines))
    return Amount()


def void(unit: Unit, why: str) -> Run:
    """Return the run of a unit that could not be run: it says nothing about the product."""
    return Run(
        unit.job, unit.payload, f"run {unit.key}", f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}", seconds=0.0, void=why
    )


def ready(folder: Path, key: str) -> None:
    """Make the folder of a unit's evidence, with its mark: what a killed attempt at the unit left there would be taken
    for this one's. Raises InformerError where anything else lies there."""
    mark = f"run {key}"
    try:
        if has_evidence(folder):
            if mark_of(folder) != mark:
                raise InformerError(f"{folder}: has other evidence than that of {mark}")
            shutil.rmtree(folder)
    except EvidenceError as error:
        raise InformerError(str(error)) from error
    put_mark(folder, mark)


class Attempt:
    """One run of a unit on this machine. `stop` may be called from another thread."""

    def __init__(self, unit: Unit, folder: Path) -> None:
        self.unit, self.folder = unit, folder
        self._process: subprocess.Popen[bytes] | None = None
        self.stopped = False

    def stop(self) -> None:
        """End it: by SIGINT, so that it cleans up, and by SIGKILL if it does not end."""
        self.stopped = True
        if self._process is not None:
            _stop(self._process)

    def _finished(self, argv: Sequence[str], log: Path) -> int:
        """Run a command to its end or to the unit's limit; its exit code."""
        # When the host's worker is killed, pytest gets SIGINT and cleans up its labs: the unit is run elsewhere then.
        # A shell starts background jobs (`node0-ci run ... &`) with SIGINT ignored; the default is restored.
        argv = ["setpriv", "--pdeathsig", "INT", "--", "env", "--default-signal=INT", *argv]
        with log.open("wb") as out:
            # A group of its own: what it started ends with it.
            self._process = process = subprocess.Popen(
                argv, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
            )
            try:
                if self.stopped:
                    _stop(process)
                return process.wait(self.unit.limit)
            except subprocess.TimeoutExpired:
                _stop(process)
                return _LATE
            except BaseException:
                _stop(process)
                raise

    def run(self) -> Run:
        """Run it. A run that leaves no artefacts is invalid: it says nothing about the product. Raises
        InformerError."""
        unit, folder = self.unit, self.folder
        ready(folder, unit.key)
        began, start = datetime.now(UTC), time.monotonic()
        code = self._finished(unit.argv(folder), folder / "pytest.log")
        tail = redact((folder / "pytest.log").read_bytes()[-_TAIL:].decode(errors="replace"))
        if code == _NOTHING_COLLECTED:
            raise InformerError(
                f"scenario: {unit.scenario!r}: no test has this id (python -m pytest scenarios/ --collect-only)"
            )
        stamp = f"{began:%Y-%m-%dT%H:%M:%SZ}"
        try:
            [run] = artifacts.load(folder, unit.payload, ended=True, stopped=code == _LATE)
        except (InformerError, ValueError):
            why = f"pytest ended with {code} and left no artefacts"
            return Run(
                unit.job,
                unit.payload,
                f"run {unit.key}",
                stamp,
                seconds=time.monotonic() - start,
                evidence={"message": tail},
                folder=str(folder),
                mark=marks_of(folder),
                void=f"not done after {unit.limit:.0f} s" if code == _LATE else why,
            )
        mark = marks_of(folder)
        run = replace(run, job=unit.job, key=f"run {unit.key}", began=stamp, folder=str(folder), mark=mark)
        if code == _LATE and not run.void:
            # pytest was asked to end, so that what it says is no more than that something did not end.
            phase = f"the last phase was {run.steps[-1].name!r}" if run.steps else "no phase had begun"
            why = f"not done after {unit.limit:.0f} s: {phase}{_last_said(run)}"
            late = RunAttempt("the whole run", Outcome.FAILED, unit.limit, why)
            message = "\n".join(text for text in (why, run.evidence.get("message", "")) if text)
            return replace(run, attempts=[late, *run.attempts], evidence={**run.evidence, "message": message})
        if code and run.outcome.good:
            # Killed in mid-run, or it broke itself: what had passed until then is not all that was to be tested.
            return replace(run, void=f"pytest ended with {code} although no test failed", evidence={"message": tail})
        return run


def _last_said(run: Run) -> str:
    """Find what `wait-for` was waiting for at last."""
    lines = [line for line in run.evidence.get("wait-for", "").splitlines() if line.startswith("level=")]
    return f"; wait-for said last: {lines[-1].partition(' msg=')[2]}" if lines else ""


def _stop(process: subprocess.Popen[bytes]) -> None:
    for number, patience in ((signal.SIGINT, _GRACE), (signal.SIGKILL, None)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience)
            # SIGKILL even if it has ended: processes that it left in its group would hold its lab.

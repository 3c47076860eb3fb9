"""The runs of a plan: each job so many times, invalid ones again, more runs of suspicious jobs. All go into the
history.

A plan and its units are written down before they are run, so that a collector that was killed goes on where it was
(`node0-ci resume`): what has ended is not run again, and what other hosts run meanwhile is waited for.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import msgspec
from filelock import FileLock, Timeout

from ci.informer import triage
from ci.informer.arithmetic.flakes import Outcome
from ci.informer.engine.unit import PYTEST, Result, Unit, needs_of
from ci.informer.errors import InformerError
from ci.informer.history import work
from ci.informer.history.files import has_locks
from ci.informer.history.model import LIMIT, SCENARIO, latest
from ci.informer.history.store import History, Row
from ci.informer.judging import clusters
from ci.informer.judging.review import watched
from ci.informer.revision import revision
from lab.evidence import symptoms
from lab.subject.hardware import Hardware
from lab.topology import MachineKind

if TYPE_CHECKING:
    from ci.informer.engine.engine import Engine
    from ci.informer.engine.host import Say

#: How often an invalid run is repeated, and how many further runs a plan may make of suspicious jobs.
VOID_RETRIES, MOST_MORE = 2, 60


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The runs that were asked for: jobs (SCENARIO@KIND) on a payload, so often each; `limit` is in seconds a run.

    `digest` is the release's and `limits` what it demands of machines by their role; empty of the lab release.
    """

    payload: str
    digest: str = ""
    limits: dict[str, Hardware] = {}  # msgspec makes a new one each time
    jobs: tuple[str, ...]
    rounds: int = 1
    limit: float = LIMIT
    more: int = MOST_MORE
    kvm: bool = False
    program: tuple[str, ...] = PYTEST
    arguments: tuple[str, ...] = ()


def _parts(job: str) -> tuple[str, MachineKind]:
    """Return a job's scenario and kind of machines. Raises InformerError for a text that names no job."""
    scenario, _, machines = job.partition("@")
    if not SCENARIO.fullmatch(scenario):
        raise InformerError(f"scenario: {scenario!r}: must be an id like sno-ipv4-static-uefi")
    try:
        return scenario, msgspec.convert(machines, MachineKind)
    except msgspec.ValidationError as error:
        kinds = " or ".join(get_args(MachineKind))
        raise InformerError(f"scenario: {job!r}: the kind of machines must be {kinds}") from error


class _Session:
    """One plan being run."""

    def __init__(self, history: History, name: str, engine: Engine, say: Say) -> None:
        self._history, self._name, self._engine, self._say = history, name, engine, say
        text, self._folder = work.plan(history, name)
        if since := work.ended(history, name):
            raise InformerError(f"{history.path}: plan: {name!r}: was run to its end, or given up, at {since}")
        try:
            self._plan = msgspec.json.decode(text, type=Plan)
        except msgspec.MsgspecError as error:
            raise InformerError(f"{history.path}: plan: {name!r}: of another version of node0-ci: {error}") from error
        self._revision = revision()

    def _unit(self, job: str, number: str) -> Unit:
        scenario, machines = _parts(job)
        plan = self._plan
        return Unit(
            key=f"{self._name}/{job}/{number}",
            payload=plan.payload,
            scenario=scenario,
            machines=machines,
            limit=plan.limit,
            needs=needs_of(scenario, machines, plan.limits),
            digest=plan.digest,
            kvm=plan.kvm,
            program=plan.program,
            arguments=plan.arguments,
        )

    def _place(self, unit: Unit) -> Path:
        """Name the folder of a unit's evidence."""
        _, job, number = unit.key.split("/")
        return self._folder / job / f"{self._name}.{number}"

    def _submit(self, units: Sequence[Unit]) -> None:
        self._engine.submit([msgspec.structs.replace(unit, folder=str(self._place(unit))) for unit in units])

    def rows(self) -> Iterator[Row]:
        """Run it; each run as it ends. Raises InformerError."""
        plan = self._plan
        if not work.units(self._history, self._name):
            rounds = [self._unit(job, f"{number}.0") for number in range(plan.rounds) for job in plan.jobs]
            work.add(self._history, self._name, [(unit.key, msgspec.json.encode(unit)) for unit in rounds])
        self._engine.recorded(*work.units(self._history, self._name, done=True))
        left = work.units(self._history, self._name, done=False)
        self._submit([msgspec.json.decode(text, type=Unit) for text in left.values()])
        while True:
            while not self._engine.idle:
                yield self._recorded(*self._engine.ended())
            if not self._more():
                break
        self._end()

    def _end(self) -> None:
        work.end(self._history, self._name, f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}")

    def _recorded(self, unit: Unit, result: Result) -> Row:
        """Write a run to the history, and submit it again if it is invalid."""
        if result.run is None:
            self._engine.recorded(unit.key)  # so that a resumed plan runs it anew
            if len(self._plan.jobs) == 1 and not work.units(self._history, self._name, done=True):
                # A misspelt scenario, most often: a plan of nothing else would end so again and again.
                self._end()
            raise InformerError(f"{result.host}: {result.error}" if self._engine.remote else result.error)
        run, again = result.run, None
        number, _, tries = unit.key.rpartition("/")[2].rpartition(".")
        void = run.outcome is Outcome.VOID
        with self._history.writing():
            [row_id] = self._history.add([run], host=result.host, revision=self._revision)
            work.done(self._history, unit.key)
            if void and int(tries) < VOID_RETRIES:
                again = self._unit(unit.job, f"{number}.{int(tries) + 1}")
                work.add(self._history, self._name, [(again.key, msgspec.json.encode(again))])
        self._engine.recorded(unit.key)
        triage.label(self._history, symptoms.read())
        clusters.assign(self._history)
        row = self._history.run(row_id)
        label = ", ".join(text for text in (row.label, row.component) if text)
        whose = f" ({label}: {row.advice}) {row.folder}" if row.label else ""
        self._say(f"{row.job}: {row.outcome.value} after {row.seconds:.0f} s{whose}".rstrip())
        if row.began > latest():
            self._say(f"{row.job}: the clock of {row.host} is ahead: began {row.began}, left out until then")
        if again is not None:
            self._say(f"{row.job}: invalid, run again")
            self._submit([again])
        return row

    def _more(self) -> bool:
        """Submit further runs of a job that its watch suspects; whether there were any."""
        keys = work.units(self._history, self._name)
        asked = sum("/more" in key and key.endswith(".0") for key in keys)
        for job in self._plan.jobs:
            wanted = watched(self._history.runs(job=job)).wanted
            count = min(wanted, self._plan.more - asked)
            if count <= 0:
                continue
            self._say(f"{job.partition('@')[0]}: a failure more than usual, {count} more runs")
            units = [self._unit(job, f"more{number}.0") for number in range(asked, asked + count)]
            work.add(self._history, self._name, [(unit.key, msgspec.json.encode(unit)) for unit in units])
            self._submit(units)
            return True
        return False


def begin(history: History, plan: Plan, folder: Path) -> str:
    """Write a plan to the history; its name. `folder` is where evidence goes. Raises InformerError for a job that
    cannot be one, or is there twice."""
    for place, job in enumerate(plan.jobs):
        scenario, _ = _parts(job)
        if job in plan.jobs[:place]:
            raise InformerError(f"scenario: {scenario!r}: is named twice; -n 2 runs it twice")
    name, begun = uuid.uuid4().hex[:8], f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    work.begin(history, name, begun, msgspec.json.encode(plan), folder=folder)
    return name


def carry_out(history: History, name: str, engine: Engine, say: Say) -> Iterator[Row]:
    """Run a plan that was written down, from where it is; each run as it ends.

    Raises InformerError, also where somebody else runs it.
    """
    try:
        # The lock of a killed process is free. On a file system without locks plans are not protected.
        lock = FileLock(history.path.with_name(f"{history.path.name}.{name}.lock"), timeout=0)
        with lock if has_locks(history.path.parent) else nullcontext():
            yield from _Session(history, name, engine, say).rows()
    except Timeout as error:
        raise InformerError(f"plan: {name!r}: another node0-ci runs it") from error


def ran(history: History, name: str) -> list[Row]:
    """All runs of a plan, in the order in which they began."""
    return [row for row in history.runs(ahead=True) if row.key.startswith(f"run {name}/")]


def run(history: History, plan: Plan, folder: Path, engine: Engine, *, say: Say) -> list[Row]:
    """Run a plan; the rows of all that ran. Raises InformerError."""
    return list(carry_out(history, begin(history, plan, folder), engine, say))

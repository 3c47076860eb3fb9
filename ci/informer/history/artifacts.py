"""Runs from this project's own artefacts: what scenarios and labs leave below `--artifacts` (lab/evidence)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

from ci.informer.arithmetic.flakes import Outcome
from ci.informer.errors import InformerError
from ci.informer.history import stages
from ci.informer.history.model import Attempt, Run, Step, began_of, seconds_of, text_of
from installer.common.redact import redact, shortened
from lab.evidence import record
from lab.evidence.folder import marks_of
from lab.evidence.reason import error_first, interruption
from lab.evidence.texts import KIND_BYTES
from lab.evidence.texts import texts as texts_of
from lab.topology import MachineKind

#: Kinds of machines, as jobs have them (SCENARIO@KIND).
MACHINES = get_args(MachineKind)
#: The deepest level of nested phases; what is nested deeper is put on this level.
_DEEPEST = 8
#: The phase in which a lab waits for others to leave it room: no part of what a run takes.
QUEUE = "wait for the machine"
#: The installer's events, below a run's directory.
EVENTS = Path("installer/logs/events.json")
#: The outcomes by the words that these files have for them.
_WORDS = {"passed": Outcome.PASSED, "failed": Outcome.FAILED, "void": Outcome.VOID, "skipped": Outcome.SKIPPED}


def _step(entry: Mapping[str, Any], *, stopped: bool) -> Step:
    # A phase that was still running when the run ended has not passed. One that was interrupted has neither passed nor
    # failed, unless it was to end by then.
    void = {} if stopped else {"interrupted": Outcome.VOID}
    outcome = {**_WORDS, **void}.get(str(entry.get("outcome")), Outcome.FAILED)
    name = text_of(entry.get("name"))
    error = redact(text_of(entry.get("error") or (f"{name} did not end" if outcome is Outcome.FAILED else "")))
    depth = min(_DEEPEST, int(seconds_of(entry.get("depth"))))
    return Step(name, seconds_of(entry.get("at")), seconds_of(entry.get("seconds")), outcome, depth=depth, error=error)


def _attempt(entry: Mapping[str, Any]) -> Attempt:
    outcome = _WORDS.get(str(entry.get("outcome")), Outcome.FAILED)
    message = shortened(error_first(text_of(entry.get("message") or "")), KIND_BYTES)
    return Attempt(text_of(entry.get("name")), outcome, seconds_of(entry.get("seconds")), message)


def _kind_of_machines(folder: Path) -> MachineKind:
    """`container` or `vm`, by what the collector left (lab.evidence.bundle)."""
    return "container" if (folder / "machines").is_dir() else "vm"


def _run(reported: record.Run, payload: str, *, ended: bool, stopped: bool) -> Run:
    steps = [_step(entry, stopped=stopped) for entry in reported.phases]
    attempts = [_attempt(entry) for entry in reported.tests]
    began = str(reported.phases[0].get("began") or "") if reported.phases else ""
    try:
        if not began:
            began = f"{datetime.fromtimestamp(reported.folder.stat().st_mtime, UTC):%Y-%m-%dT%H:%M:%SZ}"
        began_of(began)
    except (ValueError, OverflowError) as error:
        raise InformerError(f"{reported.folder / 'phases.json'}: began: {error}") from error
    if text_of(reported.folder) != str(reported.folder):
        raise InformerError(f"{text_of(reported.folder)}: the folder's name is no UTF-8")
    stages_of_it = stages.steps(reported.folder / EVENTS, began)
    steps = sorted([*steps, *stages_of_it], key=lambda step: step.at) if stages_of_it else steps
    job = f"{reported.name}@{_kind_of_machines(reported.folder)}"
    # A run that has not ended says nothing yet: it still runs, or was killed.
    outcome = {"failed": Outcome.FAILED, "running": Outcome.VOID}.get(reported.outcome, Outcome.PASSED)
    messages = [a.message for a in attempts if a.outcome is Outcome.FAILED] + [step.error for step in steps]
    texts = texts_of(reported.folder) if reported.outcome != "passed" else {}
    if any(messages):
        texts["message"] = "\n".join(text for text in messages if text)[:KIND_BYTES]
    unproven = "" if steps or attempts else "it ended before its first phase"
    # The last thing that a lab does: what a killed run had passed until then is not all that was to be tested.
    is_done = ended or (reported.outcome != "running" and (reported.folder / "missing.txt").is_file())
    if not unproven and reported.outcome in ("passed", "skipped", "running") and not is_done:
        unproven = "its evidence was not collected: it runs still, or was killed"
    if reported.outcome == "interrupted" and not stopped:
        unproven = interruption(reported.phases)
    void = (
        next((a.message for a in attempts if a.outcome is Outcome.VOID), "") or reported.lab_failed.strip() or unproven
    )
    return Run(
        job=job,
        payload=payload,
        key=f"lab {job} {began}",
        began=began,
        seconds=seconds_of(sum(step.seconds for step in steps if not step.depth and step.name != QUEUE)),
        attempts=attempts,
        steps=steps,
        evidence=texts,
        folder=str(reported.folder.absolute()),
        command=reported.about.get(record.COMMAND, ""),
        mark=marks_of(reported.folder),
        void=redact(void or "the lab failed") if reported.outcome == "void" or unproven else "",
        ended=outcome,
    )


def load(root: Path, payload: str, *, ended: bool = False, stopped: bool = False) -> list[Run]:
    """Return the runs below a directory of artefacts; `ended`: the caller knows that they ran to their end; `stopped`:
    it stopped them itself, as they took too long. Raises InformerError where there are none, or phases.json is
    broken."""
    reports = record.runs(root) if root.is_dir() else []
    if not reports:
        junit = "; a JUnit file is loaded by its own path, with --job" if any(root.glob("*.xml")) else ""
        raise InformerError(f"{root}: phases.json: neither here nor one folder below{junit}")
    for found in reports:
        try:
            json.loads((found.folder / "phases.json").read_text())
        except (OSError, ValueError, RecursionError) as error:
            raise InformerError(f"{found.folder / 'phases.json'}: {error}") from error
    return [_run(report, payload, ended=ended, stopped=stopped) for report in reports]

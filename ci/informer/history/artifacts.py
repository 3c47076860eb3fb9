"""Runs from this project's own artefacts: what scenarios and labs leave below `--artifacts` (lab/evidence)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

from ci.informer.arithmetic.flakes import Outcome
from ci.informer.errors import InformerError
from ci.informer.history import stages
from ci.informer.history.model import Attempt, Run, Step, began_of, seconds_of, text_of
from installer.common.redact import redact, shortened
from lab.evidence import report
from lab.evidence.folder import marks_of
from lab.topology import MachineKind

#: Kinds of machines, as jobs have them (SCENARIO@KIND).
MACHINES = get_args(MachineKind)
#: Kind of evidence, and its files below a run's directory.
KINDS: Mapping[str, Sequence[str]] = {
    "lab": (report.LAB_FAILED, "services/*.log"),
    "wait-for": ("commands/*wait-for*.log",),
    "event": ("installer/logs/**/*event*", "installer/*event*"),
    "console": ("console/*.txt", "kernel-trouble.txt"),
    "journal": ("nodes/*/journal.log", "installer/logs/**/*journal*"),
}
#: The deepest level of nested phases; what is nested deeper is put on this level.
_DEEPEST = 8
#: Bytes that are kept of a file (its end), and of a kind.
FILE_BYTES, KIND_BYTES = 32 << 10, 128 << 10
#: The phase in which a lab waits for others to leave it room: no part of what a run takes.
QUEUE = "wait for the machine"
#: The installer's events, below a run's directory.
EVENTS = Path("installer/logs/events.json")
#: A line of an error in pytest's reports.
_ERROR = re.compile(r"E {2,}\S")
#: The outcomes by the words that these files have for them.
_WORDS = {"passed": Outcome.PASSED, "failed": Outcome.FAILED, "void": Outcome.VOID, "skipped": Outcome.SKIPPED}


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - FILE_BYTES))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def evidence(folder: Path) -> dict[str, str]:
    """Return the ends of a run's texts by kind, without secrets, each file's after a line with its name.

    A link that leads out of the folder is not read: evidence is shown on pages, and may have come from elsewhere.
    """
    by_kind: dict[str, str] = {}
    root = folder.resolve()
    for kind, patterns in KINDS.items():
        matches = (path for pattern in patterns for path in report.files_in(folder, pattern))
        paths = dict.fromkeys(path for path in matches if root in path.resolve().parents)
        texts = [f"== {text_of(path.relative_to(folder))}\n{_tail(path)}" for path in paths]
        if texts:
            by_kind[kind] = redact("\n".join(texts)[:KIND_BYTES])
    return by_kind


def _step(entry: Mapping[str, Any]) -> Step:
    # A phase that was still running when the run ended has not passed.
    outcome = _WORDS.get(str(entry.get("outcome")), Outcome.FAILED)
    name = text_of(entry.get("name"))
    error = redact(text_of(entry.get("error") or (f"{name} did not end" if outcome is Outcome.FAILED else "")))
    depth = min(_DEEPEST, int(seconds_of(entry.get("depth"))))
    return Step(name, seconds_of(entry.get("at")), seconds_of(entry.get("seconds")), outcome, depth=depth, error=error)


def _error_first(message: str) -> str:
    """Return a test's message, its error first: pytest begins with the lines of code that led there."""
    error = next((line[1:].strip() for line in message.splitlines() if _ERROR.match(line)), "")
    return f"{error}\n{message}" if error and not message.startswith(error) else message


def _attempt(entry: Mapping[str, Any]) -> Attempt:
    outcome = _WORDS.get(str(entry.get("outcome")), Outcome.FAILED)
    message = shortened(_error_first(text_of(entry.get("message") or "")), KIND_BYTES)
    return Attempt(text_of(entry.get("name")), outcome, seconds_of(entry.get("seconds")), message)


def _kind_of_machines(folder: Path) -> MachineKind:
    """`container` or `vm`, by what the collector left (lab.evidence.bundle)."""
    return "container" if (folder / "machines").is_dir() else "vm"


def _run(reported: report.Run, payload: str, *, ended: bool) -> Run:
    steps = [_step(entry) for entry in reported.phases]
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
    texts = evidence(reported.folder) if reported.outcome != "passed" else {}
    if any(messages):
        texts["message"] = "\n".join(text for text in messages if text)[:KIND_BYTES]
    unproven = "" if steps or attempts else "it ended before its first phase"
    # The last thing that a lab does: what a killed run had passed until then is not all that was to be tested.
    if reported.outcome in ("passed", "skipped") and not ended and not (reported.folder / "missing.txt").is_file():
        unproven = "its evidence was not collected: it runs still, or was killed"
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
        mark=marks_of(reported.folder),
        void=redact(void or "the lab failed") if reported.outcome == "void" or unproven else "",
        ended=outcome,
    )


def load(root: Path, payload: str, *, ended: bool = False) -> list[Run]:
    """Return the runs below a directory of artefacts; `ended`: the caller knows that they ran to their end. Raises
    InformerError where there are none, or phases.json is broken."""
    reports = report.runs(root) if root.is_dir() else []
    if not reports:
        junit = "; a JUnit file is loaded by its own path, with --job" if any(root.glob("*.xml")) else ""
        raise InformerError(f"{root}: phases.json: neither here nor one folder below{junit}")
    for found in reports:
        try:
            json.loads((found.folder / "phases.json").read_text())
        except (OSError, ValueError, RecursionError) as error:
            raise InformerError(f"{found.folder / 'phases.json'}: {error}") from error
    return [_run(report, payload, ended=ended) for report in reports]

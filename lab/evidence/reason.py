"""The reason of a red run: its last error, the cause that the symptoms show, what the hosts' consoles said last."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from drivers.console import strip_control
from installer.common.redact import redact
from lab.errors import SymptomsError
from lab.evidence import symptoms
from lab.evidence.record import Run
from lab.evidence.symptoms import Diagnosis
from lab.evidence.texts import ends, texts

#: Outcomes that say nothing about what was tested.
INVALID = ("void", "interrupted", "running")
INTERRUPTED = "interrupted: Ctrl-C or a signal ended it"
_TAIL_LINES, _ERROR_CHARACTERS = 15, 1000
#: A line of an error in pytest's reports, and wait-for's last words before it gives up.
_ERROR = re.compile(r"E {2,}\S")
_SAID = re.compile(r"level=(?:error|fatal) msg=(.*)")


@dataclass(frozen=True)
class Reason:
    """A red run's reason; `consoles` has the last lines of each machine's console."""

    error: str
    diagnosis: Diagnosis
    consoles: Mapping[str, str]

    @property
    def cause(self) -> str:
        """The owner of a fault, and the evidence for it."""
        labelled = (hit for hit in self.diagnosis.shown if hit.symptom.label == self.diagnosis.label)
        hit = self.diagnosis.cause or next(labelled, None)
        whose = " ".join(text for text in (self.diagnosis.label.value, self.diagnosis.component) if text)
        if hit is None:
            return whose
        # The message is what is shown above already.
        return f"{whose} ({hit.symptom.name}{'' if hit.place == 'message' else f' in {hit.place}: {hit.line}'})"


def error_first(message: str) -> str:
    """Return a test's message, its error first: pytest begins with the lines of code that led there."""
    error = next((line[1:].strip() for line in message.splitlines() if _ERROR.match(line)), "")
    return f"{error}\n{message}" if error and not message.startswith(error) else message


def interruption(phases: Sequence[Mapping[str, object]]) -> str:
    """Say by what a run was ended, and in which of its phases; empty if it was not interrupted."""
    inner = next((entry for entry in reversed(phases) if entry.get("outcome") == "interrupted"), None)
    return "" if inner is None else f"{INTERRUPTED} during {inner.get('name')!r}"


def of(run: Run) -> Reason | None:
    """Return a run's reason; None for one that passed or was skipped."""
    if run.outcome in ("passed", "skipped"):
        return None
    evidence = texts(run.folder)
    error = redact(_error(run, evidence.get("wait-for", "")))
    evidence["message"] = "\n".join([error, *(str(test.get("message", "")) for test in run.tests)])
    try:
        diagnosis = symptoms.diagnose(evidence, _table(), invalid=run.outcome in INVALID)
    except SymptomsError as error_of_table:
        diagnosis = Diagnosis(symptoms.Label.LAB, str(error_of_table))
    consoles = {path.stem: _tail(end) for path, end in ends(run.folder, "console/*.txt").items()}
    return Reason(error[:_ERROR_CHARACTERS], diagnosis, consoles)


@functools.cache
def _table() -> symptoms.Symptoms:
    return symptoms.read()


def _error(run: Run, wait_for: str) -> str:
    """Find a run's last error: the lab's own, else a test's, else a phase's with wait-for's."""
    if run.outcome == "interrupted":
        return interruption(run.phases)
    if run.outcome == "running":
        phase = run.phases[-1].get("name") if run.phases else None
        return f"{phase} did not end" if phase else "it ended before its first phase"
    bad = {"void", "failed"} if run.outcome == "void" else {"failed"}
    of_tests = (error_first(str(t.get("message", ""))) for t in run.tests if str(t.get("outcome")) in bad)
    of_phases = (str(p.get("error", "")) for p in reversed(run.phases) if p.get("outcome") == "failed")
    said = _SAID.findall(wait_for)
    candidates = (run.lab_failed.strip(), *of_tests, said[-1].strip('"') if said else "", *of_phases)
    return next((text for text in candidates if text), "it failed without a message")


def _tail(console: str) -> str:
    lines = [line for line in strip_control(console).splitlines() if line.strip()]
    return redact("\n".join(lines[-_TAIL_LINES:]))

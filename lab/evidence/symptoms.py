"""The blame for a red run: symptoms are data, and every red run gets a label. The page of a run and node0-ci read the
same table."""

from __future__ import annotations

import hashlib
import re
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files
from pathlib import Path
from typing import Any

from installer.common.formats.yamltext import load_all
from lab.errors import SymptomsError


class Label(StrEnum):
    """The blame for a red run; NONE of a green run, and of one that has not been labelled yet."""

    NONE = ""
    PRODUCT = "product"
    LAB = "lab"
    HOST = "host"


LABELS = tuple(label for label in Label if label)
PLACES = ("lab", "host", "console", "journal", "event", "wait-for", "message")
#: Advice where no symptom matches. The label is then the product's for a failure, and the lab's for an invalid run.
UNKNOWN = "no symptom fits; read the first message, then add one to lab/evidence/symptoms.yaml"
INVALID_UNKNOWN = "no symptom fits; read why it is invalid, then add one to lab/evidence/symptoms.yaml"
#: How many characters of a line are shown, and how many are searched.
_LINE, _SEARCHED = 300, 4000
_FIELDS = {"name", "where", "match", "label", "advice"}
#: wait-for's errors, the first of which names the cause.
_ERROR_LINE = re.compile(r"level=(?:error|fatal) ")
#: Seconds of the processor's time that looking for one symptom in one run may take.
LONGEST = 2.0


@dataclass(frozen=True, kw_only=True)
class Symptom:
    """A symptom: its expression, its place, and its meaning; `cause` is a kind of docs/faults.md or empty."""

    name: str
    where: Sequence[str]
    match: re.Pattern[str]
    label: Label
    advice: str
    cause: str = ""

    def first_hit(self, evidence: Mapping[str, str]) -> Hit | None:
        """Find where it shows first, if it does. Raises SymptomsError where its expression takes too long."""
        with _bounded(f"symptoms: {self.name}: match: {self.match.pattern!r}"):
            for place in self.where:
                for line in evidence.get(place, "").splitlines():
                    if match := self.match.search(line[:_SEARCHED]):
                        return Hit(self, place, line.strip()[:_LINE], match.groupdict().get("component") or "")
        return None


@contextmanager
def _bounded(what: str) -> Iterator[None]:
    """Limit the time of a search: Python's regular expressions may take for ever (`(a+)+$`), but handle signals.
    Only the main thread receives them, so there is no limit in others."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def late(*_: Any) -> None:
        raise SymptomsError(f"{what}: takes more than {LONGEST:.0f} s for one run: make it simpler")

    before = signal.signal(signal.SIGVTALRM, late)
    signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@dataclass(frozen=True)
class Hit:
    """A symptom that a run shows: where, in which line, and which component it names (or none)."""

    symptom: Symptom
    place: str
    line: str
    component: str


def _symptom(entry: Any, where: str) -> Symptom:
    if not isinstance(entry, dict) or set(entry) - {"cause"} != _FIELDS:
        raise SymptomsError(f"{where}: must have exactly the fields {', '.join(sorted(_FIELDS))}")
    for name in ("name", "match", "label", "advice", *({"cause"} & set(entry))):
        if not (isinstance(entry[name], str) and entry[name]):
            raise SymptomsError(f"{where}.{name}: {entry[name]!r}: must be a text")
    places = entry["where"]
    if not isinstance(places, list) or not places or not set(map(str, places)) <= set(PLACES):
        raise SymptomsError(f"{where}.where: {places!r}: must be some of {', '.join(PLACES)}")
    if entry["label"] not in LABELS:
        raise SymptomsError(f"{where}.label: {entry['label']!r}: must be one of {', '.join(LABELS)}")
    try:
        pattern = re.compile(entry["match"])
    except (re.error, OverflowError, RecursionError) as error:
        raise SymptomsError(f"{where}.match: {entry['match']!r}: {error}") from error
    return Symptom(
        name=entry["name"], where=tuple(places), match=pattern, label=Label(entry["label"]), advice=entry["advice"],
        cause=entry.get("cause", ""),
    )  # fmt: skip


@dataclass(frozen=True)
class Symptoms:
    """All symptoms, in the order in which they label; `digest` changes with the file."""

    all: Sequence[Symptom]
    digest: str


def read(path: Path | None = None) -> Symptoms:
    """Return the symptoms of a file, or node0's own. Raises SymptomsError."""
    name = str(path or "symptoms.yaml")
    try:
        text = path.read_text() if path else files("lab.evidence").joinpath("symptoms.yaml").read_text()
        documents = load_all(text)
    except (OSError, ValueError) as error:
        raise SymptomsError(f"{name}: {' '.join(str(error).split())}") from error
    entries = documents[0] if len(documents) == 1 else None
    if not isinstance(entries, list):
        raise SymptomsError(f"{name}: must be a list of symptoms")
    symptoms = [_symptom(entry, f"{name}: [{place}]") for place, entry in enumerate(entries)]
    names = [symptom.name for symptom in symptoms]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise SymptomsError(f"{name}: name: {twice!r}: occurs twice")
    return Symptoms(symptoms, hashlib.sha256(text.encode()).hexdigest())


@dataclass(frozen=True)
class Diagnosis:
    """A red run's label, advice, the component at fault (where that is known), all symptoms that it shows, and the hit
    that shows the cause best."""

    label: Label
    advice: str
    component: str = ""
    shown: Sequence[Hit] = ()
    cause: Hit | None = None


def cause_in(line: str, symptoms: Symptoms) -> Hit | None:
    """Return the hit of the first symptom that shows a cause in a line of `wait-for`'s, if one does."""
    hits = (symptom.first_hit({"wait-for": line}) for symptom in symptoms.all if symptom.cause)
    return next((hit for hit in hits if hit), None)


def _cause(evidence: Mapping[str, str], hits: Sequence[Hit], symptoms: Symptoms) -> Hit | None:
    """Return what shows the cause: the first of wait-for's errors that does, else the first symptom that does."""
    errors = (line for line in evidence.get("wait-for", "").splitlines() if _ERROR_LINE.search(line))
    named = (hit for line in errors if (hit := cause_in(line, symptoms)))
    return next(named, next((hit for hit in hits if hit.symptom.cause), None))


def diagnose(evidence: Mapping[str, str], symptoms: Symptoms, *, invalid: bool = False) -> Diagnosis:
    """Return a red run's diagnosis, by its texts (lab.evidence.texts). An invalid run is never the product's fault."""
    hits = [hit for symptom in symptoms.all if (hit := symptom.first_hit(evidence))]
    cause = _cause(evidence, hits, symptoms)
    telling = [hit for hit in hits if not invalid or hit.symptom.label is not Label.PRODUCT]
    if telling:
        first = telling[0]
        component = next(
            (hit.component for hit in telling if hit.component and hit.symptom.label == first.symptom.label), ""
        )
        return Diagnosis(first.symptom.label, first.symptom.advice, first.component or component, hits, cause)
    if invalid:
        return Diagnosis(Label.LAB, INVALID_UNKNOWN, shown=hits, cause=cause)
    return Diagnosis(Label.PRODUCT, UNKNOWN, shown=hits, cause=cause)

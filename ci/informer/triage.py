"""The blame for red runs: symptoms are data, and every red run gets a label."""

from __future__ import annotations

import hashlib
import re
import signal
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from ci.informer.arithmetic.flakes import Outcome
from ci.informer.errors import InformerError
from ci.informer.history.model import Label
from ci.informer.history.store import History
from installer.common.formats.yamltext import load_all

LABELS = tuple(label for label in Label if label)
PLACES = ("lab", "host", "console", "journal", "event", "wait-for", "message")
#: Advice where no symptom matches. The label is then the product's for a failure, and the lab's for an invalid run.
UNKNOWN = "no symptom fits; read the first message, then add one to ci/informer/symptoms.yaml"
VOID_UNKNOWN = "no symptom fits; read why it is invalid, then add one to ci/informer/symptoms.yaml"
#: How many characters of a line are shown, and how many are searched.
_LINE, _SEARCHED = 300, 4000
_FIELDS = {"name", "where", "match", "label", "advice"}
#: Seconds of the processor's time that looking for one symptom in one run may take.
LONGEST = 2.0
#: Runs that are labelled in one go: others may write in between.
_BATCH = 200


@dataclass(frozen=True, kw_only=True)
class Symptom:
    """A symptom: its expression, its place, and its meaning."""

    name: str
    where: Sequence[str]
    match: re.Pattern[str]
    label: Label
    advice: str

    def first_hit(self, evidence: Mapping[str, str]) -> Hit | None:
        """Find where it shows first, if it does. Raises InformerError where its expression takes too long."""
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
        raise InformerError(f"{what}: takes more than {LONGEST:.0f} s for one run: make it simpler")

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
    if not isinstance(entry, dict) or set(entry) != _FIELDS:
        raise InformerError(f"{where}: must have exactly the fields {', '.join(sorted(_FIELDS))}")
    for name in ("name", "match", "label", "advice"):
        if not (isinstance(entry[name], str) and entry[name]):
            raise InformerError(f"{where}.{name}: {entry[name]!r}: must be a text")
    places = entry["where"]
    if not isinstance(places, list) or not places or not set(map(str, places)) <= set(PLACES):
        raise InformerError(f"{where}.where: {places!r}: must be some of {', '.join(PLACES)}")
    if entry["label"] not in LABELS:
        raise InformerError(f"{where}.label: {entry['label']!r}: must be one of {', '.join(LABELS)}")
    try:
        pattern = re.compile(entry["match"])
    except (re.error, OverflowError, RecursionError) as error:
        raise InformerError(f"{where}.match: {entry['match']!r}: {error}") from error
    return Symptom(
        name=entry["name"], where=tuple(places), match=pattern, label=Label(entry["label"]), advice=entry["advice"]
    )


@dataclass(frozen=True)
class Symptoms:
    """All symptoms, in the order in which they label; `digest` changes with the file."""

    all: Sequence[Symptom]
    digest: str


def read(path: Path | None = None) -> Symptoms:
    """Return the symptoms of a file, or node0's own. Raises InformerError."""
    name = str(path or "symptoms.yaml")
    try:
        text = path.read_text() if path else files("ci.informer").joinpath("symptoms.yaml").read_text()
        documents = load_all(text)
    except (OSError, ValueError) as error:
        raise InformerError(f"{name}: {' '.join(str(error).split())}") from error
    entries = documents[0] if len(documents) == 1 else None
    if not isinstance(entries, list):
        raise InformerError(f"{name}: must be a list of symptoms")
    symptoms = [_symptom(entry, f"{name}: [{place}]") for place, entry in enumerate(entries)]
    names = [symptom.name for symptom in symptoms]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InformerError(f"{name}: name: {twice!r}: occurs twice")
    return Symptoms(symptoms, hashlib.sha256(text.encode()).hexdigest())


@dataclass(frozen=True)
class Diagnosis:
    """A red run's label, advice, the component at fault (where that is known), and all symptoms that it shows."""

    label: Label
    advice: str
    component: str = ""
    shown: Sequence[Hit] = ()


def diagnose(outcome: Outcome, evidence: Mapping[str, str], symptoms: Symptoms) -> Diagnosis:
    """Return a red run's diagnosis. An invalid run is never the product's fault."""
    hits = [hit for symptom in symptoms.all if (hit := symptom.first_hit(evidence))]
    telling = [hit for hit in hits if outcome is not Outcome.VOID or hit.symptom.label is not Label.PRODUCT]
    if telling:
        first = telling[0]
        component = next(
            (hit.component for hit in telling if hit.component and hit.symptom.label == first.symptom.label), ""
        )
        return Diagnosis(first.symptom.label, first.symptom.advice, first.component or component, hits)
    if outcome is Outcome.VOID:
        return Diagnosis(Label.LAB, VOID_UNKNOWN, shown=hits)
    return Diagnosis(Label.PRODUCT, UNKNOWN, shown=hits)


def label(history: History, symptoms: Symptoms) -> int:
    """Label the red runs that have no label, or all when the symptoms have changed; how many were labelled."""
    before = history.db.execute("SELECT digest FROM applied WHERE what = 'symptoms'").fetchone()
    changed = before is None or before["digest"] != symptoms.digest
    red = (Outcome.FAILED.value, Outcome.VOID.value)
    which = "" if changed else "AND label = ''"
    rows = history.db.execute(
        f"SELECT id, outcome, reason FROM run WHERE outcome IN (?, ?) {which} ORDER BY id", red
    ).fetchall()
    for begin in range(0, len(rows), _BATCH):
        with history.writing() as db:
            for row in rows[begin : begin + _BATCH]:
                _label(history, db, row, symptoms)
    if changed:
        with history.writing() as db:
            db.execute("INSERT OR REPLACE INTO applied VALUES ('symptoms', ?)", (symptoms.digest,))
    return len(rows)


def _label(history: History, db: sqlite3.Connection, row: sqlite3.Row, symptoms: Symptoms) -> None:
    texts = history.evidence(row["id"])
    texts["message"] = f"{row['reason']}\n{texts.get('message', '')}"
    diagnosis = diagnose(Outcome(row["outcome"]), texts, symptoms)
    values = (diagnosis.label.value, diagnosis.advice, diagnosis.component, row["id"])
    db.execute("UPDATE run SET label = ?, advice = ?, component = ? WHERE id = ?", values)
    shown = [(row["id"], hit.symptom.name, hit.place, hit.line) for hit in diagnosis.shown]
    db.execute("DELETE FROM symptom WHERE run = ?", (row["id"],))
    db.executemany("INSERT INTO symptom VALUES (?, ?, ?, ?)", shown)


def shown(history: History, run: int) -> list[tuple[str, str, str]]:
    """Return the symptoms of a run: name, place, line."""
    symptoms = history.db.execute("SELECT name, kind, line FROM symptom WHERE run = ? ORDER BY name", (run,))
    return [(symptom["name"], symptom["kind"], symptom["line"]) for symptom in symptoms]

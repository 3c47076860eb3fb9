"""Labels of the runs in a history, by the symptoms that they show (lab.evidence.symptoms)."""

from __future__ import annotations

import sqlite3

from ci.informer.arithmetic.flakes import Outcome
from ci.informer.history.store import History
from lab.evidence.symptoms import Symptoms, diagnose

#: Runs that are labelled in one go: others may write in between.
_BATCH = 200


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
    diagnosis = diagnose(texts, symptoms, invalid=row["outcome"] == Outcome.VOID.value)
    values = (diagnosis.label.value, diagnosis.advice, diagnosis.component, row["id"])
    db.execute("UPDATE run SET label = ?, advice = ?, component = ? WHERE id = ?", values)
    shown = [(row["id"], hit.symptom.name, hit.place, hit.line) for hit in diagnosis.shown]
    db.execute("DELETE FROM symptom WHERE run = ?", (row["id"],))
    db.executemany("INSERT INTO symptom VALUES (?, ?, ?, ?)", shown)


def shown(history: History, run: int) -> list[tuple[str, str, str]]:
    """Return the symptoms of a run: name, place, line."""
    symptoms = history.db.execute("SELECT name, kind, line FROM symptom WHERE run = ? ORDER BY name", (run,))
    return [(symptom["name"], symptom["kind"], symptom["line"]) for symptom in symptoms]

"""Plans and their units in the history, so that a plan whose collector was killed can be resumed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ci.informer.errors import InformerError
from ci.informer.history.store import History


def begin(history: History, name: str, time: str, plan: bytes, *, folder: Path) -> None:
    """Write a plan down: as JSON, made at a time (ISO 8601), with the folder for its evidence."""
    with history.writing() as db:
        db.execute(
            "INSERT INTO plan (id, made, plan, artifacts) VALUES (?, ?, ?, ?)",
            (name, time, plan.decode(), str(folder.absolute())),
        )


def end(history: History, name: str, ended: str) -> None:
    """Mark a plan as done."""
    with history.writing() as db:
        db.execute("UPDATE plan SET ended = ? WHERE id = ?", (ended, name))


def plan(history: History, name: str) -> tuple[bytes, Path]:
    """Return a plan's JSON, and the folder for its evidence. Raises InformerError."""
    row = history.db.execute("SELECT plan, artifacts FROM plan WHERE id = ?", (name,)).fetchone()
    if row is None:
        raise InformerError(f"{history.path}: plan: there is no plan {name!r}")
    return row["plan"].encode(), Path(row["artifacts"])


def ended(history: History, name: str) -> str | None:
    """Return when a plan was done or given up; None as long as it is neither."""
    row = history.db.execute("SELECT ended FROM plan WHERE id = ?", (name,)).fetchone()
    return row["ended"] if row else None


def open_plans(history: History) -> list[tuple[str, str, int, int]]:
    """Plans that are not done, the first first, whatever the clock was: name, when they were made, units in all, units
    done."""
    rows = history.db.execute(
        """SELECT plan.id, made, count(unit.key) AS units, coalesce(sum(unit.done), 0) AS done FROM plan
        LEFT JOIN unit ON unit.plan = plan.id WHERE ended IS NULL GROUP BY plan.id ORDER BY plan.rowid"""
    )
    return [(row["id"], row["made"], row["units"], row["done"]) for row in rows]


def add(history: History, name: str, units: Iterable[tuple[str, bytes]]) -> None:
    """Add units to a plan: keys, and JSON."""
    with history.writing() as db:
        count = db.execute("SELECT count(*) FROM unit WHERE plan = ?", (name,)).fetchone()[0]
        db.executemany(
            "INSERT INTO unit (key, plan, position, unit) VALUES (?, ?, ?, ?)",
            [(key, name, count + place, text.decode()) for place, (key, text) in enumerate(units)],
        )


def done(history: History, key: str) -> None:
    """Mark a unit as done: it has ended, and its run is in the history."""
    with history.writing() as db:
        db.execute("UPDATE unit SET done = 1 WHERE key = ?", (key,))


def units(history: History, name: str, *, done: bool | None = None) -> dict[str, bytes]:
    """Return a plan's units by key, as JSON, in their order: all, or those that are done or not."""
    rows = history.db.execute(
        "SELECT key, unit FROM unit WHERE plan = ? AND (? IS NULL OR done = ?) ORDER BY position", (name, done, done)
    )
    return {row["key"]: row["unit"].encode() for row in rows}


def unit(history: History, key: str) -> bytes | None:
    """Return a unit as JSON; None where no plan has had it."""
    row = history.db.execute("SELECT unit FROM unit WHERE key = ?", (key,)).fetchone()
    return row["unit"].encode() if row else None


def pending(history: History, payload: str) -> dict[str, list[str]]:
    """Run on a payload that are still to come, of plans that are neither done nor given up: the plan of each, by
    job."""
    rows = history.db.execute(
        """SELECT unit.key, unit.plan FROM unit JOIN plan ON plan.id = unit.plan
        WHERE plan.ended IS NULL AND NOT unit.done AND json_extract(unit.unit, '$.payload') = ?
        ORDER BY plan.rowid, unit.position""",
        (payload,),
    )
    by_job: dict[str, list[str]] = {}
    for row in rows:
        by_job.setdefault(job_of(row["key"]), []).append(row["plan"])
    return by_job


def job_of(key: str) -> str:
    """Return the job of a unit, by its key (PLAN/JOB/NUMBER.TRY)."""
    return key.split("/")[1]


def unfinished(history: History) -> list[tuple[str, str, list[tuple[str, bool]]]]:
    """Plans that are not done, the newest first: name, when they were made, and each unit's job and whether it is
    done."""
    return [
        (
            name,
            begun,
            [
                (job_of(row["key"]), bool(row["done"]))
                for row in history.db.execute("SELECT key, done FROM unit WHERE plan = ? ORDER BY position", (name,))
            ],
        )
        for name, begun, _, _ in reversed(open_plans(history))
    ]

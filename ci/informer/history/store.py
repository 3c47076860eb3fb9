"""Writing runs into a history, and asking it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from pathlib import Path
from types import MappingProxyType, TracebackType

from ci.informer.arithmetic.flakes import Outcome
from ci.informer.errors import HistoryError, InformerError
from ci.informer.history.files import has_locks
from ci.informer.history.model import Attempt, Run, Step, began_of, latest
from ci.informer.history.schema import connect, lock_of
from lab.evidence.symptoms import Label

_COLUMNS = """run.id, job.name AS job, payload.name AS payload, run.key, run.began, run.seconds, run.outcome,
    run.reason, run.folder, run.label, run.advice, run.component, run.cluster, run.host, run.revision,
    run.mark, run.command"""
_TABLES = "run JOIN job ON job.id = run.job JOIN payload ON payload.id = run.payload"


@dataclass(frozen=True, kw_only=True)
class Row:
    """A run as lists show it."""

    id: int
    job: str
    payload: str
    key: str
    began: str
    seconds: float
    outcome: Outcome
    reason: str
    folder: str
    label: Label
    advice: str
    component: str
    cluster: str | None
    host: str = ""
    #: The commit that was checked out where it was planned; empty where that is not known.
    revision: str = ""
    #: The marks of its folder, when it was written down.
    mark: str = ""
    #: What its artefacts say makes it again, for a shell.
    command: str = ""

    @cached_property
    def day(self) -> date:
        """The day (UTC) on which it began."""
        return date.fromisoformat(self.began[:10])


class History:
    """One SQLite file, made where there is none, if `make`. Use it as a context manager; raises InformerError for a
    file that is none, or a newer one, and HistoryError, as its block does, where it cannot be read or written."""

    def __init__(self, path: Path, *, make: bool = True) -> None:
        self.path = path
        self.db = connect(path, make=make)

    def __enter__(self) -> History:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.db.close()
        if isinstance(error, sqlite3.Error):
            raise HistoryError(f"{self.path}: {error}") from error

    def warnings(self) -> Iterator[str]:
        """Warnings, a line each: runs that are dated in the future, a file system without locks."""
        rows = self.db.execute(
            f"SELECT {_COLUMNS} FROM {_TABLES} WHERE run.began > ? ORDER BY run.began, run.id", (latest(),)
        ).fetchall()
        if rows:
            which = f"run {rows[0]['id']} of {rows[0]['job']} began {rows[0]['began']}"
            count = "1 run lies" if len(rows) == 1 else f"{len(rows)} runs lie"
            yield f"{self.path}: {count} ahead of this clock ({which}): judged from then on, shown by node0-ci history"
        if not has_locks(self.path.parent):
            name = lock_of(self.path).name
            yield f"{self.path}: its file system has no locks; {name} beside it stands for them: run one plan at a time"

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Provide a transaction: all that the block writes is kept, or nothing of it."""
        if self.db.in_transaction:
            yield self.db
            return
        self.db.execute("BEGIN IMMEDIATE")
        try:
            yield self.db
            self.db.execute("COMMIT")
        except BaseException:
            # Where the disk is full, SQLite may have rolled back itself.
            if self.db.in_transaction:
                self.db.execute("ROLLBACK")
            raise

    def _id(self, table: str, name: str) -> int:
        self.db.execute(f"INSERT OR IGNORE INTO {table} (name) VALUES (?)", (name,))
        return int(self.db.execute(f"SELECT id FROM {table} WHERE name = ?", (name,)).fetchone()[0])

    def add(self, runs: Iterable[Run], *, host: str = "", revision: str = "") -> list[int]:
        """Write runs, and their ids; one that is there already (by its key) is replaced.

        `host` ran them, of the repository's `revision`. Raises InformerError for a run that began at no time.
        """
        with self.writing():
            return [self._add(run, host, revision) for run in runs]

    def _add(self, run: Run, host: str, revision: str) -> int:
        db = self.db
        try:
            began_of(run.began)
        except ValueError as error:
            raise InformerError(f"{self.path}: run of {run.job}: began: {error}") from error
        values = (
            self._id("job", run.job), self._id("payload", run.payload), run.began, run.seconds, run.outcome.value,
            run.reason, run.folder, run.mark, run.command, host, revision,
        )  # fmt: skip
        row = db.execute(
            """INSERT INTO run
                (job, payload, began, seconds, outcome, reason, folder, mark, command, host, revision, key)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            ON CONFLICT (key) DO UPDATE SET job = excluded.job, payload = excluded.payload, began = excluded.began,
                seconds = excluded.seconds, outcome = excluded.outcome, reason = excluded.reason,
                folder = excluded.folder, mark = excluded.mark, command = excluded.command, host = excluded.host,
                revision = excluded.revision, label = '', advice = '', component = '', cluster = NULL
            RETURNING id""",
            (*values, run.key),
        ).fetchone()
        number = int(row[0])
        for table in ("step", "attempt", "evidence", "symptom"):
            db.execute(f"DELETE FROM {table} WHERE run = ?", (number,))
        db.executemany(
            "INSERT INTO step VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (number, place, s.name, s.depth, s.at, s.seconds, s.outcome.value, s.error)
                for place, s in enumerate(run.steps)
            ],
        )
        tests = {name: self._id("test", name) for name in run.tests}
        db.executemany(
            "INSERT INTO attempt VALUES (?, ?, ?, ?, ?, ?)",
            [
                (number, place, tests[a.test], a.outcome.value, a.seconds, a.message)
                for place, a in enumerate(run.attempts)
            ],
        )
        db.executemany(
            "INSERT INTO evidence VALUES (?, ?, ?)", [(number, kind, text) for kind, text in run.evidence.items()]
        )
        return number

    def runs(
        self,
        job: str | None = None,
        payload: str | None = None,
        since: date | None = None,
        last: int | None = None,
        *,
        cluster: str | None = None,
        ahead: bool = False,
    ) -> list[Row]:
        """Run in the order in which they began: of a job, a payload, a cluster, from a day on, the last so many; with
        `ahead` those too that a clock which was wrong has dated later than now."""
        chosen = [("job.name = ?", job), ("payload.name = ?", payload), ("run.began >= ?", since and since.isoformat())]
        chosen += [("run.cluster = ?", cluster), ("run.began <= ?", None if ahead else latest())]
        where = " AND ".join(text for text, value in chosen if value is not None) or "1"
        rows = self.db.execute(
            f"SELECT {_COLUMNS} FROM {_TABLES} WHERE {where} ORDER BY run.began DESC, run.id DESC LIMIT ?",
            [*(value for _, value in chosen if value is not None), -1 if last is None else last],
        )
        return [_row(row) for row in rows.fetchall()][::-1]

    def run(self, number: int) -> Row:
        """Return the run of an id. Raises InformerError."""
        row = self.db.execute(f"SELECT {_COLUMNS} FROM {_TABLES} WHERE run.id = ?", (number,)).fetchone()
        if row is None:
            raise InformerError(f"{self.path}: run: there is no run {number}")
        return _row(row)

    def steps(self, number: int) -> list[Step]:
        """Return a run's phases."""
        rows = self.db.execute("SELECT * FROM step WHERE run = ? ORDER BY position", (number,))
        return [step_of(row) for row in rows]

    def attempts(self, number: int) -> list[Attempt]:
        """Return a run's attempts at its tests."""
        rows = self.db.execute(
            "SELECT test.name, attempt.* FROM attempt JOIN test ON test.id = attempt.test"
            " WHERE run = ? ORDER BY position",
            (number,),
        )
        return [attempt_of(row) for row in rows]

    def tested(self, job: str) -> dict[int, float]:
        """Seconds that the tests of a job's runs took, by run: what a run of ours takes besides its phases."""
        rows = self.db.execute(
            """SELECT attempt.run, sum(attempt.seconds) AS seconds FROM attempt JOIN run ON run.id = attempt.run
            JOIN job ON job.id = run.job WHERE job.name = ? GROUP BY attempt.run""",
            (job,),
        )
        return {row["run"]: row["seconds"] for row in rows}

    def evidence(self, number: int) -> dict[str, str]:
        """Return a run's texts by their kind."""
        rows = self.db.execute("SELECT kind, text FROM evidence WHERE run = ?", (number,))
        return {row["kind"]: row["text"] for row in rows}

    def payloads(self) -> list[str]:
        """Names of payloads, in the order in which they were first run."""
        rows = self.db.execute(
            "SELECT payload.name FROM run JOIN payload ON payload.id = run.payload WHERE run.began <= ?"
            " GROUP BY payload.id ORDER BY min(run.began), payload.id",
            (latest(),),
        )
        return [row["name"] for row in rows]

    def jobs(self) -> list[str]:
        """Names of jobs, sorted."""
        return [row["name"] for row in self.db.execute("SELECT name FROM job ORDER BY name")]

    def identify(self, payload: str, digest: str, images: Mapping[str, str] = MappingProxyType({})) -> None:
        """Note that this name is the release image of this digest, now and ever, with these images by digest. Raises
        InformerError where it was another one: two releases in one would be judged as one."""
        with self.writing() as db:
            number = self._id("payload", payload)
            known = db.execute("SELECT digest FROM payload WHERE id = ?", (number,)).fetchone()["digest"]
            if known not in ("", digest):
                raise InformerError(
                    f"{self.path}: payload: {payload!r} is {known}, and this release {digest}: "
                    "give it another name by --payload"
                )
            db.execute("UPDATE payload SET digest = ? WHERE id = ?", (digest, number))
            rows = [(number, tag, image) for tag, image in images.items()]
            db.executemany("INSERT OR REPLACE INTO image VALUES (?, ?, ?)", rows)

    def images(self, payload: str) -> dict[str, str]:
        """Return the digests of a payload's images by their tags; none where they are not known."""
        rows = self.db.execute(
            "SELECT tag, image.digest FROM image JOIN payload ON payload.id = payload WHERE name = ? ORDER BY tag",
            (payload,),
        )
        return {row["tag"]: row["digest"] for row in rows}

    def aliases(self, payload: str) -> list[str]:
        """Other names of the same release image, where that is known."""
        rows = self.db.execute(
            """SELECT other.name FROM payload JOIN payload AS other ON other.digest = payload.digest
            WHERE payload.name = ? AND payload.digest != '' AND other.id != payload.id ORDER BY other.name""",
            (payload,),
        )
        return [row["name"] for row in rows]

    def busy(self, begin: date, end: date, least: int) -> list[str]:
        """Names of jobs that had so many runs from a day on and before another one, sorted."""
        rows = self.db.execute(
            """SELECT job.name FROM run JOIN job ON job.id = run.job WHERE run.began >= ? AND run.began < ?
            GROUP BY job.id HAVING count(*) >= ? ORDER BY job.name""",
            (begin.isoformat(), end.isoformat(), least),
        )
        return [row["name"] for row in rows]

    def judge(self, payload: str, *, good: bool | None) -> None:
        """Remember whether a payload was accepted; None: neither that, nor rejected."""
        with self.writing() as db:
            db.execute("UPDATE payload SET good = ? WHERE name = ?", (good, payload))

    def good_payloads(self) -> list[tuple[date, str]]:
        """Return the payloads that were accepted, by the day of their first run: that day, and the name."""
        rows = self.db.execute(
            """SELECT min(run.began) AS began, payload.name FROM run JOIN payload ON payload.id = run.payload
            WHERE payload.good = 1 GROUP BY payload.id ORDER BY began"""
        )
        return [(date.fromisoformat(row["began"][:10]), row["name"]) for row in rows]

    def note(self, text: str, written: str, *, run: int | None = None, cluster: str | None = None) -> None:
        """Add a person's note to a run or a cluster of failures. Raises InformerError when there is none."""
        try:
            with self.writing() as db:
                db.execute(
                    "INSERT INTO note (run, cluster, written, text) VALUES (?, ?, ?, ?)", (run, cluster, written, text)
                )
        except sqlite3.IntegrityError as error:
            raise InformerError(f"{self.path}: note: there is no {cluster or f'run {run}'}") from error

    def notes(self, run: int | None = None, cluster: str | None = None) -> Sequence[tuple[str, str]]:
        """List when each note of a run, a cluster or its other runs was written, and its text."""
        rows = self.db.execute(
            """SELECT written, text, note.run FROM note LEFT JOIN run ON run.id = note.run
            WHERE note.run = ?1 OR note.cluster = ?2 OR run.cluster = ?2 ORDER BY note.id""",
            (run, cluster),
        )
        other = [(row["written"], row["text"], row["run"]) for row in rows]
        return [(at, text if number in (None, run) else f"run {number}: {text}") for at, text, number in other]


def step_of(row: sqlite3.Row) -> Step:
    """Return a row of `step`."""
    return Step(row["name"], row["at"], row["seconds"], Outcome(row["outcome"]), depth=row["depth"], error=row["error"])


def attempt_of(row: sqlite3.Row) -> Attempt:
    """Return a row of `attempt` with its test's name."""
    return Attempt(row["name"], Outcome(row["outcome"]), row["seconds"], row["message"])


def _row(row: sqlite3.Row) -> Row:
    return Row(**{**dict(row), "outcome": Outcome(row["outcome"]), "label": Label(row["label"])})

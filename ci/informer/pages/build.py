"""Builds all pages of a history into a directory."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from urllib.parse import quote

from ci.informer import triage
from ci.informer.arithmetic.flakes import Outcome
from ci.informer.errors import InformerError
from ci.informer.history import again, work
from ci.informer.history.store import History, Row, attempt_of, step_of
from ci.informer.judging.review import record, regressions
from ci.informer.judging.verdict import judge
from ci.informer.pages import views, whole
from ci.informer.pages.frame import STYLE, page
from ci.informer.pages.views import Details
from lab.evidence.report import PAGE

#: Payloads with a verdict on the first page: the last ones.
VERDICTS = 3
#: Runs whose details are in memory at a time.
_BATCH = 500
#: A file that every directory of pages has, and how it begins, in this version and in earlier ones. Nothing is written
#: into a directory without it.
MARK = "style.css"
#: Files and folders of the pages, in the order in which they are replaced: those that are linked to come first.
_PARTS = (MARK, "runs", "jobs", "grid.html", "index.html")
_MARKS = (STYLE.partition("\n")[0], "\n:root{color-scheme:light dark;--bg:#fff;--fg:#1f2328")


def _details(history: History, rows: Sequence[Row]) -> dict[int, Details]:
    """Details of these runs by the run's number, each table asked once."""
    by_run = {row.id: Details() for row in rows}
    numbers = (json.dumps([*by_run]),)
    chosen = "WHERE run IN (SELECT value FROM json_each(?))"
    for row in history.db.execute(f"SELECT * FROM step {chosen} ORDER BY run, position", numbers):
        by_run[row["run"]].steps.append(step_of(row))
    attempts = f"SELECT test.name, attempt.* FROM attempt JOIN test ON test.id = attempt.test {chosen}"
    for row in history.db.execute(f"{attempts} ORDER BY run, position", numbers):
        by_run[row["run"]].attempts.append(attempt_of(row))
    for row in history.db.execute(f"SELECT * FROM symptom {chosen} ORDER BY run, name", numbers):
        by_run[row["run"]].symptoms.append((row["name"], row["kind"], row["line"]))
    return by_run


def index(history: History, blocking: Sequence[str] = (), informing: Sequence[str] = (), *, live: bool = False) -> str:
    """Return the first page: verdicts of the last payloads, which are shown and not remembered: `verdict` may have been
    told other kinds."""
    last = reversed(history.payloads()[-VERDICTS:])
    verdicts = [judge(history, payload, blocking, informing, remember=False) for payload in last]
    body = [part for verdict in verdicts for part in views.verdict(verdict)]
    if verdicts:
        body = [*views.no_blocking_job(verdicts[0]), *body, *views.words()]
    now = views.running(work.unfinished(history)) if live else ()
    body = [*now, *(body or ["<p>No run has been loaded yet: node0-ci load, or node0-ci run.</p>"])]
    return page("Verdicts", body, live=live)


def grid(history: History, live: bool = False) -> str:
    """Return the page with all jobs and their runs."""
    by_job = {job: rows for job in history.jobs() if (rows := history.runs(job=job, last=views.COLUMNS))}
    return page("Grid", views.grid(by_job), live=live)


def job(history: History, name: str, live: bool = False) -> str:
    """Return a job's page. Raises InformerError for one that has no runs."""
    rows = history.runs(job=name)
    if not rows:
        raise InformerError(f"{history.path}: job: {name!r} has no runs")
    return page(name, _job(history, rows), up="../", live=live)


def run(history: History, number: int, live: bool = False) -> str:
    """Return a run's page. Raises InformerError for one that does not exist."""
    row = history.run(number)
    red = row.outcome in (Outcome.FAILED, Outcome.VOID)
    details = Details(history.steps(number), history.attempts(number), history.evidence(number) if red else {})
    details.symptoms, details.notes = triage.shown(history, number), history.notes(number, row.cluster)
    alike = history.runs(cluster=row.cluster) if row.cluster else []
    details.own = f"../evidence/{number}/{PAGE}" if live and _has_page(row) else ""
    body = views.run(row, details, again.command(history, row), alike)
    return page(f"Run {number}: {row.job}", body, up="../", live=live)


def build(history: History, root: Path, blocking: Sequence[str] = (), informing: Sequence[str] = ()) -> int:
    """Write all pages, or leave those that are there; how many. A run has a page as long as its job's page lists it.

    Raises InformerError for a directory that holds other things, and one that has no room.
    """
    if root.exists() and not root.is_dir():
        raise InformerError(f"{root}: not a directory")
    if root.is_dir() and whole.names(root) and not _is_ours(root):
        raise InformerError(f"{root}: not empty, and not made by node0-ci page")
    with whole.replacing(root, _PARTS) as new:
        return _written(history, new, root, blocking=blocking, informing=informing)


def _has_page(row: Row) -> bool:
    return bool(row.folder) and Path(row.folder, PAGE).is_file()


def _written(history: History, root: Path, final: Path, *, blocking: Sequence[str], informing: Sequence[str]) -> int:
    """Write all pages into an empty folder, which becomes `final`; how many."""
    for folder in ("jobs", "runs"):
        (root / folder).mkdir()
    write(root / MARK, STYLE)
    write(root / "index.html", index(history, blocking, informing))
    rows = sorted(history.runs(), key=_by_job)
    by_job = {job: list(group) for job, group in groupby(rows, key=lambda row: row.job)}
    write(root / "grid.html", page("Grid", views.grid(by_job)))
    for name, group in by_job.items():
        write(root / "jobs" / views.job_file(name), page(name, _job(history, group), up="../"))
    shown = [row for group in by_job.values() for row in group[-views.LISTED :]]
    clusters = _clusters(shown)
    for begin in range(0, len(shown), _BATCH):
        batch = shown[begin : begin + _BATCH]
        details = _details(history, batch)
        for row in batch:
            of_run, alike = details[row.id], clusters.get(row.cluster or "", ())
            of_run.notes = history.notes(row.id, row.cluster)
            if row.outcome in (Outcome.FAILED, Outcome.VOID):
                of_run.evidence = history.evidence(row.id)
            if _has_page(row):
                of_run.own = quote(os.path.relpath(Path(row.folder, PAGE), (final / "runs").absolute()))
            body = views.run(row, of_run, again.command(history, row), alike)
            write(root / f"runs/{row.id}.html", page(f"Run {row.id}: {row.job}", body, up="../"))
    return 2 + len(by_job) + len(shown)


def write(path: Path, text: str) -> None:
    """Write a page; halves of characters, which no file can hold, are replaced."""
    path.write_bytes(text.encode(errors="replace"))


def _is_ours(root: Path) -> bool:
    """Tell whether a directory has pages that were made here."""
    try:
        return (root / MARK).read_text(errors="replace").startswith(_MARKS)
    except OSError:
        return False


def _job(history: History, rows: Sequence[Row]) -> Iterable[str]:
    """Return a job's page, its regressions up to date."""
    record(history, rows)
    return views.job(rows, again.command(history, rows[-1]), regressions(history, rows[-1].job))


def _by_job(row: Row) -> tuple[str, str, int]:
    return row.job, row.began, row.id


def _clusters(rows: Sequence[Row]) -> dict[str, list[Row]]:
    by_cluster: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda row: (row.began, row.id)):
        if row.cluster:
            by_cluster.setdefault(row.cluster, []).append(row)
    return by_cluster

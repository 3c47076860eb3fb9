"""Builds all pages of a history into a directory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

from ci.informer import triage
from ci.informer.arithmetic.flakes import Outcome
from ci.informer.errors import InformerError
from ci.informer.history import again, files, work
from ci.informer.history.model import Attempt, Step
from ci.informer.history.store import History, Row
from ci.informer.judging.review import record, regressions
from ci.informer.judging.verdict import judge
from ci.informer.pages import views
from ci.informer.pages.frame import STYLE, page
from ci.informer.pages.views import Details

#: Payloads with a verdict on the first page: the last ones.
VERDICTS = 3
#: What a page directory of ours has, and how it begins, also where earlier versions wrote it; into another directory
#: nothing is written.
MARK = "style.css"
_MARKS = (STYLE.partition("\n")[0], "\n:root{color-scheme:light dark;--bg:#fff;--fg:#1f2328")


def _details(history: History) -> Iterator[tuple[int, Details]]:
    """Details of all runs that have any, by the run's number, each table read once."""
    by_run: dict[int, Details] = {}
    for one in history.db.execute("SELECT * FROM step ORDER BY run, position"):
        step = Step(
            one["name"], one["at"], one["seconds"], Outcome(one["outcome"]), depth=one["depth"], error=one["error"]
        )
        by_run.setdefault(one["run"], Details()).steps.append(step)
    names = {one["id"]: one["name"] for one in history.db.execute("SELECT id, name FROM test")}
    for one in history.db.execute("SELECT * FROM attempt ORDER BY run, position"):
        attempt = Attempt(names[one["test"]], Outcome(one["outcome"]), one["seconds"], one["message"])
        by_run.setdefault(one["run"], Details()).attempts.append(attempt)
    for one in history.db.execute("SELECT * FROM symptom ORDER BY run, name"):
        by_run.setdefault(one["run"], Details()).symptoms.append((one["name"], one["kind"], one["line"]))
    yield from by_run.items()


def index(history: History, blocking: Sequence[str], live: bool = False) -> str:
    """The first page: verdicts of the last payloads."""
    body = [
        part
        for payload in reversed(history.payloads()[-VERDICTS:])
        for part in views.verdict(judge(history, payload, blocking))
    ]
    now = views.running(work.unfinished(history)) if live else ()
    body = [*now, *(body or ["<p>No run has been loaded yet: node0-ci load, or node0-ci run.</p>"])]
    return page("Verdicts", body, live=live)


def grid(history: History, live: bool = False) -> str:
    """The page with all jobs and their runs."""
    by_job = {job: list(group) for job, group in groupby(sorted(history.runs(), key=_by_job), key=lambda row: row.job)}
    return page("Grid", views.grid(by_job), live=live)


def job(history: History, name: str, live: bool = False) -> str:
    """A job's page. Raises InformerError for one that has no runs."""
    rows = history.runs(job=name)
    if not rows:
        raise InformerError(f"{history.path}: job: {name!r} has no runs")
    return page(name, _job(history, rows), up="../", live=live)


def run(history: History, number: int, live: bool = False) -> str:
    """A run's page. Raises InformerError for one that does not exist."""
    row = history.run(number)
    red = row.outcome in (Outcome.FAILED, Outcome.VOID)
    details = Details(history.steps(number), history.attempts(number), history.evidence(number) if red else {})
    details.symptoms = triage.shown(history, number)
    alike = [one for one in history.runs() if row.cluster and one.cluster == row.cluster]
    body = views.run(row, details, again.command(history, row), alike)
    return page(f"Run {number}: {row.job}", body, up="../", live=live)


def build(history: History, root: Path, blocking: Sequence[str] = ()) -> int:
    """Write all pages; how many. A run has a page as long as its job's page lists it.

    Raises InformerError for a directory that holds other things.
    """
    if root.exists() and not root.is_dir():
        raise InformerError(f"{root}: not a directory")
    if root.is_dir() and any(root.iterdir()) and not _is_ours(root):
        raise InformerError(f"{root}: not empty, and not made by node0-ci page")
    for folder in (root, root / "jobs", root / "runs"):
        folder.mkdir(parents=True, exist_ok=True)
    files.write(root / MARK, STYLE)
    files.write(root / "index.html", index(history, blocking))
    rows = history.runs()
    by_job = {job: list(group) for job, group in groupby(sorted(rows, key=_by_job), key=lambda row: row.job)}
    files.write(root / "grid.html", page("Grid", views.grid(by_job)))
    for name, group in by_job.items():
        files.write(root / "jobs" / views.job_file(name), page(name, _job(history, group), up="../"))
    count = 2 + len(by_job)
    shown = sorted((row for group in by_job.values() for row in group[-views.LISTED :]), key=lambda row: row.id)
    details, clusters = dict(_details(history)), _clusters(shown)
    for row in shown:
        of_run = details.get(row.id, Details())
        if row.outcome in (Outcome.FAILED, Outcome.VOID):
            of_run.evidence = history.evidence(row.id)
        body = views.run(row, of_run, again.command(history, row), clusters.get(row.cluster or "", ()))
        files.write(root / f"runs/{row.id}.html", page(f"Run {row.id}: {row.job}", body, up="../"))
        count += 1
    wanted = {f"{row.id}.html" for row in shown}
    for path in (root / "runs").iterdir():
        if path.name not in wanted and not path.name.startswith("."):
            path.unlink(missing_ok=True)
    for folder in (root, root / "jobs", root / "runs"):
        files.sweep(folder)
    return count


def _is_ours(root: Path) -> bool:
    """Whether a directory has pages that were made here."""
    try:
        return (root / MARK).read_text(errors="replace").startswith(_MARKS)
    except OSError:
        return False


def _job(history: History, rows: Sequence[Row]) -> Iterable[str]:
    """A job's page, its regressions up to date."""
    record(history, rows)
    return views.job(rows, again.command(history, rows[-1]), regressions(history, rows[-1].job))


def _by_job(row: Row) -> tuple[str, str, int]:
    return row.job, row.began, row.id


def _clusters(rows: Sequence[Row]) -> dict[str, list[Row]]:
    by_cluster: dict[str, list[Row]] = {}
    for row in rows:
        if row.cluster:
            by_cluster.setdefault(row.cluster, []).append(row)
    return by_cluster

"""Jobs and tests in a history up to a day: the watch of each job, its kind, its regressions."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from itertools import groupby

from ci.informer.arithmetic import durations
from ci.informer.arithmetic.aggregate import GRACE_FROM, accepted, baseline
from ci.informer.arithmetic.durations import Durations
from ci.informer.arithmetic.flakes import Outcome, counted
from ci.informer.arithmetic.promotion import Kind, Record, promoted
from ci.informer.arithmetic.proportions import Counts
from ci.informer.arithmetic.regression import (
    EARLIER,
    OPEN_RULES,
    Assessment,
    assess,
    base_window,
    best_basis,
    sample_window,
)
from ci.informer.history.store import History, Row
from ci.informer.judging.watching import Levels, Watch
from lab.evidence.symptoms import Label

#: Days of runs by which a job's kind is decided.
KIND_DAYS = 30
#: Days before the one that is judged in which a test's regression may have opened.
TRACKED_DAYS = 28
#: The release that a payload is one of: 4.20 of 4.20.1.
_RELEASE = re.compile(r"(\d{1,3})\.(\d{1,3})(?!\d)", re.ASCII)


def counts_of(rows: Iterable[Row]) -> Counts:
    """Run and failures of rows; flakes are passes, invalid runs nothing."""
    return counted([row.outcome for row in rows])


def within(rows: Iterable[Row], begin: date, end: date) -> list[Row]:
    """Return the rows that began on a day from `begin` on, and before `end`."""
    return [row for row in rows if begin <= row.day < end]


def readiness_counts(rows: Iterable[Row]) -> Counts:
    """As `counts_of`, without failures that the lab's or the host's symptoms explain: no regression is made of them."""
    return counts_of(row for row in rows if row.label not in (Label.LAB, Label.HOST))


def watched(rows: Sequence[Row], levels: Levels = Levels()) -> Watch:  # noqa: B008 - frozen
    """Return a job's watch after all of its nights, judged as simulated nights are."""
    watch = Watch(levels)
    for day, night in groupby(rows, key=lambda row: row.day):
        if (counts := readiness_counts(night)).runs:
            watch.night(day, counts)
    return watch


def _own(rows: Sequence[Row]) -> list[Row]:
    """Return a job's runs without those on payloads that it rejects by their number: these failures are the payload's,
    even if it has not been judged. If they counted, a job would stop blocking just when it is needed."""
    total, by_payload = counts_of(rows), defaultdict[str, list[Row]](list)
    for row in rows:
        by_payload[row.payload].append(row)
    bad = set()
    for payload, runs in by_payload.items():
        counts = counts_of(runs)
        rest = Counts(total.runs - counts.runs, total.failures - counts.failures)
        if counts.runs >= GRACE_FROM and not accepted(counts, rest):
            bad.add(payload)
    return [row for row in rows if row.payload not in bad]


def kind_of(rows: Sequence[Row], day: date, bad: Iterable[str] = ()) -> tuple[Kind, str]:
    """Return the kind that a job has earned by its runs before a day, and what it lacks for the next higher one. `bad`
    are payloads that were rejected: their failures are not the job's."""
    rejected = set(bad)
    before = [row for row in rows if row.day < day and row.payload not in rejected]
    recent = _own(within(before, day - timedelta(days=KIND_DAYS), day))
    took = durations.summary([row.seconds for row in recent if row.outcome.good])
    flaky = sum(row.outcome is Outcome.FLAKE for row in recent)
    days = (day - before[0].day).days if before else 0
    return promoted(Record(days, counts_of(recent), flaky, took.p95 if took else 0.0))


@dataclass(frozen=True)
class TestChange:
    """A test that is worse than it was (or new and bad), over the last week."""

    __test__ = False  # pytest: no test class

    test: str
    sample: Counts
    base: Counts
    assessment: Assessment


@dataclass
class _Sums:
    """A test's runs and failures by day, and the sums of stretches of them."""

    days: list[date] = field(default_factory=list)
    totals: list[Counts] = field(default_factory=lambda: [Counts()])

    def add(self, day: date, counts: Counts) -> None:
        """Add a day's runs; days come in their order."""
        self.days.append(day)
        self.totals.append(self.totals[-1] + counts)

    def between(self, begin: date, end: date) -> Counts:
        """Sum up the days from one on and before another."""
        first, last = (self.totals[bisect_left(self.days, edge)] for edge in (begin, end))
        return Counts(last.runs - first.runs, last.failures - first.failures)


def _test_sums(history: History, begin: date, end: date) -> dict[str, _Sums]:
    """Run and failures of each test by day, from a day on and before another one; a run's last attempt counts. Runs
    that the lab or its host spoiled are left out, also those that were not invalid."""
    rows = history.db.execute(
        """SELECT test.name, day, count(*) AS runs, sum(1 - good) AS failures FROM (
            SELECT attempt.test, substr(run.began, 1, 10) AS day, attempt.outcome = 'passed' AS good,
                max(attempt.position)
            FROM attempt JOIN run ON run.id = attempt.run
            WHERE run.began >= ? AND run.began < ? AND run.outcome != 'void' AND run.label NOT IN ('lab', 'host')
                AND attempt.outcome IN ('passed', 'failed')
            GROUP BY attempt.test, attempt.run
        ) JOIN test ON test.id = test GROUP BY test, day ORDER BY day""",
        (begin.isoformat(), end.isoformat()),
    )
    sums = defaultdict[str, _Sums](_Sums)
    for row in rows:
        sums[row["name"]].add(date.fromisoformat(row["day"]), Counts(row["runs"], row["failures"]))
    return sums


def _bases(good: Sequence[tuple[date, str]], day: date) -> list[tuple[date, date]]:
    """Return the stretches of history that a day is held against: before the last good payload, and before the last
    one of each earlier release (4.19 before 4.20). `good` are the payloads' first days, and names."""
    before = [(begun, _RELEASE.match(payload)) for begun, payload in good if begun < day]
    if not before:
        return [base_window(sample_window(day)[0])]
    newest, release = before[-1]
    lines = {(int(match[1]), int(match[2])): begun for begun, match in before if match}
    here = (int(release[1]), int(release[2])) if release else (0, 0)
    return [base_window(newest), *(base_window(lines[line]) for line in sorted(lines, reverse=True) if line < here)]


def _held(sums: _Sums, day: date, stretches: Sequence[tuple[date, date]]) -> tuple[Counts, Counts]:
    """Return a test's sample on a day, and the basis that it is held against."""
    last, *earlier = (sums.between(*stretch) for stretch in stretches)
    return sums.between(*sample_window(day)), best_basis(last, earlier)


def _is_open(sums: _Sums, bases: Mapping[date, Sequence[tuple[date, date]]]) -> bool:
    """Tell whether a test's regression is open on the last day. Whatever is one by `Rules` is one by `OPEN_RULES` too,
    so a day before counts only where the two differ."""
    for day in sorted(bases, reverse=True):
        held = _held(sums, day, bases[day])
        if assess(*held).status.bad:
            return True
        if not assess(*held, OPEN_RULES).status.bad:
            return False
    return False


def regressed_tests(history: History, day: date) -> list[TestChange]:
    """List the tests that component readiness would call regressed on a day, the surest first. A regression that was
    seen on the day before is open, and closes less readily than it opened."""
    days = [day - timedelta(days=count) for count in range(TRACKED_DAYS + 1)]
    good = history.good_payloads()
    bases = {on: _bases(good, on)[: 1 + EARLIER] for on in days}
    oldest = min(begin for stretches in bases.values() for begin, _ in stretches)
    changes = []
    for name, sums in _test_sums(history, oldest, day + timedelta(days=1)).items():
        if _is_open(sums, bases):
            sample, base = _held(sums, day, bases[day])
            changes.append(TestChange(name, sample, base, assess(sample, base, OPEN_RULES)))
    return sorted(changes, key=lambda change: change.assessment.p)


@dataclass(frozen=True, kw_only=True)
class JobState:
    """A job on a day: over the last week, against the baseline, and what its watch says."""

    job: str
    kind: Kind
    wants: str
    recent: Counts
    base: Counts
    watch: Watch
    last: Row
    took: Durations | None
    drift: float | None
    voids: int
    flaky: int


def job_state(rows: Sequence[Row], day: date, bad: Iterable[str] = ()) -> JobState:
    """Return the state of one job, of which there are rows, on a day."""
    recent = within(rows, *sample_window(day))
    base = within(rows, *baseline(day))
    kind, wants = kind_of(rows, day + timedelta(days=1), bad)
    seconds = [row.seconds for row in recent if row.outcome.good]
    return JobState(
        job=rows[-1].job,
        kind=kind,
        wants=wants,
        recent=counts_of(recent),
        base=counts_of(base),
        watch=watched([row for row in rows if row.day <= day]),
        last=rows[-1],
        took=durations.summary(seconds),
        drift=durations.drift(seconds, [row.seconds for row in base if row.outcome.good]),
        voids=sum(row.outcome is Outcome.VOID for row in recent),
        flaky=sum(row.outcome is Outcome.FLAKE for row in recent),
    )


def rejected(history: History) -> list[str]:
    """Payloads that were rejected."""
    return [row["name"] for row in history.db.execute("SELECT name FROM payload WHERE good = 0")]


def record(history: History, rows: Sequence[Row]) -> Watch:
    """As `watched`, and write the job's regressions into the history. `rows` are all of the job's runs: regressions
    that they no longer show (runs were replaced, or older ones were loaded) are deleted."""
    watch, job = Watch(), rows[0].job
    beginnings: list[str] = []
    with history.writing() as db:
        number = db.execute("SELECT id FROM job WHERE name = ?", (job,)).fetchone()["id"]
        for day, night in groupby(rows, key=lambda row: row.day):
            if not (counts := readiness_counts(night)).runs:
                continue
            before, finding = watch.finding, watch.night(day, counts)
            if finding is not None and finding.again:
                db.execute("UPDATE regression SET closed = NULL WHERE job = ? AND since = ?", (number, beginnings[-1]))
            elif finding is not None:
                beginnings.append(str(finding.since))
                db.execute(
                    """INSERT INTO regression (job, since, seen, sample, base, p) VALUES (?, ?, ?, ?, ?, ?)
                    ON CONFLICT (job, since) DO UPDATE SET seen = excluded.seen, closed = NULL,
                        sample = excluded.sample, base = excluded.base, p = excluded.p""",
                    (number, str(finding.since), str(finding.seen), str(finding.sample), str(finding.base), finding.p),
                )
            if before is not None and watch.finding is None:
                closed = (day.isoformat(), number, beginnings[-1])
                db.execute("UPDATE regression SET closed = ? WHERE job = ? AND since = ?", closed)
        db.execute(
            """DELETE FROM regression WHERE job = ? AND since NOT IN (SELECT value FROM json_each(?))
            AND id NOT IN (SELECT regression FROM note WHERE regression IS NOT NULL)""",
            (number, json.dumps(beginnings)),
        )
    return watch


def regressions(history: History, job: str) -> list[tuple[str, str, str, str, str, float]]:
    """Return a job's regressions: since, seen, closed (or nothing), sample, base, p."""
    rows = history.db.execute(
        """SELECT since, seen, coalesce(closed, '') AS closed, sample, base, p FROM regression
        JOIN job ON job.id = regression.job WHERE job.name = ? ORDER BY since""",
        (job,),
    )
    return [(row["since"], row["seen"], row["closed"], row["sample"], row["base"], row["p"]) for row in rows]

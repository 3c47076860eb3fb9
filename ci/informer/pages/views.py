"""The bodies of the pages: verdicts, grid, one job, one run."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from hashlib import sha256
from html import escape
from unicodedata import east_asian_width
from urllib.parse import quote

from ci.informer.arithmetic import changepoint, durations
from ci.informer.arithmetic.flakes import Outcome
from ci.informer.arithmetic.promotion import (
    BLOCKING_DAYS,
    BLOCKING_FLAKES,
    BLOCKING_SECONDS,
    INFORMING_PASS_RATE,
    INFORMING_RUNS,
    Kind,
)
from ci.informer.history.model import Attempt, Step
from ci.informer.history.store import Row
from ci.informer.judging.verdict import JobVerdict, Verdict
from ci.informer.pages.frame import LEGEND, LETTERS, clock, pre, spoken, table, word

#: Since, seen, closed, sample, base, p, as ci.informer.judging.review tells them.
Regression = tuple[str, str, str, str, str, float]
#: Columns of the grid, and runs that a job's page lists; these have pages of their own.
COLUMNS, LISTED = 60, 400
#: Jobs in a part of the grid: a browser lays out those that are seen.
_PART = 25
#: The longest name of a job's file in bytes; file systems have a limit, and so have the programs that write there.
_LONGEST_NAME = 200


@dataclass
class Details:
    """Show what is known of a run beyond its row."""

    steps: list[Step] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    evidence: Mapping[str, str] = field(default_factory=dict)
    _: KW_ONLY
    symptoms: list[tuple[str, str, str]] = field(default_factory=list)
    notes: Sequence[tuple[str, str]] = ()
    #: The address of the page that its artefacts have; empty where there is none.
    own: str = ""


def job_file(job: str) -> str:
    """Return the file of a job's page, as it is called; one whose name would be too long for a file has a hash in
    it."""
    name = "".join(c if c.isalnum() or c in "-_.@" else f"~{ord(c):x}" for c in job)
    if len(name.encode()) > _LONGEST_NAME:
        name = f"{name[:40]}~{sha256(job.encode()).hexdigest()}"
    return f"{name}.html"


def _job_link(job: str, up: str = "") -> str:
    return f'<a href="{up}jobs/{quote(job_file(job))}">{escape(job)}</a>'


def _run_link(row: Row, up: str, text: str) -> str:
    return f'<a href="{up}runs/{row.id}.html">{escape(text)}</a>'


def _components(job: JobVerdict) -> str:
    """Return the labels and components of a job's failures."""
    named = sorted({f"{row.label} {row.component}".strip() for row in job.failures if row.label})
    return f"; {escape(', '.join(named))}" if named else ""


def verdict(verdict: Verdict) -> Iterable[str]:
    """Yield a payload's verdict with its numbers."""
    decision = f"{word(verdict.decision.value)}: {escape(verdict.why)}"
    yield f'<section><h2>{escape(verdict.payload)}</h2><p class="big">{decision}</p>'
    yield from table(
        f"What each job says of {verdict.payload}",
        ("job", "kind", "says", "because", "invalid runs", "more runs", "again"),
        (
            (
                _job_link(job.job),
                job.kind.value + (f" ({escape(job.wants)})" if job.wants else ""),
                word(job.decision.value),
                escape(job.why) + _components(job),
                str(job.voids),
                str(job.more or ""),
                f"<code>{escape(job.again)}</code>",
            )
            for job in verdict.jobs
        ),
    )
    if verdict.tests:
        yield from table(
            f"Tests that regressed in the last seven days of {verdict.payload}",
            ("test", "what", "now", "before", "p"),
            (
                (
                    escape(t.test),
                    t.assessment.status.value,
                    str(t.sample),
                    str(t.base),
                    f"{t.assessment.p:.2g}" if t.base.runs else "-",
                )
                for t in verdict.tests
            ),
        )
    yield "</section>"


def no_blocking_job(latest: Verdict) -> Iterable[str]:
    """Say what to do where no job blocks: nothing is accepted or rejected then."""
    if not latest.jobs or any(job.kind is Kind.BLOCKING for job in latest.jobs):
        return
    yield "<section><h2>No job blocks, so nothing is accepted or rejected</h2>"
    yield "<p>Say which jobs decide, by name or pattern, here and wherever verdicts are asked for:</p><ul>"
    pattern = shlex.quote(min(latest.jobs, key=lambda job: job.voids + len(job.failures)).job)
    for words in (f"verdict {shlex.quote(latest.payload)} --blocking {pattern}", "page DIR --blocking '*'"):
        yield f"<li><code>node0-ci {escape(words)}</code></li>"
    yield "</ul><p>Or let them earn it: the column <em>kind</em> says what each of them lacks.</p></section>"


#: The words of the page of verdicts.
WORDS = (
    ("blocking job", "A payload is accepted once all of them accept it, and rejected when one rejects it. A job blocks "
     f"after {BLOCKING_DAYS} days with fewer than {BLOCKING_FLAKES:.0%} flakes and a P95 of at most "
     f"{BLOCKING_SECONDS / 60:.0f} min, or when --blocking names it."),
    ("informing job", f"It is judged and shown, and decides nothing: from {INFORMING_RUNS} runs on, of which "
     f"{INFORMING_PASS_RATE:.0%} passed, or when --informing names it. Before that it is new."),
    ("invalid run", "The lab or its host spoiled it, or it was interrupted. It says nothing about the payload, is not "
     "counted, and is made again."),
    ("flake", "A test failed and passed when it was tried again, or a run failed on a payload that is good."),
    ("more runs", "So many further runs would decide, or settle a suspicion."),
    ("undecided", "The runs so far prove neither: more runs, or a blocking job, would."),
)  # fmt: skip


def words() -> Iterable[str]:
    """Explain the words of the page of verdicts."""
    yield "<section><h2>Words</h2><dl>"
    yield from (f"<dt>{word}</dt><dd>{escape(meaning)}</dd>" for word, meaning in WORDS)
    yield "</dl></section>"


def running(plans: Sequence[tuple[str, str, Sequence[tuple[str, bool]]]]) -> Iterable[str]:
    """Show what is being run: plans that are not done, with their jobs."""
    for name, date, units in plans:
        done = sum(finished for _, finished in units)
        yield from table(
            f"Plan {name}, made {date}: {done} of {len(units)} runs done",
            ("job", "state"),
            ((escape(job), "done" if finished else "running or waiting") for job, finished in units),
        )


def grid(by_job: Mapping[str, Sequence[Row]]) -> Iterable[str]:
    """Jobs and their runs, the newest first (TestGrid's habit)."""
    yield f"<p>{LEGEND}. The newest run is on the left; at most {COLUMNS} a job.</p>"
    # The same columns in all parts.
    name = max((sum(2 if east_asian_width(c) in "WF" else 1 for c in job) for job in by_job), default=0)
    columns = f"--name:{name}ch;--runs:{min(COLUMNS, max(map(len, by_job.values()), default=0))}"
    yield f'<div class="scroll" tabindex="0" role="region" aria-label="Grid" style="{columns}">'
    jobs = list(by_job)
    for begin in range(0, len(jobs), _PART):
        part = jobs[begin : begin + _PART]
        yield f'<div class="part" style="--rows:{len(part)}"><table class="grid">'
        yield f"<caption>Jobs and their runs: {escape(part[0])} to {escape(part[-1])}</caption><tbody>"
        for job in part:
            yield f'<tr><th scope="row">{_job_link(job)}</th>'
            yield "".join(
                f'<td><a class="{row.outcome.value}" href="runs/{row.id}.html" '
                f'aria-label="{spoken(row.outcome.value)}, {escape(row.began)}">{LETTERS[row.outcome]}</a></td>'
                for row in reversed(by_job[job][-COLUMNS:])
            )
            yield "</tr>"
        yield "</tbody></table></div>"
    yield "</div>"


def _sparkline(seconds: Sequence[float]) -> str:
    if len(seconds) < 2:
        return ""
    top, width = max(seconds) or 1.0, 600 / (len(seconds) - 1)
    points = " ".join(f"{place * width:.1f},{100 - 95 * value / top:.1f}" for place, value in enumerate(seconds))
    return (
        '<svg role="img" aria-label="Durations, oldest on the left" viewBox="0 0 600 100" width="600" height="100">'
        f'<polyline points="{points}" fill="none" stroke="currentColor"/></svg>'
    )


def job(rows: Sequence[Row], again: str, regressions: Sequence[Regression] = ()) -> Iterable[str]:
    """One job's history: the command that makes its last run again, regressions, durations, change points, runs."""
    counted = [row for row in rows[-LISTED:] if row.outcome not in (Outcome.VOID, Outcome.SKIPPED)]
    good = [row for row in counted if row.outcome.good]
    took = durations.summary([row.seconds for row in good])
    yield f"<p>Run it again: <code>{escape(again)}</code></p>"
    if regressions:
        yield from table(
            "Regressions",
            ("since", "seen", "closed", "then", "before", "p"),
            ([*(escape(text) for text in texts), f"{p:.2g}"] for *texts, p in regressions),
        )
    if took:
        yield f"<h2>Durations</h2><p>{escape(str(took))}, of the last {took.count} that passed.</p>"
        yield _sparkline([row.seconds for row in good])
    changes = [("duration", good[c.index], c.p) for c in changepoint.change_points([row.seconds for row in good])]
    failing = [float(row.outcome is Outcome.FAILED) for row in counted]
    changes += [("share of failures", counted[c.index], c.p) for c in changepoint.change_points(failing)]
    if changes:
        yield from table(
            "Change points",
            ("run", "what changed", "payload", "p"),
            ((_run_link(row, "../", row.began), what, escape(row.payload), f"{p:.2g}") for what, row, p in changes),
        )
    yield from table(
        f"The last {min(len(rows), LISTED)} of {len(rows)} runs",
        ("began (UTC)", "outcome", "took", "payload", "whose", "reason"),
        (
            (
                _run_link(row, "../", row.began),
                word(row.outcome.value),
                clock(row.seconds),
                escape(row.payload),
                escape(row.label),
                escape(row.reason.partition("\n")[0][:160]),
            )
            for row in reversed(rows[-LISTED:])
        ),
    )


def _waterfall(steps: Sequence[Step]) -> Iterable[str]:
    end = max([step.at + step.seconds for step in steps] + [0.001])
    yield from table(
        "Phases",
        ("phase", "outcome", "took", "when"),
        (
            (
                "&nbsp;" * 3 * step.depth + escape(step.name),
                word(step.outcome.value) + (f" {escape(step.error)}" if step.error else ""),
                clock(step.seconds),
                f'<div class="fall"><span class="bar {step.outcome.value}" style="margin-left:'
                f'{100 * step.at / end:.1f}%;width:{100 * step.seconds / end:.1f}%"></span></div>',
            )
            for step in steps
        ),
    )


def run(row: Row, details: Details, again: str, cluster: Sequence[Row] = ()) -> Iterable[str]:
    """One run: phases, tests, what it shows, the failures that are like it, and the command that makes it again."""
    host = "this machine" if row.host == "here" else escape(row.host)
    where = f", on {host}" if host else ""
    took = f"began {escape(row.began)}, took {clock(row.seconds)}{where}"
    yield f'<p class="big">{word(row.outcome.value)}</p>'
    yield f"<p>{_job_link(row.job, '../')} on {escape(row.payload)}, {took}</p>"
    if row.label:
        whose = f"{row.label}: {row.component}" if row.component else row.label
        yield f"<p>Whose: <strong>{escape(whose)}</strong>. {escape(row.advice)}</p>"
    yield f"<p>Run it again: <code>{escape(again)}</code></p>"
    if details.own:
        yield f'<p><a href="{escape(details.own)}">Its consoles, journals and all other evidence</a></p>'
    if row.reason:
        yield "<h2>Reason</h2>" + pre("Reason", row.reason)
    if details.notes:
        yield from table("Notes", ("written", "note"), ((escape(at), escape(text)) for at, text in details.notes))
    if details.symptoms:
        yield from table("Symptoms", ("symptom", "where", "line"), ([escape(x) for x in s] for s in details.symptoms))
    if details.steps:
        yield from _waterfall(details.steps)
    if details.attempts:
        yield from table(
            "Tests",
            ("test", "outcome", "took", "message"),
            (
                (escape(a.test), word(a.outcome.value), clock(a.seconds), escape(a.message.partition("\n")[0][:200]))
                for a in details.attempts
            ),
        )
    if row.cluster:
        others = ", ".join(
            _run_link(entry, "../", f"{entry.job} {entry.began}") for entry in cluster[-10:] if entry.id != row.id
        )
        yield f"<h2>Failures like this one</h2><p>Cluster {escape(row.cluster)}: {len(cluster)} runs. {others}</p>"
    for kind, text in details.evidence.items():
        if kind != "message":
            yield f"<h2>{escape(kind)}</h2>" + pre(kind, text[-8000:])
    if row.revision:
        yield f"<p>Revision of the repository: <code>{escape(row.revision)}</code></p>"
    if row.folder:
        yield f"<p>Folder of its evidence: <code>{escape(row.folder)}</code></p>"

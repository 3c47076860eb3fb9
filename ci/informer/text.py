"""The output of commands: aligned columns, and a verdict's lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ci.informer.arithmetic.durations import notable
from ci.informer.arithmetic.proportions import wilson
from ci.informer.history.store import Row
from ci.informer.judging.clusters import Cluster
from ci.informer.judging.review import JobState
from ci.informer.judging.verdict import JobVerdict, Verdict

_FAILURES = 3


def columns(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Rows under their heads, each column as wide as its widest cell."""
    all_rows = [heads, *rows]
    widths = [max(len(row[place]) for row in all_rows) for place in range(len(heads))]
    for row in all_rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def first_line(text: str, longest: int = 100) -> str:
    """Return the first line of a text, shortened."""
    line = text.strip().partition("\n")[0]
    return line if len(line) <= longest else f"{line[: longest - 3]}..."


def state_row(state: JobState) -> list[str]:
    """Return a job of `node0-ci status`."""
    low, high = wilson(state.recent)
    share = f"{low:.0%} to {high:.0%}" if state.recent.runs else ""
    notes = []
    if finding := state.watch.finding:
        notes.append(f"REGRESSED since {finding.since}")
    elif state.watch.wanted:
        notes.append(f"suspicious: wants {state.watch.wanted} more runs")
    if state.voids:
        notes.append(f"{state.voids} invalid")
    if state.flaky:
        notes.append(f"{state.flaky} flaky")
    if state.drift is not None and notable(state.drift):
        notes.append(f"takes {state.drift:+.0%}")
    if state.wants:
        notes.append(f"for more than {state.kind.value}: {state.wants}")
    took = f"{state.took.p50:.0f}/{state.took.p95:.0f}/{state.took.longest:.0f}" if state.took else ""
    return [state.job, state.kind.value, state.last.outcome.value, str(state.recent), share, took, "; ".join(notes)]


def state_data(state: JobState) -> dict[str, Any]:
    """Return a job of `node0-ci status` for programs; durations are in seconds."""
    finding = state.watch.finding
    return {
        "job": state.job,
        "kind": state.kind.value,
        "wants": state.wants,
        "last": state.last.outcome.value,
        "runs": state.recent.runs,
        "failures": state.recent.failures,
        "void": state.voids,
        "flaky": state.flaky,
        "more_runs": state.watch.wanted,
        "regressed_since": str(finding.since) if finding else None,
        "p50": state.took.p50 if state.took else None,
        "p95": state.took.p95 if state.took else None,
        "drift": state.drift,
    }


STATE_HEADS = ("job", "kind", "last", "7 days", "failure rate", "P50/P95/max s", "notes")


def run_row(row: Row) -> list[str]:
    """Return a run of `node0-ci history`."""
    return [
        str(row.id),
        row.began,
        row.job,
        row.payload,
        row.outcome.value,
        f"{row.seconds:.0f} s",
        row.label,
        first_line(row.reason, 70),
    ]


def run_data(row: Row) -> dict[str, Any]:
    """Return a run for programs; its duration is in seconds."""
    return {
        "run": row.id,
        "began": row.began,
        "job": row.job,
        "payload": row.payload,
        "outcome": row.outcome.value,
        "seconds": row.seconds,
        "label": row.label,
        "component": row.component,
        "advice": row.advice,
        "cluster": row.cluster,
        "reason": row.reason,
        "folder": row.folder,
    }


def cluster_data(cluster: Cluster, last: Row, notes: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Return failures that are the same one, for programs: with the last of its runs, and notes with their times."""
    return {
        "cluster": cluster.id,
        "runs": cluster.runs,
        "jobs": cluster.jobs,
        "first_seen": str(cluster.first_seen),
        "last_seen": str(cluster.last_seen),
        "last": run_data(last),
        "notes": [{"written": written, "note": note} for written, note in notes],
    }


RUN_HEADS = ("run", "began", "job", "payload", "outcome", "took", "whose", "reason")


def _job_lines(job: JobVerdict) -> Iterator[str]:
    yield f"{job.decision.value:<10} {job.kind.value:<10} {job.job}: {job.why}"
    for row in job.failures[:_FAILURES]:
        since = job.known.get(row.cluster or "")
        age = f"known since {since}" if since else "new"
        whose = " ".join(text for text in (row.label, row.component, row.cluster, age) if text)
        yield f"           run {row.id} ({whose}): {first_line(row.reason)}"
        if row.advice:
            yield f"             {row.advice}"
    if job.flaky:
        yield f"           {job.flaky} flaky: passed when tried again"
    if job.voids:
        yield f"           {job.voids} invalid, not counted"
    if job.more:
        yield f"           {job.more} more {'run' if job.more == 1 else 'runs'} would tell"
    if job.failures or job.more or job.slower:
        yield f"           again: {job.again}"


def verdict_lines(verdict: Verdict) -> Iterator[str]:
    """Write what `node0-ci verdict` prints; the last line is the decision."""
    for job in verdict.jobs:
        yield from _job_lines(job)
    # A failed installation fails all of its tests, with the same figures: they share a line.
    alike: dict[str, list[str]] = {}
    for test in verdict.tests:
        assessment = test.assessment
        before = f"before, {test.base}; p {assessment.p:.2g}" if test.base.runs else "no runs before"
        figures = f"{assessment.status.value} ({test.sample}; {before})"
        alike.setdefault(figures, []).append(test.test)
    for figures, (first, *others) in alike.items():
        yield f"test {first}{f' and {len(others)} more' if others else ''}: {figures}"
    yield f"{verdict.payload}: {verdict.decision.value} ({verdict.why})"


def verdict_data(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict for programs."""
    return {
        "payload": verdict.payload,
        "decision": verdict.decision.value,
        "why": verdict.why,
        "jobs": [
            {
                "job": job.job,
                "kind": job.kind.value,
                "decision": job.decision.value,
                "runs": job.counts.runs,
                "failures": job.counts.failures,
                "void": job.voids,
                "flaky": job.flaky,
                "known": {name: str(since) for name, since in sorted(job.known.items())},
                "base_runs": job.base.runs,
                "base_failures": job.base.failures,
                "more_runs": job.more,
                "wants": job.wants,
                "why": job.why,
                "regressed_since": str(job.finding.since) if job.finding else None,
                "labels": sorted({row.label for row in job.failures if row.label}),
                "components": job.components,
                "slower": str(job.slower) if job.slower else None,
                "again": job.again,
            }
            for job in verdict.jobs
        ],
        "tests": [
            {
                "test": test.test,
                "status": test.assessment.status.value,
                "p": test.assessment.p,
                "runs": test.sample.runs,
                "failures": test.sample.failures,
            }
            for test in verdict.tests
        ],
    }

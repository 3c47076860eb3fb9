"""Commands that judge: status, verdict, history, triage, compare, blame, page."""

from __future__ import annotations

import argparse
import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ci.informer import text, triage
from ci.informer.arithmetic import durations
from ci.informer.arithmetic.aggregate import LEVEL
from ci.informer.arithmetic.proportions import adjusted, fisher_worse
from ci.informer.commands.common import (
    ACCEPTED,
    REJECTED,
    UNDECIDED,
    Adder,
    add_blocking,
    add_output,
    check_chosen,
    day,
    existing_history,
    labelled,
    name,
    number,
    print_lines,
    say,
)
from ci.informer.errors import InformerError
from ci.informer.history import junit
from ci.informer.history.store import Row
from ci.informer.judging import blame as blaming
from ci.informer.judging import clusters
from ci.informer.judging.review import counts_of, job_state, rejected
from ci.informer.judging.verdict import Decision, judge
from ci.informer.pages import build
from installer.common.numbers import whole_type
from lab.evidence import symptoms as table

CODES = {Decision.ACCEPTED: ACCEPTED, Decision.REJECTED: REJECTED, Decision.UNDECIDED: UNDECIDED}


def _print_json(data: object) -> None:
    print(json.dumps(data, indent=1))


def _status(arguments: argparse.Namespace) -> int:
    with existing_history(arguments) as history:
        bad = rejected(history)
        by_job = {job: rows for job in history.jobs() if (rows := history.runs(job=job))}
        if not by_job:
            print("[]" if arguments.output == "json" else "no runs yet: node0-ci load, or node0-ci run")
            return ACCEPTED
        as_of = arguments.day or max(rows[-1].day for rows in by_job.values())
        rows_until = {job: [row for row in rows if row.day <= as_of] for job, rows in by_job.items()}
        states = [job_state(rows, as_of, bad) for rows in rows_until.values() if rows]
    if arguments.output == "json":
        _print_json([text.state_data(state) for state in states])
    else:
        print_lines(text.columns(text.STATE_HEADS, map(text.state_row, states)))
    return REJECTED if any(state.watch.finding for state in states) else ACCEPTED


def _verdict(arguments: argparse.Namespace) -> int:
    with existing_history(arguments) as history:
        labelled(history)
        verdict = judge(history, arguments.payload, arguments.blocking, arguments.informing)
        if arguments.junit:
            rows = [(row, history.attempts(row.id)) for row in history.runs(payload=arguments.payload)]
            suites = [(row.job, row.began, row.seconds, attempts) for row, attempts in rows]
            junit.save(arguments.junit, f"node0 {arguments.payload}", suites)
    if arguments.output == "json":
        _print_json(text.verdict_data(verdict))
    else:
        print_lines(text.verdict_lines(verdict))
    return CODES[verdict.decision]


def _list(arguments: argparse.Namespace) -> int:
    with existing_history(arguments) as history:
        check_chosen(history, arguments)
        rows = history.runs(arguments.job, arguments.payload, arguments.since, arguments.last, ahead=True)
    if arguments.output == "json":
        _print_json([text.run_data(row) for row in rows])
    else:
        print_lines(text.columns(text.RUN_HEADS, map(text.run_row, rows)) if rows else ["no such runs"])
    return ACCEPTED


def _triage(arguments: argparse.Namespace) -> int:
    symptoms = table.read(arguments.symptoms)
    with existing_history(arguments) as history:
        labelled, clustered = triage.label(history, symptoms), clusters.assign(history)
        as_text = arguments.output == "text"
        if as_text:
            say(f"{labelled} red runs labelled, {clustered} put into clusters")
        if arguments.note:
            written = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
            what, note = arguments.note
            run = number(what)
            history.note(note, written, run=run, cluster=what if run is None else None)
        since = arguments.since or datetime.now(UTC).date() - timedelta(days=clusters.DAYS)
        listed = clusters.listed(history, since)
        last = {row.cluster: row for row in history.runs(since=since)}
        if not as_text:
            notes = {cluster.id: history.notes(cluster=cluster.id) for cluster in listed}
            _print_json([text.cluster_data(cluster, last[cluster.id], notes[cluster.id]) for cluster in listed])
            return ACCEPTED
        if not listed:
            say(f"no run has failed since {since}; --since DAY shows older failures")
        for cluster in listed:
            row = last[cluster.id]
            seen = f"{cluster.first_seen} to {cluster.last_seen}"
            say(f"{cluster.id}  {cluster.runs} runs of {cluster.jobs} jobs, {seen}, {row.label}")
            say(f"    {text.first_line(row.reason or cluster.text)}")
            say(f"    {row.advice}")
            for stamp, note in history.notes(cluster=cluster.id):
                say(f"    {stamp} {note}")
    return ACCEPTED


def _compare(arguments: argparse.Namespace) -> int:
    with existing_history(arguments) as history:
        sides = [history.runs(payload=payload) for payload in (arguments.a, arguments.b)]
        for payload, rows in zip((arguments.a, arguments.b), sides, strict=True):
            if not rows:
                raise InformerError(f"{history.path}: payload: {payload!r} has no runs")
    by_job: dict[str, tuple[list[Row], list[Row]]] = {
        job: ([], []) for job in sorted({row.job for rows in sides for row in rows})
    }
    for side, rows in enumerate(sides):
        for row in rows:
            by_job[row.job][side].append(row)
    counts = {job: (counts_of(first), counts_of(other)) for job, (first, other) in by_job.items()}
    # Where all runs of a side are invalid there is no question, and so none to be counted among the others.
    ps = {job: fisher_worse(other, first) for job, (first, other) in counts.items() if first.runs and other.runs}
    all_ps = dict(zip(ps, adjusted(list(ps.values())), strict=True))
    table = []
    for job, (first, other) in by_job.items():
        drift = durations.drift(*([row.seconds for row in rows if row.outcome.good] for rows in (other, first)))
        took = "" if drift is None else f"{drift:+.0%}{' (notable)' if durations.notable(drift) else ''}"
        cells = [f"{ps[job]:.3f}", f"{all_ps[job]:.3f}"] if job in ps else ["", ""]
        says = "WORSE" if all_ps.get(job, 1.0) < LEVEL else ""
        if job not in ps:
            says = "invalid runs only" if first and other else "run on one only"
        table.append([job, *map(str, counts[job]), *cells, took, says])
    print_lines(text.columns(("job", arguments.a, arguments.b, "p worse", f"of {len(ps)}", "P50", ""), table))
    return REJECTED if any(p < LEVEL for p in all_ps.values()) else ACCEPTED


def _blame(arguments: argparse.Namespace) -> int:
    with existing_history(arguments) as history:
        labelled(history)
        blame = blaming.of_history(history, arguments.good, arguments.bad)
    print_lines(
        f"{suspect.score:3} {suspect.tag}{': revert its change' if suspect.revert else ''} ({suspect.why})"
        for suspect in blame.suspects
    )
    if blame.undecided:
        print(f"undecided: {blame.undecided}")
    return REJECTED if any(suspect.revert for suspect in blame.suspects) else UNDECIDED


def _page(arguments: argparse.Namespace) -> int:
    start = time.monotonic()
    with existing_history(arguments) as history:
        labelled(history)
        count = build.build(history, arguments.directory, arguments.blocking, arguments.informing)
    print(f"{count} pages in {time.monotonic() - start:.1f} s: {arguments.directory / 'index.html'}")
    return ACCEPTED


def add(command: Adder) -> None:
    """Add these commands."""
    status = command("status", _status, "show how the jobs are: kind, failures, durations, regressions")
    status.add_argument(
        "--day", type=day, metavar="DATE", help="as they were on this day (default: that of the last run)"
    )
    verdict = command("verdict", _verdict, "accept or reject a payload, with the figures that make it so")
    verdict.add_argument(
        "payload", type=name, metavar="PAYLOAD", help="the release to judge, by its name in the history"
    )
    verdict.add_argument("--json", action="store_const", const="json", dest="output", help="same as --output json")
    verdict.add_argument("--junit", type=Path, metavar="FILE", help="also write the payload's runs to a JUnit file")
    history = command("history", _list, "list runs")
    history.add_argument("--job", type=name, help="only runs of this job")
    history.add_argument("--payload", type=name, help="only runs on this payload")
    history.add_argument("--since", type=day, metavar="DATE", help="only runs since this day")
    history.add_argument(
        "--last", type=whole_type(1, 10**6), default=50, metavar="N", help="only the last N runs (default: 50)"
    )
    triaged = command("triage", _triage, "label red runs, and show which are the same failure")
    triaged.add_argument(
        "--symptoms", type=Path, metavar="FILE", help="know failures by this file (default: lab/evidence/symptoms.yaml)"
    )
    triaged.add_argument(
        "--since", type=day, metavar="DATE", help="show failures since this day (default: two weeks ago)"
    )
    triaged.add_argument(
        "--note",
        nargs=2,
        type=name,
        metavar=("RUN|CLUSTER", "TEXT"),
        help="add a note to a run or to a cluster of failures",
    )
    compare = command("compare", _compare, "say whether payload B is worse than payload A, job by job")
    compare.add_argument("a", type=name, metavar="A", help="the payload before, by its name in the history")
    compare.add_argument("b", type=name, metavar="B", help="the payload to judge by it")
    blame = command("blame", _blame, "say which image's change broke payload BAD, by a score of 0 to 100")
    blame.add_argument("good", type=name, metavar="GOOD", help="the last good payload, by its name in the history")
    blame.add_argument("bad", type=name, metavar="BAD", help="the broken payload, likewise")
    page = command("page", _page, "write static pages: verdicts, grid, jobs, runs")
    page.add_argument("directory", type=Path, metavar="DIR", help="where to; index.html is the first page")
    for sub in (status, verdict, history, triaged):
        add_output(sub)
    for sub in (verdict, page):
        add_blocking(sub)

"""`node0-ci`: informers on the command line."""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from ci.informer import clusters, running, text, triage
from ci.informer.arithmetic import durations
from ci.informer.arithmetic.flakes import Outcome
from ci.informer.arithmetic.proportions import fisher_worse
from ci.informer.errors import InformerError
from ci.informer.history import artifacts, junit
from ci.informer.history.store import History
from ci.informer.pages import build
from ci.informer.review import counts_of, job_state, rejected
from ci.informer.simulate import MONTH, World, Year, kept, simulate
from ci.informer.verdict import Decision, judge
from lab.errors import SubjectError
from lab.host.paths import state_dir
from lab.numbers import real_type, whole_type
from lab.subject.options import OPTIONS, add_options, choose

ACCEPTED, REJECTED, BAD_INPUT, UNDECIDED = 0, 1, 2, 3
_CODES = {Decision.ACCEPTED: ACCEPTED, Decision.REJECTED: REJECTED, Decision.UNDECIDED: UNDECIDED}
_EPILOG = """\
To begin with:

  node0-ci load artifacts --payload 4.20.1       remember what pytest scenarios/ left
  node0-ci load e2e.xml --payload 4.20.1 --job e2e   or a JUnit file of another system
  node0-ci run sno-ipv4-static-uefi -n 3 --machines container --release quay.example/ocp/release:4.20.1-x86_64
  node0-ci status                                how the jobs are
  node0-ci verdict 4.20.1                        accepted or rejected, and why
  node0-ci triage                                whose fault the red runs are, and which are the same
  node0-ci page public                           all of it as static pages
  node0-ci simulate --nights 365 --seed 1        what the judge finds in a year that is made up

A job is SCENARIO@KIND-OF-MACHINES. The history is one file: --history, $NODE0_HISTORY, or history.db below
~/.local/state/node0.

exit codes: 0 fine or accepted, 1 rejected or red, 2 bad input, 3 undecided (more runs would tell), 130 Ctrl-C
"""


def _history_path(arguments: argparse.Namespace) -> Path:
    chosen = arguments.history or os.environ.get("NODE0_HISTORY")
    return Path(chosen) if chosen else state_dir() / "history.db"


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        print(line)


def _day(value: str) -> date:
    try:
        return date.fromisoformat(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a day like 2026-11-23, not {value!r}") from None


def _name(value: str) -> str:
    if not value.strip() or not value.isprintable():
        raise argparse.ArgumentTypeError(f"must be a name, not {value!r}")
    return value


def _settled(history: History) -> None:
    """Label and cluster what has come in."""
    triage.label(history, triage.read())
    clusters.assign(history)


def _load(arguments: argparse.Namespace) -> int:
    path: Path = arguments.path
    if path.is_dir():
        runs = artifacts.load(path, arguments.payload)
    elif not arguments.job:
        raise InformerError(f"{path}: --job: missing; a JUnit file does not say which job it is of")
    else:
        runs = [junit.load(path, arguments.job, arguments.payload, arguments.began)]
    with History(_history_path(arguments)) as history:
        numbers = history.add(runs)
        _settled(history)
        _print(text.columns(text.RUN_HEADS, [text.run_row(history.run(number)) for number in numbers]))
    return ACCEPTED


def _run(arguments: argparse.Namespace) -> int:
    options = {f"--{name}": value for name in OPTIONS if (value := vars(arguments)[name.replace("-", "_")])}
    # What does not fit is told, and a release copied, before the first run.
    chosen = choose(lambda name: options.get(f"--{name}")) if options else None
    plan = running.Plan(
        payload=arguments.payload or (chosen.subject.version if chosen else "lab"),
        scenarios=arguments.scenarios,
        machines=arguments.machines,
        rounds=arguments.n,
        limit=60 * arguments.minutes,
        more=arguments.more,
        arguments=[f"{option}={value}" for option, value in options.items()],
    )
    with History(_history_path(arguments)) as history:
        rows = running.run(history, plan, arguments.artifacts.absolute(), lambda line: print(line, flush=True))
    return REJECTED if any(row.outcome is Outcome.FAILED for row in rows) else ACCEPTED


def _status(arguments: argparse.Namespace) -> int:
    with History(_history_path(arguments)) as history:
        bad = rejected(history)
        by_job = {job: rows for job in history.jobs() if (rows := history.runs(job=job))}
        if not by_job:
            print("no runs yet: node0-ci load, or node0-ci run")
            return ACCEPTED
        day = arguments.day or max(rows[-1].day for rows in by_job.values())
        known = {job: [row for row in rows if row.day <= day] for job, rows in by_job.items()}
        states = [job_state(rows, day, bad) for rows in known.values() if rows]
    _print(text.columns(text.STATE_HEADS, map(text.state_row, states)))
    return REJECTED if any(state.watch.finding for state in states) else ACCEPTED


def _verdict(arguments: argparse.Namespace) -> int:
    with History(_history_path(arguments)) as history:
        _settled(history)
        verdict = judge(history, arguments.payload, arguments.blocking)
        if arguments.junit:
            rows = [(row, history.attempts(row.id)) for row in history.runs(payload=arguments.payload)]
            suites = [(row.job, row.began, row.seconds, attempts) for row, attempts in rows]
            junit.save(arguments.junit, f"node0 {arguments.payload}", suites)
    if arguments.json:
        print(json.dumps(text.verdict_data(verdict), indent=1))
    else:
        _print(text.verdict_lines(verdict))
    return _CODES[verdict.decision]


def _list(arguments: argparse.Namespace) -> int:
    with History(_history_path(arguments)) as history:
        rows = history.runs(arguments.job, arguments.payload, arguments.since, arguments.last)
    _print(text.columns(text.RUN_HEADS, map(text.run_row, rows)))
    return ACCEPTED


def _triage(arguments: argparse.Namespace) -> int:
    symptoms = triage.read(arguments.symptoms)
    with History(_history_path(arguments)) as history:
        labelled, clustered = triage.label(history, symptoms), clusters.assign(history)
        print(f"{labelled} red runs labelled, {clustered} put into clusters")
        if arguments.note:
            written = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
            what, note = arguments.note
            about = {"run": int(what)} if what.isdecimal() else {"cluster": what}
            history.note(note, written, **about)
        since = arguments.since or datetime.now(UTC).date() - timedelta(days=clusters.DAYS)
        for one in clusters.listed(history, since):
            row = [row for row in history.runs(since=since) if row.cluster == one.id][-1]
            print(f"{one.id}  {one.runs} runs of {one.jobs} jobs, {one.first_seen} to {one.last_seen}, {row.label}")
            print(f"    {text.first_line(row.reason or one.text)}\n    {row.advice}")
            for stamp, note in history.notes(cluster=one.id):
                print(f"    {stamp} {note}")
    return ACCEPTED


def _compare(arguments: argparse.Namespace) -> int:
    with History(_history_path(arguments)) as history:
        sides = [history.runs(payload=payload) for payload in (arguments.a, arguments.b)]
        for payload, rows in zip((arguments.a, arguments.b), sides, strict=True):
            if not rows:
                raise InformerError(f"{history.path}: payload: {payload!r} has no runs")
    table, worse = [], False
    for job in sorted({row.job for rows in sides for row in rows}):
        one, other = ([row for row in rows if row.job == job] for rows in sides)
        p = fisher_worse(counts_of(other), counts_of(one)) if one and other else 1.0
        worse |= p < 0.05
        drift = durations.drift(*([row.seconds for row in rows if row.outcome.good] for rows in (other, one)))
        took = "" if drift is None else f"{drift:+.0%}{' (notable)' if durations.notable(drift) else ''}"
        says = "WORSE" if p < 0.05 else ("" if one and other else "run on one only")
        table.append([job, str(counts_of(one)), str(counts_of(other)), f"{p:.3f}", took, says])
    _print(text.columns(("job", arguments.a, arguments.b, "p worse", "P50", ""), table))
    return REJECTED if worse else ACCEPTED


def _simulate(arguments: argparse.Namespace) -> int:
    world = World(
        nights=arguments.nights,
        jobs=arguments.jobs,
        runs=arguments.runs,
        flakes=arguments.flakes / 100,
        planted=arguments.planted,
    )
    try:
        years = [simulate(arguments.seed + place, world) for place in range(arguments.years)]
    except ValueError as error:
        raise InformerError(f"simulate: {error}") from error
    if arguments.keep:
        with History(arguments.keep) as history:
            print(f"{len(history.add(kept(arguments.seed, world)))} runs kept in {arguments.keep}")
    total = sum(years, Year(world))
    nights = world.nights * len(years)
    print(f"{world.jobs} jobs, {world.runs} runs a night each, {arguments.flakes:g} % flakes, {world.nights} nights")
    if len(years) > 1:
        for place, year in enumerate(years):
            print(f"seed {arguments.seed + place}: {year.line}")
    print(
        f"asked for {total.asked / nights:.1f} more runs a night; of {world.planted * len(years) - total.big} small "
        f"regressions {total.small_found} were found in time too"
    )
    print(
        f"found {total.found} of {total.big} within 3 nights, {total.false_alarms / (nights / MONTH):.2f}"
        " false alarms a month"
    )
    return ACCEPTED


def _page(arguments: argparse.Namespace) -> int:
    start = time.monotonic()
    with History(_history_path(arguments)) as history:
        _settled(history)
        count = build.build(history, arguments.directory, arguments.blocking)
    print(f"{count} pages in {time.monotonic() - start:.1f} s: {arguments.directory / 'index.html'}")
    return ACCEPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="node0-ci",
        description="Says what broke, how sure it is of that, and what to do about it.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--history", metavar="FILE", help="the history (default: $NODE0_HISTORY, else see below)")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, function: Callable[[argparse.Namespace], int], told: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=told, description=told)
        sub.set_defaults(run=function)
        return sub

    run = command("run", _run, "run scenarios and remember how they ended")
    run.add_argument("scenarios", nargs="+", metavar="SCENARIO", help="for example sno-ipv4-static-uefi")
    run.add_argument("-n", type=whole_type(1, 1000), default=1, metavar="N", help="so often each (default: 1)")
    run.add_argument("--machines", choices=("vm", "container"), default="vm", help="kind of machines (default: vm)")
    run.add_argument(
        "--payload",
        type=_name,
        help="what the runs are on, as verdicts name it (default: the release's version, or lab)",
    )
    add_options(run.add_argument)
    run.add_argument("--artifacts", type=Path, default=Path("artifacts/informer"), help="where evidence goes")
    run.add_argument(
        "--minutes", type=real_type(1, 1440, "minutes"), default=120, help="longest for a run (default: 120)"
    )
    run.add_argument(
        "--more", type=whole_type(0, 1000), default=running.MOST_MORE, metavar="N",
        help="most runs beyond those, where a failure makes a job suspicious (default: 60)",
    )  # fmt: skip
    status = command("status", _status, "how the jobs are: kind, failures, durations, regressions")
    status.add_argument("--day", type=_day, help="as of this day (default: that of the last run)")
    verdict = command("verdict", _verdict, "accept or reject a payload, with the figures that make it so")
    verdict.add_argument("payload", metavar="PAYLOAD")
    verdict.add_argument("--json", action="store_true", help="for programs")
    verdict.add_argument("--junit", type=Path, metavar="FILE", help="write the payload's runs as JUnit too")
    history = command("history", _list, "list runs")
    history.add_argument("--job", help="of this job only")
    history.add_argument("--payload", help="on this payload only")
    history.add_argument("--since", type=_day, help="from this day on")
    history.add_argument("--last", type=whole_type(1, 10**6), default=50, metavar="N", help="at most (default: 50)")
    triaged = command("triage", _triage, "label red runs, and show which are the same failure")
    triaged.add_argument("--symptoms", type=Path, metavar="FILE", help="instead of ci/informer/symptoms.yaml")
    triaged.add_argument("--since", type=_day, help="clusters since this day (default: two weeks ago)")
    triaged.add_argument("--note", nargs=2, metavar=("RUN|CLUSTER", "TEXT"), help="note something on a run or cluster")
    compare = command("compare", _compare, "hold payload B against payload A, job by job")
    compare.add_argument("a", metavar="A")
    compare.add_argument("b", metavar="B")
    load = command("load", _load, "remember runs: a directory of artefacts, or a JUnit file")
    load.add_argument("path", type=Path, metavar="PATH")
    load.add_argument("--payload", type=_name, required=True, help="what they ran on")
    load.add_argument("--job", type=_name, help="which job a JUnit file is of")
    load.add_argument("--began", metavar="TIME", help="when it began (ISO 8601), where a JUnit file does not say")
    simulated = command("simulate", _simulate, "judge nights that are made up: what is found, and what is cried")
    for name, kind, default, told in (
        ("--nights", whole_type(3, 3650), 365, "nights"),
        ("--seed", whole_type(0, 2**63), 0, "the same seed gives the same nights"),
        ("--years", whole_type(1, 1000), 1, "so many seeds, beginning with --seed"),
        ("--jobs", whole_type(1, 1000), 20, "jobs"),
        ("--runs", whole_type(1, 1000), 10, "runs of each job a night"),
        ("--flakes", real_type(0, 50, "percent"), 2, "percent of runs that fail for nothing"),
        ("--planted", whole_type(0, 1000), 10, "regressions of 3 to 30 points, each in a job of its own"),
    ):
        simulated.add_argument(name, type=kind, default=default, metavar="N", help=f"{told} (default: {default})")
    simulated.add_argument("--keep", type=Path, metavar="FILE", help="write the first year's nightly runs to a history")
    page = command("page", _page, "write static pages: verdicts, grid, jobs, runs")
    page.add_argument("directory", type=Path, metavar="DIR")
    for sub in (verdict, page):
        sub.add_argument(
            "--blocking", action="append", default=[], metavar="PATTERN",
            help="these jobs block, whatever they have earned (may be given again)",
        )  # fmt: skip
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; exit codes as in --help."""
    arguments = _parser().parse_args(argv)
    try:
        code: int = arguments.run(arguments)
        sys.stdout.flush()
    except (InformerError, SubjectError, OSError, sqlite3.Error) as error:
        print(f"node0-ci: {error}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        return 130
    return code


if __name__ == "__main__":
    sys.exit(main())

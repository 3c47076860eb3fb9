"""The command of a night: nightly."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from ci.informer import choosing, running
from ci.informer.arithmetic.flakes import Outcome
from ci.informer.arithmetic.promotion import Kind
from ci.informer.commands.common import ACCEPTED, Adder, add_blocking, labelled, name, opened, print_lines, say
from ci.informer.commands.judging import CODES
from ci.informer.commands.runs import add_engine, add_limits, engine, subject
from ci.informer.history import junit, retention
from ci.informer.history.store import Row
from ci.informer.judging.review import kind_of, rejected
from ci.informer.judging.verdict import judge, named
from ci.informer.pages import build
from ci.informer.revision import changed, revision
from ci.informer.text import verdict_lines
from installer.common.numbers import real_type, whole_type
from lab.host.preflight import container_problems
from lab.subject.options import add_options
from lab.topology import MachineKind

if TYPE_CHECKING:
    from scenarios.catalogue import faulty

#: Days within which a row of the matrix is to run, by how often it says.
_DAYS = {"gate": 1, "nightly": 1, "weekly": 7}
#: Minutes that a job which never ran is expected to take on two processors: with one node, and for each further node.
_MINUTES = {"container": (4.0, 1.0), "vm": (10.0, 7.0)}


def candidates(machines: MachineKind) -> list[choosing.Candidate]:
    """Return the rows of the matrix and of the table of faults on a kind of machines; what needs virtual ones is on
    these always. Faults are once a week, but for those of every change."""
    from scenarios.catalogue import faulty
    from scenarios.catalogue.matrix import table

    installations = [
        _candidate(row.id, row.id, bool(row.vm), machines=machines, days=_DAYS[row.runs]) for row in table().rows
    ]
    faults = [
        _candidate(row.id, row.scenario, bool(row.vm), machines=machines, days=1 if row.gate else 7, row=row)
        for row in faulty.ROWS
        if set(row.lanes) & set(faulty.LABS)
    ]
    return installations + faults


def _candidate(
    job: str, scenario: str, vm: bool, *, machines: MachineKind, days: int, row: faulty.Row | None = None
) -> choosing.Candidate:
    """Return a row as a job. A fault that `wait-for` is to report lasts at most until its time-out."""
    from scenarios.catalogue.ids import topology_of

    kind: MachineKind = "vm" if vm else machines
    least, more = _MINUTES[kind]
    minutes = least + more * (len(topology_of(scenario).nodes) - 1)
    return choosing.Candidate(f"{job}@{kind}", days, 60 * max(minutes, row.told_minutes(kind) if row else 0))


def _nightly(arguments: argparse.Namespace) -> int:
    start = time.monotonic()
    machines: MachineKind = arguments.machines or ("vm" if container_problems() else "container")
    now = datetime.now(UTC)
    budget = 3600 * arguments.hours
    # The history is opened first, as it may be refused: copying a release takes minutes.
    with opened(arguments) as history:
        asked = subject(history, arguments)
        payload = asked.payload or f"lab-{revision()[:12] or now.date()}"
        differs, bad = cache(changed), {*rejected(history)} - {payload}

        def decides(rows: Sequence[Row], job: str) -> bool:
            if named(job, arguments.informing) or any(
                row.payload == payload and row.outcome is not Outcome.VOID for row in rows
            ):
                return False
            return named(job, arguments.blocking) or kind_of(rows, now.date(), bad)[0] is Kind.BLOCKING

        weighed = []
        for candidate in candidates(machines):
            job = candidate.job
            rows = history.runs(job=job)
            choice = choosing.worth(candidate, rows, now.date(), differs, tested=history.tested(job))
            weighed.append(choosing.deciding(choice) if decides(rows, job) else choice)
        chosen = choosing.choose(weighed, budget, arguments.side_by_side)
        for choice in chosen:
            say(f"{choice.job}: about {choice.seconds / 60:.0f} min; {choice.why}")
        lanes = f", {arguments.side_by_side} side by side" if arguments.side_by_side > 1 else ""
        say(f"{len(chosen)} of {len(weighed)} jobs on {payload}, {arguments.hours:g} hours{lanes}")
        if arguments.plan or not chosen:
            return ACCEPTED
        plan = running.Plan(
            payload=payload,
            digest=asked.digest,
            limits=dict(asked.limits),
            jobs=tuple(choice.job for choice in chosen),
            limit=60 * arguments.minutes,
            more=arguments.more,
            program=tuple(arguments.program),
            arguments=asked.options,
        )
        with engine(arguments) as hosts:
            for _ in running.carry_out(history, running.begin(history, plan, arguments.artifacts), hosts, say):
                if time.monotonic() - start > budget:
                    say("the night is over; node0-ci resume goes on with what is left")
                    break
        from ci.informer.history import traces

        labelled(history)
        verdict = judge(history, payload, arguments.blocking, arguments.informing)
        folder: Path = arguments.artifacts
        rows = history.runs(payload=payload)
        suites = [(row.job, row.began, row.seconds, history.attempts(row.id)) for row in rows]
        junit.save(folder / "junit.xml", f"node0 {payload}", suites)
        traces.written(history, rows, folder / "traces.jsonl")
        build.build(history, folder / "pages", arguments.blocking, arguments.informing)
        limits = retention.Limits(total=arguments.keep_gib << 30)
        count, freed = retention.prune(history, folder, now.date(), limits)
        say(
            f"{folder}: pages/index.html, junit.xml, traces.jsonl; evidence of {count} old runs removed ({freed} bytes)"
        )
        print_lines(verdict_lines(verdict))
    return CODES[verdict.decision]


def add(command: Adder) -> None:
    """Add these commands."""
    nightly = command(
        "nightly", _nightly, "make the runs that say most about a payload within some hours, and judge it"
    )
    nightly.add_argument(
        "--hours", type=real_type(0.1, 168, "hours"), default=4, metavar="N", help="stop after N hours (default: 4)"
    )
    nightly.add_argument(
        "--machines", choices=("vm", "container"), help="kind of machines, for scenarios that run on either "
        "(default: containers, if this kernel can)",
    )  # fmt: skip
    nightly.add_argument(
        "--payload", type=name, help="name of the release, for node0-ci verdict (default: its version)"
    )
    nightly.add_argument("--plan", action="store_true", help="show what would be run, and why; run nothing")
    nightly.add_argument(
        "--keep-gib", type=whole_type(0, 1 << 20), default=retention.GIB, metavar="N",
        help=f"keep at most N GiB of evidence (default: {retention.GIB})",
    )  # fmt: skip
    add_options(nightly.add_argument)
    add_limits(nightly)
    add_engine(nightly)
    add_blocking(nightly)

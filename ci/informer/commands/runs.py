"""Commands that run something: run, resume, bisect."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from ci.informer import bisecting, running
from ci.informer.arithmetic.flakes import Outcome
from ci.informer.arithmetic.proportions import Counts
from ci.informer.commands.common import ACCEPTED, REJECTED, UNDECIDED, Adder, existing_history, name, opened, say
from ci.informer.engine.tls import checked
from ci.informer.engine.unit import PYTEST
from ci.informer.errors import InformerError
from ci.informer.history import work
from ci.informer.history.store import History, Row
from ci.informer.judging.review import counts_of
from installer.common.numbers import real_type, whole_type
from lab.subject.hardware import Hardware
from lab.subject.mirroring import parse_name
from lab.subject.options import OPTIONS, add_options, choose

if TYPE_CHECKING:
    from ci.informer.engine.engine import Engine


class Asked(NamedTuple):
    """Find the release to install: the payload's name (or empty), pytest's options for it, and, where these name a
    release, its digest and what it demands of machines."""

    payload: str
    options: tuple[str, ...]
    digest: str = ""
    limits: Mapping[str, Hardware] = MappingProxyType({})


def subject(history: History, arguments: argparse.Namespace) -> Asked:
    """Return the release to install.

    Options that do not fit are refused, and a release is copied, before the first run. Paths are made absolute, as runs
    have another working directory.
    """
    options = {
        f"--{option}": _absolute(option, value)
        for option in OPTIONS
        if (value := vars(arguments)[option.replace("-", "_")])
    }
    chosen = choose(lambda option: options.get(f"--{option}")) if options else None
    payload: str = arguments.payload or (chosen.subject.version if chosen else "")
    words = tuple(f"{option}={value}" for option, value in options.items())
    if not chosen:
        return Asked(payload, words)
    images = {tag: pullspec.rpartition("@")[2] for tag, pullspec in chosen.subject.components.items()}
    history.identify(payload, chosen.subject.digest, images)
    return Asked(payload, words, chosen.subject.digest, chosen.limits)


def _absolute(option: str, value: str) -> str:
    return str(Path(value).absolute()) if option != "release" and Path(value).exists() else value


def engine(arguments: argparse.Namespace) -> Engine:
    """Return the hosts that --scheduler says, else this machine."""
    from ci.informer.engine.engine import Engine

    if arguments.tls and not arguments.scheduler:
        raise InformerError("--tls: has no use without --scheduler")
    address, security = checked(arguments.scheduler, arguments.tls) if arguments.scheduler else ("", None)
    return Engine(say, address=address, security=security, side_by_side=arguments.side_by_side)


def add_engine(sub: argparse.ArgumentParser) -> None:
    """Options that say where."""
    sub.add_argument(
        "--scheduler", metavar="HOST:PORT", help="run on the hosts of this scheduler (default: on this machine)"
    )
    sub.add_argument("--tls", type=Path, metavar="DIR", help="directory of the scheduler's cert.pem and key.pem")
    sub.add_argument(
        "-j", "--side-by-side", type=whole_type(1, 64), default=1, metavar="N",
        help="make N runs at a time on this machine, if its memory and processors allow (default: 1)",
    )  # fmt: skip


def add_limits(sub: argparse.ArgumentParser) -> None:
    """Options that bound runs."""
    # In pytest's place, for tests.
    sub.add_argument("--program", nargs="+", default=PYTEST, help=argparse.SUPPRESS)
    sub.add_argument(
        "--artifacts", type=Path, default=Path("artifacts/informer"), metavar="DIR",
        help="directory for the runs' logs, screens and journals (default: artifacts/informer)",
    )  # fmt: skip
    sub.add_argument(
        "--minutes", type=real_type(1, 1440, "minutes"), default=120, metavar="N",
        help="stop a run after N minutes (default: 120)",
    )  # fmt: skip
    sub.add_argument(
        "--more", type=whole_type(0, 1000), default=running.MOST_MORE, metavar="N",
        help="make up to N more runs in all, of jobs that a failure makes suspicious (default: 60)",
    )  # fmt: skip


def _code(rows: list[Row]) -> int:
    """Red where a run failed; undecided where all runs of a job were invalid: nothing has been tested then."""
    if any(row.outcome is Outcome.FAILED for row in rows):
        return REJECTED
    tested = {row.job for row in rows if row.outcome is not Outcome.VOID}
    return ACCEPTED if all(row.job in tested for row in rows) else UNDECIDED


def _run(arguments: argparse.Namespace) -> int:
    # The history is opened first, as it may be refused: copying a release takes minutes.
    with opened(arguments) as history:
        asked = subject(history, arguments)
        plan = running.Plan(
            payload=asked.payload or "lab",
            digest=asked.digest,
            limits=dict(asked.limits),
            jobs=tuple(f"{scenario}@{arguments.machines}" for scenario in arguments.scenarios),
            rounds=arguments.n,
            limit=60 * arguments.minutes,
            more=arguments.more,
            kvm=arguments.kvm,
            program=tuple(arguments.program),
            arguments=asked.options,
        )
        with engine(arguments) as hosts:
            rows = running.run(history, plan, arguments.artifacts, hosts, say=say)
    return _code(rows)


def _resume(arguments: argparse.Namespace) -> int:
    with existing_history(arguments) as history:
        plans = work.open_plans(history)
        if arguments.list:
            if not plans:
                print("no plan is open: all have been run to their end")
            for plan, begun, units, done in plans:
                print(f"{plan}  made {begun}, {done} of {units} runs done")
            return ACCEPTED
        if arguments.forget:
            work.plan(history, arguments.forget)
            work.end(history, arguments.forget, f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}")
            print(f"{arguments.forget}: will not be gone on with; its runs stay in the history")
            return ACCEPTED
        if not plans and not arguments.plan:
            raise InformerError(f"{history.path}: plan: all have been run to their end")
        chosen = arguments.plan or plans[-1][0]
        with engine(arguments) as hosts:
            for _ in running.carry_out(history, chosen, hosts, say):
                pass
        # Including those that had ended before the plan was resumed.
        rows = running.ran(history, chosen)
    return _code(rows)


def _bisect(arguments: argparse.Namespace) -> int:
    job = f"{arguments.scenario}@{arguments.machines}"
    for release in arguments.releases:
        # A misspelt release would only be noticed, by invalid runs, long after the search had begun.
        if not Path(release).is_dir():
            parse_name(release, "releases")
    with opened(arguments) as history, engine(arguments) as hosts:
        old = history.runs(job=job)
        good = counts_of([row for row in old if row.payload not in arguments.releases[1:]])
        bad = counts_of([row for row in old if row.payload == arguments.releases[-1]])
        search = bisecting.Bisection(arguments.releases, good, bad, arguments.sure / 100)
        for release in arguments.releases[1:-1]:
            for row in (row for row in old if row.payload == release):
                if row.outcome in (Outcome.FAILED, Outcome.PASSED, Outcome.FLAKE):
                    search.learn(release, failed=row.outcome is Outcome.FAILED)

        def run(release: str) -> bool | None:
            option = "--release-dir" if Path(release).is_dir() else "--release"
            plan = running.Plan(
                payload=release,
                jobs=(job,),
                limit=60 * arguments.minutes,
                more=0,
                program=tuple(arguments.program),
                arguments=(f"{option}={Path(release).absolute() if option == '--release-dir' else release}",),
            )
            outcome = running.run(history, plan, arguments.artifacts, hosts, say=say)[-1].outcome
            return None if outcome is Outcome.VOID else outcome is Outcome.FAILED

        void = ""
        for release, failed in bisecting.bisect(search, run, arguments.most):
            void = "" if failed is not None else f"; runs of {release} were invalid"
            likely, share = search.first_bad
            say(f"{release}: {search.runs.get(release, Counts())}; first bad, most likely: {likely} ({share:.0%})")
    likely, share = search.first_bad
    runs = sum(counts.runs for counts in search.runs.values())
    sure = f"{share:.0%} sure, {runs} runs{void}"
    if not runs and search.is_decided:
        sure = "nothing was run: it is the only one between good and bad"
    print(f"first bad: {likely} ({sure})")
    return REJECTED if search.is_decided else UNDECIDED


def add(command: Adder) -> None:
    """Add these commands."""
    run = command("run", _run, "run scenarios and remember how they ended")
    run.add_argument(
        "scenarios", nargs="+", metavar="SCENARIO", help="what to install and test, for example sno-ipv4-static-uefi"
    )
    run.add_argument("-n", type=whole_type(1, 1000), default=1, metavar="N", help="run each N times (default: 1)")
    run.add_argument("--machines", choices=("vm", "container"), default="vm", help="kind of machines (default: vm)")
    run.add_argument("--kvm", action="store_true", help="use only hosts that have KVM")
    run.add_argument(
        "--payload",
        type=name,
        help="name of the release under test, for node0-ci verdict (default: the release's version, or lab)",
    )
    add_options(run.add_argument)
    add_limits(run)
    resume = command("resume", _resume, "continue a plan whose node0-ci was killed or interrupted")
    resume.add_argument(
        "plan", nargs="?", type=name, metavar="PLAN", help="the plan's name (default: the last unfinished one)"
    )
    resume.add_argument("--list", action="store_true", help="list the unfinished plans, and run nothing")
    resume.add_argument("--forget", type=name, metavar="PLAN", help="give this plan up for good, and run nothing")
    bisect = command(
        "bisect", _bisect, "find the first bad one of several releases by running a scenario on some of them"
    )
    bisect.add_argument("scenario", metavar="SCENARIO", help="what fails, for example sno-ipv4-static-uefi")
    bisect.add_argument(
        "releases", nargs="+", metavar="RELEASE",
        help="pullspecs or directories in their order: the first is known to be good, the last to be bad",
    )  # fmt: skip
    bisect.add_argument("--machines", choices=("vm", "container"), default="vm", help="kind of machines (default: vm)")
    bisect.add_argument(
        "--sure", type=real_type(50, 100, "percent"), default=95, metavar="PERCENT",
        help="stop when the answer is this certain (default: 95)",
    )  # fmt: skip
    bisect.add_argument(
        "--most", type=whole_type(1, 1000), default=30, metavar="N", help="stop after N runs (default: 30)"
    )  # fmt: skip
    add_limits(bisect)
    for sub in (run, resume, bisect):
        add_engine(sub)

"""Commands for histories that are made up, or come from elsewhere: simulate, load."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

from ci.informer import text
from ci.informer.commands.common import ACCEPTED, Adder, labelled, name, opened, print_lines
from ci.informer.errors import InformerError
from ci.informer.history import artifacts, junit
from ci.informer.history.model import Run, latest
from ci.informer.history.store import History
from ci.informer.judging.simulate import World, Year, nightly_runs, simulate
from installer.common.numbers import real_type, whole_type


def _load(arguments: argparse.Namespace) -> int:
    paths: list[Path] = arguments.paths
    path = paths[0]
    for path in paths:
        if not path.exists():
            raise InformerError(f"{path}: no such file or directory")
        if path.is_dir() and len(paths) > 1:
            raise InformerError(f"{path}: is a directory: load it alone; several JUnit files are one run")
    if path.is_dir():
        runs = artifacts.load(path, arguments.payload)
    elif not arguments.job:
        raise InformerError(f"{path}: --job: missing; a JUnit file does not say which job it is of")
    else:
        runs = [junit.load(paths, arguments.job, arguments.payload, arguments.began)]
    # A day's tolerance for clocks that differ. A run dated later would stay the last one until that date.
    if ahead := [run for run in runs if run.began > latest()]:
        raise InformerError(f"{path}: began: {ahead[0].began} lies ahead: look at the clocks of both machines")
    with opened(arguments) as history:
        ours = _ran(history, runs, arguments.payload)
        numbers = [*ours.values(), *history.add(run for run in runs if run.folder not in ours)]
        labelled(history)
        print_lines(text.columns(text.RUN_HEADS, [text.run_row(history.run(number)) for number in numbers]))
    return ACCEPTED


def _ran(history: History, runs: Iterable[Run], payload: str) -> dict[str, int]:
    """Find the runs that `node0-ci run` has written down already, by their folders: counted twice they would be two.
    Raises InformerError for one that was on another payload."""
    rows = {Path(row.folder): row for row in history.runs(ahead=True) if row.key.startswith("run ") and row.folder}
    ours = {}
    for run in runs:
        place = Path(run.folder)
        row = next((rows[folder] for folder in (place, *place.parents) if folder in rows), None) if run.folder else None
        if row is not None and row.payload != payload:
            raise InformerError(f"{place}: is run {row.id} of {row.job} already, on payload {row.payload!r}")
        if row is not None:
            ours[run.folder] = row.id
    return ours


def _simulate(arguments: argparse.Namespace) -> int:
    planted = min(World.planted, arguments.jobs) if arguments.planted is None else arguments.planted
    world = World(
        nights=arguments.nights,
        jobs=arguments.jobs,
        runs=arguments.runs,
        flakes=arguments.flakes / 100,
        planted=planted,
    )
    try:
        years = [simulate(arguments.seed + place, world) for place in range(arguments.years)]
    except ValueError as error:
        raise InformerError(f"simulate: {error}") from error
    if arguments.keep:
        with History(arguments.keep) as history:
            print(f"{len(history.add(nightly_runs(arguments.seed, world)))} runs kept in {arguments.keep}")
    total = sum(years, Year())
    print(f"{world.jobs} jobs, {world.runs} runs a night each, {arguments.flakes:g} % flakes, {world.nights} nights")
    if len(years) > 1:
        for place, year in enumerate(years):
            print(f"seed {arguments.seed + place}: {year.line}")
    print(
        f"asked for {total.asked / total.nights:.1f} more runs a night; of {total.small} small "
        f"regressions {total.small_found} were found in time too"
    )
    print(total.line)
    return ACCEPTED


def add(command: Adder) -> None:
    """Add these commands."""
    load = command("load", _load, "add runs to the history: a directory of artefacts, or the JUnit files of one run")
    load.add_argument(
        "paths", nargs="+", type=Path, metavar="PATH", help="what pytest scenarios/ left, or all JUnit files of one run"
    )
    load.add_argument("--payload", type=name, required=True, help="name of the release that the runs were on")
    load.add_argument("--job", type=name, help="the job that a JUnit file is a run of (it does not say so itself)")
    load.add_argument("--began", metavar="TIME", help="start of the run (ISO 8601), if JUnit files have none")
    simulated = command(
        "simulate",
        _simulate,
        "judge made-up nights: how many regressions are found, and how many false alarms are raised",
    )
    for option, kind, default, what in (
        ("--nights", whole_type(3, 3650), 365, "number of nights"),
        ("--seed", whole_type(0, 2**63), 0, "seed of the random numbers: the same seed gives the same nights"),
        ("--years", whole_type(1, 1000), 1, "repeat with N seeds, beginning with --seed"),
        ("--jobs", whole_type(1, 1000), 20, "number of jobs"),
        ("--runs", whole_type(1, 1000), 10, "runs of each job a night"),
        ("--flakes", real_type(0, 50, "percent"), 2, "percent of the runs that fail at random"),
    ):
        simulated.add_argument(option, type=kind, default=default, metavar="N", help=f"{what} (default: {default})")
    simulated.add_argument(
        "--planted", type=whole_type(0, 1000), metavar="N",
        help="regressions to be found, one a job: 3 to 30 more failures in 100 runs (default: 10, or one a job)",
    )  # fmt: skip
    simulated.add_argument("--keep", type=Path, metavar="FILE", help="also save the first year's runs, as a history")

"""How many mutants the tests kill, by package."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter

from ci.bench.measure import table
from ci.mutation import runner
from ci.mutation.choose import Chooser
from ci.mutation.plan import PACKAGES, Project


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _package(project: Project, name: str, modules: list[str], args: argparse.Namespace) -> list[runner.Fate]:
    chosen, total = runner.sample(project, modules, args.sample or None, args.seed)
    files = project.test_files(modules)
    measurements, _ = runner.measured(project, files, args.jobs, _say)
    runner.warm(sorted({module for one in measurements for module in one.imported}))
    chooser = Chooser(project, measurements)
    _say(f"{name}: {len(chosen)} of {total} mutants against {len(chooser.seconds)} tests")
    runner.control(project, chooser)
    fates: list[runner.Fate] = []
    begin = time.monotonic()
    work = runner.parallel(
        args.jobs, chosen, lambda mutant: runner.run_one(project, mutant, chooser, args.budget, patience=args.patience)
    )
    for mutant, fate in work:
        if isinstance(fate, Exception):
            raise SystemExit(f"error: {mutant}: {fate}")
        fates.append(fate)
        if fate.fate in (runner.SURVIVED, runner.UNCOVERED):
            left = f", {fate.left} slower ones left out" if fate.left else ""
            _say(f"[{len(fates)}/{len(chosen)}] {fate.fate}: {mutant} ({fate.tests} tests{left})")
        elif len(fates) % 10 == 0:
            _say(f"[{len(fates)}/{len(chosen)}] {time.monotonic() - begin:.0f} s")
    return fates


def run(args: argparse.Namespace) -> None:
    """Run a sample of each package's mutants and print the table; its last line is ``killed N of M (P %)``."""
    project = Project(args.root.resolve())
    rows: list[tuple[str, str]] = []
    killed = every = 0
    listed: list[str] = []
    for name in args.package or list(PACKAGES):
        modules = [path for path in project.modules(PACKAGES[name]) if args.module in path]
        if not modules:
            continue
        fates = _package(project, name, modules, args)
        counts = Counter(fate.fate for fate in fates)
        dead = counts[runner.KILLED] + counts[runner.TIMEOUT]
        killed, every = killed + dead, every + len(fates)
        figures = (len(fates), counts[runner.KILLED], counts[runner.TIMEOUT], counts[runner.SURVIVED])
        share = 100 * dead / max(1, len(fates))
        rows.append(
            (name, "".join(f"{figure:>10}" for figure in (*figures, counts[runner.UNCOVERED])) + f"{share:8.0f} %")
        )
        rest = sorted(
            (f for f in fates if f.fate in (runner.SURVIVED, runner.UNCOVERED)),
            key=lambda fate: (fate.mutant.path, fate.mutant.number),
        )
        listed += [f"{fate.fate:>9}  {fate.mutant}" for fate in rest]
    if args.list_survivors:
        print("\nnot killed\n" + "\n".join(listed))
    heads = ("mutants", "killed", "timed out", "survived", "no test", "share")
    title = f"mutants (seed {args.seed}; {os.path.relpath(project.root)})"
    table(title, [("", "".join(f"{head:>10}" for head in heads)), *rows])
    print(f"\nkilled {killed} of {every} ({100 * killed / max(1, every):.0f} %)")

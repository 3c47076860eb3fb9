"""`node0-lab conformance`: Kubernetes' own conformance suite against the cluster of a lab."""

from __future__ import annotations

import argparse
import sys
from datetime import datetime
from pathlib import Path

from installer.common.numbers import real_type, whole_type
from lab.commands import access, interrupts
from lab.conformance import images, results, running, suite
from lab.conformance.errors import ConformanceError
from lab.conformance.running import Cluster
from lab.errors import LabError
from lab.host import records
from lab.host.paths import state_dir
from lab.lab import Lab
from lab.release.stage.errors import ReleaseError
from lab.release.stage.store import Store, default_cache

EPILOG = """\
The suite is Kubernetes' own, built from the source that the cluster's programs are built from (half an hour once; kept
in the cache). Its 311 specs [Conformance] take about an hour on a compact cluster.

  node0-lab conformance --list                     all specs, and those that are left out, with reasons
  node0-lab conformance --part                     about 60 that touch everything, in minutes
  node0-lab conformance --focus 'sig-network'      those whose names have this in them
  node0-lab conformance                            all of them
  node0-ci load DIR/junit.xml --payload NAME --job conformance     remember the results

A line for each spec comes as it ends, and why it failed. DIR gets junit.xml and the suite's whole log.
Exit codes: 0 all passed, 1 a spec failed or was not run. What is left out is no failure: docs/conformance.md.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add its options."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    add = parser.add_argument
    add("--focus", default="", metavar="RE", help="only specs whose names have this regular expression in them")
    add("--part", action="store_true", help="only the part that every change of this project must pass")
    add("--list", action="store_true", help="print the specs' names, and run nothing; needs no lab")
    add("--build", action="store_true", help="build the suite and its images where they are not, and run nothing")
    add(
        "--parallel", type=whole_type(1, 64), default=running.PARALLEL, metavar="N",
        help=f"run so many specs side by side, but for those marked [Serial] (default: {running.PARALLEL})",
    )  # fmt: skip
    add(
        "--minutes", type=real_type(1, 24 * 60, "minutes"), default=running.MINUTES, metavar="M",
        help=f"end the run after so long; what has not run by then counts as failed (default: {running.MINUTES})",
    )  # fmt: skip
    add(
        "--report", type=Path, metavar="DIR",
        help="new directory for junit.xml and logs (default: one for each run, below ~/.local/state/node0)",
    )  # fmt: skip


def show(plan: suite.Plan) -> None:
    """Print a plan: a spec a line, then what is left out."""
    for name in plan.specs:
        print(name)
    for name, reason in plan.left_out.items():
        print(f"left out: {name}: {reason}")


def run(arguments: argparse.Namespace, record: records.Record | None) -> int:
    """List the specs, or run them in the lab of a record; 0 when all passed. Raises LabError, OSError."""
    store = Store(default_cache())
    try:
        programs = suite.Programs.built(store)
        plan = suite.plan(programs.specs(), focus=arguments.focus, only_part=arguments.part)
        if arguments.build:
            images.parts(store)
            return 0
        if arguments.list or record is None:
            show(plan)
            return 0
        own = state_dir() / "conformance" / f"{record.id}-{datetime.now():%Y%m%d-%H%M%S}"
        folder: Path = arguments.report or own
        if folder.is_dir() and any(folder.iterdir()):
            raise ConformanceError(f"--report {folder}: is not empty")
        kubeconfig = access.kubeconfig_of(record.root)
        consequence = f"the suite cleans up, and {folder / 'junit.xml'} gets its results; once more ends it at once"
        with running.alone(record.root, folder):
            images.push_images(store, images.storage_of(record.root))
            with interrupts.announced(lambda: consequence), Lab.attach(record.id) as lab:
                ran = running.run(
                    programs, Cluster(lab, kubeconfig), plan, folder=folder,
                    parallel=arguments.parallel, minutes=arguments.minutes, tell=lambda line: print(line, flush=True),
                )  # fmt: skip
    except ReleaseError as error:
        raise LabError(str(error)) from error
    for line in results.red(ran.results):
        print(line, file=sys.stderr)
    print(f"{ran.line}\n{folder / 'junit.xml'}")
    return 0 if ran.ok else 1

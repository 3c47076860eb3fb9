"""Cases of diagnosis from the swarm lane: `python -m ci.tests.faults.cases DIR`, for `ci/bench/run diagnosis`.

The faults of the table's rows, the same kinds of fault drawn from seeds (on other hosts, with other figures, and two at
once), and undisturbed installations; each in a folder as a failed run in a lab leaves it, with its truth.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ci.tests.faults import install
from lab import faults as real
from lab.faults import Fault
from lab.faults.moments import Moment
from lab.topology import Topology
from scenarios.catalogue import simulated, truth
from scenarios.catalogue.faulty import ROWS, Completes, Outcome, Row, Told
from scenarios.catalogue.ids import topology_of
from scenarios.catalogue.simulated import Simulated

SCENARIO = "compact-ipv4-static-uefi"
#: Percentage of seeds with two faults, on two hosts.
TWO = 25


def _fault(rng: random.Random, node: str) -> Fault | Simulated:
    """Draw a fault of the start that lasts and ends the installation."""
    return rng.choice(
        (
            lambda: simulated.Unlike(node=node, memory_mib=rng.randint(300, 1000)),
            lambda: simulated.Unlike(node=node, cpus=1),
            lambda: simulated.Unlike(node=node, disk_gb=rng.randint(2, 9)),
            lambda: simulated.Unlike(node=node, mac=f"52:54:00:cc:dd:{rng.randint(16, 99)}"),
            lambda: simulated.Unlike(node=node, hostname="localhost"),
            lambda: simulated.ClockOff(node=node, seconds=rng.randint(600, 7200)),
            lambda: simulated.Apart(node=node),
            lambda: simulated.StepFails(node=node, step="inventory", how="nonsense"),
            lambda: simulated.StepFails(node=node, step="install", error="podman: exec format error"),
            lambda: real.LinkDown(node),
            lambda: real.RegistryImage("agent-installer-orchestrator", "absent"),
            lambda: real.RegistryRefuses(),
            lambda: real.RegistryCertificate(),
            lambda: real.Duplicate(rng.choice(("192.168.111.5", "192.168.111.4"))),
        )
    )()


def drawn(seed: int, topology: Topology) -> Row:
    """Return the row of a seed."""
    rng = random.Random(f"diagnosis {seed}")
    nodes = rng.sample([node.name for node in topology.nodes], 2 if rng.randint(1, 100) <= TWO else 1)
    faults = tuple(_fault(rng, node) for node in nodes)
    if any(truth.later(fault) for fault in faults):
        # The other one would keep it from beginning, or it the other.
        faults = faults[:1]
    told = Told(cause="seed", minutes=6)
    return Row(
        name=f"seed_{seed}", scenario=SCENARIO, lanes=("swarm",), faults=faults, begin=Moment(seconds=0), why="drawn",
        told=told,
    )  # fmt: skip


def _undisturbed(number: int) -> Row:
    return Row(
        name=f"undisturbed_{number}", scenario=SCENARIO, lanes=("swarm",), faults=(), begin=Moment(seconds=0),
        why="undisturbed", completes=Completes(),
    )  # fmt: skip


def keep(row: Row, topology: Topology, outcome: Outcome, made: Path, folder: Path) -> None:
    """Leave a run's evidence and truth in a folder, laid out as that of a run in a lab (lab/evidence)."""
    (folder / "commands").mkdir(parents=True)
    (folder / "commands/01-wait-for.log").write_text(outcome.output + "\n")
    state = "failed" if outcome.code else "passed"
    phase = {"name": "wait-for bootstrap-complete", "outcome": state, "seconds": round(outcome.seconds, 1)}
    (folder / "phases.json").write_text(json.dumps([phase]))
    logs = made / "assets/logs"
    if logs.is_dir():
        shutil.copytree(logs, folder / "installer/logs")
    truth.leave(row, topology, folder)


def rows(names: Sequence[str], seeds: Sequence[int], undisturbed: int) -> Iterator[Row]:
    """Yield the rows that give cases: those of the table, of seeds, and undisturbed ones."""
    for row in ROWS:
        if "swarm" in row.lanes and (row.name in names or (not names and row.told)):
            yield row
    yield from (drawn(seed, topology_of(SCENARIO)) for seed in seeds)
    yield from map(_undisturbed, range(undisturbed))


def _make(row: Row, root: Path) -> str:
    topology = topology_of(row.scenario)
    if truth.of(row, topology) is None:
        return f"{row.id}: no case: a fault of it is not in the vocabulary"
    with tempfile.TemporaryDirectory(prefix="node0-case-") as made:
        try:
            outcome = install.run(row, Path(made) / "run", topology)
        except AssertionError as error:
            return f"{row.id}: no case: {error}"
        if row.told and not outcome.code:
            return f"{row.id}: no case: it completed in spite of {', '.join(map(str, row.faults))}"
        keep(row, topology, outcome, Path(made) / "run", root / row.id)
    return f"{row.id}: ended with {outcome.code} after {outcome.seconds:.0f} s"


def main(argv: Sequence[str] | None = None) -> None:
    """Make the cases, some at once."""
    parser = argparse.ArgumentParser(prog="python -m ci.tests.faults.cases", description="Make cases of diagnosis.")
    parser.add_argument("folder", type=Path, help="where to, new or empty")
    parser.add_argument("--rows", nargs="*", default=(), help="only these rows of the table (default: all that fail)")
    parser.add_argument("--seeds", type=int, nargs="*", default=())
    parser.add_argument("--undisturbed", type=int, default=0)
    parser.add_argument("--at-once", type=int, default=5)
    args = parser.parse_args(argv)
    if args.folder.exists() and (not args.folder.is_dir() or any(args.folder.iterdir())):
        parser.error(f"{args.folder}: want a new or empty folder")
    with ThreadPoolExecutor(args.at_once, "case") as pool:
        for line in pool.map(lambda row: _make(row, args.folder), rows(args.rows, args.seeds, args.undisturbed)):
            print(line, flush=True)


if __name__ == "__main__":
    main()

"""`python -m ci.bench`: node0's benchmarks; ratios are measured side by side in one run."""

from __future__ import annotations

import argparse
import importlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from installer.common.numbers import whole_type

ROOT = Path(__file__).parents[2]
COUNT, SECONDS = whole_type(1, 5000), whole_type(1, 86_400)
SEED = whole_type(0, 1_000_000)
DEFAULT = "image"
#: Seeds for `judges` that nothing was chosen by.
HELD_OUT = (90_001, 90_002, 90_003)
#: Likewise for `diagnosis`, an installation each.
CASES_HELD_OUT = tuple(range(90_101, 90_141))


@dataclass(frozen=True)
class Benchmark:
    """A measurement: words for --help, a function, and whether nothing else may be measured with it."""

    text: str
    run: Callable[[argparse.Namespace], None]
    alone: bool = False


def _run_of(module: str, *options: str) -> Callable[[argparse.Namespace], None]:
    """Import a module of ci.bench, which takes a while, and call its `run` with these options' values."""

    def run(args: argparse.Namespace) -> None:
        importlib.import_module(f"ci.bench.{module}").run(*(getattr(args, option) for option in options))

    return run


def _machines(args: argparse.Namespace) -> None:
    from ci.bench.installs import machines

    if args.show:
        machines.show(machines.load_results(machines.store()))
    else:
        machines.run(args.kinds, args.sizes, args.seconds)


def _oracle_service(args: argparse.Namespace) -> None:
    from ci.bench.oracle.service import comparison

    comparison.run(args.url, args.worlds, args.seed, ca=args.ca, user_token=args.user_token, token=args.token)


#: In the order in which they run.
BENCHMARKS: Mapping[str, Benchmark] = {
    "redfish": Benchmark("the vendors' BMCs against DMTF's validators", _run_of("redfish", "schemas", "ironic")),
    "ironic": Benchmark("Ironic from PyPI through the vendors' BMCs", _run_of("ironic"), alone=True),
    "image": Benchmark("create image against cp", _run_of("image")),
    "swarm": Benchmark(
        "how many hosts one service on one core holds (about ten minutes)", _run_of("service.swarm", "hosts")
    ),
    "page": Benchmark("the service's page with 100 hosts in a real browser", _run_of("service.page")),
    "hub": Benchmark(
        "the operator of a hub with hundreds of hosts (about ten minutes)", _run_of("service.hub", "hub_hosts")
    ),
    "conformity": Benchmark("the service against its specification", _run_of("service.conformity", "spec", "examples")),
    "replay": Benchmark(
        "installations with faults under a virtual clock, from seeds; --replay SEED prints one (docs/replay.md)",
        _run_of("service.replay", "replay", "seeds", "planted"),
        alone=True,
    ),
    "machines": Benchmark("the same installations in containers and in VMs, side by side", _machines),
    "fault-times": Benchmark(
        "how long faults went unnamed, from the evidence of runs", _run_of("naming", "evidence"), alone=True
    ),
    "judges": Benchmark(
        "node0's judges, scored on other people's labelled data",
        _run_of("judges.report", "data", "otava", "judge_seeds"),
        alone=True,
    ),
    "diagnosis": Benchmark(
        "how well failed installations' causes are named (docs/faults.md)",
        _run_of("diagnosis", "cases", "case_seeds", "undisturbed"),
        alone=True,
    ),
    "oracle": Benchmark(
        "verdicts, errors and manifests of many inputs against those of a stock openshift-install",
        _run_of("oracle.comparison", "installer", "seed"),
        alone=True,
    ),
    "oracle-service": Benchmark(
        "statuses, validations and status codes of many hosts and requests against those of a running assisted-service",
        _oracle_service,
        alone=True,
    ),
}


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    width = max(map(len, BENCHMARKS))
    rows = "\n".join(f"  {name:<{width}}  {benchmark.text}" for name, benchmark in BENCHMARKS.items())
    parser = argparse.ArgumentParser(
        prog="ci/bench/run",
        description="Print node0's measurements.",
        epilog=f"benchmarks:\n{rows}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "what",
        nargs="*",
        choices=[*BENCHMARKS, []],
        metavar="BENCHMARK",
        help=f"what to measure, from the list below (default: {DEFAULT})",
    )
    _options_of_machines(parser)
    _options_of_oracles(parser)
    _options_of_judges(parser)
    parser.add_argument("--hosts", type=COUNT, default=2000, help="swarm: the most hosts to try (default: 2000)")
    parser.add_argument("--hub-hosts", type=COUNT, default=500, help="hub: hosts, ten a cluster (default: 500)")
    _options_of_replay(parser)
    parser.add_argument(
        "--evidence", type=Path, nargs="+", default=[ROOT / "artifacts"], metavar="DIR",
        help="fault-times: directories that pytest's --artifacts named (default: artifacts)",
    )  # fmt: skip
    return parser


def _options_of_replay(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("replay").add_argument
    add("--replay", type=SEED, metavar="SEED", help="replay: print this seed's faults, its trace and what broke first")
    add("--seeds", type=COUNT, default=1000, help="replay: how many installations (default: 1000)")
    add("--planted", action="store_true", help="replay: plant bugs, and print after how many seeds each is found")


def _options_of_machines(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("machines").add_argument
    add("--seconds", type=SECONDS, default=60, help="machines: seconds to watch machines at rest (default: 60)")
    add("--kinds", nargs="+", choices=["vm", "container"], help="machines: kinds to measure (default: both)")
    add(
        "--sizes",
        nargs="+",
        choices=["sno", "compact", "ha"],
        help="machines: sizes to measure (default: all in containers, sno in VMs)",
    )
    add("--show", action="store_true", help="machines: measure nothing, print what was measured last")


def _options_of_oracles(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("conformity, redfish, oracle, oracle-service")
    add = group.add_argument
    add("--spec", type=Path, metavar="FILE", help="conformity: assisted-service's swagger.yaml")
    add("--examples", type=COUNT, default=20, help="conformity: requests per operation (default: 20)")
    add("--schemas", type=Path, metavar="DIR", help="redfish: the directory csdl of DMTF/Redfish-Publications")
    add("--ironic", type=Path, metavar="FILE", help="redfish: OpenStackIronicProfile, from openstack/ironic")
    add("--installer", type=Path, metavar="PATH", help="oracle: the openshift-install to compare with")
    add("--url", help="oracle-service: the service to compare with; clusters are registered there, and removed again")
    add("--ca", type=Path, metavar="FILE", help="oracle-service: certificate of the CA that the service's is of")
    add(
        "--user-token",
        type=Path,
        metavar="FILE",
        help="oracle-service: the service's token of users, if it asks for one",
    )
    add("--token", type=Path, metavar="FILE", help="oracle-service: its token of agents, likewise")
    add("--seed", type=SEED, default=1, help="oracle, oracle-service: seed of the inputs (default: 1)")
    add("--worlds", type=COUNT, default=200, help="oracle-service: number of scenarios (default: 200)")


def _options_of_judges(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("judges").add_argument
    add(
        "--data",
        type=Path,
        default=os.environ.get("NODE0_JUDGES_DATA"),
        metavar="DIR",
        help="judges: the folder of others' data (default: $NODE0_JUDGES_DATA)",
    )
    add("--otava", type=Path, metavar="PYTHON", help="judges: Python of an environment with Otava and its test data")
    add(
        "--judge-seeds", type=SEED, nargs="+", default=HELD_OUT, metavar="SEED",
        help="judges: seeds of what is made up (default: those that were held out from building)",
    )  # fmt: skip
    add("--cases", type=Path, metavar="DIR", help="diagnosis: cases there are (default: made by the swarm lane)")
    add(
        "--case-seeds", type=SEED, nargs="+", default=CASES_HELD_OUT, metavar="SEED",
        help="diagnosis: seeds of cases to make (default: those that were held out from building)",
    )  # fmt: skip
    add("--undisturbed", type=COUNT, default=20, help="diagnosis: undisturbed installations (default: 20)")


def problems(args: argparse.Namespace) -> Iterator[str]:
    """Yield a line for each fault of the command line."""
    for name in args.what:
        if BENCHMARKS[name].alone and args.what != [name]:
            yield f"{name} is measured alone"
    if "redfish" in args.what and not (_is(args.schemas, Path.is_dir) and _is(args.ironic, Path.is_file)):
        yield "redfish needs --schemas DIR and --ironic FILE"
    if "conformity" in args.what and not _is(args.spec, Path.is_file):
        yield "conformity needs --spec FILE"
    if "oracle" in args.what and not _is(args.installer, Path.is_file):
        yield "oracle needs --installer PATH"
    if "oracle-service" in args.what and args.url is None:
        yield "oracle-service needs --url URL"
    # Others are measured whatever $NODE0_JUDGES_DATA says.
    if "judges" in args.what and args.data is not None and not args.data.is_dir():
        yield f"judges: --data or $NODE0_JUDGES_DATA: {args.data}: no such folder"
    for path in (args.ca, args.user_token, args.token, args.otava):
        if path is not None and not path.is_file():
            yield f"{path}: no such file"


def _is(path: Path | None, kind: Callable[[Path], bool]) -> bool:
    return path is not None and kind(path)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the benchmarks that were asked for."""
    command = parser()
    args = command.parse_args(argv)
    args.what = args.what or [DEFAULT]
    for problem in problems(args):
        command.error(problem)
    for name, benchmark in BENCHMARKS.items():
        if name in args.what:
            benchmark.run(args)


if __name__ == "__main__":
    main()

"""`python -m ci.bench`: node0's benchmarks; ratios are measured side by side in one run."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from ci.bench.measure import table
from ci.mutation.plan import PACKAGES
from lab.numbers import whole_type
from scenarios.catalogue.ids import topology_of

ROOT = Path(__file__).parents[2]
COUNT, SECONDS = whole_type(1, 5000), whole_type(1, 86_400)
SAMPLE = whole_type(0, 1_000_000)
BENCHMARKS = [
    "image",
    "builds",
    "media",
    "floor",
    "install",
    "swarm",
    "conformity",
    "redfish",
    "idle",
    "machines",
    "mutants",
    "oracle",
    "oracle-service",
    "house",
    "engine",
]
SCENARIO = "sno-ipv4-static-uefi"


def install(scenario: str) -> float:
    """Install a scenario once, warm; seconds from the lab's start to install-complete, by its own phases."""
    shortest = f"scenarios/test_install.py::test_console_answers[{scenario}]"
    argv = [sys.executable, "-m", "pytest", "-q", "--weekly", shortest]
    begin = time.monotonic()
    done = subprocess.run(argv, cwd=ROOT, check=False)
    if done.returncode:
        raise SystemExit(f"the scenario failed with {done.returncode}")
    phases = json.loads((ROOT / "artifacts" / scenario / "phases.json").read_text())
    rows = [(entry["name"], f"{entry['seconds']:6.1f} s") for entry in phases]
    total = sum(float(entry["seconds"]) for entry in phases if entry["depth"] == 0)
    rows += [("all phases", f"{total:6.1f} s"), ("with collecting evidence", f"{time.monotonic() - begin:6.1f} s")]
    table(f"scenario {scenario}, warm", rows)
    return total


def main() -> None:
    """Run the benchmarks that were asked for, all of the quick ones by default."""
    parser = argparse.ArgumentParser(prog="ci/bench/run", description="Print node0's measurements.", allow_abbrev=False)
    parser.add_argument(
        "what",
        nargs="*",
        choices=[*BENCHMARKS, []],
        help="image: create image against cp; builds: warm builds; media: inserts through Redfish; "
        "floor: steps of an install, alone; install: a whole install between two floors, with its ratio to their mean; "
        "swarm: hosts that one service on one core holds (about ten minutes); "
        "conformity: the service against its specification; "
        "redfish: the vendors' BMCs against DMTF's validators; "
        "idle: CPU and memory of a kept lab's machines, by process; "
        "machines: the same installations in containers and VMs, side by side; "
        "mutants: changes to the code that the tests notice; "
        "oracle: verdicts, errors and manifests of many inputs against those of the real openshift-install, where "
        "one was built; "
        "oracle-service: statuses, validations and status codes of many hosts and requests against those of the real "
        "assisted-service, where one was built; "
        "house: lines, modules a folder, cycles, citations, start, create image; "
        "engine: what node0-ci run costs besides the runs (default: image builds media)",
    )
    parser.add_argument("--hosts", type=COUNT, default=2000, help="swarm: how many at most (default: 2000)")
    parser.add_argument("--worlds", type=COUNT, default=200, help="oracle-service: scenarios (default: 200)")
    parser.add_argument("--cold", action="store_true", help="builds: also into an empty cache (about six minutes)")
    parser.add_argument("--spec", type=Path, help="conformity: assisted-service's swagger.yaml")
    parser.add_argument("--schemas", type=Path, help="redfish: the directory csdl of DMTF/Redfish-Publications")
    parser.add_argument("--ironic", type=Path, help="redfish: OpenStackIronicProfile, from openstack/ironic")
    parser.add_argument("--examples", type=COUNT, default=20, help="conformity: requests per operation (default: 20)")
    parser.add_argument("--scenario", default=SCENARIO, help=f"floor, install: of which scenario (default: {SCENARIO})")
    parser.add_argument("--lab", metavar="ID", help="idle: a lab kept by --lab-keep=always")
    parser.add_argument(
        "--seconds", type=SECONDS, default=60, help="idle, machines: how long to look at rest (default: 60)"
    )
    side = parser.add_argument_group("machines")
    side.add_argument("--kinds", nargs="+", choices=["vm", "container"], help="which (default: both)")
    side.add_argument(
        "--sizes", nargs="+", choices=["sno", "compact", "ha"], help="which (default: all in containers, sno in VMs)"
    )
    side.add_argument("--show", action="store_true", help="measure nothing, print what was measured last")
    parser.add_argument("--before", metavar="COMMIT", help="house: an earlier commit, side by side with HEAD")
    parser.add_argument(
        "--scripts",
        type=Path,
        metavar="DIR",
        help="oracle: instead, run the integration scripts of openshift-install below DIR",
    )
    mutation = parser.add_argument_group("mutants")
    mutation.add_argument("--package", action="append", choices=list(PACKAGES), help="which (default: all)")
    mutation.add_argument("--module", default="", metavar="TEXT", help="only modules with this in their path")
    mutation.add_argument(
        "--sample", type=SAMPLE, default=60, metavar="N", help="of each package; 0: all (default: 60)"
    )
    mutation.add_argument("--seed", type=SAMPLE, default=1, help="of the sample; oracle: of the inputs (default: 1)")
    mutation.add_argument("--list-survivors", action="store_true", help="print the mutants that no test killed")
    mutation.add_argument("--root", type=Path, default=ROOT, metavar="DIR", help="another checkout (default: this one)")
    mutation.add_argument("--jobs", type=COUNT, default=os.cpu_count() or 1, help="in parallel (default: one per CPU)")
    mutation.add_argument(
        "--budget", type=SECONDS, default=20, metavar="S", help="seconds of tests for each mutant (default: 20)"
    )
    mutation.add_argument(
        "--patience", type=SECONDS, default=15, metavar="S", help="seconds to wait for an endless mutant (default: 15)"
    )
    args = parser.parse_args()
    if "mutants" in args.what:
        if args.what != ["mutants"]:
            parser.error("mutants is measured alone")
        if not (args.root / "installer/tests").is_dir():
            parser.error("--root is not a checkout")
        from ci.bench import mutants

        mutants.run(args)
        return
    if "oracle" in args.what:
        if args.what != ["oracle"]:
            parser.error("oracle is measured alone")
        from ci.bench.oracle import bench

        if args.scripts is None:
            bench.run(args.seed)
            return
        from ci.bench.oracle import scripts

        scripts.run(args.scripts)
        return
    if "oracle-service" in args.what:
        if args.what != ["oracle-service"]:
            parser.error("oracle-service is measured alone")
        from ci.bench.oracle.service import bench as service_bench

        service_bench.run(args.worlds, args.seed)
        return
    if "house" in args.what:
        if args.what != ["house"]:
            parser.error("house is measured alone")
        from ci.bench import house

        house.run(args.before)
        return
    if "redfish" in args.what:
        if args.schemas is None or not args.schemas.is_dir() or args.ironic is None or not args.ironic.is_file():
            parser.error("redfish needs --schemas DIR and --ironic FILE")
        from ci.bench import redfish

        redfish.run(args.schemas, args.ironic)
        if args.what == ["redfish"]:
            return
    if "idle" in args.what and args.lab is None:
        parser.error("idle needs --lab ID")
    if "conformity" in args.what and (args.spec is None or not args.spec.is_file()):
        parser.error("conformity needs --spec FILE")
    try:
        installed = topology_of(args.scenario)
    except ValueError as error:
        parser.error(str(error))
    what = args.what or ["image", "builds", "media"]
    if "image" in what:
        from ci.bench import image

        image.run()
    if "builds" in what:
        from ci.bench import builds

        builds.run(cold=args.cold)
    if "media" in what:
        from ci.bench import media

        media.run()
    if "engine" in what:
        from ci.bench import engine

        engine.run()
    if "swarm" in what:
        from ci.bench.service import swarm

        swarm.run(args.hosts)
    if "conformity" in what:
        from ci.bench.service import conformity

        conformity.run(args.spec, args.examples)
    if "idle" in what:
        from ci.bench.installs import idle

        idle.run(args.lab, args.seconds)
    if "machines" in what:
        from ci.bench.installs import machines

        if args.show:
            machines.show(machines.kept(machines.store()))
        else:
            machines.run(args.kinds, args.sizes, args.seconds)
    if "floor" in what or "install" in what:
        from ci.bench.installs import floor

        lowest = floor.run(args.scenario, installed)
        if "install" in what:
            taken = install(args.scenario)
            # A machine's speed may change by a quarter within the hour: the floor is what it was on either side.
            lowest = (lowest + floor.run(args.scenario, installed)) / 2
            rows = [("floor, mean of before and after", f"{lowest:6.1f} s")]
            table("install against its floor", [*rows, ("ratio, target under 2.0", f"{taken / lowest:.2f}")])


if __name__ == "__main__":
    main()

"""`.ci/run`: what every change must pass, stage by stage, with the time that each took.

The fast suite comes first; what does not pass it is not installed. All other stages run whatever became of one another,
so that one run tells all. Where the kernel cannot run container machines, compact is installed in VMs instead.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType

from lab.host import budget
from lab.host.paths import labs_dir
from lab.host.preflight import container_problems
from lab.topology import Topology
from scenarios.ids import topology_of

ROOT = Path(__file__).parents[1]
# What is installed in containers, by the installation that decides how much of the machine it takes: what `-k` chooses.
# A bracket ends an id, so that its variants are not meant.
CONTAINERS: Mapping[str, str] = {
    "sno-ipv4-static-uefi": "sno-ipv4-static-uefi] or sno-ipv4-static-uefi-small_disk]",
    "compact-ipv4-static-uefi": "compact-ipv4-static-uefi] or compact-ipv4-static-uefi-power_cut]",
    "ha-ipv4-static-uefi": "ha-ipv4-static-uefi]",
}
# Tests that see the cluster only, and are slow: where a container has passed them, a VM need not.
ONLY_CLUSTER = ("filled_maps", "operator_reports")
# Installations at the same time, and virtual processors a core that they may have: as containers they wait for one
# another half of the time and need no emulation; their memory is what decides (lab.host.budget).
SIDE_BY_SIDE, VCPUS_PER_CPU = 3, 4
# Seconds for everything, set-up aside; a machine whose caches are empty needs most of it.
LONGEST = 65 * 60.0
# Seconds that a stage has to end by itself once its time is up: its labs leave evidence.
_GRACE = 120.0
_LATE = 124  # as timeout(1) has it


@dataclass(frozen=True)
class Stage:
    """One command of the gate; `limit` in seconds is several times what it takes here, for machines that are slow.

    Nothing after an `essential` stage runs when that fails.
    """

    name: str
    argv: Sequence[str]
    limit: float
    essential: bool = False
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """How a stage ended; a `code` of None: it was not run."""

    name: str
    code: int | None
    seconds: float = 0.0

    @property
    def line(self) -> str:
        """A row of the summary."""
        if self.code is None:
            return f"{'not run':<8} {'':>8}  {self.name}"
        word = {0: "passed", _LATE: "late"}.get(self.code, "failed")
        minutes, seconds = divmod(round(self.seconds), 60)
        return f"{word:<8} {minutes:>3} min {seconds:02} s  {self.name}"


def fitting(capacity: budget.Amount, shapes: Mapping[str, Topology]) -> tuple[list[str], list[str]]:
    """The scenarios that this machine has memory and disk for, and a line for each other one. (One that wants more
    processors runs alone.)"""
    fits, lines = [], []
    for name, shape in shapes.items():
        need = budget.need_of(shape)
        short = [what for what in need.short(capacity) if what != "vCPUs"]
        if short:
            lines.append(f"{name} is left out for want of {' and '.join(short)}: needs {need}; there is {capacity}")
        else:
            fits.append(name)
    return fits, lines


def stages(problems: Sequence[str], fits: Sequence[str]) -> list[Stage]:
    """The gate for a machine that cannot run containers for these reasons (none: it can), and has room for these."""
    first = [
        Stage("style, types, fast suite", ["ci/test", "--fast"], 1800, essential=True),
        Stage("lab release", [".venv/bin/python", "-m", "lab.release", "build"], 2400, essential=True),
    ]
    if problems or not fits:
        node = ["ci/scenarios", "-k", "sno-ipv4-static-uefi", "--artifacts=artifacts/vm/sno"]
        compact = ["ci/scenarios", "-k", "compact", "-m", "not disruptive", "--artifacts=artifacts/vm/compact"]
        return [*first, Stage("one node in a VM", node, 2400), Stage("compact in VMs", compact, 3600)]
    words = " or ".join(CONTAINERS[name] for name in fits)
    argv = ["ci/scenarios", "--machines=container", "--nightly", "-v", "--artifacts=artifacts/container", "-k", words]
    argv += ["-n", str(SIDE_BY_SIDE)]
    sizes = ", ".join(name.partition("-")[0] for name in fits)
    vcpus = {"NODE0_BUDGET_VCPU": str(VCPUS_PER_CPU * len(os.sched_getaffinity(0)))}
    contained = Stage(f"{sizes} in containers, with losses", argv, 2400, env=vcpus)
    chosen = " and ".join(["sno-ipv4-static-uefi]", *(f"not {word}" for word in ONLY_CLUSTER)])
    node = ["ci/scenarios", "-k", chosen, "--artifacts=artifacts/vm/sno"]
    # What is emulated takes longest, so it comes last.
    return [*first, contained, Stage("one node in a VM", node, 2400)]


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End a stage and all that it started, in good order where it listens."""
    for number, patience in ((signal.SIGINT, _GRACE), (signal.SIGKILL, None)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            continue


def run(stage: Stage) -> Outcome:
    """Run a stage, whose output goes where ours goes."""
    begin = time.monotonic()
    # A group of its own: what it started ends with it.
    env = {**stage.env, **os.environ}
    process = subprocess.Popen(stage.argv, cwd=ROOT, env=env, start_new_session=True)
    try:
        code = process.wait(stage.limit)
    except subprocess.TimeoutExpired:
        say(f"{stage.name}: not done after {stage.limit:.0f} s, ending it")
        _stop(process)
        code = _LATE
    except BaseException:
        _stop(process)
        raise
    return Outcome(stage.name, code, time.monotonic() - begin)


def say(line: str) -> None:
    """A line of the gate's own, between those of its stages."""
    print(f"[gate] {line}", file=sys.stderr, flush=True)


def passed(chosen: Sequence[Stage], runner: Callable[[Stage], Outcome] = run) -> bool:
    """Run the stages and print how each ended; whether all passed."""
    begin, outcomes, ended = time.monotonic(), list[Outcome](), False
    try:
        for number, stage in enumerate(chosen, 1):
            left = begin + LONGEST - time.monotonic()
            if ended or left <= 0:
                outcomes.append(Outcome(stage.name, None))
                continue
            say(f"{number} of {len(chosen)}: {stage.name}")
            outcomes.append(runner(replace(stage, limit=min(stage.limit, left))))
            say(outcomes[-1].line)
            ended = stage.essential and outcomes[-1].code != 0
    finally:
        say("summary")
        for outcome in outcomes:
            say(f"  {outcome.line}")
        good = len(outcomes) == len(chosen) and all(outcome.code == 0 for outcome in outcomes)
        say(f"  {Outcome('all', 0 if good else 1, time.monotonic() - begin).line}")
    return good


def _told_to_end(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def main() -> int:
    """Run the gate; its exit code."""
    signal.signal(signal.SIGTERM, _told_to_end)
    problems = container_problems()
    fits, lines = fitting(budget.capacity(labs_dir()), {name: topology_of(name).on("container") for name in CONTAINERS})
    if problems:
        say(f"no container machines here, so compact is installed in VMs: {'; '.join(problems)}")
    else:
        for line in lines:
            say(line)
    return 0 if passed(stages(problems, fits)) else 1


if __name__ == "__main__":
    sys.exit(main())

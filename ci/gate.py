"""`.ci/run`: what every change must pass, stage by stage, with the time that each took.

The fast suite comes first; what does not pass it is not installed. All other stages run whether or not the ones before
passed, so that one run shows every failure. Where the kernel cannot run container machines, compact is installed in VMs
instead.

Tests that fail are run a second time, once their stage is over and the machine is quieter: what passes then is a flake,
is named in the summary, and does not fail the gate (as openshift-tests has it, pkg/test/ginkgo/cmd_runsuite.go).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import IO

from ci.bench.measure import timed
from lab.errors import EvidenceError
from lab.evidence.folder import check_below
from lab.host import budget
from lab.host.paths import labs_dir
from lab.host.preflight import container_problems
from lab.topology import Topology
from scenarios.catalogue.faulty import ROWS
from scenarios.catalogue.ids import topology_of

ROOT = Path(__file__).parents[1]
# What is installed in containers, by the installation that decides how much of the machine it takes: what `-k` chooses.
# A bracket ends an id, so that its variants are not meant.
CONTAINERS: Mapping[str, str] = {
    "sno-ipv4-static-uefi": " or ".join(
        [
            "sno-ipv4-static-uefi]",
            "sno-ipv4-static-uefi-small_disk]",
            "sno-ipv4-static-uefi-discovery_iso-hub]",
            *(f"{row.id}]" for row in ROWS if row.gate),
        ]
    ),
    "compact-ipv4-static-uefi": "compact-ipv4-static-uefi] or compact-ipv4-static-uefi-power_cut]",
    "ha-ipv4-static-uefi": "ha-ipv4-static-uefi]",
}
# Tests that see the cluster only, and are slow: where a container has passed them, a VM need not. In a VM the first
# three took 69, 104 and 8 s, and the last with the reboot before it 343 s; of the others above 5 s one looks at what
# booted, one at disks, and one boots again.
ONLY_CLUSTER = ("filled_maps", "operator_reports", "pods_run_where_they_belong", "ready_in_its_last_boot")
# Installations at the same time, and virtual processors a core that they may have: as containers they need no emulation
# and wait most of the time, for operators to settle, for leases, for masters that were cut off to come back; their
# memory is what decides (lab.host.budget). On two cores HA, compact and one node run side by side.
SIDE_BY_SIDE, VCPUS_PER_CPU = 3, 6
# Seconds for everything, set-up aside; a machine whose caches are empty needs most of it.
LONGEST = 65 * 60.0
# Seconds that a stage has to end by itself once its time is up: its labs leave evidence.
_GRACE = 120.0
_LATE = 124  # as timeout(1) has it
_TESTS_FAILED = 1  # pytest's exit code, and others'
# More failed tests than that are no flakes, and not run again. (An installation that fails fails all of its tests.)
MOST_RETRIED = 10
# Where pytest keeps which tests failed, in a folder a stage.
_CACHES = ".pytest_cache/gate"


@dataclass(frozen=True)
class Stage:
    """One command of the gate; `limit` in seconds is several times what it takes here, for machines that are slow.

    Nothing after an `essential` stage runs when that fails. Up to `retried` tests that fail are run a second time: the
    command passes pytest's options on. One that is `beside` begins with the stage before it, and its output is shown
    after that one's.
    """

    name: str
    argv: Sequence[str]
    limit: float
    essential: bool = False
    _: KW_ONLY
    env: Mapping[str, str] = field(default_factory=dict)
    retried: int = 0
    beside: bool = False

    @property
    def cache(self) -> Path:
        """The folder in which pytest remembers which of its tests failed."""
        return ROOT / _CACHES / re.sub(r"\W+", "-", self.name)


@dataclass(frozen=True)
class Outcome:
    """The end of a stage; a `code` of None: it was not run. `flakes` are its tests that passed at their second try,
    `work` the seconds that all processors of the machine worked meanwhile."""

    name: str
    code: int | None
    seconds: float = 0.0
    flakes: Sequence[str] = ()
    _: KW_ONLY
    work: float = 0.0

    @property
    def line(self) -> str:
        """A row of the summary."""
        if self.code is None:
            return f"{'not run':<8} {'':>10}  {'':>9}  {self.name}"
        word = {0: "passed", _LATE: "late"}.get(self.code, "failed")
        minutes, seconds = divmod(round(self.seconds), 60)
        flaky = f" ({len(self.flakes)} at the second try)" if self.flakes else ""
        cores = f"{self.work / self.seconds:.1f} cores" if self.work and self.seconds else ""
        return f"{word:<8} {minutes:>3} min {seconds:02} s  {cores:>9}  {self.name}{flaky}"


def fitting(capacity: budget.Amount, shapes: Mapping[str, Topology]) -> tuple[list[str], list[str]]:
    """Return the scenarios that this machine has memory and disk for, and a line for each other one. (One that wants
    more processors runs alone.)"""
    fits, lines = [], []
    for name, topology in shapes.items():
        need = budget.need_of(topology)
        short = [what for what in need.short(capacity) if what != "vCPUs"]
        if short:
            lines.append(f"{name} is left out for want of {' and '.join(short)}: needs {need}; there is {capacity}")
        else:
            fits.append(name)
    return fits, lines


def first_stages() -> list[Stage]:
    """Return the stages before any machine boots."""
    return [
        Stage("style, types, fast suite", ["ci/test", "--fast"], 1800, essential=True, retried=4 * MOST_RETRIED),
        Stage("slow suite", ["ci/test", "--slow"], 1200, retried=2 * MOST_RETRIED),
        Stage("lab release", [".venv/bin/python", "-m", "lab.release", "build"], 2400, essential=True),
        Stage("conformance suite", [".venv/bin/node0-lab", "conformance", "--build"], 3600),
    ]


def lab_stages(problems: Sequence[str], fits: Sequence[str]) -> list[Stage]:
    """Return the rest, for a machine that cannot run containers for these reasons (none: it can), and has room for
    these."""
    labs = Stage("tests on real labs", ["ci/test", "--labs"], 1500, retried=MOST_RETRIED)
    if problems or not fits:
        node = ["ci/scenarios", "-k", "sno-ipv4-static-uefi]", "--artifacts=artifacts/vm/sno"]
        compact = ["ci/scenarios", "-k", "compact", "-m", "not disruptive", "--artifacts=artifacts/vm/compact"]
        return [
            labs,
            Stage("one node in a VM", node, 2400, retried=2 * MOST_RETRIED),
            Stage("compact in VMs", compact, 3600),
        ]
    words = " or ".join(CONTAINERS[name] for name in fits)
    argv = ["ci/scenarios", "--machines=container", "--nightly", "-v", "--artifacts=artifacts/container", "-k", words]
    argv += ["-n", str(SIDE_BY_SIDE)]
    sizes = ", ".join(name.partition("-")[0] for name in fits)
    vcpus = {"NODE0_BUDGET_VCPU": str(VCPUS_PER_CPU * len(os.sched_getaffinity(0)))}
    contained = Stage(f"{sizes} in containers, with losses", argv, 2400, env=vcpus, retried=2 * MOST_RETRIED)
    chosen = " and ".join(["sno-ipv4-static-uefi]", *(f"not {word}" for word in ONLY_CLUSTER)])
    node = ["ci/scenarios", "-k", chosen, "--artifacts=artifacts/vm/sno"]
    # Either alone keeps 1.4 of two processors busy: containers wait for leases, and one virtual processor does most of
    # the VM's work.
    virtual = Stage("one node in a VM", node, 2400, env=vcpus, retried=2 * MOST_RETRIED, beside=True)
    return [labs, contained, virtual]


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End a stage and all that it started, in good order where it listens."""
    for number, patience in ((signal.SIGINT, _GRACE), (signal.SIGKILL, None)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            continue


class Ending:
    """SIGTERM ends the gate, but not between the start of a stage's process and the moment from which it is known."""

    def __init__(self) -> None:
        self._held = False
        self._signal = 0

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        """Handle the signal."""
        self._signal = number
        if not self._held:
            raise SystemExit(128 + number)

    @contextlib.contextmanager
    def deferred(self) -> Iterator[None]:
        """Put it off for the length of the block."""
        self._held = True
        try:
            yield
        finally:
            self._held = False
        if self._signal:
            raise SystemExit(128 + self._signal)


ending = Ending()


def run_stage(stage: Stage, argv: Sequence[str]) -> int:
    """Run a command of a stage, whose output goes where ours goes; its exit code."""
    process: subprocess.Popen[bytes] | None = None
    try:
        with ending.deferred():
            process = _start(stage, argv)
        return process.wait(stage.limit)
    except subprocess.TimeoutExpired:
        assert process is not None
        say(f"{stage.name}: not done after {stage.limit:.0f} s, ending it")
        _stop(process)
        return _LATE
    except BaseException:
        if process is not None:
            _stop(process)
        raise


def _start(stage: Stage, argv: Sequence[str], output: IO[bytes] | None = None) -> subprocess.Popen[bytes]:
    """Return a stage's command in a group of its own: what it started ends with it."""
    errors = subprocess.STDOUT if output else None
    environment = {**stage.env, **os.environ}
    return subprocess.Popen(argv, cwd=ROOT, env=environment, start_new_session=True, stdout=output, stderr=errors)


class Background:
    """A stage that runs beside another. What it printed is shown by `outcome`, and tests that failed are run a second
    time there: the machine is quieter then."""

    def __init__(self, stage: Stage, output: IO[bytes]) -> None:
        self._stage, self._output, self._begin = stage, output, time.monotonic()
        shutil.rmtree(stage.cache, ignore_errors=True)
        self._process = _start(stage, _with_cache(stage), self._output)

    def outcome(self) -> Outcome:
        """Wait for its end."""
        try:
            code = self._process.wait(max(self._begin + self._stage.limit - time.monotonic(), 1.0))
        except subprocess.TimeoutExpired:
            say(f"{self._stage.name}: not done after {self._stage.limit:.0f} s, ending it")
            self.stop()
            code = _LATE
        self._output.seek(0)
        sys.stderr.flush()
        shutil.copyfileobj(self._output, sys.stderr.buffer)
        sys.stderr.flush()
        code, flakes = _second_try(self._stage, code, self._begin)
        return Outcome(self._stage.name, code, time.monotonic() - self._begin, flakes)

    def stop(self) -> None:
        """End it, if it has not ended."""
        if self._process.poll() is None:
            _stop(self._process)


def failed_tests(cache: Path) -> list[str]:
    """Return the tests that failed in pytest's last run with that cache folder."""
    file = cache / "v/cache/lastfailed"
    return sorted(json.loads(file.read_text())) if file.exists() else []


def run(stage: Stage) -> Outcome:
    """Run a stage, and once more those of its tests that failed, when they are few."""
    with timed() as clock:
        code, flakes = _tried(stage)
    return Outcome(stage.name, code, clock.seconds, flakes, work=clock.work)


def _with_cache(stage: Stage) -> list[str]:
    """Return the command of a stage whose tests are retried, so that pytest notes which failed."""
    return [*stage.argv, "-o", f"cache_dir={stage.cache.relative_to(ROOT)}"] if stage.retried else [*stage.argv]


def _tried(stage: Stage) -> tuple[int, Sequence[str]]:
    """Return the exit code of a stage, and which of its tests passed at their second try."""
    begin = time.monotonic()
    if stage.retried:
        shutil.rmtree(stage.cache, ignore_errors=True)
    return _second_try(stage, run_stage(stage, _with_cache(stage)), begin)


def _second_try(stage: Stage, code: int, begin: float) -> tuple[int, Sequence[str]]:
    """Judge a stage that began then (monotonic seconds) and ended with a code, once its few tests that failed
    have run again."""
    tests = failed_tests(stage.cache) if stage.retried and code == _TESTS_FAILED else []
    if not 0 < len(tests) <= stage.retried:
        return code, []
    say(f"{stage.name}: {len(tests)} failed, a second try of {', '.join(tests)}")
    shorter = replace(stage, limit=max(stage.limit - (time.monotonic() - begin), 1.0))
    argv = _with_cache(stage)
    # Beside the evidence of the first try, not over it.
    elsewhere = [f"{word}-second-try" for word in argv if word.startswith("--artifacts=")]
    code = run_stage(shorter, [*argv, "--last-failed", *elsewhere])
    return code, tests if code == 0 else []


def say(line: str) -> None:
    """Print a line of the gate's own, between those of its stages."""
    print(f"[gate] {line}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def _beside(stage: Stage | None, seconds_left: float) -> Iterator[Background | None]:
    """Provide the stage in the background, if any, which does not outlive the block."""
    if stage is None:
        yield None
        return
    say(f"beside it: {stage.name}")
    other = None
    with tempfile.TemporaryFile() as output:
        try:
            with ending.deferred():
                other = Background(replace(stage, limit=min(stage.limit, seconds_left)), output)
            yield other
        finally:
            if other is not None:
                other.stop()


def passed(
    chosen: Sequence[Stage],
    runner: Callable[[Stage], Outcome] = run,
    rest: Callable[[], Sequence[Stage]] = tuple,
) -> bool:
    """Run the stages, then those that `rest` chooses once they have passed, and print how each ended; whether all
    passed."""
    begin, outcomes, ended, done = time.monotonic(), list[Outcome](), False, False
    waiting, last = list(chosen), rest
    try:
        while waiting:
            stage = waiting.pop(0)
            seconds_left = begin + LONGEST - time.monotonic()
            if ended or seconds_left <= 0:
                outcomes.append(Outcome(stage.name, None))
            else:
                say(f"stage {len(outcomes) + 1}: {stage.name}")
                beside = waiting.pop(0) if waiting and waiting[0].beside else None
                with _beside(beside, seconds_left) as other:
                    outcomes.append(runner(replace(stage, limit=min(stage.limit, seconds_left))))
                    say(outcomes[-1].line)
                    if other is not None:
                        outcomes.append(other.outcome())
                        say(outcomes[-1].line)
                ended = stage.essential and outcomes[-1].code != 0
            if not waiting and not ended:
                waiting, last = list(last()), tuple
        done = not ended
    finally:
        say("summary")
        for outcome in outcomes:
            say(f"  {outcome.line}")
            for test in outcome.flakes:
                say(f"    flake: {test}")
        good = done and all(outcome.code == 0 for outcome in outcomes)
        say(f"  {Outcome('all', 0 if good else 1, time.monotonic() - begin).line}")
    return good


def _chosen_for_this_machine() -> list[Stage]:
    """Return the stages with machines, by what this one can do and has room for, the release being built; says what
    not."""
    problems = container_problems()
    fits, lines = fitting(
        budget.capacity(labs_dir()), {name: topology_of(name).with_machines("container") for name in CONTAINERS}
    )
    if problems:
        say(f"no container machines here, so compact is installed in VMs: {'; '.join(problems)}")
    else:
        for line in lines:
            say(line)
    return lab_stages(problems, fits)


def main() -> int:
    """Run the gate; its exit code."""
    signal.signal(signal.SIGTERM, ending)
    try:
        for pattern in ("container*", "vm/*"):
            for folder in (ROOT / "artifacts").glob(pattern):
                check_below(folder)
    except EvidenceError as error:
        say(str(error))
        return 2
    return 0 if passed(first_stages(), rest=_chosen_for_this_machine) else 1


if __name__ == "__main__":
    sys.exit(main())

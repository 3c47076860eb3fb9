"""Virtual machines and containers side by side: the same installations, measured in the same way, in one run.

Processors and memory are the whole machine's, the lab's own daemons included, whatever the kind: nothing else should
run meanwhile. The lower bound is the higher of two times that no run can undercut (lower_bound.bounds); "without
waits" is the run's own work, spread over the processors.
"""

from __future__ import annotations

import os
import re
import tempfile
import threading
import time
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import get_args

import msgspec

from ci.bench.installs import lower_bound
from ci.bench.measure import Clock, busy, table, timed
from lab import topology
from lab.deploy import Deployment
from lab.host.paths import cache_dir
from lab.inputs.configs import write_configs
from lab.lab import Lab
from lab.release.build import Release, latest_release
from lab.subject.installer import default_installer
from lab.subject.model import of_lab
from lab.topology import MachineKind
from scenarios.catalogue.ids import edit_configs, topology_of

_EVERY_SECONDS = 0.5
_AVAILABLE = re.compile(r"^MemAvailable:\s+(\d+) kB$", re.MULTILINE)


@dataclass(frozen=True)
class Sample:
    """`at` by the monotonic clock, `busy` seconds of all processors up to then, memory that programs could have."""

    at: float
    busy: float
    available_mib: int


def sample(at: float, stat: str, meminfo: str) -> Sample:
    """From the texts of /proc/stat and /proc/meminfo."""
    available = _AVAILABLE.search(meminfo)
    if available is None:
        raise ValueError("no MemAvailable in /proc/meminfo")
    return Sample(at, busy(stat), int(available[1]) >> 10)


class Sampler(AbstractContextManager["Sampler"]):
    """Samples, for as long as it is entered."""

    def __init__(self) -> None:
        self.samples: list[Sample] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def look(self) -> None:
        """Take one sample now."""
        stat, meminfo = Path("/proc/stat").read_text(), Path("/proc/meminfo").read_text()
        self.samples.append(sample(time.monotonic(), stat, meminfo))

    def _run(self) -> None:
        while not self._stop.wait(_EVERY_SECONDS):
            self.look()

    def __enter__(self) -> Sampler:
        self.look()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()
        self.look()

    def work(self, begin: float, end: float) -> float:
        """Seconds that all processors worked between two times of the monotonic clock."""
        return self._busy(end) - self._busy(begin)

    def _busy(self, at: float) -> float:
        place = bisect_left(self.samples, at, key=lambda sample: sample.at)
        if place == 0:
            return self.samples[0].busy
        if place == len(self.samples):
            return self.samples[-1].busy
        before, after = self.samples[place - 1], self.samples[place]
        part = (at - before.at) / (after.at - before.at)
        return before.busy + part * (after.busy - before.busy)

    @property
    def peak_mib(self) -> int:
        """The most memory that was in use beyond what was at the start, in MiB."""
        return max(0, self.samples[0].available_mib - min(sample.available_mib for sample in self.samples))


KINDS: tuple[MachineKind, ...] = get_args(MachineKind)
SIZES = ("sno", "compact", "ha")
SCENARIO = "{}-ipv4-static-uefi"
# What is measured when nothing is asked for: emulated clusters of several machines take an hour each.
USUAL: Mapping[MachineKind, Sequence[str]] = {"container": SIZES, "vm": ("sno",)}
TARGET_SECONDS = {"sno": 90, "compact": 180, "ha": 300}
TARGET_RATIO, TARGET_LOGIN = 1.5, 10
# A live machine wants a config; this one asks for nothing.
NOTHING = '{"ignition": {"version": "3.2.0"}}'
LOGIN_SECONDS = 1800.0
INSTALL_SECONDS = 3600.0
# Seconds until a cluster that has just been installed is at rest.
SETTLE_SECONDS = 30.0
# What `wait-for` says first of each step, in the order in which they come.
MARKS = (
    ("the service answers", r"The rendezvous service answers"),
    ("hosts are ready", r"Updated status of the cluster to ready"),
    ("installation begins", r"Updated status of the cluster to installing"),
    ("first disk is written", r"reached installation stage Writing image to disk: 100%"),
    ("the bootstrap's API answers", r"Bootstrap Kube API Initialized"),
    ("first host has joined", r"reached installation stage Joined"),
    ("bootstrap is complete", r"cluster bootstrap is complete"),
    ("cluster version is complete", r"to ensure each cluster operator has finished progressing"),
    ("operators have settled", r"All cluster operators have completed progressing"),
    ("installation is complete", r"Install complete!"),
)
_LINE = re.compile(r'^time="(?P<time>[^"]+)" level=\w+ msg="(?P<text>.*)"$', re.MULTILINE)


class Phase(msgspec.Struct, frozen=True):
    """A step: how long it took, and how long all processors together worked meanwhile, in seconds."""

    name: str
    seconds: float
    work: float


class Install(msgspec.Struct, frozen=True, kw_only=True):
    """One installation, from the lab's start to install-complete. `chain` and `spread` are what its lower bound is the
    higher one of; `rest_cores` is the processors' work at rest."""

    seconds: float
    chain: float
    spread: float
    peak_mib: int
    rest_cores: float
    phases: tuple[Phase, ...]
    when: str
    load: float

    @property
    def ratio(self) -> float:
        """The install's time as a ratio to its lower bound."""
        return self.seconds / max(self.chain, self.spread)

    def gapless(self, processors: int) -> float:
        """Return the time that the installation would have taken had all processors worked all the time."""
        return sum(phase.work for phase in self.phases) / processors


class Login(msgspec.Struct, frozen=True):
    """Seconds from the first of five machines' power-on to the last one's login."""

    seconds: float
    when: str
    load: float


class Results(msgspec.Struct):
    """The last measurement of each kind and size ("container sno"), and of each kind's logins."""

    processors: int = 0
    installs: dict[str, Install] = {}
    logins: dict[str, Login] = {}


def store() -> Path:
    """Return the file that results are kept in."""
    return cache_dir() / "bench-machines.json"


def load_results(path: Path) -> Results:
    """Return the results of earlier runs; none when there is no such file, or one that this version cannot read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Results)
    except (OSError, msgspec.DecodeError):
        return Results()


def keep(path: Path, results: Results) -> None:
    """Replace the file."""
    temporary = path.with_suffix(".new")
    temporary.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1))
    temporary.replace(path)


def marks(log: str) -> list[tuple[str, float]]:
    """Find when each step was first reported, by the wall clock (seconds since the epoch), in the order of time."""
    times: dict[str, float] = {}
    for line in _LINE.finditer(log):
        for name, pattern in MARKS:
            if name not in times and re.search(pattern, line["text"]):
                times[name] = datetime.fromisoformat(line["time"]).timestamp()
    return sorted(times.items(), key=lambda item: item[1])


def segments(
    phases: Iterable[Mapping[str, object]], marks: Sequence[tuple[str, float]], origin: float, wall_origin: float
) -> list[tuple[str, float, float]]:
    """(name, begin, end) by the monotonic clock: the lab's phases up to power-on, then what `wait-for` reported, each
    mark with what led to it.

    `phases` is as in phases.json; their `at` counts from `origin`, which the wall clock called `wall_origin`.
    """
    parts, last = [], origin
    for entry in phases:
        name, seconds = str(entry["name"]), entry["seconds"]
        if entry["depth"] == 0 and isinstance(seconds, float) and not name.startswith("wait"):
            begin = origin + float(str(entry["at"]))
            parts.append((name, begin, begin + seconds))
            last = begin + seconds
    for name, at in marks:
        end = max(last, origin + at - wall_origin)
        parts.append((f"until {name}", last, end))
        last = end
    return parts


def _now() -> tuple[str, float]:
    return time.strftime("%Y-%m-%d %H:%M"), round(os.getloadavg()[0], 2)


def install(kind: MachineKind, size: str, release: Release, steps: Mapping[str, Clock], *, seconds: float) -> Install:
    """Install once, and look at the cluster at rest for some seconds."""
    scenario = SCENARIO.format(size)
    shape, processors = topology_of(scenario).with_machines(kind), len(os.sched_getaffinity(0))
    chain, spread = lower_bound.bounds(steps, shape, processors)
    when, load = _now()
    with tempfile.TemporaryDirectory() as work:
        origin, wall_origin = time.monotonic(), time.time()
        with Sampler() as sampler, Lab(shape, Path(work) / "artifacts", of_lab(release)) as lab:
            deployment = Deployment(lab, default_installer(), of_lab(release), log_level="debug")
            write_configs(deployment.directory, lab.topology, lab.access, partial(edit_configs, scenario))
            deployment.create_image()
            deployment.boot()
            deployment.wait(INSTALL_SECONDS)
            sampler.look()
            log = (deployment.directory / ".openshift_install.log").read_text()
            entries = msgspec.json.decode((lab.artifacts / "phases.json").read_bytes())
            time.sleep(SETTLE_SECONDS)
            with timed() as rest:
                time.sleep(seconds)
    queued = sum(float(entry["seconds"]) for entry in entries if entry["name"] == "wait for the machine")
    parts = segments(entries, marks(log), origin, wall_origin)
    phases = tuple(Phase(name, end - begin, sampler.work(begin, end)) for name, begin, end in parts)
    taken = sum(float(entry["seconds"]) for entry in entries if entry["depth"] == 0) - queued
    return Install(
        seconds=taken,
        chain=chain,
        spread=spread,
        peak_mib=sampler.peak_mib,
        rest_cores=rest.work / rest.seconds,
        phases=phases,
        when=when,
        load=load,
    )


def logins(kind: MachineKind, release: Release) -> Login:
    """Five machines with the machine OS in their drives: from power-on to the last one's login."""
    when, load = _now()
    with (
        tempfile.TemporaryDirectory() as work,
        Lab(topology.ha().with_machines(kind), Path(work) / "artifacts", of_lab(release)) as lab,
    ):
        iso = lower_bound.live_iso(release, NOTHING, Path(work))
        for node in lab.nodes.values():
            node.media.insert(iso)
        with timed() as clock:
            for node in lab.nodes.values():
                node.power.on()
            for node in lab.nodes.values():
                last_line = node.console.wait_for(r"login: |BOOT STOPPED", timeout=LOGIN_SECONDS)[0]
                if last_line != "login: ":
                    raise SystemExit(f"{node.name} stopped at its boot: {last_line}")
    return Login(clock.seconds, when, load)


def figures(results: Results) -> list[tuple[str, str]]:
    """Return the table of all kinds and sizes that have been measured."""
    rows = [("", "   seconds   target   bound  ratio  without waits  ratio  peak memory     at rest  measured, load")]
    for kind in KINDS:
        for size in SIZES:
            taken = results.installs.get(f"{kind} {size}")
            if taken is not None:
                target = f"{TARGET_SECONDS[size]:6d} s" if kind == "container" else "       -"
                gapless = taken.gapless(results.processors)
                figure = (
                    f"{taken.seconds:8.1f} s {target} {max(taken.chain, taken.spread):5.0f} s {taken.ratio:6.2f} "
                    f"{gapless:12.0f} s {taken.seconds / gapless:6.2f} {taken.peak_mib:8d} MiB "
                    f"{taken.rest_cores:5.2f} cores  {taken.when}, {taken.load:.2f}"
                )
                rows.append((f"{kind} {size}", figure))
    for size in SIZES:
        contained, virtual = (results.installs.get(f"{kind} {size}") for kind in ("container", "vm"))
        if contained and virtual:
            rows.append(
                (
                    f"{size}: container to vm",
                    f"{contained.seconds / virtual.seconds:.2f} of the time, "
                    f"{contained.peak_mib / max(virtual.peak_mib, 1):.2f} of the memory",
                )
            )
    for name, login in sorted(results.logins.items()):
        target = f"target under {TARGET_LOGIN} s; " if name == "container" else ""
        figure = f"{login.seconds:8.1f} s ({target}measured {login.when}, {login.load:.2f})"
        rows.append((f"{name}, five machines at login", figure))
    return rows


def waits(install: Install, processors: int) -> list[tuple[str, str]]:
    """Each step of an installation: its time, how many processors worked; and the one in which most of them waited."""
    rows = [
        (phase.name, f"{phase.seconds:6.1f} s {phase.work / phase.seconds if phase.seconds else 0:5.2f} cores")
        for phase in install.phases
    ]
    if install.phases:
        idle = {phase.name: processors * phase.seconds - phase.work for phase in install.phases}
        name = max(idle, key=idle.__getitem__)
        rows.append(("waits most", f"{name}: processors idle for {idle[name]:.0f} of all {sum(idle.values()):.0f} s"))
    rows.append(
        (
            "lower bound: in turn, spread",
            f"{install.chain:.0f} s in the longest chain, {install.spread:.0f} s of work per processor",
        )
    )
    return rows


def show(results: Results) -> None:
    """Print all that is known."""
    table(f"machines, {results.processors} processors; ratios: target under {TARGET_RATIO}", figures(results))
    for name, install in sorted(results.installs.items()):
        table(f"{name}: what takes how long", waits(install, results.processors))


def run(kinds: Sequence[MachineKind] | None, sizes: Sequence[str] | None, seconds: float) -> None:
    """Measure these kinds and sizes (None: the usual ones), keep each result at once, and print all that is known."""
    path, release = store(), latest_release()
    results = load_results(path)
    results.processors = len(os.sched_getaffinity(0))
    for kind in kinds or KINDS:
        steps = lower_bound.once_each(kind)
        rows = [(name, f"{clock.seconds:6.1f} s, {clock.work:6.1f} s of work") for name, clock in steps.items()]
        table(f"{kind}: each step alone", rows)
        results.logins[kind] = logins(kind, release)
        keep(path, results)
        for size in sizes or USUAL[kind]:
            results.installs[f"{kind} {size}"] = taken = install(kind, size, release, steps, seconds=seconds)
            keep(path, results)
            table(f"{kind} {size}: {taken.seconds:.1f} s", waits(taken, results.processors))
    show(results)

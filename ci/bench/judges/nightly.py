"""Nightly judges on real runs of OpenShift's release CI: false alarms, planted regressions, and infrastructure failures
told from the product's.

The recording is of sixteen days, too short for a baseline: each job's own nights are drawn again, whole, in an order by
chance (B. Efron, "Bootstrap methods", Annals of Statistics 7, 1979), and what is planted turns passes into failures.
"""

from __future__ import annotations

import gzip
import json
import math
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

from ci.bench.judges.reading import reading
from ci.informer.arithmetic.proportions import Counts
from ci.informer.arithmetic.regression import assess
from ci.informer.judging.watching import Watch

#: Nights before those that are judged (what a baseline needs), and judged nights; runs of a job for it to be judged.
BEFORE, JUDGED, LEAST = 40, 60, 30
POINTS = (5, 10, 20)
MONTH = 30.0
FIRST = date(2021, 1, 1)
Night = Counts
#: A judge of one job: given a night's runs, it says whether that night raises an alarm.
Judge = Callable[[Night], bool]


@dataclass(frozen=True, kw_only=True)
class RealRun:
    """A run as the recording has it; `at` in seconds, `failed_tests` their number."""

    job: str
    at: int
    failed: bool
    infrastructure: bool
    failed_tests: int


def read(file: Path) -> list[RealRun]:
    """Read a recording, in the order of time. A run that is there twice counts once, one that has no result not. Raises
    DataError."""
    with reading(file), gzip.open(file, "rt") as lines:
        rows = [json.loads(line) for line in lines]
        by_key = {
            (row["job"], row["time"]): RealRun(
                job=str(row["job"]),
                at=int(row["time"]),
                failed=not row["succeeded"],
                infrastructure=bool(row["infrastructure_failure"]),
                failed_tests=int(row["test_failures"]),
            )
            for row in rows
            if row["result"] != "U"
        }
    return sorted(by_key.values(), key=lambda run: (run.at, run.job))


def nights(runs: Sequence[RealRun]) -> Mapping[str, list[Night]]:
    """Return each job's nights: its runs on the product. Nights without any are gaps, and left out, as are jobs that
    ran too seldom."""
    by_job: dict[str, dict[int, Night]] = defaultdict(dict)
    for run in runs:
        if not run.infrastructure:
            of_job, day = by_job[run.job], run.at // 86400
            of_job[day] = of_job.get(day, Counts()) + Counts(1, int(run.failed))
    return {
        job: [of_job[day] for day in sorted(of_job)]
        for job, of_job in sorted(by_job.items())
        if sum(night.runs for night in of_job.values()) >= LEAST
    }


def watch(draw: Callable[[int], Night]) -> Judge:
    """Judge as `node0-ci verdict` does. More runs are drawn by chance as the nightly ones are."""
    watching, night = Watch(), 0

    def judge(counts: Night) -> bool:
        nonlocal night
        night += 1
        return watching.night(FIRST + timedelta(days=night), counts, draw) is not None

    return judge


def readiness(_: Callable[[int], Night]) -> Judge:
    """Judge as component readiness does: a week against the thirty days before it, each night. A regression is an alarm
    in its first night."""
    seen: list[Night] = []
    is_open = False

    def judge(counts: Night) -> bool:
        nonlocal is_open
        seen.append(counts)
        was_open = is_open
        is_open = assess(sum(seen[-7:], Counts()), sum(seen[-37:-7], Counts())).status.bad
        return is_open and not was_open

    return judge


def e_detector(level: float) -> Callable[[Callable[[int], Night]], Judge]:
    """Judge by an e-detector, which is valid whenever one looks: the sum, over the nights that may have been the first,
    of the likelihood ratio of a rise since then, a mean over rises (J. Shin, A. Ramdas, A. Rinaldo, "E-detectors: a
    nonparametric framework for sequential change detection", NEJSDS 2, 2024). Its alarm is at `level`."""
    rises = (0.05, 0.1, 0.2, 0.4)

    def made(_: Callable[[int], Night]) -> Judge:
        history, sums = Counts(), [0.0] * len(rises)
        waiting: list[Night] = []

        def judge(counts: Night) -> bool:
            nonlocal history, sums
            waiting.append(counts)
            if len(waiting) > 10:
                history += waiting.pop(0)
            # The rate that the history makes likely, a standard error higher: what is under it is no regression.
            usual = (history.failures + 1) / (history.runs + 50)
            usual = min(usual + math.sqrt(usual * (1 - usual) / (history.runs + 50)), 0.98)
            for place, rise in enumerate(rises):
                worse = min(usual + rise, 0.99)
                ratio = (worse / usual) ** counts.failures * ((1 - worse) / (1 - usual)) ** counts.passes
                sums[place] = (sums[place] + 1) * ratio
            if sum(sums) / len(sums) < level:
                return False
            sums = [0.0] * len(rises)
            return True

        return judge

    return made


def _seen(real: Sequence[Night], judge: Callable[[Callable[[int], Night]], Judge], seed: str, points: int) -> list[int]:
    """Return the nights (0 is the first judged one) of a job's alarms; from night 0 on so many points are planted."""
    generator = random.Random(seed)
    rate = sum(night.failures for night in real) / sum(night.runs for night in real)
    here = -BEFORE

    def spoiled(counts: Night) -> Night:
        # So many points of all runs, of those that pass.
        planted = min(points / 100 / (1 - rate), 1.0) if here >= 0 and rate < 1 else 0.0
        return Counts(counts.runs, counts.failures + sum(generator.random() < planted for _ in range(counts.passes)))

    def draw(count: int) -> Night:
        return spoiled(Counts(count, sum(generator.random() < rate for _ in range(count))))

    judging, alarmed = judge(draw), {}
    for here in range(-BEFORE, JUDGED):
        alarmed[here] = judging(spoiled(generator.choice(real)))
    return [night for night, alarm in alarmed.items() if alarm and night >= 0]


@dataclass(frozen=True, kw_only=True)
class Nightly:
    """A judge's score: false alarms a month of a whole CI; and per planted points the share found within 3, 7 and 14
    nights, and the median nights until one was found (of all; infinite where half was not)."""

    false_alarms: float
    found: Mapping[int, tuple[float, float, float, float]]

    def __str__(self) -> str:
        """Say it in a line."""
        shares = "; ".join(
            f"{points} points: {three:.0%}, {seven:.0%}, {fourteen:.0%} within 3, 7, 14 nights, median {median:.0f}"
            for points, (three, seven, fourteen, median) in self.found.items()
        )
        return f"{self.false_alarms:.1f} false alarms a month; {shares}"


def false_alarms(
    jobs: Mapping[str, Sequence[Night]], judge: Callable[[Callable[[int], Night]], Judge], seeds: Sequence[int]
) -> float:
    """Return the alarms a month of all jobs where nothing was planted."""
    count = sum(len(_seen(real, judge, f"{seed} {job}", 0)) for job, real in jobs.items() for seed in seeds)
    return count / len(seeds) / JUDGED * MONTH


def score(
    jobs: Mapping[str, Sequence[Night]], judge: Callable[[Callable[[int], Night]], Judge], seeds: Sequence[int]
) -> Nightly:
    """Score a judge on all jobs, for all seeds. The first alarm from the night of planting on counts as the finding."""
    found = {}
    for points in POINTS:
        firsts = sorted(
            next(iter(_seen(real, judge, f"{seed} {job}", points)), math.inf)
            for job, real in jobs.items()
            for seed in seeds
        )
        three, seven, fourteen = (sum(first < nights for first in firsts) / len(firsts) for nights in (3, 7, 14))
        found[points] = three, seven, fourteen, firsts[len(firsts) // 2] + 1
    return Nightly(false_alarms=false_alarms(jobs, judge, seeds), found=found)


def calibrated(jobs: Mapping[str, Sequence[Night]], wanted: float, seeds: Sequence[int]) -> float:
    """Return the e-detector's level that raises as many false alarms a month as wanted, within a tenth or so."""
    low, high = 0.0, 20.0
    for _ in range(8):
        middle = (low + high) / 2
        low, high = (middle, high) if false_alarms(jobs, e_detector(10**middle), seeds) > wanted else (low, middle)
    return float(10**high)


def infrastructure(runs: Sequence[RealRun]) -> tuple[float, float, int]:
    """Tell infrastructure failures from the product's by what the recording has of them: precision, recall and number
    of the later half's red runs.

    The earlier half teaches how often a failure of a job with so many failed tests is infrastructure's.
    """
    red = [run for run in runs if run.failed]
    learnt, judged = red[: len(red) // 2], red[len(red) // 2 :]

    def kind(run: RealRun) -> tuple[str, int]:
        return run.job, min(run.failed_tests, 4)

    counts: dict[object, Counts] = defaultdict(Counts)
    for run in learnt:
        for key in (kind(run), kind(run)[1]):
            counts[key] += Counts(1, int(run.infrastructure))
    said = []
    for run in judged:
        of_kind, of_number = counts[kind(run)], counts[kind(run)[1]]
        # The job's own experience, beside two runs' worth of all jobs'.
        said.append((of_kind.failures + 2 * of_number.failure_rate) / (of_kind.runs + 2) > 1 / 2)
    hits = sum(infra and run.infrastructure for infra, run in zip(said, judged, strict=True))
    return hits / max(sum(said), 1), hits / max(sum(run.infrastructure for run in judged), 1), len(judged)


def confirmed(file: Path) -> tuple[int, int]:
    """Return how many of the regressions that OpenShift's staff confirmed are found, of how many. Raises DataError."""
    with reading(file):
        lines = [list(map(int, line.split("\t")[2:])) for line in file.read_text().splitlines()[1:]]
        found = 0
        for base_good, base_bad, base_flaky, good, bad, flaky in lines:
            base = Counts(base_good + base_bad + base_flaky, base_bad)
            found += assess(Counts(good + bad + flaky, bad), base).status.bad
        return found, len(lines)


def lines(data: Path | None, seeds: Sequence[int]) -> Iterator[str]:
    """Yield the scores on the recording. Raises DataError."""
    if data is None or not (file := data / "openshift-4.8-runs.jsonl.gz").is_file():
        yield "OpenShift's runs: skipped: openshift-4.8-runs.jsonl.gz is not there"
    elif not (jobs := nights(runs := read(file))):
        yield f"OpenShift's runs: skipped: no job has {LEAST} runs"
    else:
        title = f"OpenShift's runs, {len(jobs)} jobs of {LEAST} runs and more"
        ours = score(jobs, watch, seeds)
        theirs = score(jobs, readiness, seeds)
        yield f"{title}: node0's watch: {ours}"
        yield f"{title}: component readiness, nightly: {theirs}"
        for wanted in (theirs.false_alarms, ours.false_alarms):
            level = calibrated(jobs, wanted, seeds)
            yield f"{title}: e-detector, alarm at {level:.3g}: {score(jobs, e_detector(level), seeds)}"
        precision, recall, count = infrastructure(runs)
        yield f"infrastructure told from product, {count} red runs: precision {precision:.2f}, recall {recall:.2f}"


def confirmed_lines(data: Path | None) -> Iterator[str]:
    """Yield the score on regressions that were confirmed. Raises DataError."""
    if data is None or not (file := data / "openshift-regressions.tsv").is_file():
        yield "confirmed regressions: skipped: openshift-regressions.tsv is not there"
    else:
        found, count = confirmed(file)
        yield f"regressions that OpenShift's staff confirmed: {found} of {count} found"

"""Change points of node0 and of Apache Otava, scored on the Turing set and on Otava's own test data."""

from __future__ import annotations

import json
import math
import subprocess
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ci.bench.judges.reading import DataError, reading
from ci.bench.judges.scores import covering, f1
from ci.informer.arithmetic.changepoint import change_points

#: Seconds that Otava may take for all series.
LONGEST = 600
#: Programs for Otava's own environment: series by name in, change points by name out; and its test data of a seed.
_OTAVA = """
import json, sys
from otava.series import AnalysisOptions, Metric, Series
def points(values):
    series = Series("x", None, list(range(len(values))), {"v": Metric()}, {"v": list(values)}, {})
    return sorted(int(point.index) for point in series.analyze(AnalysisOptions()).change_points["v"])
json.dump({name: points(values) for name, values in json.load(sys.stdin).items()}, sys.stdout)
"""
_MADE = """
import json, sys
from otava_test_data.generators.combiner import CombinationGenerator
json.dump([
    {"kind": made.generator_name.partition("+")[0], "values": [float(value) for value in made.data],
     "truth": [int(point.index) for point in made.change_points]}
    for made in CombinationGenerator(seed=int(sys.argv[1])).generate_all_test_cases()
], sys.stdout)
"""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A set's series (of one dimension or more) and the change points that its annotators saw."""

    kind: str
    dimensions: Sequence[Sequence[float]]
    annotations: Sequence[Collection[int]]


@dataclass(frozen=True)
class Score:
    """Means over the series of a set, 0 to 1."""

    f1: float
    covering: float

    def __str__(self) -> str:
        return f"F1 {self.f1:.3f}, covering {self.covering:.3f}"


def turing(folder: Path) -> list[Case]:
    """Read the series of the Turing set that are there. A value that is missing is the one before it. Raises
    DataError."""
    with reading(file := folder / "annotations.json"):
        annotations = {name: list(seen.values()) for name, seen in json.loads(file.read_text()).items()}
    cases = []
    for file in sorted(folder.glob("*.json")):
        if file.name != "annotations.json":
            with reading(file):
                series = json.loads(file.read_text())
                dimensions = [_whole(dimension["raw"]) for dimension in series["series"]]
                if not (dimensions and annotations[series["name"]]):
                    raise ValueError("has no values or no annotators")
                cases.append(Case(kind=series["name"], dimensions=dimensions, annotations=annotations[series["name"]]))
    if not cases:
        raise DataError(f"{folder}: has no series")
    return cases


def _whole(values: Sequence[float | None]) -> list[float]:
    if not values or values[0] is None:
        raise ValueError("its first value is missing")
    whole: list[float] = []
    for value in values:
        whole.append(whole[-1] if value is None else float(value))
        if not math.isfinite(whole[-1]):
            raise ValueError(f"{value!r}: must be a finite number")
    return whole


def made(python: Path, seed: int) -> list[Case]:
    """Make Otava's test data of a seed, in its own environment."""
    return [
        Case(kind=case["kind"], dimensions=[case["values"]], annotations=[case["truth"]])
        for case in _in_environment(python, _MADE, str(seed))
    ]


def ours(cases: Sequence[Case]) -> list[list[int]]:
    """Find the change points of each case; those of all dimensions together."""
    return [sorted({c.index for values in case.dimensions for c in change_points(values)}) for case in cases]


def otavas(python: Path, cases: Sequence[Case]) -> list[list[int]]:
    """Have Otava find them, with its defaults."""
    series = {f"{at} {d}": values for at, case in enumerate(cases) for d, values in enumerate(case.dimensions)}
    found = _in_environment(python, _OTAVA, text=json.dumps(series))
    return [
        sorted({point for d in range(len(case.dimensions)) for point in found[f"{at} {d}"]})
        for at, case in enumerate(cases)
    ]


def _in_environment(python: Path, program: str, *words: str, text: str = "") -> Any:
    with reading(python):
        run = subprocess.run(
            [python, "-c", program, *words], input=text, capture_output=True, text=True, timeout=LONGEST, check=False
        )
        if run.returncode:
            raise OSError((run.stderr.splitlines() or [f"ended with {run.returncode}"])[-1])
        return json.loads(run.stdout)


def scored(cases: Sequence[Case], found: Sequence[Collection[int]]) -> Mapping[str, Score]:
    """Return the mean scores by kind, and of all under the name `all`."""
    by_kind: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for case, points in zip(cases, found, strict=True):
        scores = f1(case.annotations, points), covering(case.annotations, points, len(case.dimensions[0]))
        for kind in (case.kind, "all"):
            by_kind[kind].append(scores)
    return {
        kind: Score(*(sum(score) / len(scores) for score in zip(*scores, strict=True)))
        for kind, scores in by_kind.items()
    }


def turing_lines(data: Path | None, python: Path | None) -> Iterator[str]:
    """Yield the scores of the Turing set, and Otava's where `python` is of its environment. Raises DataError."""
    if data is None or not (data / "tcpd").is_dir():
        yield "Turing set: skipped: tcpd/ is not there"
    else:
        cases = turing(data / "tcpd")
        yield from _beside(f"Turing set, {len(cases)} series", cases, python)


def otava_lines(python: Path | None, seeds: Sequence[int]) -> Iterator[str]:
    """Yield the scores of Otava's test data; `python` is of an environment with apache-otava and otava-test-data.
    Raises DataError."""
    if python is None:
        yield "Otava and its test data: skipped: no --otava PYTHON"
    else:
        cases = [case for seed in seeds for case in made(python, seed)]
        yield from _beside(f"Otava's test data, {len(cases)} series", cases, python, by_kind=True)


def _beside(title: str, cases: Sequence[Case], python: Path | None, *, by_kind: bool = False) -> Iterator[str]:
    columns = {"node0": scored(cases, ours(cases))}
    if python is not None:
        columns["otava"] = scored(cases, otavas(python, cases))
    for kind in columns["node0"] if by_kind else ["all"]:
        yield f"{title}: {kind}: " + "; ".join(f"{name} {scores[kind]}" for name, scores in columns.items())

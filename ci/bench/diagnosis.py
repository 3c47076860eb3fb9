"""How well causes are named: `wait-for`'s first line, `node0-ci triage` and a failed run's page, scored on cases.

A case is a folder of evidence with its truth (docs/faults.md). The scores are ITBench-AA's (0 where a cause is missed,
else the share of what is named that is right) and OpenRCA 2.0's (exactly the causes, any of them, and that one grounded
in the path of its truth, arXiv:2606.27154).
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

from lab.errors import SymptomsError
from lab.evidence import reason, record, symptoms
from lab.evidence.texts import texts
from scenarios.catalogue import truth
from scenarios.catalogue.truth import Cause, Truth

ERROR = re.compile(r"level=(?:error|fatal) .*")
_ADDRESS = re.compile(r"(?<![\d.])\d+\.\d+\.\d+\.\d+(?![\d.])")
#: Components of kinds that are no host's.
_SERVERS = {"registry": "registry", "name": "dns", "dns": "dns", "proxy": "proxy"}
#: The phase that a line speaks of; the first that fits.
_PHASES = (
    ("preparation", re.compile(r"prepar|image status|disk speed measurement|Host \S+ failed: ")),
    ("registration", re.compile(r"never registered")),
    ("installation", re.compile(r"at stage|answers (?:no|any) more")),
)


@dataclass(frozen=True)
class Named:
    """A diagnosis: the cause that it names, and the phase in which that showed."""

    cause: Cause
    phase: str


@dataclass(frozen=True)
class Score:
    """One case's score, or the mean of many; each from 0 to 1."""

    itbench: float
    exact: float
    any: float
    grounded: float


def score(found: Sequence[Named], case: Truth) -> Score:
    """Score a diagnosis against the truth of a case that has causes."""
    named, causes = {entry.cause for entry in found}, set(case.causes)
    right = named & causes
    phases = {(cause, path[1]) for cause, path in zip(case.causes, case.paths, strict=True)}
    return Score(
        itbench=len(right) / len(named) if right == causes else 0.0,
        exact=float(named == causes),
        any=float(bool(right)),
        grounded=float(any((entry.cause, entry.phase) in phases for entry in found)),
    )


def _component(kind: str, line: str, case: Truth) -> str:
    if server := _SERVERS.get(kind.partition("-")[0]):
        return server
    if kind == "address-taken":
        return next(iter(_ADDRESS.findall(line)), "")
    if kind == "clock" and (off := re.search(r"(\S+) is [\d.]+ \w+ (?:ahead|behind)", line)):
        return off[1]
    if host := re.search(r"Host \S+ \(probably (\S+)\)|Host (\S+)", line):
        return host[1] or host[2]
    if host := re.search("|".join(rf"\b{re.escape(name)}\b" for name in sorted(case.hosts, key=len)), line):
        return host[0]
    # The rendezvous host, which alone is known by its address.
    return next(iter(case.hosts), "") if "rendezvous" in line else ""


def named(hit: symptoms.Hit | None, case: Truth) -> list[Named]:
    """Return what a line names, by the table of symptoms."""
    if hit is None:
        return []
    kind, line = hit.symptom.cause, hit.line
    phase = next((phase for phase, words in _PHASES if words.search(line)), "validation")
    return [Named(Cause(kind, _component(kind, line, case)), phase)]


def _wait_for(folder: Path, table: symptoms.Symptoms) -> symptoms.Hit | None:
    # The whole of it: `texts` keeps the ends of files.
    said = "\n".join(path.read_text(errors="replace") for path in sorted(folder.glob("commands/*wait-for*.log")))
    first = ERROR.search(said)
    return symptoms.cause_in(first[0], table) if first else None


def _triage(folder: Path, table: symptoms.Symptoms) -> symptoms.Hit | None:
    return symptoms.diagnose(texts(folder), table).cause


def _page(folder: Path, table: symptoms.Symptoms) -> symptoms.Hit | None:
    [run] = (run for run in record.runs(folder.parent) if run.folder == folder)
    # A test that expects the failure passes: the installation's phases count.
    why = reason.of(replace(run, tests=()))
    lines = (why.cause, why.error) if why else ()
    return next((hit for line in lines if (hit := symptoms.cause_in(line, table))), None)


SUBJECTS: Mapping[str, Callable[[Path, symptoms.Symptoms], symptoms.Hit | None]] = {
    "wait-for's first line": _wait_for,
    "node0-ci triage": _triage,
    "page of the run": _page,
}


def mean(scores: Sequence[Score]) -> Score:
    """Return the mean of scores, of which there is at least one."""
    return Score(*(sum(getattr(entry, f.name) for entry in scores) / len(scores) for f in fields(Score)))


def _group(case: Truth) -> str:
    return "seeds" if "-seed_" in case.case else "chaos" if "chaos_" in case.case else "rows"


def lines(cases: Path) -> Iterator[str]:
    """Yield the table of scores, what was wrong, and the accusations where there was no cause. Raises ValueError."""
    table = symptoms.read()
    folders = sorted(path.parent for path in cases.glob(f"*/{truth.FILE}"))
    truths = {folder: truth.read(folder) for folder in folders}
    if not truths:
        raise ValueError(f"{cases}: no case: want folders with {truth.FILE}")
    wrong = []
    yield f"{'cases':8} {'judge':22} {'n':>4} {'ITBench':>8} {'exact':>6} {'any':>6} {'grounded':>9}"
    for group in ("rows", "chaos", "seeds"):
        chosen = {folder: case for folder, case in truths.items() if case.causes and _group(case) == group}
        for name, judge in SUBJECTS.items() if chosen else ():
            scores = []
            for folder, case in chosen.items():
                hit = judge(folder, table)
                scores.append(score(named(hit, case), case))
                if scores[-1].itbench < 1:
                    said = truth.shown(entry.cause for entry in named(hit, case))
                    wrong.append(f"  {case.case}, {name}: {said} instead of {truth.shown(case.causes)}")
            got = mean(scores)
            figures = f"{got.itbench:8.2f} {got.exact:6.2f} {got.any:6.2f} {got.grounded:9.2f}"
            yield f"{group:8} {name:22} {len(scores):4} {figures}"
    yield from ["not 1 by ITBench's rule:", *wrong] if wrong else []
    sound = [folder for folder, case in truths.items() if not case.causes]
    accused = [folder.name for folder in sound if any(judge(folder, table) for judge in SUBJECTS.values())]
    yield f"accusations in {len(sound)} installations without a cause: {len(accused)} {' '.join(accused)}".rstrip()


def run(cases: Path | None, seeds: Sequence[int], undisturbed: int) -> None:
    """Print the scores of the cases in a folder; without one, of cases that the swarm lane makes now."""
    with tempfile.TemporaryDirectory(prefix="node0-cases-") as made:
        if cases is None:
            cases = Path(made)
            wanted = ["--seeds", *map(str, seeds), "--undisturbed", str(undisturbed)]
            command = [sys.executable, "-m", "ci.tests.faults.cases", made, *wanted]
            if subprocess.run(command, check=False, stderr=subprocess.DEVNULL, timeout=7200).returncode:
                sys.exit("diagnosis: no cases were made; python -m ci.tests.faults.cases DIR says why")
        try:
            for line in lines(cases):
                print(line, flush=True)
        except (ValueError, SymptomsError) as error:
            sys.exit(f"diagnosis: {error}")

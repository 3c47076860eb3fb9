"""`ci/bench/run oracle`: the agreement of node0 and openshift-install, and their differences by class."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from ci.bench.measure import share, table
from ci.bench.oracle.classes import sort
from ci.bench.oracle.compare import Comparison, compare
from ci.bench.oracle.inputs.cases import Cases
from ci.bench.oracle.programs import NODE0, installers
from installer.testing.service.rendezvous_kit import make_tls


def agreement(compared: Sequence[Comparison]) -> list[tuple[str, str]]:
    """Return the rows of the table: of inputs that are comparable, how many each thing agrees in."""
    both = [result for result in compared if result.comparable]
    refused = [result for result in both if not (result.theirs_ok or result.ours_ok)]
    taken = [result for result in both if result.theirs_ok and result.ours_ok]

    def row(name: str, of: Sequence[Comparison], *kinds: str) -> tuple[str, str]:
        return name, share(sum(result.agrees(*kinds) for result in of), len(of))

    return [
        ("inputs", f"{len(compared):5}"),
        row("verdict", both),
        row("exit code", both, "exit code"),
        row("(path, kind, value) of errors, of those that both refuse", refused, "error of", "value of", "refused at"),
        row("outputs, of those that both take", taken, "output"),
        row("warnings", both, "warning"),
        row("all but words", both, ""),
    ]


def run(installer: Path, seed: int) -> None:
    """Compare, and print. SystemExit if a difference is in no class."""
    with tempfile.TemporaryDirectory() as name, installers([str(installer.resolve())], NODE0) as (theirs, ours):
        make_tls(Path(name))
        certificate, other, key = ((Path(name) / file).read_text() for file in ("ca.crt", "service.crt", "service.key"))
        bases = Cases((certificate, other, key), seed, {}).bases
        wrote = {case.name: answer.files for case, answer in zip(bases, ours(bases), strict=True)}
        cases = Cases((certificate, other, key), seed, wrote).all()
        left, right = theirs(cases), ours(cases)
    compared = [compare(case.name, their, our) for case, their, our in zip(cases, left, right, strict=True)]
    table("node0 against openshift-install: agent create cluster-manifests", agreement(compared))
    differences = sort({result.name: result.differences for result in compared if result.comparable})
    unknown = differences.pop("")
    counts = {name: len({case for cases in shapes.values() for case in cases}) for name, shapes in differences.items()}
    table(
        "inputs that differ, by class (docs/differences.md)", [(name, f"{count:5}") for name, count in counts.items()]
    )
    if unknown:
        lines = (f"{len(names):5} inputs: {shape}\n      as in {names[0]}" for shape, names in unknown.items())
        raise SystemExit("\n".join(["\nin no class of docs/differences.md:", *lines]))

"""The comparison: the agreement table, the classes of differences, and docs/differences.md held against them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from ci.bench.measure import share, table
from ci.bench.oracle import exchange, ignition, networks
from ci.bench.oracle.compare import Comparison, compare
from ci.bench.oracle.inputs import directories
from ci.bench.oracle.inputs.cases import Cases
from ci.bench.oracle.inputs.material import material
from ci.bench.oracle.page import PAGE, Sorted, problems, sort
from ci.bench.oracle.programs import Oracle, node0_answers, oracle_home
from lab.host.paths import cache_dir

#: The seed whose inputs docs/differences.md is written by.
SEED = 1


def agreement(compared: Sequence[Comparison]) -> list[tuple[str, str]]:
    """The rows of the table: of inputs that are comparable, how many each thing agrees in."""
    both = [one for one in compared if one.comparable]
    refused = [one for one in both if not (one.theirs_ok or one.ours_ok)]
    taken = [one for one in both if one.theirs_ok and one.ours_ok]

    def row(name: str, of: Sequence[Comparison], holds: Callable[[Comparison], bool]) -> tuple[str, str]:
        return name, share(sum(map(holds, of)), len(of))

    return [
        ("inputs", f"{len(compared):5}"),
        ("comparable: no stand-in's word", f"{len(both):5}"),
        row("verdict", both, lambda one: one.verdict),
        row("exit code", both, lambda one: one.exit),
        row("(path, kind, value) of errors, of those that both refuse", refused, lambda one: one.errors),
        row("the same message word for word, of those", refused, lambda one: one.wording),
        row("outputs, of those that both take", taken, lambda one: one.outputs),
        row("warnings", both, lambda one: one.warnings),
        row("all but words", both, lambda one: one.all),
    ]


def report(compared: Sequence[Comparison], iso: Sequence[str]) -> Sorted:
    """Print the tables; the differences by class. `iso`: those of the agent ISO."""
    table("node0 against openshift-install: agent create cluster-manifests", agreement(compared))
    by_input = {one.name: one.differences for one in compared if one.comparable and not one.all}
    differences = sort({**by_input, **{f"the agent ISO ({line})": (line,) for line in iso}})
    ordered = sorted(differences.classes.items(), key=lambda item: -len(item[1]))
    table("differences by class (docs/differences.md)", [(name, f"{len(names):5}") for name, names in ordered])
    return differences


def run(seed: int) -> None:
    """Compare, and print. SystemExit if the page does not agree with what was found, or without openshift-install."""
    home = oracle_home()
    place = cache_dir() / "oracle"
    materials = material(place)
    inputs = [*Cases(materials, seed).all(), *directories.inputs(materials.certificate, seed)]
    with Oracle(home, place) as oracle:
        theirs = oracle.answers(inputs)
        ours = node0_answers(inputs)
        compared = [compare(one.name, left, right) for one, left, right in zip(inputs, theirs, ours, strict=True)]
        valid = [(one, left, right) for one, left, right in zip(inputs, theirs, ours, strict=True) if one.base]
        table("each reads what the other wrote", exchange.rows(oracle, valid))
        rows, iso = ignition.run(oracle, [one for one, _, _ in valid])
        table("the agent ISO's Ignition", rows)
        differences = report(compared, iso)
    lines = problems(PAGE.read_text(), differences, whole=seed == SEED) + network_documents(home, seed)
    if lines:
        raise SystemExit("\n".join([f"\n{_relative(PAGE)} and the comparison do not agree:", *lines]))


def network_documents(home: Path, seed: int) -> list[str]:
    """Print their table, where a real nmstatectl is beside openshift-install; a line for each that has no reason."""
    program = home / "bin/nmstatectl"
    if not program.is_file():
        print(f"\nnetwork documents: not compared, there is no {program}")
        return []
    rows, unexplained = networks.run(program, seed)
    table("network documents: node0 nmstate gc against nmstatectl gc (docs/nmstate.md)", rows)
    return unexplained


def _relative(path: Path) -> str:
    return str(path.relative_to(path.parents[1]))

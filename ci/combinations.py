"""`ci/matrix`: which pairs of values the table of installations (scenarios/catalogue/matrix.yaml) has and which not.

Two values of different dimensions that no row has together are a missing pair; most faults that depend on the
configuration show with two values (Kuhn, Wallace, Gallo: Software Fault Interactions, IEEE TSE 30(6), 2004).
`--missing` proposes rows that have them, as few as a greedy choice finds. What no topology can be is left out.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import heapq
import itertools
import sys
from collections.abc import Iterable, Sequence

from lab.errors import TopologyError
from lab.topology import FieldsError
from scenarios.catalogue.errors import MatrixError
from scenarios.catalogue.ids import BOOTS, GRAMMAR, id_of, topology_of, words_of
from scenarios.catalogue.matrix import DIMENSIONS, PLAIN, Matrix, table, values_of

#: A value of a dimension, and two of different ones in the order of DIMENSIONS.
Value = tuple[str, str]
Pair = tuple[Value, Value]


def pairs_of(scenario_id: str) -> set[Pair]:
    """Return the pairs that a scenario has; its variants are not paired with one another."""
    values = values_of(scenario_id)
    return {
        ((first, a), (other, b))
        for first, other in itertools.combinations(DIMENSIONS, 2)
        for a, b in itertools.product(values[first], values[other])
    }


def id_of_values(values: dict[str, str]) -> str:
    """Return the id of a scenario with one value of each dimension."""
    variants = () if values["variant"] == PLAIN else (values["variant"],)
    return id_of("-".join(values[name] for name in GRAMMAR), BOOTS[values["boot"].replace("-", "_")], variants)


def possible(values: dict[str, str]) -> bool:
    """Tell whether a topology with these values is valid."""
    return is_topology(id_of_values(values))


@functools.cache
def is_topology(scenario_id: str) -> bool:
    """Tell whether an id means a valid topology. It is built to find out, which takes milliseconds."""
    try:
        topology_of(scenario_id)
    except (FieldsError, TopologyError, ValueError):
        return False
    return True


@functools.cache
def _nodes(shape: str) -> int:
    """Count the nodes of a shape."""
    others = [values[0] for name, values in GRAMMAR.items() if name != "shape"]
    return len(topology_of("-".join([shape, *others])).nodes)


def dimensions(matrix: Matrix, *, everything: bool = False) -> dict[str, tuple[str, ...]]:
    """Return the dimensions, without the values that wait for something (unless `everything`)."""
    waiting: dict[str, dict[str, str]] = {} if everything else matrix.waiting
    return {
        name: tuple(value for value in values if value not in waiting.get(name, {}))
        for name, values in DIMENSIONS.items()
    }


def candidates(values: dict[str, tuple[str, ...]]) -> dict[str, set[Pair]]:
    """All ids whose words may be combined, with their pairs; not each of them means a topology."""
    every = (dict(zip(values, combination, strict=True)) for combination in itertools.product(*values.values()))
    pairs: dict[str, set[Pair]] = {}
    for name in map(id_of_values, every):
        with contextlib.suppress(ValueError):
            pairs[name] = pairs_of(name)
    return pairs


def propose(ids: dict[str, set[Pair]], covered: Iterable[Pair]) -> list[tuple[str, set[Pair]]]:
    """Ids that cover all pairs that any topology of these has and `covered` has not, each with the pairs that it adds.

    Greedy: the next one is that with the most missing pairs; of equals the smallest shape, then the first by name. The
    topology is built only for an id whose turn it is, a fifth of them: building all takes half a minute.
    """
    missing = set().union(*ids.values()) - set(covered)
    proposals = []
    # An outdated count of an id's missing pairs is never too small, so only ids at the top are counted again.
    heap = [(-len(pairs & missing), _nodes(words_of(name).shape), name) for name, pairs in ids.items()]
    heapq.heapify(heap)
    while heap:
        _, nodes, best = heapq.heappop(heap)
        new = ids[best] & missing
        if not new:
            continue
        if heap and (now := (-len(new), nodes, best)) > heap[0]:
            heapq.heappush(heap, now)
        elif is_topology(best):
            proposals.append((best, new))
            missing -= new
    return proposals


def _row(scenario_id: str, new: int) -> str:
    """Return a row to be put into the table, as YAML; its name is the id."""
    words = words_of(scenario_id)
    topology = "-".join(str(getattr(words, name)) for name in GRAMMAR)
    fields = [f"name: node0-{scenario_id.replace('_', '-')}", f"topology: {topology}"]
    fields += [f"variants: [{', '.join(words.variants)}]"] if words.variants else []
    fields += [] if words.boot == "iso" else [f"boot: {words.boot}"]
    return f"- {{{', '.join(fields)}, runs: weekly}}  # {new} new pairs"


def _sentence(pair: Pair) -> str:
    return " with ".join(f"{name} {value}" for name, value in pair)


def main(argv: Sequence[str] | None = None) -> int:
    """Return the command line."""
    parser = argparse.ArgumentParser(
        prog="ci/matrix", description="What scenarios/catalogue/matrix.yaml covers.", allow_abbrev=False
    )
    parser.add_argument("--missing", action="store_true", help="propose rows for the pairs of values that no row has")
    parser.add_argument("--pairs", action="store_true", help="with --missing: print each row's new pairs as well")
    parser.add_argument("--all", action="store_true", help="count the values that wait for something as well")
    arguments = parser.parse_args(argv)
    if arguments.pairs and not arguments.missing:
        parser.error("--pairs needs --missing")
    try:
        matrix = table()
    except (MatrixError, OSError) as error:
        print("\n".join(f"ci/matrix: {line}" for line in str(error).splitlines()), file=sys.stderr)
        return 1
    ids = candidates(dimensions(matrix, everything=arguments.all))
    covered = set().union(*(pairs_of(row.id) for row in matrix.rows)) & set().union(*ids.values())
    proposals = propose(ids, covered)
    if arguments.missing:
        for name, new in proposals:
            print(_row(name, len(new)))
            if arguments.pairs:
                print("".join(f"    {_sentence(pair)}\n" for pair in sorted(new)), end="")
    else:
        for row in matrix.rows:
            print(f"{row.runs:<8} {row.id:<44} {row.name}")
    there = len(covered) + sum(len(new) for _, new in proposals)
    print(f"{len(covered)} of {there} pairs are covered by {len(matrix.rows)} rows", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The largest group of hosts that all reach each other, and how long is searched for it."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from installer.rendezvous.validations import connectivity


@given(
    st.integers(3, 7).flatmap(
        lambda n: st.dictionaries(
            st.sampled_from([f"h{i}" for i in range(n)]),
            st.sets(st.sampled_from([f"h{i}" for i in range(n)])),
            min_size=1,
        )
    )
)
def test_largest_mesh_is_a_mesh_and_the_largest(reach: dict[str, set[str]]) -> None:
    largest = connectivity.largest_mesh(reach)

    def mesh(group: Any) -> bool:
        return all(b in reach[a] and a in reach[b] for a, b in combinations(group, 2))

    assert mesh(largest)
    # In this order the first of a size comes first.
    meshes = [group for size in range(len(reach) + 1) for group in combinations(sorted(reach), size) if mesh(group)]
    best = next(group for group in meshes if len(group) == len(meshes[-1]))
    assert tuple(largest) == (best if len(best) >= connectivity.MINIMUM else ())


def test_of_two_that_are_as_large_the_first_by_id() -> None:
    """As upstream, which sorts hosts by id: how many others a host reaches counts for nothing."""
    groups = ("bcd", "ade", "efg", "eh", "ei")
    reach = {name: {other for group in groups if name in group for other in group} for name in "abcdefghi"}
    assert connectivity.largest_mesh(reach) == ["a", "d", "e"]
    reach["a"].remove("e")
    assert connectivity.largest_mesh(reach) == ["b", "c", "d"]


def everybody_but_one() -> dict[str, set[str]]:
    """Everybody reaches all but one other: the worst case of plain enumeration."""
    names = [f"h{number:03d}" for number in range(120)]
    return {name: {other for other in names if names.index(other) // 2 != names.index(name) // 2} for name in names}


def by_chance() -> dict[str, set[str]]:
    """Nine links of ten, at random: the search would take hours to the end."""
    chance = random.Random(3)
    names = [f"h{number:03d}" for number in range(200)]
    reach: dict[str, set[str]] = {name: set() for name in names}
    for first, second in combinations(names, 2):
        if chance.random() < 0.9:
            reach[first].add(second)
            reach[second].add(first)
    return reach


@pytest.mark.parametrize(("reach", "least", "to_the_end"), [(everybody_but_one, 60, True), (by_chance, 25, False)])
def test_a_hostile_mesh_is_searched_in_so_many_steps(
    monkeypatch: pytest.MonkeyPatch, reach: Callable[[], dict[str, set[str]]], least: int, to_the_end: bool
) -> None:
    steps = 0
    real = connectivity.coloured

    def counted(masks: Any, candidates: int) -> Any:
        nonlocal steps
        steps += 1
        return real(masks, candidates)

    monkeypatch.setattr(connectivity, "coloured", counted)
    links = reach()
    largest = connectivity.largest_mesh(links)
    assert len(largest) >= least
    assert all(b in links[a] for a, b in combinations(largest, 2))
    assert steps <= connectivity.SEARCH_STEPS
    assert (steps < connectivity.SEARCH_STEPS) is to_the_end

"""Finding the first bad release among several, where good ones fail now and then too."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.informer.arithmetic.proportions import Counts
from ci.informer.bisecting import Bisection, bisect
from ci.informer.errors import InformerError

RELEASES = [f"4.20.{number}" for number in range(16)]


def searched(first_bad: int, flakes: float, failing: float, seed: int) -> tuple[str, float, int]:
    """Return a search among sixteen releases: what it found, how sure, after how many runs."""
    generator = random.Random(f"{first_bad} {flakes} {failing} {seed}")
    search = Bisection(RELEASES, Counts(200, round(200 * flakes)))
    runs = list(
        bisect(
            search, lambda name: generator.random() < (failing if RELEASES.index(name) >= first_bad else flakes), 100
        )
    )
    return *search.first_bad, len(runs)


@given(st.integers(1, 15), st.integers(0, 1000))
def test_what_always_fails_is_found_in_few_runs(first_bad, seed):
    release, sure, runs = searched(first_bad, 0.0, 1.0, seed)
    assert release == RELEASES[first_bad]
    assert sure >= 0.95
    assert runs <= 12


@pytest.mark.parametrize(("flakes", "failing", "most_wrong"), [(0.02, 1.0, 4), (0.02, 0.8, 7), (0.05, 0.6, 10)])
def test_flakes_seldom_mislead(flakes, failing, most_wrong):
    """In 90 searches: at 95 % sure, one in twenty may be wrong where the rates are as they were taken to be."""
    wrong = sum(
        searched(first_bad, flakes, failing, seed)[0] != RELEASES[first_bad]
        for first_bad in range(1, 16)
        for seed in range(6)
    )
    assert wrong <= most_wrong


@given(st.lists(st.tuples(st.integers(1, 15), st.booleans()), max_size=40))
def test_likelihoods_add_up_to_one(runs):
    search = Bisection(RELEASES, Counts(10, 1), Counts(4, 4))
    for place, failed in runs:
        search.learn(RELEASES[place], failed=failed)
    assert sum(search.likely) == pytest.approx(1)
    assert search.wanted() in RELEASES[1:]


def test_invalid_runs_say_nothing_and_end_it():
    """The same release would be run again, ninety times in all with what is repeated."""
    search = Bisection(RELEASES)
    before = list(search.likely)
    assert [failed for _, failed in bisect(search, lambda _: None, 3)] == [None]
    assert search.likely == before
    assert not search.is_decided


def test_two_releases_need_no_run():
    search = Bisection(["good", "bad"])
    assert search.is_decided
    assert list(bisect(search, lambda _: pytest.fail("not to be run"), 3)) == []


@pytest.mark.parametrize(
    ("releases", "rule"), [(["a"], "1 is less than two"), (["a", "b", "a"], "'a' occurs twice"), ([], "0 is less")]
)
def test_invalid_releases_are_refused(releases, rule):
    with pytest.raises(InformerError, match=rule):
        Bisection(releases)

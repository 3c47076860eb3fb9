"""The jobs of a night."""

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.informer.choosing import Candidate, Choice, choose, touched, worth
from ci.informer.history.model import Run
from ci.informer.tests.kit import FIRST, filled

TODAY = FIRST + timedelta(days=45)


def weighed(history, nights, files=(), days=1):
    filled(history, sno=nights)
    return worth(Candidate("sno@vm", days), history.runs(job="sno@vm"), TODAY, lambda _: files, tested={})


def test_what_never_ran_comes_first(history):
    never, seldom = (worth(Candidate("ha@vm", days, seconds=99), [], TODAY, lambda _: (), tested={}) for days in (1, 7))
    assert (never.why, never.seconds) == ("never run", 99)
    assert seldom.worth < never.worth, "what is run nightly before what is run once a week"
    for nights in (["PPPPP"] * 45, ["PPPPP"] * 40 + ["PPFPF"] * 5):
        assert weighed(history, nights).worth < seldom.worth


def test_what_is_fresh_and_unchanged_is_worth_nothing(history):
    assert weighed(history, ["PPPPP"] * 46) == Choice("sno@vm", pytest.approx(602, abs=3), 0, "")


@pytest.mark.parametrize(
    ("nights", "files", "days", "why"),
    [
        (["PPPPP"] * 45, (), 1, "1 days old"),
        (["PPPPP"] * 41, (), 7, ""),
        (["PPPPP"] * 38, (), 7, "8 days old"),
        (["PPPPP"] * 46, ("lab/lab.py",), 1, "code changed"),
        (["PPPPP"] * 46, ("lab/tests/test_lab.py", "docs/lab.md"), 1, ""),
        (["PPPPP"] * 46, ("lab/machines/vm/power.py",), 1, "its subject changed"),
        (["PPPPP"] * 46, None, 1, "run on an unknown revision"),
        (["PPPPP"] * 45 + ["PPPPF"], (), 1, "suspicious, failed last"),
        (["PPPPP"] * 30 + ["FFFFF"] * 4 + ["FPFFF"] * 12, (), 1, "regressed, failed last"),
    ],
)
def test_each_reason_to_run_a_job_is_named(history, nights, files, days, why):
    assert weighed(history, nights, files, days).why == why


def test_a_job_s_subject_is_in_its_name():
    assert touched("sno-ipv6-static-uefi@container", ["lab/machines/container/init.py"]) == (True, True)
    assert touched("sno-ipv6-static-uefi@vm", ["lab/machines/container/init.py"]) == (True, False)
    assert touched("sno-ipv4-static-uefi-second_nic@vm", ["lab/nic.py"]) == (True, True)
    assert touched("sno@vm", ["README.md", "ci/gate.py"]) == (False, False)


CHOICES = st.builds(Choice, st.text("abc", min_size=1, max_size=3), st.floats(1, 1e4), st.floats(0, 100), st.just("w"))


@given(st.lists(CHOICES, unique_by=lambda choice: choice.job), st.floats(0, 3e4))
def test_a_night_is_not_overfilled_and_leaves_out_nothing_better(choices, seconds):
    chosen = choose(choices, seconds)
    assert sum(choice.seconds for choice in chosen) <= seconds * (1 + 1e-9)
    assert all(choice.worth > 0 for choice in chosen)
    assert [choice.worth for choice in chosen] == sorted((choice.worth for choice in chosen), reverse=True)
    left = seconds - sum(choice.seconds for choice in chosen)
    assert all(choice.seconds > left or choice.worth == 0 for choice in choices if choice not in chosen)


@given(st.lists(CHOICES, unique_by=lambda choice: choice.job), st.floats(0, 3e4), st.integers(1, 5))
def test_jobs_side_by_side_end_before_the_night(choices, seconds, lanes):
    chosen = choose(choices, seconds, lanes)
    assert sum(choice.seconds for choice in chosen) <= lanes * seconds * (1 + 1e-9)
    assert all(choice.seconds <= seconds for choice in chosen)


def test_with_three_lanes_a_night_has_three_times_as_many_jobs():
    jobs = [Choice(f"job{number}", 600, 50, "never run") for number in range(20)]
    assert [len(choose(jobs, 1800, lanes)) for lanes in (1, 3)] == [3, 9]


def test_days_are_counted_from_the_last_run(history):
    assert weighed(history, ["PPPPP"]).why == f"{(TODAY - date(2026, 1, 1)).days} days old"


def test_a_clock_that_was_ahead_keeps_no_job_from_its_turn(history):
    """A night of next year, by a clock that has been put right since."""
    assert weighed(history, [*["PPPPP"] * 40, *[""] * 300, "PPPPF"]).why == "6 days old"


def test_a_run_takes_its_installation_and_its_tests(history):
    """A night that counted installations alone was to have 20 runs of three minutes, and had room for half of them."""
    filled(history, sno=["P"])
    rows, tested = history.runs(), history.tested("sno@vm")
    assert (rows[0].seconds, tested) == (600, {rows[0].id: 3.0})
    assert worth(Candidate("sno@vm"), rows, TODAY, lambda _: (), tested=tested).seconds == 603


def test_runs_without_durations_are_thought_to_take_what_others_take(history):
    history.add([Run("sno@vm", "p", "k", "2026-01-02T00:00:00Z", seconds=0.0)])
    assert worth(Candidate("sno@vm"), history.runs(), TODAY, lambda _: (), tested={}).seconds == 1800

"""Which nights count: for a job's kind, and for the history that a payload's runs are held against."""

from datetime import timedelta

import pytest

from ci.informer.arithmetic.promotion import Kind
from ci.informer.arithmetic.proportions import Counts
from ci.informer.history.store import History
from ci.informer.judging.review import kind_of
from ci.informer.judging.verdict import judge
from ci.informer.tests.kit import FIRST, filled


@pytest.fixture
def history(tmp_path):
    with History(tmp_path / "history.db") as one:
        yield one


def test_what_a_job_did_a_month_ago_is_no_part_of_its_kind(history):
    filled(history, sno=[*["PPPPF"] * 30, *["PPPPP"] * 31])
    rows = history.runs()
    kinds = [kind_of(rows, FIRST + timedelta(days=day))[0] for day in (55, 60)]
    assert kinds == [Kind.INFORMING, Kind.BLOCKING]


def test_what_a_job_did_in_the_last_ten_days_is_no_history(history):
    """A regression that is a week old would lower what the payload is asked for."""
    filled(history, sno=[*["PPPPP"] * 45, *["PPPFF"] * 9, "PPPPF"])
    [job] = judge(history, "p054").jobs
    assert job.base == Counts(150, 0)
    assert "4 of 5 passed, 4 must at 100 % of history" in job.why

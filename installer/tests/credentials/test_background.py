"""Signers and password that are made while inputs are read, and those that tests of `agent create` are given."""

import bcrypt
import pytest

from installer.common.certificates import check
from installer.credentials import background
from installer.credentials.background import SIGNERS
from installer.testing.create.credentials_kit import RUNS, InTurn


def test_runs_in_a_row_have_secrets_of_their_own():
    runs = [background.make() for _ in range(RUNS)]
    for run in runs:
        assert list(run.signers) == list(SIGNERS)
        assert bcrypt.checkpw(run.password.encode(), run.password_hash.encode())
        for pair in run.signers.values():
            check(pair)
    assert len({pair.key for run in runs for pair in run.signers.values()}) == RUNS * len(SIGNERS)
    assert len({run.password for run in runs}) == RUNS


@pytest.mark.parametrize("name", ["authority", "password_and_hash"])
def test_this_process_makes_credentials_once(name):
    assert isinstance(getattr(background, name), InTurn)


def test_results_come_in_turn_for_each_argument():
    numbers = iter(range(100))
    function = InTurn(lambda argument: (argument, next(numbers)))
    first = [function("a") for _ in range(RUNS)]
    assert len(set(first)) == RUNS
    assert function("b") == ("b", RUNS)
    assert [function("a") for _ in range(2 * RUNS)] == first * 2

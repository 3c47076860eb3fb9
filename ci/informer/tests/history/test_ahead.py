"""Runs that a clock which was wrong has dated later than now."""

import sys
from datetime import UTC, datetime, timedelta

import pytest

from ci.informer.arithmetic.flakes import Outcome
from ci.informer.history.model import Run, latest
from ci.informer.judging.verdict import Decision, judge
from ci.informer.tests.kit import PROGRAM, filled

GOOD = ["PPPPP"] * 45
AHEAD = f"{datetime.now(UTC) + timedelta(days=60):%Y-%m-%dT%H:%M:%SZ}"


@pytest.fixture
def history(history):
    filled(history, sno=[*GOOD, "PPPFF"])
    return history


def run(key, began=AHEAD, payload="p045", ended=Outcome.FAILED):
    return Run("sno@vm", payload, key, began, seconds=600.0, ended=ended)


def test_a_run_dated_ahead_does_not_change_the_baseline(history):
    """Its last run is what a baseline counts back from: from a day ahead there is none, and 3 of 5 would do."""
    assert judge(history, "p045").decision is Decision.REJECTED
    history.add([run("ahead", ended=Outcome.PASSED)])
    verdict = judge(history, "p045")
    assert verdict.decision is Decision.REJECTED
    assert "3 of 5 passed, 4 must at 100 % of history" in verdict.jobs[0].why


@pytest.mark.parametrize("words", [["status"], ["verdict", "p045"], ["triage"], ["compare", "p044", "p045"]], ids=str)
def test_runs_dated_ahead_are_left_out_with_a_warning(history, node0_ci, capsys, words):
    code, before = node0_ci(*words), capsys.readouterr()
    assert before.err == ""
    history.add([run("one"), run("another", payload="ahead")])
    assert node0_ci(*words) == code
    after = capsys.readouterr()
    assert after.err == (
        f"node0-ci: {history.path}: 2 runs lie ahead of this clock (run 231 of sno@vm began {AHEAD}): "
        "judged from then on, shown by node0-ci history\n"
    )
    # Labelled it is, when its time comes.
    assert after.out.replace("2 red runs labelled, 2 put", "0 red runs labelled, 0 put") == (
        before.out.replace("2 red runs labelled, 2 put", "0 red runs labelled, 0 put")
    )


def test_runs_dated_ahead_are_listed_and_clocks_may_differ_by_a_day(history, node0_ci, capsys):
    history.add([run("one"), run("slightly", began=f"{datetime.now(UTC) + timedelta(hours=23):%Y-%m-%dT%H:%M:%SZ}")])
    assert len(history.runs()) == 5 * 46 + 1
    assert node0_ci("history", "--last", "1") == 0
    assert AHEAD in capsys.readouterr().out


def test_a_run_on_a_host_whose_clock_is_ahead_is_reported(tmp_path, node0_ci, capsys, monkeypatch):
    """As where the host that ran it is another one: the collector's clock is the one that counts."""
    monkeypatch.setattr("ci.informer.running.latest", lambda: "2026-01-01T00:00:00Z")
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "script").write_text("failed")
    program = (sys.executable, str(tmp_path / "program.py"), str(tmp_path / "script"))
    words = ["run", "sno", "--artifacts", str(tmp_path / "out"), "--more", "0", "--program", *program]
    assert node0_ci(*words) == 1
    assert "sno@vm: the clock of here is ahead: began 20" in capsys.readouterr().out


def test_the_latest_is_a_day_from_now():
    now = datetime.now(UTC)
    assert now + timedelta(hours=23) < datetime.fromisoformat(latest()) < now + timedelta(hours=25)

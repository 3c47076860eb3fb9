"""Verdicts at awkward moments: before all has run, of two releases at once, after a renaming; which nights count."""

import json
import shutil
from datetime import timedelta

import pytest

from ci.informer.arithmetic.aggregate import percentage_of
from ci.informer.arithmetic.flakes import Outcome
from ci.informer.arithmetic.promotion import Kind
from ci.informer.arithmetic.proportions import Counts
from ci.informer.errors import InformerError
from ci.informer.history import junit, work
from ci.informer.history.model import Run
from ci.informer.history.store import History
from ci.informer.judging.review import kind_of, rejected
from ci.informer.judging.verdict import Decision, judge
from ci.informer.tests.kit import FIRST, artefacts, filled

GOOD = ["PPPPP"] * 45


def test_a_blocking_job_that_has_not_run_on_it_accepts_nothing(history, node0_ci, capsys):
    """One that was renamed, or is still to come: what had to decide has said nothing."""
    filled(history, sno=[*GOOD, "PPPPP"], ha=GOOD, weekly=["P", *[""] * 6] * 6)
    verdict = judge(history, "p045")
    assert verdict.decision is Decision.UNDECIDED
    assert verdict.why == "1 blocking job has not run on it: ha@vm; --informing PATTERN goes without"
    assert judge(history, "p045", informing=["ha@*"]).decision is Decision.ACCEPTED
    assert node0_ci("verdict", "p045", "--informing", "ha@*") == 0
    assert capsys.readouterr().out.endswith("p045: accepted (all 1 blocking jobs)\n")


def test_what_only_informs_rejects_nothing(history):
    filled(history, sno=[*GOOD, "PPPPP"], ha=[*GOOD, "FFFFF"])
    assert judge(history, "p045").decision is Decision.REJECTED
    verdict = judge(history, "p045", blocking=["*"], informing=["ha@vm"])
    assert (verdict.decision, verdict.why) == (Decision.ACCEPTED, "all 1 blocking jobs")


def planned(history, name, numbers, done, *, payload="p045", job="sno@vm"):
    """Return a plan with a run for each of these numbers, of which some are done."""
    work.begin(history, name, "2026-02-15T00:00:00Z", b"{}", folder=history.path.parent)
    text = json.dumps({"payload": payload}).encode()
    work.add(history, name, [(f"{name}/{job}/{number}", text) for number in numbers])
    for number in done:
        work.done(history, f"{name}/{job}/{number}")


@pytest.mark.parametrize(
    ("night", "to_come", "decision"),
    [
        ("PP", 8, Decision.UNDECIDED),  # two passes alone are accepted
        ("PPPFF", 5, Decision.UNDECIDED),  # rejected as it is, and accepted where the rest passes
        ("FFFF", 6, Decision.REJECTED),
        ("PPPPPPPPP", 1, Decision.ACCEPTED),
    ],
)
def test_runs_that_are_still_to_come_may_change_a_verdict(history, night, to_come, decision):
    filled(history, sno=[*["P" * 19 + "F"] * 45, night])
    planned(history, "0123abcd", [f"{number}.0" for number in range(to_come)], [])
    [job] = judge(history, "p045", blocking=["*"]).jobs
    assert job.decision is decision
    reason = f"; {to_come} of its runs are still to come (node0-ci resume 0123abcd, or --forget)"
    assert job.why.endswith(reason) == (decision is Decision.UNDECIDED)
    work.end(history, "0123abcd", "2026-02-16T00:00:00Z")
    [job] = judge(history, "p045", blocking=["*"]).jobs
    assert "still to come" not in job.why
    assert job.decision is not Decision.UNDECIDED


@pytest.mark.parametrize(("asked", "decision"), [(10, Decision.UNDECIDED), (2, Decision.ACCEPTED)])
def test_a_pass_among_invalid_runs_is_no_aggregated_job(history, asked, decision):
    """Ten runs were asked for, and nine were void each time: one pass does not speak for ten."""
    filled(history, sno=GOOD)
    for number in range(asked):
        for attempt in range(3 if number else 1):
            key, void = f"run 0123abcd/sno@vm/{number}.{attempt}", "the host had no memory" if number else ""
            began = f"2026-02-15T{number:02}:0{attempt}:00Z"
            history.add([Run("sno@vm", "p045", key, began, seconds=600.0, void=void)])
    [job] = judge(history, "p045").jobs
    assert (job.decision, job.counts, job.more) == (decision, Counts(1, 0), 2 if asked > 2 else 0)
    reason = "; of 10 runs that were asked for, 9 came to nothing"
    assert (reason in job.why) == (decision is Decision.UNDECIDED)


@pytest.mark.parametrize("judged_before", [True, False])
def test_two_releases_at_one_moment_are_judged_by_their_own_runs(history, judged_before):
    """One fails in all of its twenty runs on the day on which the other one passes in all."""
    filled(history, sno=GOOD)
    day = FIRST + timedelta(days=45)
    for hour in range(20):
        for payload, ended in (("bad", Outcome.FAILED), ("good", Outcome.PASSED)):
            began = f"{day}T{hour:02}:0{int(payload == 'good')}:00Z"
            history.add([Run("sno@vm", payload, f"{payload} {hour}", began, seconds=600.0, ended=ended)])
    if judged_before:
        assert judge(history, "bad").decision is Decision.REJECTED
    verdict = judge(history, "good")
    assert (verdict.decision, verdict.jobs[0].finding) == (Decision.ACCEPTED, None)
    assert judge(history, "bad").decision is Decision.REJECTED


def test_a_verdict_that_does_not_stand_any_more_is_not_remembered(history):
    filled(history, sno=[*GOOD, "PPPFF"])
    assert judge(history, "p045").decision is Decision.REJECTED
    assert rejected(history) == ["p045"]
    assert judge(history, "p045", informing=["sno*"], remember=False).decision is Decision.UNDECIDED
    assert rejected(history) == ["p045"]
    planned(history, "0123abcd", [f"{number}.0" for number in range(200)], [])
    assert judge(history, "p045").decision is Decision.UNDECIDED
    assert rejected(history) == []


def test_a_payload_that_nobody_judged_does_not_stop_a_job_from_blocking(history):
    """Its five failures would be 3 % of the job's runs, which then only informed about the next payload."""
    filled(history, sno=[*GOOD, "FFFFF", "FFFFF"])
    verdict = judge(history, "p046")
    assert (verdict.decision, verdict.jobs[0].kind) == (Decision.REJECTED, Kind.BLOCKING)


def test_what_fails_now_and_then_is_the_job_s_own(history):
    filled(history, sno=[*["PPPPP", "PPPPF"] * 22, "FFFFF"])
    assert judge(history, "p044").jobs[0].kind is Kind.INFORMING


def test_two_releases_of_one_name_are_reported_and_two_names_of_one_are_one(history):
    """A candidate that fails in four of ten runs is no history for the release that it becomes."""
    filled(history, sno=["PPPPPPFFFF", *[""] * 13, "PPPPPPFFFF"])
    history.identify("p000", "sha256:1")
    assert judge(history, "p014", blocking=["*"]).decision is Decision.ACCEPTED  # as bad as what it is held against
    history.identify("p014", "sha256:1")
    history.identify("p014", "sha256:1")
    assert history.aliases("p014") == ["p000"]
    assert judge(history, "p014", blocking=["*"]).jobs[0].base == Counts()
    with pytest.raises(InformerError, match=r"payload: 'p014' is sha256:1, and this release sha256:2: give it another"):
        history.identify("p014", "sha256:2")


def test_what_still_runs_while_it_is_loaded_says_nothing(node0_ci, tmp_path, capsys):
    artefacts(tmp_path / "a/sno", {"name": "lab up"}, {"outcome": "running"})
    assert node0_ci("load", tmp_path / "a", "--payload", "p") == 0
    assert " void " in capsys.readouterr().out
    shutil.rmtree(tmp_path / "a")
    artefacts(tmp_path / "a/sno", {"name": "lab up"}, {}, tests=[{}])
    assert node0_ci("load", tmp_path / "a", "--payload", "p") == 0
    with History(tmp_path / "history.db") as history:
        assert [row.outcome for row in history.runs()] == [Outcome.PASSED]


def test_a_run_that_is_loaded_as_well_is_one(node0_ci, tmp_path, capsys):
    folder = tmp_path / "informer/sno@vm/0123abcd.0.0"
    artefacts(folder / "sno", {}, tests=[{}])
    with History(tmp_path / "history.db") as history:
        began = "2026-01-01T00:00:09Z"
        key = "run 0123abcd/sno@vm/0.0"
        history.add([Run("sno@vm", "p", key, began, seconds=5.0, folder=str(folder))])
        for path in (folder, folder / "sno"):
            assert node0_ci("load", path, "--payload", "p") == 0
            assert capsys.readouterr().out.splitlines()[1].split()[:3] == ["1", began, "sno@vm"]
        assert [row.key for row in history.runs()] == [key]
        assert node0_ci("load", folder, "--payload", "q") == 2
        assert "/sno: is run 1 of sno@vm already, on payload 'p'\n" in capsys.readouterr().err


def test_a_test_that_fails_does_not_say_itself_that_it_is_invalid(tmp_path):
    path = tmp_path / "e2e.xml"
    path.write_text('<testsuite><testcase name="a"><failure message="void: main()"/></testcase></testsuite>')
    assert junit.load([path], "e2e", "p", "2026-01-01").outcome is Outcome.FAILED


@pytest.mark.parametrize(("base", "percentage"), [(Counts(1, 1), 70), (Counts(5, 0), 100), (Counts(6, 6), 0)])
def test_a_short_history_excuses_nothing(base, percentage):
    assert percentage_of(base) == percentage


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


def test_a_new_test_that_fails_has_no_p(history, node0_ci, capsys):
    filled(history, sno=["PPPPFFFF"])
    node0_ci("verdict", "p000")
    assert "test test_api: extreme regression (4 of 8 failed; no runs before)" in capsys.readouterr().out


def test_one_more_run_is_in_the_singular(history, node0_ci, capsys):
    filled(history, sno=["V"])
    node0_ci("verdict", "p000")
    assert "\n           1 more run would tell\n" in capsys.readouterr().out

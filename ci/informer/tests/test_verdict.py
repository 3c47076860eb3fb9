"""Verdicts of payloads, and the command."""

import io
import json
import os
import subprocess
import sys
from datetime import date, timedelta

import pytest

from ci.informer import triage
from ci.informer.arithmetic.flakes import Outcome
from ci.informer.arithmetic.promotion import Kind
from ci.informer.arithmetic.proportions import Counts
from ci.informer.arithmetic.regression import Status, assess
from ci.informer.cli import main
from ci.informer.errors import InformerError
from ci.informer.history import junit
from ci.informer.history.model import Attempt, Run
from ci.informer.history.store import History
from ci.informer.judging import simulate
from ci.informer.judging.review import job_state, record, regressed_tests, regressions, watched
from ci.informer.judging.simulate import World, nightly_runs, plant
from ci.informer.judging.verdict import Decision, by_counts, judge
from ci.informer.tests.kit import FIRST, filled, runs_of
from lab.evidence import symptoms

GOOD = ["PPPPP"] * 45


@pytest.mark.parametrize(
    ("night", "decision", "why"),
    [
        ("PPPPP", Decision.ACCEPTED, "5 of 5 passed, 4 must at 100 % of history"),
        ("PPPPF", Decision.ACCEPTED, "4 of 5 passed, 4 must"),
        ("PPPFF", Decision.REJECTED, "3 of 5 passed, 4 must"),
        ("FFFFF", Decision.REJECTED, "0 of 5 passed"),
        ("F", Decision.REJECTED, "1 failed in a row; believed after 1"),
        ("VVV", Decision.UNDECIDED, "nothing but invalid runs"),
        ("VPPPP", Decision.ACCEPTED, "4 of 4 passed"),
    ],
)
def test_a_blocking_job_decides(history, night, decision, why):
    filled(history, sno=[*GOOD, night])
    verdict = judge(history, "p045")
    [job] = verdict.jobs
    assert (job.kind, job.decision, verdict.decision) == (Kind.BLOCKING, decision, decision)
    assert why in job.why


def test_an_informing_job_only_informs(history):
    filled(history, sno=[*GOOD, "PPPPP"], flaky=[*["PPPPF"] * 45, "FFFFF"])
    verdict = judge(history, "p045")
    assert verdict.decision is Decision.ACCEPTED
    assert [(job.job, job.kind, job.decision) for job in verdict.jobs] == [
        ("sno@vm", Kind.BLOCKING, Decision.ACCEPTED),
        ("flaky@vm", Kind.INFORMING, Decision.REJECTED),
    ]
    assert judge(history, "p045", blocking=["flaky*"]).decision is Decision.REJECTED


def test_without_a_blocking_job_nothing_is_decided(history):
    filled(history, sno=["PPPPP"] * 3)
    verdict = judge(history, "p002")
    assert verdict.decision is Decision.UNDECIDED
    assert "no job blocks: name some with --blocking" in verdict.why


def test_what_was_to_block_and_has_not_run_accepts_nothing(history):
    filled(history, sno=[*GOOD, "PPPPP", "FFFFF"])
    verdict = judge(history, "p045", blocking=["sno*", "ha*"])
    assert verdict.decision is Decision.UNDECIDED
    assert verdict.why == "--blocking 'ha*': no such job has run on it"
    assert judge(history, "p045", blocking=["sno*"]).decision is Decision.ACCEPTED
    assert judge(history, "p046", blocking=["ha*"]).decision is Decision.REJECTED
    history.add([Run("e2e[ipv6]", "p", "k", "2026-02-10T00:00:00Z", seconds=5.0)])
    assert judge(history, "p", blocking=["e2e[ipv6]"], informing=["sno*"]).decision is Decision.ACCEPTED


def test_what_was_rejected_is_no_history(history):
    filled(history, sno=[*GOOD, "FFFFF", *["PPPPP"] * 20])
    assert judge(history, "p045").decision is Decision.REJECTED
    [job] = judge(history, "p064").jobs
    assert (job.base.failures, job.kind) == (0, Kind.BLOCKING)


def test_a_slow_regression_is_found_over_nights_and_closes(history):
    filled(history, sno=[*["P" * 10] * 45, *["PPPPPPPPFF"] * 3, *["P" * 10] * 20])
    rows = history.runs(job="sno@vm")
    for _ in range(2):  # it is written once, however often it is looked at
        watch = record(history, rows)
    assert watch.finding is None
    [regression] = history.db.execute("SELECT since, seen, closed FROM regression").fetchall()
    assert regression["since"] == "2026-02-15"
    assert regression["since"] <= regression["seen"] <= "2026-02-17"
    assert regression["closed"] > regression["seen"]


def test_a_failure_is_new_or_known_and_flakes_are_reported(history, node0_ci, capsys):
    filled(history, sno=[*GOOD, "PPFPP", "PPFPP"])
    again = [Attempt("t", Outcome.FAILED, 1.0, "x"), Attempt("t", Outcome.PASSED, 1.0)]
    history.add([Run("sno@vm", "p046", "flaky", "2026-02-16T20:00:00Z", seconds=9.0, attempts=again)])
    node0_ci("verdict", "p045")
    assert " new): TimeoutError" in capsys.readouterr().out
    node0_ci("verdict", "p046")
    out = capsys.readouterr().out
    assert " known since 2026-02-15): TimeoutError" in out
    assert "1 flaky: passed when tried again" in out


def test_judging_an_older_payload_opens_nothing_again(history):
    filled(history, sno=[*["P" * 10] * 45, *["PPPPPPPPFF"] * 3, *["P" * 10] * 20])
    judge(history, "p067")
    assert judge(history, "p047").jobs[0].finding is not None
    [(since, _, closed, *_)] = regressions(history, "sno@vm")
    assert "2026-02-15" == since < closed


def test_tests_that_regressed_are_named(history):
    filled(history, sno=[*["PPPPP"] * 45, *["PPPFF"] * 7])
    history.judge("p044", good=True)
    [change] = regressed_tests(history, history.runs()[-1].day)
    assert (change.test, change.sample.failures, change.sample.runs) == ("test_api", 14, 35)
    assert change.assessment.status.value == "extreme regression"


def test_a_regression_of_a_test_stays_open_until_it_is_clearly_better(history):
    # Ten points when it came, four in the last week: fewer than would open it.
    milder = [*["P" * 19 + "F"] * 6, "P" * 20]
    filled(history, sno=[*["P" * 20] * 45, *["P" * 18 + "FF"] * 8, *milder])
    history.judge("p044", good=True)
    [change] = regressed_tests(history, history.runs()[-1].day)
    assert (change.sample.failures, change.sample.runs) == (6, 140)
    assert assess(change.sample, change.base).status is Status.UNCHANGED


def test_a_regression_of_a_test_that_never_opened_is_not_open(history):
    milder = [*["P" * 19 + "F"] * 6, "P" * 20]
    filled(history, sno=[*["P" * 20] * 45, *milder])
    history.judge("p044", good=True)
    assert regressed_tests(history, history.runs()[-1].day) == []


def test_a_job_of_hardly_any_history_has_no_regression(history):
    filled(history, sno=["PPPFFFFFFF"] * 3)
    assert watched(history.runs()).finding is None


def test_the_basis_of_a_test_is_the_best_release_before(history):
    history.add(runs_of("sno@vm", ["P" * 10] * 20, payload="4.19.{day}"))
    history.add(runs_of("sno@vm", [""] * 20 + ["PPPPPPPPFF"] * 20 + [""] * 3, payload="4.20.{day}"))
    history.add(runs_of("sno@vm", [""] * 43 + ["PPPPPPPPFF"] * 7, payload="4.21.{day}"))
    history.judge("4.19.19", good=True)
    history.judge("4.20.39", good=True)
    [change] = regressed_tests(history, history.runs()[-1].day)
    assert (change.base.failures, change.base.runs) == (0, 190)


@pytest.mark.parametrize("name", ["4" * 5000 + ".1", "4." + "2" * 5000])
def test_digits_that_are_no_release_are_a_name(history, name):
    history.add(runs_of("sno@vm", ["PPPFF"] * 3, payload="1.{day}"))
    history.add(runs_of("sno@vm", [""] * 3 + ["P" * 5] * 10, payload=name))
    for payload in ("1.2", name):
        history.judge(payload, good=True)
    assert regressed_tests(history, history.runs()[-1].day) == []


def test_what_the_lab_spoiled_is_no_regression_of_a_test(history):
    filled(history, sno=[*["PPPPP"] * 45, *["PPPFF"] * 7])
    history.judge("p044", good=True)
    day = history.runs()[-1].day
    history.db.execute("UPDATE run SET label = 'host' WHERE outcome = 'failed'")
    assert not regressed_tests(history, day)
    assert watched(history.runs()).finding is None


def test_the_state_of_a_job_has_its_figures(history):
    filled(history, sno=[*GOOD, "PVPPF"])
    rows = history.runs()
    state = job_state(rows, rows[-1].day)
    assert (state.voids, state.recent.failures, state.recent.runs, state.kind) == (1, 1, 34, Kind.BLOCKING)
    assert state.watch.wanted > 0


def test_an_unknown_payload_is_reported_with_those_that_are_known(history):
    filled(history, sno=["P"])
    with pytest.raises(InformerError, match=r"payload: 'x' has no runs \(the last that have: p000\)"):
        judge(history, "x")


def test_the_command_says_it_in_words_json_junit_and_exit_codes(history, node0_ci, tmp_path, capsys):
    filled(history, sno=[*GOOD, "PPFFF", "PPPPP"])
    assert node0_ci("verdict", "p045") == 1
    out = capsys.readouterr().out
    assert "product" in out
    assert "again: (run sno@vm again where it ran)" in out
    assert out.splitlines()[-1] == "p045: rejected (1 of 1 blocking jobs: sno@vm)"
    assert node0_ci("verdict", "p045", "--json", "--junit", tmp_path / "out.xml") == 1
    data = json.loads(capsys.readouterr().out)
    assert (data["decision"], data["jobs"][0]["failures"], data["jobs"][0]["labels"]) == ("rejected", 3, ["product"])
    assert len(junit.load([tmp_path / "out.xml"], "all", "p045").attempts) == 10
    assert node0_ci("compare", "p044", "p045") == 0
    assert node0_ci("history", "--job", "sno@vm", "--last", "3") == 0
    assert len(capsys.readouterr().out.splitlines()) == 2 + 1 + 3
    assert node0_ci("status") in (0, 1)
    assert "sno@vm" in capsys.readouterr().out
    for words in (["status"], ["history", "--last", "1"]):
        node0_ci(*words, "--output", "json")
        [entry] = json.loads(capsys.readouterr().out)
        assert entry["job"] == "sno@vm"


def test_triage_shows_clusters_and_keeps_notes(history, node0_ci, capsys):
    filled(history, sno=["F", "F"], compact=["P", "F"])
    assert node0_ci("triage", "--since", FIRST) == 0
    out = capsys.readouterr().out
    assert out.startswith("3 red runs labelled, 3 put into clusters\n")
    name = out.splitlines()[1].split()[0]
    assert node0_ci("triage", "--since", FIRST, "--note", name, "known: see the board") == 0
    assert "known: see the board" in capsys.readouterr().out
    assert node0_ci("triage", "--since", FIRST, "--output", "json") == 0
    assert json.loads(capsys.readouterr().out)[0]["notes"][0]["note"] == "known: see the board"
    assert node0_ci("triage", "--note", "c00000000", "nobody") == 2


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (["verdict", "x"], "payload: 'x' has no runs"),
        (["compare", "x", "y"], "payload: 'x' has no runs"),
        (["load", "nowhere.xml", "--payload", "p"], "nowhere.xml: no such file or directory"),
        (["load", __file__, "--payload", "p"], "test_verdict.py: --job: missing"),
        (["load", __file__, "--payload", "p", "--job", "j"], "test_verdict.py: not a JUnit file"),
        (["triage", "--symptoms", "nowhere.yaml"], "nowhere.yaml: "),
        (["page", "/dev/null"], "/dev/null: not a directory"),
        (["simulate", "--planted", "30"], "simulate: planted: 30 is more than there are jobs (20)"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(history, node0_ci, capsys, words, rule):
    assert node0_ci(*words) == 2
    err = capsys.readouterr().err
    assert rule in err
    assert err.count("\n") == 1
    assert err.startswith("node0-ci: ")


def test_simulate_ends_with_the_line(node0_ci, capsys):
    assert node0_ci("simulate", "--nights", "60", "--seed", "3") == 0
    last = capsys.readouterr().out.splitlines()[-1]
    words = last.split()
    assert words[0] == "found"
    assert int(words[1]) <= int(words[3]) <= 10
    assert last.endswith("false alarms a month")
    assert "within 3 nights, " in last


def test_a_kept_year_is_judged_as_it_was_simulated(node0_ci, tmp_path, capsys):
    """The findings of the simulation's judge, `status` finds in the history of the same runs, but for the runs asked
    for."""
    world = World(nights=20, planted=4, jobs=6, points=(25.0, 30.0))
    with History(tmp_path / "history.db") as history:
        history.add(nightly_runs(8, world))
        planted = {f"job-{fault.job:02}@simulated": fault for fault in plant(8, world)}
        for job in history.jobs():
            record(history, history.runs(job=job))
            days = [date.fromisoformat(seen) for _, seen, *_ in regressions(history, job)]
            if job in planted:
                begin = simulate.FIRST + timedelta(days=planted[job].night)
                assert any(begin <= day < begin + timedelta(days=4) for day in days), job
            else:
                assert days == []
    assert node0_ci("simulate", "--nights", "3", "--jobs", "1", "--planted", "0", "--keep", tmp_path / "k") == 0
    assert "runs kept in" in capsys.readouterr().out
    with History(tmp_path / "k") as history:
        assert sum(row.outcome is not Outcome.VOID for row in history.runs()) == 43 * 10


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        (("resume", "--list"), 0, "no plan is open: all have been run to their end"),
        (
            ("triage", "--since", "2026-01-01"),
            0,
            "no run has failed since 2026-01-01; --since DAY shows older failures",
        ),
        (("traces", "--endpoint", "nonsense"), 2, "endpoint: 'nonsense': must be like http://localhost:4318/v1/traces"),
        (("traces", "--endpoint", "http://"), 2, "endpoint: 'http://': must be like http://localhost:4318/v1/traces"),
    ],
)
def test_commands_say_that_there_is_nothing_to_show(history, node0_ci, capsys, words, code, expected):
    assert node0_ci(*words) == code
    captured = capsys.readouterr()
    assert (captured.err if code else captured.out).splitlines()[-1].removeprefix("node0-ci: ") == expected


def test_a_regression_that_runs_do_not_show_any_more_goes(history):
    """Runs that were loaded again passed, and older ones came: neither may leave a regression that nobody sees."""
    filled(history, sno=[*["P" * 10] * 45, *["PPPPPPPPFF"] * 3, *["P" * 10] * 20])
    record(history, history.runs())
    assert len(regressions(history, "sno@vm")) == 1
    filled(history, sno=["P" * 10] * 68)
    record(history, history.runs())
    assert regressions(history, "sno@vm") == []


def test_the_last_regression_opens_again_whatever_was_found_first(history):
    """Older runs may be loaded after newer ones: the regression that they show is an older one."""
    nights = [*["P" * 10] * 20, "F" * 10, *["P" * 10] * 30, "F" * 10, *["P" * 10] * 6, "F" * 10]
    filled(history, sno=nights)
    rows = history.runs()
    record(history, rows[300:])  # all that there was at first
    record(history, rows)
    (first, _, closed, *_), (second, _, still, *_) = regressions(history, "sno@vm")
    assert (first, second) == ("2026-01-21", "2026-02-21")
    assert closed
    assert not still


def test_three_runs_always_decide(history):
    """Without a history five failures in a row would be wanted, but three are an aggregated job."""
    filled(history, sno=["F"])
    verdict = judge(history, "p000", blocking=["sno*"])
    assert (verdict.decision, by_counts(Counts(2, 2), Counts())[2]) == (Decision.UNDECIDED, 1)
    assert by_counts(Counts(3, 3), Counts())[0] is Decision.REJECTED


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (["triage", "--note", "9" * 25, "x"], f"note: there is no {'9' * 25}"),
        (["serve", "--listen", "127.0.0.1:" + "9" * 5000], "must be HOST:PORT"),
        (["serve", "--listen", ":8080"], "must be HOST:PORT"),
        (["scheduler", "127.0.0.1:" + "9" * 5000], "must be HOST:PORT"),
    ],
)
def test_numbers_that_are_too_large_are_reported(history, node0_ci, capsys, words, rule):
    assert node0_ci(*words) == 2
    assert rule in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (["verdict", "\udcff"], "must be a name"),
        (["history", "--job", "\udcff"], "must be a name"),
        (["compare", "a", "\udcff"], "must be a name"),
        (["triage", "--note", "1", "\udcff"], "must be a name"),
        (["status", "--day", "9999-12-31"], "must be a day of this century"),
        (["prune", ".", "--green-days", "1000000"], "must be a whole number from 0 to 36525"),
    ],
)
def test_arguments_that_no_history_can_hold_are_reported(node0_ci, capsys, words, rule):
    with pytest.raises(SystemExit, match="2"):
        node0_ci(*words)
    assert rule in capsys.readouterr().err


def test_a_terminal_that_cannot_show_a_name_shows_what_it_is(history, node0_ci, monkeypatch):
    filled(history, snö=["P"])
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii", write_through=True)
    monkeypatch.setattr(sys, "stdout", out)
    assert node0_ci("history") == 0
    assert b"sn\\xf6@vm" in out.buffer.getvalue()


def test_a_closed_pipe_is_no_error(history, tmp_path):
    filled(history, sno=["P"])
    reading, writing = os.pipe()
    os.close(reading)
    argv = [sys.executable, "-m", "ci.informer.cli", "--history", str(history.path), "history"]
    done = subprocess.run(argv, stdout=writing, stderr=subprocess.PIPE, timeout=60, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


def test_an_invalid_budget_is_one_line(node0_ci, capsys, monkeypatch):
    monkeypatch.setenv("NODE0_BUDGET_MIB", "abc")
    assert node0_ci("worker", "127.0.0.1:1", "--name", "a") == 2
    assert capsys.readouterr().err == (
        "node0-ci: NODE0_BUDGET_MIB: must be a whole number from 1 to 16777216, not 'abc'\n"
    )


def test_simulate_plants_no_more_regressions_than_jobs(node0_ci, capsys):
    assert node0_ci("simulate", "--jobs", "3", "--nights", "20") == 0
    assert capsys.readouterr().out.splitlines()[0].startswith("3 jobs, ")


READING = (
    ["status"],
    ["verdict", "x"],
    ["history"],
    ["triage"],
    ["compare", "a", "b"],
    ["page", "out"],
    ["prune", "."],
)


@pytest.mark.parametrize(
    "words", [*READING, ["traces", "--file", "out"], ["serve", "--listen", "127.0.0.1:0"], ["resume"]], ids=str
)
def test_a_history_that_was_mistyped_is_reported_and_not_made(tmp_path, capsys, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    assert main(["--history", "folder/histroy.db", *words]) == 2
    message = "node0-ci: folder/histroy.db: no such history; node0-ci run, nightly and load begin one\n"
    assert capsys.readouterr().err == message
    assert list(tmp_path.iterdir()) == []


def test_of_many_jobs_one_that_looks_worse_by_chance_is_not_called_worse(history, node0_ci, capsys):
    """3 of 10 failed, of 100 before 5: p 0.03, and among twenty jobs one such is usual."""
    nights = ["P" * 95 + "F" * 5, "P" * 7 + "F" * 3]
    filled(history, job0=nights)
    assert node0_ci("compare", "p000", "p001") == 1
    assert capsys.readouterr().out.splitlines()[-1].split()[-1] == "WORSE"
    filled(history, **{f"job{number}": ["P" * 100, "P" * 10] for number in range(1, 20)})
    assert node0_ci("compare", "p000", "p001") == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert "of 20" in head
    assert "WORSE" not in "".join(rows)
    filled(history, broken=["P" * 100, "F" * 10])
    assert node0_ci("compare", "p000", "p001") == 1
    assert [row.split()[0] for row in capsys.readouterr().out.splitlines() if "WORSE" in row] == ["broken@vm"]


def test_a_service_that_crashes_now_and_then_rejects_a_payload_and_is_named(history):
    """The results of two of ten runs of the release `service-crashes`."""
    filled(history, sno=[*GOOD, "P" * 8])
    message = (
        "master-0: assisted-service.service ended by itself (exited 134, restarts before: 0) and is started again."
    )
    crashed = Attempt("test_no_service_of_the_live_hosts_crashed", Outcome.FAILED, 1.0, f"AssertionError: {message}")
    for key in ("a", "b"):
        history.add([Run("sno@vm", "p045", key, "2026-02-15T20:00:00Z", seconds=600.0, attempts=[crashed])])
    triage.label(history, symptoms.read())
    verdict = judge(history, "p045")
    assert verdict.decision is Decision.REJECTED
    assert verdict.why == "1 of 1 blocking jobs: sno@vm; component assisted-service"

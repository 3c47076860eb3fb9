"""The history's file, JUnit, and this project's own artefacts."""

import sqlite3
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.informer import triage
from ci.informer.arithmetic.flakes import Outcome
from ci.informer.cli import main
from ci.informer.errors import HistoryError, InformerError
from ci.informer.history import artifacts, junit, schema
from ci.informer.history.model import Attempt, Run, Step, seconds_of
from ci.informer.history.store import History
from ci.informer.tests.kit import artefacts
from lab.evidence import symptoms

# What XML can hold of a name.
WORDS = st.text(st.characters(min_codepoint=33, max_codepoint=0x17F, exclude_categories=("Cc",)), min_size=1)
BEGAN = "2026-11-23T22:00:00Z"


def a_run(**other):
    return Run(**{"job": "sno", "payload": "4.20.1", "key": "k", "began": BEGAN, "seconds": 60.0, **other})


def test_a_run_comes_back_as_it_went_in(history):
    attempts = [
        Attempt("a", Outcome.FAILED, 1.5, "boom"),
        Attempt("a", Outcome.PASSED, 1.0),
        Attempt("b", Outcome.SKIPPED),
    ]
    steps = [
        Step("boot", 0.0, 12.5, Outcome.PASSED),
        Step("install", 12.5, 40.0, Outcome.FAILED, depth=1, error="late"),
    ]
    [number] = history.add([a_run(attempts=attempts, steps=steps, evidence={"console": "text"}, folder="/x")])
    row = history.run(number)
    assert (row.job, row.payload, row.outcome, row.folder) == ("sno", "4.20.1", Outcome.FLAKE, "/x")
    assert history.attempts(number) == attempts
    assert history.steps(number) == steps
    assert history.evidence(number) == {"console": "text"}


def test_a_run_that_is_loaded_again_replaces_itself(history):
    history.add([a_run(attempts=[Attempt("a", Outcome.FAILED, message="boom")])])
    history.add([a_run(attempts=[Attempt("a", Outcome.PASSED)])])
    assert [row.outcome for row in history.runs()] == [Outcome.PASSED]


def test_runs_are_found_by_job_payload_day_and_number(history):
    for day in range(1, 6):
        history.add([a_run(key=str(day), began=f"2026-11-0{day}T00:00:00Z", job=f"job-{day % 2}", payload=f"p{day}")])
    assert [row.key for row in history.runs(last=2)] == ["4", "5"]
    assert [row.key for row in history.runs(job="job-1")] == ["1", "3", "5"]
    assert [row.key for row in history.runs(payload="p4")] == ["4"]
    assert [row.key for row in history.runs(since=history.runs()[3].day)] == ["4", "5"]
    assert history.payloads() == ["p1", "p2", "p3", "p4", "p5"]
    history.judge("p2", good=True)
    assert [(str(day), payload) for day, payload in history.good_payloads()] == [("2026-11-02", "p2")]


def test_a_transaction_that_fails_writes_nothing(history):
    with pytest.raises(AttributeError):
        history.add([a_run(), None])
    assert history.runs() == []


def test_a_newer_history_is_refused_in_one_line(tmp_path):
    path = tmp_path / "history.db"
    History(path).db.execute(f"PRAGMA user_version={schema.VERSION + 1}")
    with pytest.raises(InformerError) as caught:
        History(path)
    assert str(caught.value).startswith(f"{path}: user_version: {schema.VERSION + 1} is newer than {schema.VERSION}")
    assert "\n" not in str(caught.value)


def test_what_is_no_history_is_refused(tmp_path):
    (tmp_path / "text").write_bytes(b"not a database at all" * 100)
    with sqlite3.connect(tmp_path / "other") as db:
        db.execute("CREATE TABLE job (x)")
    for name in ("text", "other"):
        with pytest.raises(InformerError, match="not a history"):
            History(tmp_path / name)


def test_a_migration_that_fails_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "history.db"
    History(path).db.close()
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, "CREATE TABLE fresh (x); CREATE TABLE run (x)"))
    monkeypatch.setattr(schema, "VERSION", schema.VERSION + 1)
    with pytest.raises(InformerError):
        History(path)
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (schema.VERSION - 1,)
        assert db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'fresh'").fetchone() == (0,)


def test_a_history_of_the_first_version_keeps_its_runs(tmp_path):
    path = tmp_path / "history.db"
    with sqlite3.connect(path) as db:
        for statement in schema.MIGRATIONS[0].split(";"):
            db.execute(statement)
        db.execute("INSERT INTO job VALUES (1, 'sno@vm')")
        db.execute("INSERT INTO payload VALUES (1, '4.20.1', 1)")
        db.execute(
            "INSERT INTO run (job, payload, key, began, seconds, outcome, reason, folder)"
            f" VALUES (1, 1, 'k', '{BEGAN}', 60, 'passed', '', '')"
        )
        db.execute("PRAGMA user_version=1")
    with History(path) as history:
        [row] = history.runs()
        assert (row.job, row.outcome, row.host, row.revision) == ("sno@vm", Outcome.PASSED, "", "")
        assert history.db.execute("PRAGMA user_version").fetchone()[0] == schema.VERSION


@given(
    st.lists(
        st.builds(
            Attempt,
            WORDS,
            st.sampled_from([Outcome.PASSED, Outcome.FAILED, Outcome.SKIPPED]),
            st.integers(0, 10**6).map(lambda ms: ms / 1000),
        ),
        min_size=1,
        max_size=9,
    )
)
def test_junit_comes_back_as_it_went_out(tmp_path_factory, attempts):
    path = tmp_path_factory.mktemp("junit") / "out.xml"
    junit.save(path, "node0", [("sno", BEGAN, 12.5, attempts)])
    run = junit.load([path], "sno", "4.20.1")
    assert [(attempt.test, attempt.outcome, attempt.seconds) for attempt in run.attempts] == [
        (f"sno::{attempt.test}", attempt.outcome, attempt.seconds) for attempt in attempts
    ]
    assert (run.began, run.seconds) == (BEGAN, 12.5)


def test_a_test_that_passed_the_second_time_is_a_flake(tmp_path):
    """As openshift-tests writes flakes: the same name twice, once failed and once passed."""
    (tmp_path / "junit.xml").write_text(
        '<testsuite name="openshift-tests" tests="2" failures="1" time="4.5" timestamp="2026-11-23T22:00:00">'
        '<testcase name="t" time="2"><failure message="first">more</failure></testcase><testcase name="t" time="2.5"/>'
        "</testsuite>"
    )
    run = junit.load([tmp_path / "junit.xml"], "e2e", "4.20.1")
    assert run.outcome is Outcome.FLAKE
    assert (run.began, run.seconds, run.reason) == (BEGAN, 4.5, "first\nmore")


def test_invalid_tests_stay_invalid_in_junit(tmp_path):
    path = tmp_path / "out.xml"
    junit.save(path, "node0", [("sno", BEGAN, 1.0, [Attempt("t", Outcome.VOID, message="void: dnsmasq ended")])])
    assert junit.load([path], "sno", "p").outcome is Outcome.VOID


def write_run(folder, *, outcome="passed", tests=(), lab_failed=""):
    (folder / "commands").mkdir(parents=True)
    install = {"at": 30.0, "seconds": 70.0, "outcome": outcome, "error": "late"}
    artefacts(folder, {"name": "boot", "seconds": 30.0}, install, tests=tests)
    (folder / "commands/wait-for.log").write_text("level=error msg=bootstrap timed out\n")
    if lab_failed:
        (folder / "lab-failed.txt").write_text(lab_failed)


def test_artefacts_of_scenarios_are_loaded(tmp_path):
    failed = {"name": "test_nodes", "outcome": "failed", "seconds": 2.0, "message": "AssertionError: 2 nodes"}
    write_run(tmp_path / "sno-ipv4-static-uefi", outcome="failed", tests=[failed])
    write_run(tmp_path / "compact", lab_failed="dnsmasq ended with 1\n")
    (tmp_path / "compact/machines").mkdir()
    compact, sno = artifacts.load(tmp_path, "4.20.1")
    assert (compact.job, compact.outcome, compact.reason) == ("compact@container", Outcome.VOID, "dnsmasq ended with 1")
    assert (sno.job, sno.outcome, sno.seconds) == ("sno-ipv4-static-uefi@vm", Outcome.FAILED, 100.0)
    assert sno.reason == "AssertionError: 2 nodes"
    assert "bootstrap timed out" in sno.evidence["wait-for"]
    assert sno.evidence["message"] == "AssertionError: 2 nodes\nlate"


def test_a_message_has_its_error_before_the_code_that_led_there(tmp_path):
    message = "    except A as error:\n>       raise B(error) from error\nE       lab.errors.B: SSH of master-0\n"
    artefacts(tmp_path / "x", {}, tests=[{"outcome": "failed", "message": message}])
    [run] = artifacts.load(tmp_path, "p")
    assert run.reason == f"lab.errors.B: SSH of master-0\n{message}"


def test_no_artefacts_is_reported(tmp_path):
    with pytest.raises(InformerError, match=r"phases\.json: neither here"):
        artifacts.load(tmp_path, "p")
    write_run(tmp_path / "x")
    (tmp_path / "x/phases.json").write_text("{")
    with pytest.raises(InformerError, match=r"phases\.json: Expecting"):
        artifacts.load(tmp_path, "p")


def test_odd_artefacts_are_read_or_reported(tmp_path):
    (tmp_path / "x").mkdir()
    phases = tmp_path / "x/phases.json"
    phases.write_text("[]")
    [run] = artifacts.load(tmp_path, "p")
    assert (run.outcome, run.reason) == (Outcome.VOID, "it ended before its first phase")
    phases.write_text(f'[{{"name": 3, "began": "{BEGAN}", "at": "x", "seconds": NaN, "outcome": "running"}}]')
    [run] = artifacts.load(tmp_path, "p")
    assert (run.outcome, run.seconds, run.steps[0].error) == (Outcome.VOID, 0.0, "3 did not end")
    phases.write_text('[{"name": "a", "began": "yesterday", "outcome": "passed"}]')
    with pytest.raises(InformerError, match=r"phases\.json: began: 'yesterday': must be like"):
        artifacts.load(tmp_path, "p")


@pytest.mark.parametrize("ended", [True, False])
def test_an_interrupted_run_is_invalid_and_nobody_s_fault(history, tmp_path, ended):
    """wait-for may have said `timed out` before Ctrl-C."""
    tests = [{"outcome": "passed"}] if ended else []
    artefacts(tmp_path / "x", {"outcome": "interrupted", "seconds": 3.0}, tests=tests)
    (tmp_path / "x/commands").mkdir()
    (tmp_path / "x/commands/003-wait-for.log").write_text("level=warning msg=kube API: timed out\n")
    [run] = artifacts.load(tmp_path / "x", "p", ended=ended)
    assert (run.outcome, run.reason) == (Outcome.VOID, "interrupted: Ctrl-C or a signal ended it during 'install'")
    [number] = history.add([run])
    triage.label(history, symptoms.read())
    assert triage.shown(history, number)[0][0] == "interrupted"
    assert history.run(number).label == "host"
    [late] = artifacts.load(tmp_path / "x", "p", ended=True, stopped=True)
    assert late.outcome is not Outcome.VOID, "who stops a run for its limit says so himself"


def test_a_run_that_was_killed_in_a_later_phase_is_invalid_whatever_passed_before(tmp_path):
    artefacts(tmp_path / "x", {}, {"outcome": "running", "seconds": None}, tests=[{"outcome": "passed"}])
    [run] = artifacts.load(tmp_path / "x", "p")
    assert run.outcome is Outcome.VOID


@given(st.one_of(st.none(), st.text(), st.floats(), st.lists(st.integers()), st.integers()))
def test_a_duration_is_a_number_whatever_was_written(value):
    assert 0 <= seconds_of(value) < float("inf")


def test_a_note_on_no_run_or_cluster_is_refused(history):
    [number] = history.add([a_run()])
    history.note("known", BEGAN, run=number)
    assert history.notes(run=number) == [(BEGAN, "known")]
    with pytest.raises(InformerError, match="there is no run 99"):
        history.note("?", BEGAN, run=99)


def test_two_runs_that_began_in_one_second_stay_two_in_junit(tmp_path):
    runs = [("sno@vm", BEGAN, 5.0, [Attempt("t", outcome)]) for outcome in (Outcome.FAILED, Outcome.PASSED)]
    junit.save(tmp_path / "junit.xml", "n", runs)
    assert (tmp_path / "junit.xml").read_text().count("<testsuite ") == 2


@pytest.mark.parametrize("version", [1, schema.VERSION, -1])
def test_another_program_s_file_is_left_alone(tmp_path, version):
    """Others number their files as well."""
    path = tmp_path / "places.sqlite"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE bookmarks (x)")
        db.execute(f"PRAGMA user_version={version}")
    before = path.read_bytes()
    with pytest.raises(InformerError, match=r"places\.sqlite: not a history of node0-ci: it has other tables"):
        History(path)
    assert path.read_bytes() == before


def test_a_file_that_is_damaged_is_named(tmp_path):
    path = tmp_path / "history.db"
    with History(path) as history:
        history.add([a_run(key=str(number), attempts=[Attempt("t", Outcome.PASSED)]) for number in range(500)])
        history.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = bytearray(path.read_bytes())
    # The pages of runs, with those of the schema before and behind them whole.
    content[4096 * 9 : 4096 * 20] = b"\xff" * 4096 * 11
    path.write_bytes(content)
    with pytest.raises(HistoryError, match=r"history\.db: database disk image is malformed"), History(path) as history:
        history.runs()


def test_a_file_that_does_not_fit_on_its_disk_is_reported_by_its_name(small_disk, tmp_path, capsys):
    path = tmp_path / "history.db"
    with History(path) as history:
        history.add([a_run()])
    (small_disk / "junit.xml").write_text("the old one")
    with suppress(OSError), (small_disk / "all").open("wb", buffering=0) as every:
        while every.write(b"x" * 4096):
            pass
    words = ["--history", str(path), "verdict", "4.20.1", "--junit", str(small_disk / "junit.xml")]
    assert main(words) == 2
    assert capsys.readouterr().err == f"node0-ci: {small_disk}/junit.xml: No space left on device\n"
    assert (small_disk / "junit.xml").read_text() == "the old one"


def test_output_that_does_not_fit_on_its_disk_is_reported(tmp_path):
    path = tmp_path / "history.db"
    with History(path) as history:
        history.add([a_run()])
    argv = [sys.executable, "-m", "ci.informer.cli", "--history", str(path), "history"]
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(argv, stdout=full, stderr=subprocess.PIPE, text=True)
    assert (ended.returncode, ended.stderr) == (2, "node0-ci: No space left on device\n")


def test_a_disk_that_is_full_is_reported_and_loses_nothing(small_disk):
    path = small_disk / "history.db"
    with History(path) as history:
        history.add([a_run()])
    big = {"console": "x" * (1 << 20)}
    with pytest.raises(HistoryError, match=r"history\.db: database or disk is full"), History(path) as history:
        history.add([a_run(), a_run(key="k2", evidence=big)])
    # What has failed has ended: the next one is not taken for a part of it.
    with History(path) as history:
        with pytest.raises(sqlite3.OperationalError, match="full"):
            history.add([a_run(key="k2", evidence=big)])
        assert not history.db.in_transaction
        history.add([a_run(key="k3")])
        assert [row.key for row in history.runs()] == ["k", "k3"]


def test_a_folder_that_cannot_be_written_to_is_reported(small_disk):
    path = small_disk / "history.db"
    with History(path) as history:
        history.add([a_run()])
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    with pytest.raises(
        HistoryError, match=r"history\.db: unable to open database file \(its folder cannot be written to\)"
    ):
        History(path, make=False)


def test_what_a_dead_process_was_writing_is_not_there(tmp_path):
    """It was killed within a transaction, with a write-ahead log beside the file."""
    path = tmp_path / "history.db"
    with History(path) as history:
        history.add([a_run()])
    program = (
        "import os, sys; from pathlib import Path; from ci.informer.history.store import History\n"
        "history = History(Path(sys.argv[1])); history.db.execute('PRAGMA cache_size=1')\n"
        "history.db.execute('BEGIN IMMEDIATE'); history.db.execute('DELETE FROM run')\n"
        "[history.db.execute('INSERT INTO job (name) VALUES (?)', (str(n) * 900,)) for n in range(900)]\n"
        "os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", program, path], check=False).returncode == -9
    assert (tmp_path / "history.db-wal").stat().st_size
    with History(path, make=False) as history:
        assert [row.key for row in history.runs()] == ["k"]
        assert len(history.jobs()) == 1


def test_a_file_that_another_program_holds_is_named(tmp_path, monkeypatch):
    path = tmp_path / "history.db"
    with History(path) as first:
        first.add([a_run()])
        monkeypatch.setattr(schema, "WAIT", 0.1)
        first.db.execute("BEGIN IMMEDIATE")
        with pytest.raises(HistoryError, match=r"history\.db: database is locked"), History(path) as second:
            second.add([a_run(key="k2")])
        first.db.execute("ROLLBACK")
    with History(path) as history:
        assert len(history.runs()) == 1

"""Anybody's input: times, durations, names, links and documents that no program of ours would write."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ci.informer.arithmetic.flakes import Outcome
from ci.informer.cli import main
from ci.informer.errors import InformerError
from ci.informer.history import artifacts, files, junit, traces
from ci.informer.history.model import Attempt, Run, seconds_of
from ci.informer.history.store import History
from ci.informer.pages.build import build
from ci.informer.tests import kit

BEGAN = "2026-11-20T00:00:00Z"


@pytest.fixture
def folder(tmp_path):
    """Artefacts of one run, and a way to say what is in them: fields of its phase, its tests."""
    folder = tmp_path / "artefacts/sno"

    def written(tests=(), **phase):
        kit.artefacts(folder, {"began": BEGAN, **phase}, tests=tests)
        return folder

    written()
    return written


def loaded(tmp_path, text, **how):
    (tmp_path / "junit.xml").write_text(text)
    return junit.load([tmp_path / "junit.xml"], "e2e", how.pop("payload", "p"), **{"began": BEGAN, **how})


@pytest.mark.parametrize("stamp", ["0001-01-01T00:00:00Z", "0999-01-01T00:00:00", "1970-01-01", "9999-12-31T23:00:00Z"])
def test_a_timestamp_of_another_century_is_refused(tmp_path, stamp):
    """Go writes 0001-01-01 where nobody set it; a history with it could not be judged any more."""
    with pytest.raises(InformerError, match="is no time of this century: say it by --began TIME"):
        loaded(tmp_path, f'<testsuite timestamp="{stamp}"><testcase name="t"/></testsuite>', began=None)


@pytest.mark.parametrize("began", ["2026-19-39T00:00:00Z", "2026-02-30T00:00:00Z", "2026-01-01T29:79:69Z", "x"])
def test_a_run_with_an_invalid_timestamp_is_refused(tmp_path, folder, began):
    folder(began=began)
    with pytest.raises(InformerError, match=r"phases\.json: began: "):
        artifacts.load(tmp_path / "artefacts", "p")
    with History(tmp_path / "h.db") as history, pytest.raises(InformerError, match=r"h\.db: run of sno: began: "):
        history.add([Run("sno", "p", "k", began, seconds=1.0)])


def test_a_run_that_is_dated_ahead_is_not_loaded(node0_ci, tmp_path, capsys):
    """It would be the last run, and all others be older than a week, until then."""
    (tmp_path / "e2e.xml").write_text("<testsuite><testcase name='t'/></testsuite>")
    words = ["load", tmp_path / "e2e.xml", "--payload", "p", "--job", "e2e"]
    now = datetime.now(UTC)
    assert node0_ci(*words, "--began", (now + timedelta(hours=12)).isoformat()) == 0
    assert node0_ci(*words, "--began", (now + timedelta(days=2)).isoformat()) == 2
    assert "lies ahead: look at the clocks" in capsys.readouterr().err


@pytest.mark.parametrize("seconds", ["1e308", "1e12", "inf", "-5", "nan"])
def test_an_impossible_duration_is_taken_for_0(tmp_path, seconds):
    cases = f'<testcase name="a" time="{seconds}"/><testcase name="b" time="{seconds}"/>'
    run = loaded(tmp_path, f"<testsuite>{cases}</testsuite>")
    assert run.seconds == 0
    assert seconds_of(seconds) == 0
    with History(tmp_path / "h.db") as history:
        history.add([run])
        assert build(history, tmp_path / "pages") == 4
        assert traces.written(history, history.runs(), tmp_path / "traces.jsonl") == 1


@pytest.mark.parametrize("depth", [1e9, 1e300, "x", -1])
def test_the_depth_of_phases_is_limited(tmp_path, folder, depth):
    """A page has three spaces a level."""
    folder(depth=depth)
    [run] = artifacts.load(tmp_path / "artefacts", "p")
    assert 0 <= run.steps[0].depth <= 8


def test_invalid_characters_are_replaced(tmp_path, folder):
    """JSON may have half of a character; XML can hold neither that nor what commands terminals."""
    odd = "\ud800\x1b[2J\x0c\ufffe"
    tests = [
        {"name": odd, "outcome": "failed", "message": odd, "seconds": 1},
        {"name": f"{odd}2", "outcome": "skipped", "message": odd},
    ]
    folder(tests, name=odd, outcome="failed", error=odd)
    with History(tmp_path / "h.db") as history:
        [number] = history.add(artifacts.load(tmp_path / "artefacts", "p"))
        build(history, tmp_path / "pages")
        suites = [("sno\x1b", BEGAN, 1.0, history.attempts(number))]
    junit.save(tmp_path / "out.xml", f"n {odd}", suites)
    assert len(junit.load([tmp_path / "out.xml"], "sno", "p").attempts) == 2


def test_terminals_are_not_commanded(node0_ci, tmp_path, folder, capsys):
    folder([{"name": "t", "outcome": "failed", "message": "\x1b]0;owned\x07 boom", "seconds": 1}])
    assert node0_ci("load", tmp_path / "artefacts", "--payload", "p") == 0
    assert node0_ci("triage", "--since", "2026-11-01") == 0
    assert node0_ci("verdict", "p") == 3
    out = capsys.readouterr().out
    assert "\\x1b]0;owned\\x07 boom" in out
    assert "\x1b" not in out


@pytest.mark.parametrize("name", ["phases.json", "tests.json", "installer/logs/events.json"])
def test_documents_that_nest_too_deeply_are_reported_or_passed_over(tmp_path, folder, name):
    path = folder() / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("[" * 100_000)
    if name == "phases.json":
        with pytest.raises(InformerError, match=r"phases\.json: maximum recursion depth"):
            artifacts.load(tmp_path / "artefacts", "p")
    else:
        assert len(artifacts.load(tmp_path / "artefacts", "p")) == 1


def test_a_folder_whose_name_is_no_text_is_reported(tmp_path, folder):
    folder().rename(os.fsdecode(os.fsencode(tmp_path / "artefacts") + b"/s\xff"))
    with pytest.raises(InformerError, match="the folder's name is no UTF-8"):
        artifacts.load(tmp_path / "artefacts", "p")


def test_what_a_link_leads_to_is_no_evidence(tmp_path, folder):
    """Evidence is shown on pages, and what was loaded may have come from elsewhere."""
    (tmp_path / "secret").write_text("of the host\n")
    console = folder([{"name": "t", "outcome": "failed", "message": "x"}]) / "console"
    console.mkdir()
    (console / "a.txt").symlink_to(tmp_path / "secret")
    (console / "b.txt").write_text("of the machine\n")
    (console / "c.txt").symlink_to("b.txt")
    [run] = artifacts.load(tmp_path / "artefacts", "p")
    assert "of the machine" in run.evidence["console"]
    assert "of the host" not in run.evidence["console"]


def test_entities_are_not_expanded(tmp_path):
    text = f'<!DOCTYPE l [<!ENTITY a "{"x" * 1000}">]><testsuite><testcase name="&a;&a;"/></testsuite>'
    with pytest.raises(InformerError, match="it has a document type") as caught:
        loaded(tmp_path, f'<?xml version="1.0"?>{text}')
    assert "\n" not in str(caught.value)


def test_a_file_without_an_end_is_read_up_to_its_most(monkeypatch):
    monkeypatch.setattr(junit, "BIGGEST", 1 << 20)
    with pytest.raises(InformerError, match="bigger than 1 MiB"):
        junit.load([Path("/dev/zero")], "e2e", "p")


def test_of_a_file_with_many_failures_as_much_is_kept_as_of_any_run(tmp_path):
    """Symptoms are looked for in all of it: in 40 MiB none could be labelled, and the history not be judged."""
    case = f'<testcase name="t"><failure message="{"x" * 3900}"/></testcase>'
    run = loaded(tmp_path, f"<testsuite>{case * 60}</testsuite>")
    assert len(run.evidence["message"]) == 128 << 10
    assert len(run.attempts) == 60


def test_a_junit_file_may_be_a_pipe():
    """`node0-ci load <(zcat e2e.xml.gz)`."""
    reading, writing = os.pipe()
    os.write(writing, b"<testsuite timestamp='2026-11-20T00:00:00'><testcase name='t'/></testsuite>")
    os.close(writing)
    try:
        assert len(junit.load([Path(f"/dev/fd/{reading}")], "e2e", "p").attempts) == 1
    finally:
        os.close(reading)


def test_nights_that_left_the_same_text_are_two(tmp_path):
    text = '<testsuite><testcase name="t"/></testsuite>'
    nights = [loaded(tmp_path, text, began=f"2026-11-0{day}T00:00:00Z") for day in (1, 2)]
    nights.append(loaded(tmp_path, text, began="2026-11-02T00:00:00Z", payload="other"))
    with History(tmp_path / "h.db") as history:
        history.add([*nights, *nights])
        assert [(row.payload, row.began[:10]) for row in history.runs()] == [
            ("p", "2026-11-01"),
            ("p", "2026-11-02"),
            ("other", "2026-11-02"),
        ]


def test_a_huge_message_costs_no_more_than_is_kept(tmp_path):
    """Taking the secrets out of 20 MiB took half a minute."""
    failure = f'<failure message="m">{"x y " * (5 << 20)}</failure>'
    run = loaded(tmp_path, f'<testsuite><testcase name="t">{failure}</testcase></testsuite>')
    assert len(run.reason) <= junit.MESSAGE


@pytest.mark.parametrize("command", ["verdict", "traces"])
def test_what_is_written_into_a_link_leaves_the_link(node0_ci, tmp_path, command):
    """/dev/stdout is one."""
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "target")
    with History(tmp_path / "history.db") as history:
        history.add([Run("e2e", "p", "k", BEGAN, seconds=1.0, attempts=[Attempt("t", Outcome.PASSED)])])
    words = {"verdict": ["verdict", "p", "--junit", str(link)], "traces": ["traces", "--file", str(link)]}[command]
    assert node0_ci(*words) in (0, 3)
    assert link.is_symlink()
    assert (tmp_path / "target").stat().st_size


def test_a_strangers_link_beside_a_file_is_neither_written_through_nor_removed(tmp_path, monkeypatch):
    """A folder may be anybody's, and say where a new file would be made first."""
    monkeypatch.setattr(files.secrets, "token_hex", lambda _count: "known")
    (tmp_path / "victim").write_text("theirs")
    for name in (f".page.{os.getpid()}", ".page.known"):
        (tmp_path / name).symlink_to("victim")
    with pytest.raises(InformerError, match="File exists"):
        files.write(tmp_path / "page", "ours")
    assert (tmp_path / "victim").read_text() == "theirs"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([f".page.{os.getpid()}", ".page.known", "victim"])


@pytest.mark.parametrize("path", ["/dev/null", "/dev/zero", "folder", "pipe"])
def test_a_history_is_a_file(tmp_path, monkeypatch, capsys, path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for words in (["status"], ["load", __file__, "--payload", "p", "--job", "j"]):
        main(["--history", path, *words])
    stderr = capsys.readouterr().err.splitlines()
    assert stderr[0] == f"node0-ci: {path}: not a history of node0-ci: not a file"


def test_an_empty_name_is_not_the_default_history(capsys):
    """`--history "$HERE"` of a script that has set no HERE wrote into everybody's."""
    with pytest.raises(SystemExit, match="2"):
        main(["--history", "", "status"])
    assert "must be a file, not ''" in capsys.readouterr().err

"""Evidence that goes when it is old, and runs as traces."""

import gzip
import json
import shutil
import threading
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ci.informer.arithmetic.flakes import Outcome
from ci.informer.cli import main
from ci.informer.errors import InformerError
from ci.informer.history import traces
from ci.informer.history.model import Run, Step
from ci.informer.history.retention import Limits, prune
from ci.informer.history.store import History
from ci.informer.tests.kit import FIRST, artefacts, filled
from lab.evidence.folder import MARK, held, mark_of, marks_of, put_mark


def kept(history, root, today, **limits):
    prune(history, root, today, Limits(**limits))
    return [row.key for row in history.runs() if row.folder]


def run_in(history, key, day, folder, *, outcome=Outcome.PASSED, mark=None):
    """Return a run whose evidence is in a folder, which gets the mark of that run if it has none."""
    began = f"{FIRST + timedelta(days=day)}T00:00:00Z"
    if mark is None:
        mark = mark_of(folder) or f"lab {key}"
        put_mark(folder, mark)
    history.add([Run("sno@vm", "p", key, began, seconds=60.0, folder=str(folder), mark=mark, ended=outcome)])


def evidence(history, root, days, outcome=Outcome.PASSED):
    """Return a run a day, each with a folder of 1 MiB."""
    for day in days:
        folder = root / f"{outcome.value}-{day}"
        folder.mkdir(parents=True)
        (folder / "page.txt").write_bytes(b"x" * (1 << 20))
        run_in(history, f"{outcome.value} {day}", day, folder, outcome=outcome)


def test_old_evidence_goes_and_red_runs_keep_theirs_longer(history, tmp_path):
    root = tmp_path / "artifacts"
    evidence(history, root, range(5))
    evidence(history, root, range(5), Outcome.FAILED)
    left = kept(history, root, FIRST + timedelta(days=10), green_days=7, red_days=8)
    assert left == ["failed 2", "passed 3", "failed 3", "passed 4", "failed 4"]
    assert sorted(path.name for path in root.iterdir()) == sorted(row.replace(" ", "-") for row in left)
    assert len(history.runs()) == 10


def test_what_does_not_fit_goes_oldest_and_green_first(history, tmp_path):
    root = tmp_path / "artifacts"
    evidence(history, root, range(3))
    evidence(history, root, range(3), Outcome.FAILED)
    assert kept(history, root, FIRST, total=(3 << 20) + (16 << 10)) == ["failed 0", "failed 1", "failed 2"]
    assert kept(history, root, FIRST, total=(1 << 20) + (16 << 10)) == ["failed 2"]
    assert kept(history, root, FIRST, total=0) == []
    assert list(root.iterdir()) == []


def test_pruning_a_directory_that_does_not_exist_is_an_error(history, node0_ci, tmp_path, capsys):
    assert node0_ci("prune", str(tmp_path / "nosuch")) == 2
    assert "no such directory" in capsys.readouterr().err


@pytest.mark.parametrize("behind", [False, True])
def test_the_history_is_named_before_the_command_or_behind_it(history, capsys, behind):
    filled(history, sno=["P"])
    option = ["--history", str(history.path)]
    assert main(["status", *option] if behind else [*option, "status"]) == 0
    assert "sno@vm" in capsys.readouterr().out


def test_history_says_that_there_are_no_such_runs(history, node0_ci, capsys):
    filled(history, sno=["P"])
    for words, expected in ((["--since", "2030-01-01"], "no such runs\n"), (["--job", "sno@vm"], "sno@vm")):
        assert node0_ci("history", *words) == 0
        assert expected in capsys.readouterr().out


@pytest.mark.parametrize("command", [["history"], ["traces", "--file", "traces.json"]])
def test_a_job_or_payload_that_the_history_does_not_know_is_an_error(history, node0_ci, capsys, tmp_path, command):
    filled(history, sno=["P"], ha=["P"])
    words = [tmp_path / word if word == "traces.json" else word for word in command]
    for more, problem in (
        (["--job", "sno"], "job: 'sno' has no runs; known are ha@vm, sno@vm"),
        (["--job", "sno@vm", "--payload", "q"], "payload: 'q' has no runs"),
    ):
        assert node0_ci(*words, *more) == 2
        assert capsys.readouterr() == ("", f"node0-ci: {history.path}: {problem}\n")
    assert not (tmp_path / "traces.json").exists()


def test_a_part_of_an_options_name_is_no_option(history, capsys):
    for words in (["--hist", str(history.path), "status"], ["status", "--hist", str(history.path)]):
        with pytest.raises(SystemExit, match="2"):
            main(words)
        assert "usage: node0-ci" in capsys.readouterr().err


def test_nothing_outside_is_removed(history, tmp_path):
    """Folders elsewhere, the root itself, and what a link leads to."""
    root, elsewhere = tmp_path / "artifacts", tmp_path / "elsewhere"
    evidence(history, elsewhere, [0])
    root.mkdir()
    (root / "link").symlink_to(elsewhere)
    for key, folder in (("root", root), ("link", root / "link"), ("up", root / "elsewhere/..")):
        run_in(history, key, 0, folder, mark="lab x")
        put_mark(folder.resolve(), "lab x")
    kept(history, root, FIRST + timedelta(days=1000))
    assert (elsewhere / "passed-0/page.txt").exists()
    assert root.is_dir()


def test_evidence_of_two_runs_goes_when_both_are_due(history, tmp_path):
    """Runs that `run` remembered may have been loaded as well."""
    root = tmp_path / "artifacts"
    evidence(history, root, [0])
    run_in(history, "loaded", 0, root / "passed-0", outcome=Outcome.FAILED)
    assert kept(history, root, FIRST + timedelta(days=10)) == ["passed 0", "loaded"]
    assert (root / "passed-0/page.txt").exists()
    count, freed = prune(history, root, FIRST + timedelta(days=100), Limits())
    # A disk's blocks have 512 bytes (stat(2)).
    assert (count, freed % 512, freed >> 20) == (2, 0, 1)
    assert list(root.iterdir()) == []


def test_evidence_within_a_folder_that_is_due_is_kept(history, tmp_path):
    root = tmp_path / "artifacts"
    run_in(history, "inner", 9, root / "outer/inner")
    put_mark(root / "outer", "run outer")
    run_in(history, "outer", 0, root / "outer", mark=marks_of(root / "outer"))
    assert "inner" in kept(history, root, FIRST + timedelta(days=10))
    assert (root / "outer/inner").is_dir()
    assert prune(history, root, FIRST + timedelta(days=100), Limits())[0] == 2
    assert list(root.iterdir()) == []


def test_a_folder_that_is_relative_or_has_the_history_in_it_stays(history, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_in(history, "relative", 0, Path("work"))
    (tmp_path / "work/services").mkdir()  # where a run leaves something: no stranger's
    with History(tmp_path / "work/services/history.db") as within:
        run_in(within, "history", 0, tmp_path / "work")
        for store in (history, within):
            assert prune(store, tmp_path, FIRST + timedelta(days=1000), Limits()) == (0, 0)
    assert (tmp_path / "work/services/history.db").exists()


def _again(folder):
    shutil.rmtree(folder)
    evidence_of_another(folder)


def evidence_of_another(folder):
    put_mark(folder, "lab another")
    (folder / "phases.json").write_text("[]")


def _link(folder):
    folder.rename(folder.with_name("elsewhere"))
    folder.symlink_to("elsewhere")


#: What became of a folder in which a green run's evidence was.
BECAME = {
    "tonight's failure": _again,
    "a folder that somebody made": lambda folder: (folder / MARK).unlink(),
    "a project, which began there": lambda folder: (folder / "main.c").write_text("x"),
    "a folder with notes": lambda folder: (folder / "NOTES").write_text("x"),
    "the artefacts of others": lambda folder: evidence_of_another(folder / "ha"),
    "the artefacts of others, deeper": lambda folder: evidence_of_another(folder / "services/ha"),
    "a link": _link,
}


@pytest.mark.parametrize("became", BECAME)
def test_what_is_not_the_run_s_evidence_stays(history, tmp_path, became):
    root = tmp_path / "artifacts"
    evidence(history, root, [0])
    BECAME[became](root / "passed-0")
    before = sorted(path.relative_to(root) for path in root.rglob("*"))
    assert prune(history, root, FIRST + timedelta(days=1000), Limits()) == (0, 0)
    assert sorted(path.relative_to(root) for path in root.rglob("*")) == before


@pytest.mark.parametrize(("file", "count"), [("console/master-0.txt", 1), ("NOTES", 0), ("sno/NOTES", 0)])
def test_what_somebody_left_beside_a_scenario_s_evidence_stays(history, tmp_path, file, count):
    """`node0-ci run` has a folder of its own around the scenario's, each with a mark."""
    unit = tmp_path / "artifacts/unit"
    put_mark(unit, "run x")
    put_mark(unit / "ha", "lab x")
    run_in(history, "x", 0, unit, mark=marks_of(unit))
    (unit / "ha" / file).parent.mkdir(exist_ok=True)
    (unit / "ha" / file).touch()
    assert prune(history, tmp_path, FIRST + timedelta(days=1000), Limits())[0] == count
    assert unit.exists() == (not count)


def test_what_an_older_node0_ci_remembers_without_a_mark_stays(history, tmp_path):
    folder = tmp_path / "artifacts/unit"
    folder.mkdir(parents=True)
    run_in(history, "x", 0, folder, mark="")
    assert prune(history, tmp_path, FIRST + timedelta(days=1000), Limits()) == (0, 0)
    assert folder.is_dir()


def test_a_mark_that_is_a_link_proves_nothing(history, tmp_path):
    root = tmp_path / "artifacts"
    evidence(history, root, [0])
    mark = root / "passed-0" / MARK
    mark.rename(root / "mark")
    mark.symlink_to(root / "mark")
    assert prune(history, root, FIRST + timedelta(days=1000), Limits()) == (0, 0)


def test_evidence_that_is_being_written_stays(history, tmp_path):
    root = tmp_path / "artifacts"
    evidence(history, root, [0])
    with held(root / "passed-0") as free:
        assert free
        assert prune(history, root, FIRST + timedelta(days=1000), Limits()) == (0, 0)
    assert prune(history, root, FIRST + timedelta(days=1000), Limits())[0] == 1


def test_a_project_that_was_loaded_as_artefacts_is_not_pruned(node0_ci, tmp_path, monkeypatch):
    """`deploy --artifacts .`, `load .`, `prune ..`."""
    project = tmp_path / "home/project"
    artefacts(project, {})
    (project / "main.c").write_text("x")
    monkeypatch.chdir(project)
    for mark in (False, True):
        if mark:
            put_mark(project, "lab of long ago")
        assert node0_ci("load", ".", "--payload", "p") == 0
        assert node0_ci("prune", "..", "--green-days", 0, "--red-days", 0, "--gib", 0) == 0
        assert (project / "main.c").exists()


STEPS = [
    Step("lab", 0.0, 5.0, Outcome.PASSED),
    Step("install", 5.0, 90.0, Outcome.FAILED, depth=0, error="the API did not answer\nmore"),
    Step("bootstrap", 6.0, 60.0, Outcome.PASSED, depth=1),
    Step("pivot", 66.0, 20.0, Outcome.FAILED, depth=1, error="late"),
    Step("collect", 95.0, 3.0, Outcome.PASSED),
]


@pytest.fixture
def row(history):
    run = Run("sno@vm", "p", "k", "2026-01-01T00:00:00Z", seconds=98.0, steps=STEPS, ended=Outcome.FAILED)
    [number] = history.add([run], host="a", revision="abc")
    return history.run(number)


def test_a_trace_has_the_run_and_its_phases_below_one_another(history, row, tmp_path):
    assert traces.written(history, [row], tmp_path / "traces.jsonl") == 1
    [text] = (tmp_path / "traces.jsonl").read_text().splitlines()
    [resource] = json.loads(text)["resourceSpans"]
    spans = [span for scope in resource["scopeSpans"] for span in scope["spans"]]
    by_name = {span["name"]: span for span in spans}
    assert {span["traceId"] for span in spans} == {spans[0]["traceId"]}
    assert len(spans[0]["traceId"]) == 32
    below = {name: span.get("parentSpanId") for name, span in by_name.items()}
    root = by_name["sno@vm"]["spanId"]
    install = by_name["install"]["spanId"]
    assert below == {
        "sno@vm": None,
        "lab": root,
        "install": root,
        "bootstrap": install,
        "pivot": install,
        "collect": root,
    }
    begin = int(by_name["sno@vm"]["startTimeUnixNano"])
    assert int(by_name["pivot"]["startTimeUnixNano"]) - begin == 66 * 10**9
    assert int(by_name["pivot"]["endTimeUnixNano"]) - begin == 86 * 10**9
    assert by_name["install"]["status"] == {"code": 2, "message": "the API did not answer"}
    values = {attribute["key"]: attribute["value"]["stringValue"] for attribute in by_name["sno@vm"]["attributes"]}
    assert values["host.name"] == "a"
    assert values["vcs.ref.head.revision"] == "abc"


def test_a_run_has_the_same_ids_each_time(row):
    first, second = (traces.line(list(traces.spans(row, STEPS))) for _ in range(2))
    assert first == second


class Collector(BaseHTTPRequestHandler):
    """Takes traces as a collector does."""

    taken: list[ExportTraceServiceRequest]
    code = 200

    def do_POST(self):
        request = ExportTraceServiceRequest()
        body = self.rfile.read(int(self.headers["Content-Length"]))
        request.ParseFromString(gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body)
        self.taken.append(request)
        self.send_response(self.code)
        self.end_headers()

    def log_message(self, *_):
        """Quietly."""


@pytest.mark.parametrize(("code", "whole"), [(200, True), (400, False)])
def test_traces_are_sent_to_an_endpoint(history, row, code, whole):
    handler = type("One", (Collector,), {"taken": [], "code": code})
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            endpoint = f"http://127.0.0.1:{server.server_port}/v1/traces"
            if whole:
                assert traces.sent(history, [row], endpoint) == 1
                [request] = handler.taken
                names = [s.name for r in request.resource_spans for scope in r.scope_spans for s in scope.spans]
                assert names == ["sno@vm", "lab", "install", "bootstrap", "pivot", "collect"]
            else:
                with pytest.raises(InformerError, match="takes no traces"):
                    traces.sent(history, [row], endpoint)
        finally:
            server.shutdown()
            thread.join()


def test_what_lies_beside_a_junit_file_stays(history, node0_ci, tmp_path):
    """Its folder may be anybody's: downloads, for example."""
    folder = tmp_path / "home/downloads"
    folder.mkdir(parents=True)
    (folder / "thesis.txt").write_text("x")
    (folder / "e2e.xml").write_text('<testsuite timestamp="2026-01-01T00:00:00Z"><testcase name="t"/></testsuite>')
    assert node0_ci("load", folder / "e2e.xml", "--payload", "p", "--job", "e2e") == 0
    assert node0_ci("prune", tmp_path / "home") == 0
    assert (folder / "thesis.txt").exists()

"""Progress of a run, and its results as JUnit."""

import json
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

from lab.conformance import results
from lab.conformance.results import Result
from lab.conformance.running import Progress

BEGAN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
THEIRS = """<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="Kubernetes e2e suite" tests="2" failures="1" errors="0" time="12.5">
  <testcase name="a" classname="Kubernetes e2e suite" time="1.5"></testcase>
  <testcase name="b" classname="Kubernetes e2e suite" time="2">
    <failure type="Failure">/k/test/x.go:629&#xA;Jan  1 00:00:00.000: no endpoint&#xA;/k/test/y.go:12</failure>
    <system-out>log</system-out>
  </testcase>
  <testcase name="c" classname="Kubernetes e2e suite" time="0"><skipped></skipped></testcase>
</testsuite>
"""


def test_results_of_several_processes_are_one(tmp_path: Path) -> None:
    """Each process says of the others' specs that it skipped them; a killed one leaves half a file."""
    (tmp_path / "junit_01.xml").write_text(THEIRS)
    (tmp_path / "junit_02.xml").write_text(
        '<testsuite><testcase name="c" time="3"/><testcase name="a"><skipped/></testcase></testsuite>'
    )
    (tmp_path / "junit_03.xml").write_text(THEIRS[:300])
    (tmp_path / "junit_04.xml").write_text(THEIRS.replace("no endpoint", "the first process failed"))
    found = results.read(tmp_path.iterdir())
    assert found["a"] == Result("a", "passed", 1.5)
    assert found["c"] == Result("c", "passed", 3.0)
    assert found["b"] == Result("b", "failed", 2.0, "Jan  1 00:00:00.000: no endpoint", "log")


def test_what_has_no_result_was_not_run_and_a_suites_own_failure_counts() -> None:
    found = {"a": Result("a", "passed"), "BeforeSuite": Result("BeforeSuite", "failed", message="no nodes")}
    ended = results.complete(("a", "b"), {"c": "no clock"}, found, "the time was over")
    assert [(r.spec, r.outcome) for r in ended] == [
        ("a", "passed"), ("b", "not run"), ("BeforeSuite", "failed"), ("c", "left out"),
    ]  # fmt: skip
    assert [*results.red(ended)] == ["failed: BeforeSuite: no nodes", "not run: 1 specs: the time was over"]
    assert not results.ok(ended)
    assert not results.ok(ended[3:])
    assert results.ok([ended[0], ended[3]])
    assert results.line(ended, 90) == "1 of 4 passed, 1 failed, 1 not run, 1 left out; 1.5 minutes"


def test_left_out_specs_say_why_in_junit() -> None:
    root = ElementTree.fromstring(
        results.junit([Result("a", "left out", message="no clock")], began=BEGAN, seconds=1, facts={})
    )
    assert root.find("testcase/skipped").get("message") == "no clock"


def said(process: int, text: str) -> str:
    return f"[{process}] {text}"


def ended(word: str, name: str) -> str:
    return "SS•" + json.dumps({"msg": f"{word} {name}", "total": 9}, separators=(",", ":"))


ERROR = """Nov 28 19:01:15.645: FAIL: waiting for server pod to start
Unexpected error:
    <*errors.errorString | 0xc00401c780>: {
        s: "timed out",
    }
    timed out
occurred
"""


def test_progress_numbers_specs_and_says_at_once_why_one_failed() -> None:
    lines: list[str] = []
    progress = Progress(3, lines.append, began=0.0)
    for line in (
        said(1, 'I1128 e2e.go:129] Starting e2e run "f5a42917-865f-4dfd-ab75-75e255bd23de" on Ginkgo node 1'),
        said(1, ended("PASSED", "a")),
        said(2, "Nov 28 18:00:00.000: FAIL: of a spec that nobody has said to have failed"),
        said(2, ended("FAILED", 'b "quoted"')),
        said(1, "Nov 28 18:00:00.000: FAIL: another process"),
        *(said(2, line) for line in ERROR.splitlines()),
        said(2, ""),
        said(2, "Nov 28 18:00:00.000: FAIL: and more"),
        said(2, '{"msg":"Test Suite completed","total":9}'),
        "Ginkgo ran 1 suite in 1s",
    ):
        progress.feed(line)
    shown = [line.partition("] ")[2] or line.strip() for line in lines]
    assert shown == ["1/3 passed a", '2/3 FAILED b "quoted"', "waiting for server pod to start: timed out"]
    assert {name: result.outcome for name, result in progress.ended.items()} == {"a": "passed", 'b "quoted"': "failed"}
    assert progress.run_ids == {"f5a42917-865f-4dfd-ab75-75e255bd23de"}


def test_what_ends_the_suite_is_kept() -> None:
    progress = Progress(1, print)
    progress.feed("F1128 19:53:26.046983   16031 e2e.go:234] Error loading client: no kubeconfig")
    assert progress.fatal == "Error loading client: no kubeconfig"


def test_a_failure_in_one_line_is_what_it_says() -> None:
    assert results.gist("Nov  8 19:01:15.645: no endpoint") == "no endpoint"
    assert results.gist("Unexpected error:\n <*x>: {}\n gone\noccurred") == "gone"
    assert results.gist("") == ""

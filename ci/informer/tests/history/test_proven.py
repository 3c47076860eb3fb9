"""Runs that no JUnit file proves to be green, whoever wrote it."""

import pytest

from ci.informer.arithmetic.flakes import Outcome
from ci.informer.errors import InformerError
from ci.informer.history import artifacts, junit
from ci.informer.judging.verdict import Decision, judge
from ci.informer.tests.kit import artefacts

P, F = Outcome.PASSED, Outcome.FAILED
STAMP = 'timestamp="2026-11-23T22:00:00"'
PASS = '<testcase classname="c" name="t"/>'
FAIL = '<testcase classname="c" name="t"><failure message="boom"/></testcase>'


def run_of(tmp_path, *texts):
    """Return the run that files of these texts are, each in a folder of its own and called the same."""
    paths = []
    for number, text in enumerate(texts):
        paths.append(tmp_path / f"leg{number}/junit.xml")
        paths[-1].parent.mkdir()
        paths[-1].write_text(text)
    return junit.load(paths, "e2e", "p")


def outcomes(run):
    return {attempt.test: attempt.outcome for attempt in run.attempts}


TWO = {
    "two suites": (
        [f'<testsuites {STAMP}><testsuite name="a">{FAIL}</testsuite><testsuite name="b">{PASS}</testsuite>'
         "</testsuites>"],
        {"a::c::t": F, "b::c::t": P},
    ),
    "two suites of one name, as junitparser merge leaves them": (
        [f'<testsuites {STAMP}><testsuite name="pytest">{FAIL}</testsuite><testsuite name="pytest">{PASS}</testsuite>'
         "</testsuites>"],
        {"pytest::c::t": F, "pytest#2::c::t": P},
    ),
    "two files": (
        [f'<testsuite name="a" {STAMP}>{outcome}</testsuite>' for outcome in (FAIL, PASS)],
        {"leg0/junit.xml::a::c::t": F, "leg1/junit.xml::a::c::t": P},
    ),
    "suites within suites": (
        [f'<testsuite name="a" {STAMP}><testsuite name="x">{FAIL}</testsuite><testsuite name="y">{PASS}</testsuite>'
         "</testsuite>"],
        {"a::x::c::t": F, "a::y::c::t": P},
    ),
    "a class that is called like a suite": (
        [f'<testsuites {STAMP}><testsuite name="a"><testcase name="t"><failure/></testcase></testsuite>'
         '<testsuite name="b"><testcase name="t"/></testsuite>'
         '<testsuite name="c"><testcase classname="a" name="t"/></testsuite></testsuites>'],
        {"a::t": P, "b::t": P, "a::t (2)": F},
    ),
    "two files of tests in a suite, as pytest's xunit1 and jest have them": (
        [f'<testsuite {STAMP}><testcase classname="c" name="t" file="a.js" line="3"><failure/></testcase>'
         '<testcase classname="c" name="t" file="a.js" line="9"/><testcase classname="c" name="t" file="b.js"/>'
         "</testsuite>"],
        {"a.js:3::c::t": F, "a.js:9::c::t": P, "b.js::c::t": P},
    ),
    "tests without a name": (
        [f'<testsuite {STAMP}><testcase classname="c"><failure/></testcase><testcase classname="c" name=""/>'
         "</testsuite>"],
        {"c::(no name)": F, "c::(no name) 2": P},
    ),
    "classes and names that make the same text": (
        [f'<testsuite {STAMP}><testcase classname="a" name="b::c"><failure/></testcase>'
         '<testcase classname="a::b" name="c"/></testsuite>'],
        {"junit.xml::a::b::c": F, "junit.xml::a::b::c (2)": P},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TWO)
def test_the_same_name_elsewhere_is_another_test(tmp_path, name):
    texts, expected = TWO[name]
    run = run_of(tmp_path, *texts)
    assert sorted(outcome.value for outcome in outcomes(run).values()) == sorted(
        value.value for value in expected.values()
    )
    assert set(outcomes(run)) == set(expected)
    assert run.outcome is F


def test_a_test_that_is_nowhere_else_keeps_its_name(tmp_path):
    other = f'<testsuite name="b" {STAMP}><testcase classname="c" name="u"/></testsuite>'
    assert set(outcomes(run_of(tmp_path, f'<testsuite name="a" {STAMP}>{PASS}</testsuite>', other))) == {"c::t", "c::u"}


def test_several_files_are_one_run_whatever_their_order(tmp_path):
    later = f'<testsuite timestamp="2026-11-24T01:00:00+02:00" time="2">{PASS}</testsuite>'
    run = run_of(tmp_path, later, f'<testsuite {STAMP} time="3">{PASS}</testsuite>')
    assert (run.began, run.seconds, run.outcome) == ("2026-11-23T22:00:00Z", 5.0, P)
    paths = [tmp_path / f"leg{number}/junit.xml" for number in (1, 0)]
    assert junit.load(paths, "e2e", "p").key == run.key
    with pytest.raises(InformerError, match=r"leg0/junit\.xml: is given twice"):
        junit.load([paths[1], paths[0], paths[1]], "e2e", "p")
    paths[0].write_bytes(paths[1].read_bytes())
    with pytest.raises(InformerError, match=r"leg0/junit\.xml: is .*leg1/junit\.xml once more"):
        junit.load(paths, "e2e", "p")


def test_a_failure_after_a_pass_is_no_flake(tmp_path):
    assert run_of(tmp_path, f"<testsuite {STAMP}>{PASS}{FAIL}</testsuite>").outcome is F


def test_a_release_that_failed_in_one_leg_is_not_accepted(node0_ci, history, tmp_path, capsys):
    for name, case in (("a", FAIL), ("b", PASS)):
        (tmp_path / f"{name}.xml").write_text(f'<testsuite name="e2e" {STAMP}>{case}</testsuite>')
    words = ("--payload", "p", "--job", "e2e")
    assert node0_ci("load", tmp_path / "a.xml", tmp_path / "b.xml", *words) == 0
    assert "failed" in capsys.readouterr().out
    assert judge(history, "p", blocking=["e2e"]).decision is not Decision.ACCEPTED
    assert node0_ci("load", tmp_path / "a.xml", tmp_path, *words) == 2
    assert "is a directory: load it alone" in capsys.readouterr().err


#: Who or what, the inner XML of a suite with its counters, what the message says.
RED = {
    "the suite's own error": ("", f'{PASS}<error message="collection failed"/>', "collection failed"),
    "the suite's own failure": ("", f"{PASS}<failure>late</failure>", "late"),
    "jest-junit, a suite that does not compile": ('tests="0" failures="0" errors="1"', "", "say that 1 failed"),
    "surefire, a fork that crashed": ('tests="1" errors="1" failures="0"', PASS, "say that 1 failed"),
    "counters of failures": ('tests="2" failures="2"', FAIL + PASS, "say that 2 failed, its cases that 1 did"),
    "cases that are missing": ('tests="3"', PASS, "tests: 3, of which 1 are there"),
    "tests that were skipped are shown as passed": ('tests="1" skipped="1"', PASS, "say that 0 passed"),
    "disabled tests are shown as passed": ('tests="1" disabled="1"', PASS, "say that 0 passed"),
    "a counter that is none": ('failures="many"', PASS, "failures: 'many' is no count"),
    "a counter below 0": ('tests="-1"', PASS, "tests: '-1' is no count"),
    "a flake beside more passes than are counted": (
        'tests="5" failures="1" skipped="1"',
        FAIL + PASS + "".join(f'<testcase name="{name}"/>' for name in "uvw"),
        "say that 3 passed, its cases that 4 did",
    ),
    **{
        f"a counter that JUnit does not have: {counter}": (f'tests="1" {counter}="1"', PASS, "say that 1 failed")
        for counter in ("error", "failure", "failed", "Errors", "crashed", "failureCount")
    },
    "skipped tests that nose shows as passed": ('tests="1" skip="1"', PASS, "say that 0 passed"),
    "a suite without success": ('success="False"', PASS, "success: False"),
    "a test that says that it failed": ("", '<testcase name="t" failures="1"/>', "failures: 1"),
    "a test with its error's text": ("", '<testcase name="t" error="boom"/>', "error: boom"),
    "a suite that says something and tests nothing": ("", "<system-err>panic: no cluster</system-err>", "panic: no"),
    "an element in a suite that JUnit does not have": ("", f"{PASS}<cases>{FAIL}</cases>", "<cases> is nothing"),
    "an element in a test that JUnit does not have": ("", '<testcase name="t"><timeout/></testcase>', "<timeout> is"),
    "an element in capitals": ("", '<testcase name="t"><Failure/></testcase>', "<Failure> is no result"),
    "ginkgo, without its error": ("", '<testcase name="t" status="panicked"/>', "status: panicked"),
    "googletest, interrupted": ("", '<testcase name="t" status="run" result="interrupted"/>', "result: interrupted"),
    "a test that was skipped and failed": ("", '<testcase name="t" status="failed"><skipped/></testcase>', "failed"),
    "a test whose outcome is another attribute": ("", '<testcase name="t" outcome="failed"/>', "outcome: failed"),
    "a suite that says that it failed": ('status="failed"', FAIL + PASS, "status: failed"),
    "surefire, all reruns failed": ("", '<testcase name="t"><rerunFailure/></testcase>', "when it was run again"),
    "gotestsum": ('tests="1" failures="1"', '<testcase name="M"><failure type="x"/></testcase>', "x"),
}  # fmt: skip


@pytest.mark.parametrize("name", RED)
def test_what_is_not_proven_green_is_red(tmp_path, name):
    counters, inner, message = RED[name]
    run = run_of(tmp_path, f'<testsuites {STAMP}><testsuite name="s" {counters}>{inner}</testsuite></testsuites>')
    assert run.outcome is F
    assert message in run.evidence["message"]


def test_the_counters_of_all_suites_are_held_against_all_cases(tmp_path):
    """gotestsum counts errors of builds there alone."""
    text = f'<testsuites {STAMP} tests="1" errors="1"><testsuite name="s" tests="1">{PASS}</testsuite></testsuites>'
    assert run_of(tmp_path, text).outcome is F


#: Files of programs whose counters count otherwise than cases are shown, and nothing failed in the end.
GREEN = {
    "openshift-tests, a flake": ('tests="2" failures="1"', FAIL + PASS, Outcome.FLAKE),
    "gotestsum, a test that was run again": ('tests="2" failures="1"', FAIL + PASS, Outcome.FLAKE),
    "surefire, each attempt counted": (
        'tests="2" failures="1"', '<testcase name="t"><flakyFailure message="m"/></testcase>', Outcome.FLAKE
    ),
    "surefire, tests counted": ('tests="1"', '<testcase name="t"><flakyFailure/></testcase>', Outcome.FLAKE),
    "bats": ('tests="1" failures="0" errors="0" skipped="0"', PASS + "<system-err>noise</system-err>", P),
    "mocha, pending tests left out": ('tests="2" skipped="1"', PASS, P),
    "TestNG": ('tests="2"', f'{PASS}<testcase name="later"><ignored/></testcase>', P),
    "googletest": ('tests="1" failures="0" disabled="0"', '<testcase name="t" status="RUN" result="COMPLETED"/>', P),
    "counted twice": ('tests="2" failures="1" failed="1"', FAIL + PASS, Outcome.FLAKE),
    "names that count nothing": (
        'success="true" failed="" errored-on="x"', '<testcase name="t" success="true" error="0"/>', P
    ),
    "no counters": ("", PASS, P),
    "what passed says so": ('status="passed"', '<testcase name="t" result="Succeeded" status=" ok "/>', P),
    "all were skipped": ('tests="1" skipped="1"', '<testcase name="t"><skipped/></testcase>', Outcome.SKIPPED),
}  # fmt: skip


@pytest.mark.parametrize("name", GREEN)
def test_what_others_count_in_their_own_way_is_no_failure(tmp_path, name):
    counters, inner, outcome = GREEN[name]
    run = run_of(tmp_path, f'<testsuite name="s" {STAMP} {counters}>{inner}</testsuite>')
    assert run.outcome is outcome


def test_a_run_that_was_killed_between_two_tests_has_not_passed(tmp_path):
    """Each test until then had, and no phase was running."""
    artefacts(tmp_path / "sno", {}, tests=[{}])
    assert artifacts.load(tmp_path, "p")[0].outcome is P
    (tmp_path / "sno/missing.txt").unlink()  # which is written when all has been collected
    assert artifacts.load(tmp_path, "p")[0].outcome is Outcome.VOID
    artefacts(tmp_path / "sno", {}, tests=[{"outcome": "crashed"}])
    assert artifacts.load(tmp_path, "p")[0].outcome is F


@pytest.mark.parametrize("stamp", ["", 'timestamp=""', 'timestamp=" "'])
def test_a_file_without_a_time_is_not_of_today(node0_ci, tmp_path, capsys, stamp):
    """A copy's own time is when it was copied."""
    (tmp_path / "e2e.xml").write_text(f"<testsuite {stamp}>{PASS}</testsuite>")
    words = ["load", tmp_path / "e2e.xml", "--payload", "p", "--job", "e2e"]
    assert node0_ci(*words) == 2
    assert "timestamp: there is none: say when the run began by --began TIME" in capsys.readouterr().err
    assert node0_ci(*words, "--began", "2026-11-23T22:00:00") == 0


@pytest.mark.parametrize(
    "text", ["", '[{"name": "t", "outcome": "fai', "null", "{}", '[{"name": "t", "outcome": "passed"}, 3]']
)
def test_outcomes_that_cannot_be_read_are_invalid(tmp_path, text):
    """A disk was full, or the run was killed while it wrote them: its phases say nothing about its tests."""
    artefacts(tmp_path / "sno", {}, tests=[{}])
    (tmp_path / "sno/tests.json").write_text(text)
    [run] = artifacts.load(tmp_path, "p")
    assert (run.outcome, run.reason) == (Outcome.VOID, "tests.json is damaged: what it said is not known")

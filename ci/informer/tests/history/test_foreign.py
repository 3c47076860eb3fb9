"""JUnit files as other programs write them."""

import pytest

from ci.informer.arithmetic.flakes import Outcome
from ci.informer.errors import InformerError
from ci.informer.history import junit

P, F, S = Outcome.PASSED, Outcome.FAILED, Outcome.SKIPPED
BEGAN = "2026-11-23T22:00:00Z"

#: Who writes it, the text, and what is in it: tests with their outcomes, seconds of the run.
FILES = {
    "pytest": (
        """<?xml version="1.0" encoding="utf-8"?><testsuites name="pytest tests"><testsuite name="pytest" errors="1"
        failures="1" skipped="1" tests="4" time="3.250" timestamp="2026-11-23T22:00:00.123456+00:00" hostname="h">
        <testcase classname="t.a" name="test_one[x-1]" time="0.1"/>
        <testcase classname="t.a" name="test_two" time="0.2"><failure message="assert 1 == 2">E  assert</failure>
        <system-out>noise</system-out></testcase>
        <testcase classname="t.a" name="test_three" time="0"><error message="failed on teardown">x</error></testcase>
        <testcase classname="t.a" name="test_four" time="0"><skipped type="pytest.xfail" message="later"/></testcase>
        </testsuite></testsuites>""",
        [("t.a::test_one[x-1]", P), ("t.a::test_two", F), ("t.a::test_three", F),
         ("t.a::test_four", S)],
        3.25,
    ),
    "Prow's steps": (
        """<testsuites><testsuite name="step graph" tests="2" failures="1" time="5400.5">
        <testcase name="Run multi-stage test pre phase" time="1200"/>
        <testcase name="Run multi-stage test test phase" time="4200.5"><failure message="">step failed</failure>
        </testcase></testsuite><testsuite name="cleanup" tests="0" time="0"/></testsuites>""",
        [("Run multi-stage test pre phase", P), ("Run multi-stage test test phase", F)],
        5400.5,
    ),
    "Surefire's reruns": (
        """<testsuite xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" name="T" time="1,234.5">
        <properties><property name="a" value="b"/></properties>
        <testcase name="flaky" classname="org.T" time="1.5"><flakyFailure message="first" type="java.lang.Error">
        <stackTrace>at org.T</stackTrace></flakyFailure></testcase>
        <testcase name="broken" classname="org.T" time="2"><failure type="java.lang.Error"/>
        <rerunFailure message="again" type="java.lang.Error"/></testcase></testsuite>""",
        [("org.T::flaky", F), ("org.T::flaky", P), ("org.T::broken", F), ("org.T::broken", F)],
        1234.5,
    ),
    "nested suites": (
        """<testsuites><testsuite name="a"><testsuite name="b"><testcase name="t" time="1"/>
        <testsuite name="c"><testcase name="u" time="2"><failure/></testcase></testsuite></testsuite></testsuite>
        <testsuite name="empty"/></testsuites>""",
        [("t", P), ("u", F)],
        3.0,
    ),
    "Zuul's subunit": (
        """<testsuite errors="0" failures="1" name="" tests="3" time="61.204">
        <testcase classname="tempest.api.ServersTest" name="test_list[id-51717b38]" time="30.100"/>
        <testcase classname="" name="setUpClass (tempest.scenario.VolumeTest)" time="31.104">
        <failure type="testtools.testresult.real._StringException"><![CDATA[_StringException: Traceback: <lost>]]>
        </failure></testcase><testcase classname="tempest.api.V6Test" name="test_v6" time="0.000">
        <skipped>no IPv6</skipped></testcase></testsuite>""",
        [("tempest.api.ServersTest::test_list[id-51717b38]", P), ("setUpClass (tempest.scenario.VolumeTest)", F),
         ("tempest.api.V6Test::test_v6", S)],
        61.204,
    ),
    "GitLab's report of RSpec": (
        """<testsuite name="rspec" tests="2" skipped="1" failures="0" errors="0" time="0.9" hostname="runner-1"
        timestamp="2026-11-23T23:00:00+01:00"><properties><property name="seed" value="8"/></properties>
        <testcase classname="spec.a" name="is \N{SNOWMAN}" file="./spec/a_spec.rb" time="0.4"></testcase>
        <testcase classname="spec.a" name="waits" file="./spec/a_spec.rb" time="0.5"><skipped/></testcase>
        </testsuite>""",
        [("spec.a::is \N{SNOWMAN}", P), ("spec.a::waits", S)],
        0.9,
    ),
    "Ginkgo, as Prow and Jenkins show it": (
        """<testsuites tests="3" disabled="1" errors="1" failures="0" time="12.5"><testsuite name="e2e" package="/e2e"
        tests="3" skipped="1" errors="1" time="12.5" timestamp="2026-11-23T22:00:00"><properties/>
        <testcase name="[It] nodes [sig-node]" classname="e2e" status="passed" time="2"/>
        <testcase name="[It] pods" classname="e2e" status="timedout" time="10.5"><error message="timed out"
        type="timedout">[TIMEDOUT]</error><system-err>log</system-err></testcase>
        <testcase name="[It] later" classname="e2e" status="pending" time="0"><skipped message="pending"/></testcase>
        </testsuite></testsuites>""",
        [("e2e::[It] nodes [sig-node]", P), ("e2e::[It] pods", F), ("e2e::[It] later", S)],
        12.5,
    ),
    "GoogleTest": (
        """<testsuites tests="2" time="0.5" timestamp="2026-11-23T22:00:00"><testsuite name="S" tests="2">
        <testcase name="Runs" status="run" result="completed" time="0.5" classname="S"/>
        <testcase name="DISABLED_No" status="notrun" result="suppressed" time="0." classname="S"/>
        </testsuite></testsuites>""",
        [("S::Runs", P), ("S::DISABLED_No", S)],
        0.5,
    ),
    "a namespace, and a failure behind a skip": (
        """<testsuite xmlns="urn:junit"><testcase name="t"><skipped>no</skipped><failure message="boom"/></testcase>
        </testsuite>""",
        [("t", F)],
        0.0,
    ),
    "no times at all, tests without a suite": (
        """<testsuites><testcase name="t"/><testcase time="soon" name=""><error type="Timeout"/></testcase>
        </testsuites>""",
        [("t", P), ("(no name)", F)],
        0.0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_foreign_files_are_loaded(tmp_path, name):
    text, attempts, seconds = FILES[name]
    (tmp_path / "junit.xml").write_text(text)
    run = junit.load([tmp_path / "junit.xml"], "e2e", "4.20.1", BEGAN)
    assert [(attempt.test, attempt.outcome) for attempt in run.attempts] == attempts
    assert run.seconds == seconds


@pytest.mark.parametrize(
    ("name", "reason"), [("Surefire's reruns", "first"), ("no times at all, tests without a suite", "Timeout")]
)
def test_a_failure_without_a_message_has_its_text_or_type(tmp_path, name, reason):
    (tmp_path / "junit.xml").write_text(FILES[name][0])
    assert junit.load([tmp_path / "junit.xml"], "e2e", "4.20.1", BEGAN).reason == reason


def test_surefire_s_flaky_failure_is_a_flake(tmp_path):
    text = '<testsuite><testcase name="t"><flakyError message="m"/></testcase></testsuite>'
    (tmp_path / "junit.xml").write_text(text)
    assert junit.load([tmp_path / "junit.xml"], "e2e", "4.20.1", BEGAN).outcome is Outcome.FLAKE


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (b"", "not a JUnit file: no element found"),
        (b"<testsuites>", "not a JUnit file: no element found"),
        (b"<testsuite><testcase></testsuite>", "not a JUnit file: mismatched tag"),
        (b"\x1f\x8b\x08\x00gzip", "not a JUnit file: not well-formed"),
        (b'<?xml version="1.0" encoding="klingon"?><testsuites/>', "not a JUnit file: unknown encoding"),
        (b"<html><body/></html>", "its root is html, not testsuites or testsuite"),
        (b"<testsuites><testsuite/></testsuites>", "testcase: there is none"),
        (
            b'<testsuite timestamp="Mon Nov 23 2026"><testcase name="t"/></testsuite>',
            "timestamp: 'Mon Nov 23 2026' is no time in ISO 8601: say it by --began TIME",
        ),
        (b"<testsuite>" * 3000 + b'<testcase name="t"/>' + b"</testsuite>" * 3000, "nest too deeply"),
    ],
)
def test_files_that_are_no_junit_are_refused_in_one_line(tmp_path, content, rule):
    path = tmp_path / "junit.xml"
    path.write_bytes(content)
    with pytest.raises(InformerError) as caught:
        junit.load([path], "e2e", "4.20.1")
    assert str(caught.value).startswith(f"{path}: ")
    assert rule in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_user_says_when_it_began(tmp_path):
    path = tmp_path / "junit.xml"
    path.write_text('<testsuite timestamp="Mon Nov 23"><testcase name="t"/></testsuite>')
    assert junit.load([path], "e2e", "4.20.1", "2026-11-23T23:00:00+01:00").began == "2026-11-23T22:00:00Z"
    with pytest.raises(InformerError, match="--began: 'now' is no time"):
        junit.load([path], "e2e", "4.20.1", "now")

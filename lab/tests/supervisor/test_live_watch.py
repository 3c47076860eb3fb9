"""A lab that itself fails: told at once, and no verdict on what was tested in it. Real labs; needs root and daemons."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from functools import partial
from pathlib import Path

import pytest

from lab import topology
from lab.commands import cli
from lab.errors import DaemonEndedError, LabGoneError
from lab.evidence import record, report, summary
from lab.faults import Outage
from lab.host import preflight
from lab.host.records import State, look_at
from lab.lab import Lab
from lab.supervisor import watch
from lab.supervisor.plan import Ended
from lab.testing.live import gone, pid_of, small
from lab.waiting import wait_until

PROBLEMS = preflight.problems(topology.sno(), Path("/"), "")
live = [
    pytest.mark.lab,
    pytest.mark.skipif(bool(PROBLEMS), reason=f"this machine cannot run a lab: {'; '.join(PROBLEMS)}"),
]
ROOT = Path(__file__).parents[3]
SERVICES = ("registry", "libvirtd", "dnsmasq", "chronyd", "bmc", "http", "console-clock")


def on_this_lab(function):
    for mark in live:
        function = mark(function)
    return function


def said_of(caplog, word):
    return [r.getMessage() for r in caplog.records if r.name == "lab.supervisor.watch" and word in r.getMessage()]


@on_this_lab
def test_each_daemon_that_ends_is_told_at_once_with_its_last_lines(tmp_path, caplog):
    with Lab(small(topology.sno()), artifacts=tmp_path) as lab:
        for count, name in enumerate(SERVICES, start=1):
            os.kill(pid_of(lab, name), signal.SIGKILL)
            # By the watch alone: nobody asks the lab anything.
            wait_until(partial(said_of, caplog, f"{name} was killed by SIGKILL at "), 20, f"word of {name}", poll=0.05)
            assert len(lab.ended()) == count
        assert [ended.service for ended in lab.ended()] == list(SERVICES)
        assert len(said_of(caplog, "void")) == len(SERVICES), "each is told once"
        [message] = said_of(caplog, "registry was killed")
        assert re.search(r"Its last lines:\n {4}.*listening on", message, re.S), message
        with pytest.raises(
            DaemonEndedError, match=r"itself failed: registry was killed by SIGKILL at \d\d:.*; libvirtd"
        ):
            lab.run(["true"], timeout=10)
        with pytest.raises(DaemonEndedError):
            lab.inside(os.getpid)
        lab.collect()
    text = (tmp_path / record.LAB_FAILED).read_text()
    assert text.startswith("registry was killed by SIGKILL at ")
    page = (tmp_path / report.PAGE).read_text()
    assert page.index("The lab itself failed") < page.index("<table>")
    assert [ended.service for ended in lab.ended()] == list(SERVICES), "it is known after the lab's end"


@on_this_lab
def test_a_command_that_waits_for_a_dead_daemon_is_not_waited_for(tmp_path):
    with Lab(small(topology.sno()), artifacts=tmp_path) as lab:
        began = threading.Event()

        def kill_it():
            logs = tmp_path / "commands"
            wait_until(lambda: any("\nbegun" in p.read_text() for p in logs.iterdir()), 20, "it to begin", poll=0.05)
            began.set()
            os.kill(pid_of(lab, "dnsmasq"), signal.SIGTERM)

        thread = threading.Thread(target=kill_it)
        thread.start()
        with pytest.raises(DaemonEndedError, match="dnsmasq ended by itself at"):
            lab.run(["sh", "-c", "echo begun; sleep 600"], timeout=120)
        thread.join()
        assert began.is_set()
        with pytest.raises(DaemonEndedError):
            wait_until(lambda: lab.run(["true"], timeout=10), 600, "what will never come")
        with pytest.raises(DaemonEndedError):
            lab.nodes["master-0"].console.wait_for("login:", 600)


@on_this_lab
def test_what_was_asked_to_end_is_no_failure(tmp_path, caplog):
    with Lab(small(topology.sno()), artifacts=tmp_path) as lab:
        with lab.fault(Outage("registry")):
            assert lab.services.running()["registry"] is False
        assert lab.services.running()["registry"] is True
        assert lab.run(["true"], timeout=10).returncode == 0
        assert lab.ended() == []
    assert said_of(caplog, "") == []
    assert not (tmp_path / record.LAB_FAILED).exists()


@pytest.mark.parametrize("who", ["supervisor", "init"])
@on_this_lab
def test_a_lab_that_ends_as_a_whole_is_told(tmp_path, caplog, capsys, who):
    lab = Lab(small(topology.sno()), tmp_path)
    with lab:
        supervisor, started = lab.supervisor
        os.kill(supervisor if who == "supervisor" else lab.init, signal.SIGKILL)
        wait_until(lambda: said_of(caplog, "the lab "), 20, "the watch to notice", poll=0.05)
        with pytest.raises(DaemonEndedError, match="itself failed: the lab "):
            lab.run(["true"], timeout=10)
        gone(supervisor, started)
        assert look_at(lab.layout.root).state is State.ENDED
        assert cli.main(["ls"]) == 0
        output = capsys.readouterr().out
        if who == "init":
            assert f"{lab.id}  has ended unexpectedly; `node0-lab gc` removes its remains" in output
            assert f"{lab.id}  FAILED: the lab was killed by SIGKILL at " in output
            with pytest.raises(LabGoneError, match="has ended: the lab was killed by SIGKILL at"):
                Lab.attach(lab.id)
    assert not lab.layout.root.exists()


@on_this_lab
def test_ls_tells_of_a_kept_labs_dead_daemon(tmp_path, capsys):
    shape = tmp_path / "mine.yaml"
    shape.write_text(small(topology.sno(firmware="bios")).dump())
    assert cli.main(["up", str(shape), "--artifacts", str(tmp_path / "artifacts")]) == 0
    lab_id = re.search(r"down --lab (\S+)", capsys.readouterr().out)[1]
    try:
        with Lab.attach(lab_id) as lab:
            os.kill(pid_of(lab, "bmc"), signal.SIGKILL)
            wait_until(lab.ended, 20, "it to be noticed", poll=0.05)
        assert cli.main(["ls"]) == 0
        output = capsys.readouterr().out
        assert re.search(rf"^{lab_id}  FAILED: bmc was killed by SIGKILL at \d\d:\d\d:\d\d: \S", output, re.M), output
        assert cli.main(["collect", "--lab", lab_id, str(tmp_path / "evidence")]) == 0
        assert "bmc was killed" in (tmp_path / "evidence" / record.LAB_FAILED).read_text()
    finally:
        assert cli.main(["down", "--lab", lab_id]) == 0


# The scenarios' own wiring around a real lab, whose registry ends while something waits for it.
CONFTEST = """
import pytest
from pathlib import Path
from scenarios.conftest import *
from scenarios.conftest import _deployed
import scenarios.conftest as wiring
from lab.subject import Subject
from lab.subject.options import Chosen
from lab.testing.live import small

named = wiring.topology_of
wiring.topology_of = lambda scenario_id, _sized: small(named(scenario_id.removesuffix("-x")))

@pytest.fixture(scope="session")
def chosen(tmp_path_factory):
    return Chosen(Subject("1", "x@sha256:0", tmp_path_factory.mktemp("storage"), ()), ("node0",))
"""
TESTS = """
import os, signal
import pytest
from lab.testing.live import pid_of

@pytest.mark.parametrize("deployment", ["compact-ipv4-static-bios"], indirect=True)
def test_that_waits(deployment):
    os.kill(pid_of(deployment.lab, "registry"), signal.SIGKILL)
    completed = deployment.lab.run(["sleep", "600"], timeout=120)
    assert completed.returncode == 0

@pytest.mark.parametrize("deployment", ["compact-ipv4-dhcp-bios"], indirect=True)
def test_that_would_have_passed(deployment):
    os.kill(pid_of(deployment.lab, "chronyd"), signal.SIGKILL)
    while not deployment.lab.ended():
        pass

@pytest.mark.parametrize("deployment", ["compact-ipv4-static-uefi"], indirect=True)
def test_that_fails_by_itself(deployment):
    assert deployment.lab is None, "a defect of what is tested"

@pytest.mark.parametrize("deployment", ["compact-ipv4-dhcp-uefi"], indirect=True)
def test_that_passes(deployment):
    assert deployment.lab.run(["true"], timeout=10).returncode == 0
"""


def _ran(tmp_path, tests, workers):
    """Run these tests as scenarios are run; all of the process's end."""
    folder = tmp_path / "t"
    folder.mkdir()
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_x.py").write_text(tests)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n  nightly: x\n  disruptive: x\n  lab: x\n")
    with tempfile.TemporaryDirectory(prefix="n0-") as state:
        env = os.environ | {
            "PYTHONPATH": str(ROOT),
            "NODE0_STATE": state,
            "NODE0_CACHE": str(tmp_path / "cache"),
            "NODE0_BUDGET": str(tmp_path / "budget.json"),
        }
        argv = [sys.executable, "-m", "pytest", "-n", workers, "-p", "no:cacheprovider", "--nightly", str(folder)]
        argv.append(f"--artifacts={tmp_path / 'artifacts'}")
        return subprocess.run(argv, env=env, cwd=folder, capture_output=True, text=True, timeout=300, check=False)


INTERRUPTED = """
import os, signal, threading
import pytest

@pytest.mark.parametrize("deployment", ["compact-ipv4-static-bios"], indirect=True)
def test_that_is_interrupted(deployment):
    threading.Timer(0.5, os.kill, (os.getpid(), signal.{number})).start()
    {wait}
"""
IN_A_PHASE = 'with deployment.lab.phase("install"): deployment.lab.run(["sleep", "100"], timeout=100)'


@pytest.mark.parametrize(
    ("number", "wait", "phase"),
    [
        ("SIGINT", IN_A_PHASE, "install"),
        ("SIGTERM", 'deployment.lab.run(["sleep", "100"], timeout=100)', "interruption"),
    ],
)
@on_this_lab
def test_an_interrupted_run_is_invalid_and_leaves_its_evidence(tmp_path, number, wait, phase):
    """Four runs that Ctrl-C had ended were remembered as failures, two of them the product's."""
    completed = _ran(tmp_path, INTERRUPTED.format(number=number, wait=wait), "0")
    assert completed.returncode == pytest.ExitCode.INTERRUPTED, completed.stdout
    [run] = record.runs(tmp_path / "artifacts")
    assert (run.outcome, run.phases[-1]["name"]) == ("interrupted", phase)
    assert (run.folder / "missing.txt").exists(), "the evidence was collected"
    assert f"during {phase!r}" in (tmp_path / "artifacts" / summary.SUMMARY).read_text()
    assert run.about[record.COMMAND].endswith("-k '[compact-ipv4-static-bios]'")


@pytest.mark.parametrize("workers", ["0", "1"])
@on_this_lab
def test_a_scenario_in_a_lab_that_fails_is_void(tmp_path, workers):
    completed = _ran(tmp_path, TESTS, workers)
    output = completed.stdout
    assert completed.returncode == 1
    assert re.search(r"= 1 failed, 1 passed, 2 errors in ", output), output
    assert re.search(
        r"lab compact-\w+: registry was killed by SIGKILL at .*Its last lines:\n {4}\S", completed.stderr, re.S
    )
    # Apart from what failed: an own section, with what ended.
    section = output[output.index("the lab itself failed: void, neither passed nor failed; run again") :]
    assert re.search(r"^compact-ipv4-static-bios: .*registry was killed by SIGKILL at ", section, re.M), section
    assert re.search(r"^compact-ipv4-dhcp-bios: .*chronyd was killed by SIGKILL at ", section, re.M), section
    assert "compact-ipv4-static-uefi:" not in section
    assert re.search(r"^VOID test_x.py::test_that_waits", output, re.M), output
    assert re.search(r"^FAILED test_x.py::test_that_fails_by_itself", output, re.M), output

    def outcomes(scenario):
        tests = json.loads((tmp_path / "artifacts" / scenario / record.TESTS).read_text())
        return {test["name"]: test["outcome"] for test in tests}

    assert outcomes("compact-ipv4-static-bios") == {"test_that_waits": "void"}
    assert outcomes("compact-ipv4-dhcp-bios") == {"test_that_would_have_passed": "void"}
    assert outcomes("compact-ipv4-static-uefi") == {"test_that_fails_by_itself": "failed"}
    page = (tmp_path / "artifacts" / report.PAGE).read_text()
    assert page.index("registry was killed by SIGKILL") < page.index("<h2 id=")


@pytest.mark.parametrize(
    ("code", "words"),
    [(0, "x ended by itself at 01:02:03"), (3, "x ended with exit code 3 at"), (-9, "x was killed by SIGKILL at")],
)
def test_how_something_ended_is_said(code, words):
    assert words in watch.described(Ended("x", code, "01:02:03"))


def test_the_end_of_a_log_is_its_last_lines_and_little_however_long_they_are(tmp_path):
    log = tmp_path / "dnsmasq.log"
    assert watch.tail_of(log) == ""
    log.write_bytes(b"".join(b"%d\n" % line for line in range(100_000)))
    assert watch.tail_of(log) == "\n".join(str(line) for line in range(100_000 - watch.TAIL_LINES, 100_000))
    log.write_bytes(b"short\n\xff" + b"x" * (1 << 20) + b"end\n")
    tail = watch.tail_of(log)
    assert tail.endswith("xend")
    assert len(tail) < 20_000


def test_a_line_that_is_still_being_written_is_not_read(tmp_path):
    assert watch.noted(tmp_path) == []
    watch.note(tmp_path, Ended("x", 1, "01:02:03", "tail"))
    with (tmp_path / watch.FILE).open("a") as file:
        file.write('{"service": "y", "co')
    assert watch.noted(tmp_path) == [Ended("x", 1, "01:02:03", "tail")]


def test_a_void_run_is_none_that_passed_or_failed(tmp_path):
    folder = tmp_path / "sno-a"
    folder.mkdir()
    (folder / "phases.json").write_text('[{"name": "install", "outcome": "failed", "seconds": 1}]')
    (folder / "tests.json").write_text('[{"name": "t", "outcome": "failed", "seconds": 1, "message": "<b>"}]')
    [run] = record.runs(tmp_path)
    assert run.outcome == "failed"
    (folder / record.LAB_FAILED).write_text("registry <was> killed")
    [run] = record.runs(tmp_path)
    assert run.outcome == "void"
    page = report.write(tmp_path).read_text()
    assert "registry &lt;was&gt; killed" in page
    assert page.index("run is invalid") < page.index("<table>")


@pytest.mark.parametrize("line", ['{"service":"dns","exit":1}', "[" * 5000, "\\", '"x"'])
def test_what_another_version_noted_is_told_as_it_is(tmp_path, line):
    watch.note(tmp_path, Ended("x", 1, "01:02:03", "tail"))
    with (tmp_path / watch.FILE).open("a") as file:
        file.write(f"{line}\n")
    first, other = watch.noted(tmp_path)
    assert first.service == "x"
    assert other.tail == line[:200]
    assert watch.described(other).startswith("a daemon ended")


def test_a_signal_without_a_name_has_its_number():
    assert "was killed by signal 35 at" in watch.described(Ended("x", -35, "01:02:03"))

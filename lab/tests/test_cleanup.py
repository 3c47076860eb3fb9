"""Steps at the end: all are done, and the cause stays what it is."""

import json
import logging

import pytest

from lab import lab, topology
from lab.cleanup import afterwards, finish
from lab.commands import cli
from lab.connection import Connection
from lab.errors import CommandTimeoutError, LabError, LabStartError
from lab.evidence import bundle as evidence
from lab.evidence import phases
from lab.host import budget, records
from lab.host.process import end_group, run_streaming
from lab.lab import Lab


class Steps:
    """Steps that note that they were done; those named in `bad` fail then."""

    def __init__(self, *bad, error=OSError):
        self.done = []
        self._bad = bad
        self._error = error

    def step(self, name):
        def do():
            self.done.append(name)
            if name in self._bad:
                raise self._error(f"{name} is bad")

        return name, do

    def all(self):
        return [self.step(name) for name in "abc"]


def test_a_step_that_fails_skips_no_other_and_the_first_error_tells_of_the_rest(caplog):
    steps = Steps("a", "b")
    with pytest.raises(OSError, match="a is bad") as caught:
        finish(*steps.all())
    assert steps.done == ["a", "b", "c"]
    assert caught.value.__notes__ == ["could not a", "could not b: OSError: b is bad"]
    assert "could not b: OSError: b is bad" in caplog.text


def test_the_cause_is_what_is_raised():
    steps = Steps("b")
    with pytest.raises(ValueError, match="the cause") as caught, afterwards(*steps.all()):
        raise ValueError("the cause")
    assert steps.done == ["a", "b", "c"]
    assert caught.value.__notes__ == ["could not b: OSError: b is bad"]


def test_without_an_error_nothing_is_said(caplog):
    caplog.set_level(logging.DEBUG)
    steps = Steps()
    with afterwards(*steps.all()):
        pass
    assert steps.done == ["a", "b", "c"]
    assert caplog.text == ""


@pytest.mark.parametrize("cause", [None, ValueError("the cause")])
def test_an_interrupt_ends_the_program_after_all_steps(cause):
    steps = Steps("b", error=KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt) as caught:
        finish(*steps.all(), cause=cause)
    assert steps.done == ["a", "b", "c"]
    assert caught.value.__cause__ is cause


@pytest.fixture(autouse=True)
def own_places(tmp_path, monkeypatch):
    monkeypatch.setenv("NODE0_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("NODE0_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NODE0_BUDGET", str(tmp_path / "budget.json"))
    monkeypatch.setenv("NODE0_BUDGET_MIB", "65536")
    monkeypatch.setattr(lab.preflight, "check", lambda *_a: None)


def entries():
    return budget.Ledger(lab.budget_file(), budget.Amount()).entries()


def full_disk(*_arguments):
    raise OSError(28, "No space left on device")


@pytest.fixture
def no_start(monkeypatch):
    """Labs whose start fails once their directory is there."""

    def prepare(*_arguments):
        raise LabStartError("the registry did not come up", service="registry")

    monkeypatch.setattr(lab.services, "prepare", prepare)


def test_a_lab_that_does_not_start_leaves_nothing_when_its_logs_cannot_be_kept(tmp_path, monkeypatch, no_start):
    monkeypatch.setattr(evidence, "keep_logs", full_disk)
    failed = Lab(topology.sno(), tmp_path / "artifacts")
    with pytest.raises(LabStartError, match="the registry did not come up") as caught:
        failed.start()
    assert caught.value.__notes__ == ["could not keep its logs: OSError: [Errno 28] No space left on device"]
    assert entries() == []
    assert [lab_dir.id for lab_dir in records.look()] == []
    assert list(records.labs_dir().iterdir()) == [records.labs_dir() / ".lock"]


def test_no_artefacts_directory_gives_the_memory_back(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        Lab(topology.sno(), tmp_path / "file/artifacts").start()
    assert entries() == []


@pytest.mark.parametrize("step", ["end_watch", "leave_hypervisor", "leave_namespaces"])
def test_whatever_fails_at_a_labs_end_its_files_and_its_share_go(tmp_path, monkeypatch, no_start, step):
    monkeypatch.setattr(Connection, step, full_disk)
    with pytest.raises(LabStartError) as caught:
        Lab(topology.sno(), tmp_path / "artifacts").start()
    assert "No space left" in caught.value.__notes__[0]
    assert entries() == []
    assert records.look() == []


def test_an_unwritable_ledger_hides_no_cause_and_keeps_no_lab(tmp_path, monkeypatch, no_start):
    monkeypatch.setattr(budget.Ledger, "give_back", full_disk)
    with pytest.raises(LabStartError):
        Lab(topology.sno(), tmp_path / "artifacts").start()
    assert records.look() == []


def test_a_phase_that_cannot_be_written_hides_no_failure(tmp_path, monkeypatch):
    kept = phases.Phases(tmp_path / "phases.json")

    def fail():
        with kept.phase("install"):
            monkeypatch.setattr(phases.Phases, "write", full_disk)
            raise ValueError("the cause")

    with pytest.raises(ValueError, match="the cause"):
        fail()
    monkeypatch.undo()
    with kept.phase("next"):
        pass
    assert [(e["name"], e["depth"]) for e in json.loads((tmp_path / "phases.json").read_text())][1] == ("next", 0)


class Fault:
    """One that cannot be ended."""

    def begin(self, _lab):
        """All is well."""

    def end(self, _lab):
        raise LabError("no such thing")


def test_a_fault_that_cannot_be_ended_hides_no_failure(tmp_path):
    def fail():
        with Lab(topology.sno(), tmp_path).fault(Fault()):
            raise AssertionError("what was tested")

    with pytest.raises(AssertionError, match="what was tested") as caught:
        fail()
    assert "LabError: no such thing" in caught.value.__notes__[0]


def test_a_command_that_cannot_be_ended_hides_no_interrupt(tmp_path, monkeypatch):
    monkeypatch.setattr("lab.host.process.end_group", lambda process, **_: (end_group(process), full_disk()))

    def check():
        raise CommandTimeoutError(["x"], 1, "")

    with pytest.raises(CommandTimeoutError) as caught:
        run_streaming(["sleep", "1"], log_file=tmp_path / "log", timeout=10, env={"PATH": "/bin:/usr/bin"}, check=check)
    assert "could not end the command" in caught.value.__notes__[0]


def test_notes_reach_the_terminal(tmp_path, monkeypatch, no_start, capsys):
    monkeypatch.setattr(evidence, "keep_logs", full_disk)
    assert cli.main(["up", "sno", "--artifacts", str(tmp_path / "artifacts")]) == 1
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("node0-lab:")]
    assert lines == [
        "node0-lab: the registry did not come up",
        "node0-lab: also, could not keep its logs: OSError: [Errno 28] No space left on device",
    ]

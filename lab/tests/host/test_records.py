"""Removal of labs: those that are proven dead, and no other, whoever made them."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from lab import topology
from lab.commands import cli
from lab.errors import LabError, UnknownLabError
from lab.host import records
from lab.host.identity import boot_id, this_process
from lab.host.records import State


@pytest.fixture(autouse=True)
def own_places(tmp_path, monkeypatch):
    monkeypatch.setenv("NODE0_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("NODE0_BUDGET", str(tmp_path / "budget.json"))


def record(lab_id, supervisor=None, owner=None):
    return records.Record(
        id=lab_id,
        topology=topology.sno(),
        owner=owner or this_process(),
        created=time.time(),
        artifacts="/nowhere",
        supervisor=supervisor,
    )


def create(lab_id, **more):
    """Return a lab of this process; the descriptor that it lives by."""
    return records.create(record(lab_id, **more))


def old(lab_id, text):
    """Return a lab of a version that knew no locks, with that record."""
    folder = records.labs_dir() / lab_id
    (folder / "disks").mkdir(parents=True)
    (folder / "disks/master-0.raw").write_bytes(b"precious")
    if text is not None:
        (folder / "lab.json").write_text(text)
    return folder


def states():
    return {lab_dir.id: lab_dir.state for lab_dir in records.look()}


def test_a_new_lab_has_no_name_that_another_one_has(monkeypatch):
    os.close(create("sno-aaaa"))
    drawn = iter(["aaaa", "aaaa", "bbbb"])
    monkeypatch.setattr("secrets.token_hex", lambda _bytes: next(drawn))
    assert records.new_id(topology.sno()) == "sno-bbbb"


def test_a_lab_lives_as_long_as_somebody_has_its_descriptor():
    fd = create("mine-1")
    # The record says that it is dead: the lock knows better.
    pid, started = this_process()
    records.read("mine-1").__class__.save(record("mine-1", supervisor=(pid, started + 1)))
    assert states() == {"mine-1": State.RUNS}
    assert records.reap() == []
    other = os.dup(fd)
    os.close(fd)
    assert states() == {"mine-1": State.RUNS}
    os.close(other)
    assert states() == {"mine-1": State.ENDED}
    [line] = records.reap()
    assert line.startswith("removed the remains of lab mine-1, ")
    assert states() == {}


@pytest.mark.parametrize(
    "text",
    [
        '{"id": "new-1", "version": 9}',
        '{"id": "new-1", "topology": {"nodes": [{"name": "a", "tpm": true}]}}',
        '{"x": ' + "[" * 200_000,
        "[]",
        "{",
        "",
        None,
    ],
)
@pytest.mark.parametrize("locked", [True, False])
def test_a_running_lab_whose_record_cannot_be_read_is_kept(text, locked):
    if locked:
        fd = create("new-1")
        folder = records.labs_dir() / "new-1"
        if text is None:
            (folder / "lab.json").unlink()
        else:
            (folder / "lab.json").write_text(text)
        (folder / "disks").mkdir()
        (folder / "disks/master-0.raw").write_bytes(b"precious")
    else:
        fd, folder = None, old("new-1", text)
    assert records.reap() == []
    assert (folder / "disks/master-0.raw").read_bytes() == b"precious"
    [line] = records.unclear()
    assert line.startswith(f"lab new-1 {'runs' if locked else 'is kept, since nothing proves it dead'}")
    assert "its record" in line
    assert ("rm -r" in line) is not locked
    with pytest.raises(UnknownLabError, match="its record"):
        records.read("new-1")
    if fd is not None:
        os.close(fd)
        assert len(records.reap()) == 1, "it has ended: that its record cannot be read is no reason to keep it"


def test_a_lab_of_before_there_were_locks_is_judged_by_its_record():
    pid, started = this_process()
    for lab_id, supervisor in (("old-alive", (pid, started)), ("old-dead", (pid, started - 5))):
        old(lab_id, msgspec.json.encode(record(lab_id, supervisor=supervisor)).decode())
    assert states() == {"old-alive": State.RUNS, "old-dead": State.ENDED}
    assert len(records.reap()) == 1
    assert [lab_dir.id for lab_dir in records.look()] == ["old-alive"]


def test_a_lock_that_cannot_be_looked_at_proves_nothing(monkeypatch):
    os.close(create("locked-1"))
    opened = os.open

    def refuse(path, *arguments, **more):
        if Path(path).name == "alive":
            raise PermissionError(13, "Permission denied")
        return opened(path, *arguments, **more)

    monkeypatch.setattr(os, "open", refuse)
    assert states() == {"locked-1": State.UNKNOWN}
    assert records.reap() == []


def test_a_lab_that_is_being_made_is_there_at_once_with_all_that_proves_it(monkeypatch):
    """Killed between any two steps, its maker leaves nothing that looks like a lab."""
    seen = []
    saved = records.Record.save

    def save(self, folder=None):
        seen.append(sorted(path.name for path in records.labs_dir().iterdir() if not path.name.startswith(".")))
        saved(self, folder)
        raise KeyboardInterrupt

    monkeypatch.setattr(records.Record, "save", save)
    with pytest.raises(KeyboardInterrupt):
        create("half-1")
    assert seen == [[]]
    assert states() == {}
    monkeypatch.undo()


def test_what_a_killed_maker_or_remover_left_goes(tmp_path, monkeypatch):
    monkeypatch.setenv("NODE0_STATE", str(tmp_path / "state"))
    for name in (".new-x-1", ".dead-x-2"):
        (records.labs_dir() / name / "disks").mkdir(parents=True)
    assert records.look() == []
    records.reap()
    assert [path.name for path in records.labs_dir().iterdir()] == [".lock"]


def test_a_dead_lab_that_left_something_elsewhere_is_kept_until_that_is_gone(monkeypatch, tmp_path, capsys):
    """Its directory is what the next one finds it by."""
    for lab_id in ("left-1", "left-2"):
        os.close(create(lab_id))
    left = {"left-1": "its control groups cannot be removed: busy"}
    lines = records.reap(lambda lab_id: left.get(lab_id, ""))
    assert lines[0] == "lab left-1 has ended and is kept: its control groups cannot be removed: busy"
    assert lines[1].startswith("removed the remains of lab left-2, ")
    assert states() == {"left-1": State.ENDED}
    # What removes groups says so by its exit code.
    (program := tmp_path / "python").write_text("#!/bin/sh\necho traceback >&2; echo 'OSError: busy' >&2; exit 1\n")
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    assert cli.main(["gc"]) == 0
    assert "lab left-1 has ended and is kept: its control groups cannot be removed: OSError: busy" in (
        capsys.readouterr().out
    )
    assert states() == {"left-1": State.ENDED}
    assert len(records.reap()) == 1
    assert states() == {}


def test_a_lab_that_is_half_removed_is_no_lab(monkeypatch):
    os.close(create("going-1"))
    monkeypatch.setattr(records.shutil, "rmtree", lambda *_a, **_k: None)
    assert len(records.reap()) == 1
    assert states() == {}, "half of it must not be taken for a lab of which nothing is known"


CHILD = """
import os, sys, time
from lab import topology
from lab.host import records
from lab.host.identity import this_process
fd = records.create(records.Record(
    id="theirs-1", topology=topology.sno(), owner=this_process(), created=time.time(), artifacts="/"
))
if sys.argv[1] == "supervisor":
    records.claim(fd, "supervisor")
print("made", flush=True)
time.sleep(600)
"""


def child(role):
    process = subprocess.Popen([sys.executable, "-c", CHILD, role], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "made\n"
    return process


@pytest.mark.parametrize("readable", [True, False])
def test_a_killed_labs_lock_is_gone_with_it(readable):
    with child("owner") as process:
        if not readable:
            (records.labs_dir() / "theirs-1/lab.json").write_text("{}")
        assert states() == {"theirs-1": State.RUNS}
        process.kill()
        process.wait()
    assert states() == {"theirs-1": State.ENDED}


@pytest.mark.parametrize("readable", [True, False])
def test_a_lab_of_any_version_can_be_ended(readable):
    with child("supervisor") as process:
        if not readable:
            (records.labs_dir() / "theirs-1/lab.json").write_text('{"id": "theirs-1", "version": 9}')
        records.end("theirs-1", 20)
        assert process.wait(20) == -signal.SIGTERM
    records.end("theirs-1", 20)
    with pytest.raises(UnknownLabError, match="no lab 'nobodys-1' here"):
        records.end("nobodys-1", 20)


def test_a_lab_that_is_being_made_cannot_be_ended():
    with child("owner") as process:
        with pytest.raises(LabError, match="theirs-1 is still being made"):
            records.end("theirs-1", 20)
        assert process.poll() is None
        process.kill()


def test_a_pid_of_another_boot_is_nobodys(monkeypatch):
    fd = create("before-1")
    pid, started = this_process()
    os.pwrite(fd, f"supervisor {pid} {started} another-boot\n".encode(), 0)
    assert records.supervisor_of(records.labs_dir() / "before-1") is None
    os.pwrite(fd, f"supervisor {pid} {started} {boot_id()} what a later version adds\n".encode(), 0)
    assert records.supervisor_of(records.labs_dir() / "before-1") == (pid, started)
    os.close(fd)


def test_the_lock_of_a_reader_is_no_running_lab():
    """Two that look at once must not take each other for a living lab."""
    os.close(create("seen-1"))
    fd = os.open(records.labs_dir() / "seen-1/alive", os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_SH)
    assert states() == {"seen-1": State.ENDED}
    os.close(fd)


def test_ls_and_gc_tell_of_labs_that_they_do_not_understand(capsys):
    fd = create("new-1")
    (records.labs_dir() / "new-1/lab.json").write_text(json.dumps({"id": "new-1", "version": 9}))
    kept = old("older-1", "{")
    assert cli.main(["ls"]) == 0
    output = capsys.readouterr().out
    assert "new-1  lab new-1 runs; its record is not one of this version" in output
    assert "1 lab(s)" in output
    assert cli.main(["gc"]) == 0
    output = capsys.readouterr().out
    assert f"lab older-1 is kept, since nothing proves it dead (to remove it: rm -r {kept}); its record" in output
    assert "0 dead lab(s) removed" in output
    assert kept.is_dir()
    os.close(fd)

"""The limits of what is collected of a machine, which may be anybody's."""

import tracemalloc
from types import SimpleNamespace

import pytest

from drivers.ssh import connect, write_config
from installer.common.redact import redactor
from lab.evidence import bundle


@pytest.fixture
def node(tmp_path):
    """Provide a machine whose ssh is this script, with the words of a command as its arguments."""

    def make(script):
        program = tmp_path / "ssh-stand-in"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        write_config(tmp_path / "config", tmp_path / "key", tmp_path)
        host = connect("192.0.2.1", [str(program)], tmp_path / "config")
        console = SimpleNamespace(log=tmp_path / "console.log")
        return SimpleNamespace(name="master-0", console=console, ssh=lambda timeout: host)

    return make


ANSWER = 'case "$*" in *" true") ;;'


def test_a_machine_does_not_fill_the_disk(node, tmp_path, monkeypatch):
    monkeypatch.setattr("drivers.ssh.MOST_BYTES", 1 << 16)
    monkeypatch.setattr(bundle, "ALL_BYTES", 3 << 16)
    collector = bundle.Collector(None, tmp_path / "evidence")
    collector.inside(node(f"{ANSWER} *) exec yes;; esac"))
    files = [path.stat().st_size for path in (tmp_path / "evidence/nodes/master-0").iterdir()]
    assert sum(files) <= 3 << 16
    assert len(files) == 3
    assert len(collector.missing) == len(bundle.COMMANDS) - 3
    assert "used up" in collector.missing[-1]


def test_a_machine_does_not_fill_the_memory(node, tmp_path, monkeypatch):
    """A line without an end is looked at in pieces."""
    monkeypatch.setattr(redactor, "PIECE", 1 << 10)
    monkeypatch.setattr(redactor, "LONGEST", 4 << 10)
    monkeypatch.setattr("drivers.ssh.MOST_BYTES", 1 << 20)
    monkeypatch.setattr(bundle, "COMMANDS", {"journal.log": "journal"})
    collector = bundle.Collector(None, tmp_path / "evidence")
    tracemalloc.start()
    try:
        collector.inside(node(f"{ANSWER} *) yes 'password: ' | head -n 40000 | tr -d '\\n';; esac"))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (tmp_path / "evidence/nodes/master-0/journal.log").stat().st_size
    assert peak < 8 << 20, peak


def test_a_machine_that_hangs_does_not_hang_the_collector(node, tmp_path, monkeypatch):
    monkeypatch.setattr(bundle, "COMMAND_SECONDS", 0.05)
    monkeypatch.setattr(bundle, "INSIDE_SECONDS", 0.2)
    collector = bundle.Collector(None, tmp_path / "evidence")
    collector.inside(node(f"{ANSWER} *) exec sleep 60;; esac"))
    assert len(collector.missing) == len(bundle.COMMANDS)
    assert "journal.log of master-0: 192.0.2.1: a command did not end in 0.05 s" in collector.missing[0]
    assert "used up" in collector.missing[-1]


def test_of_a_long_log_its_end_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(bundle, "FILE_BYTES", 10)
    (tmp_path / "a").write_text("x" * 100 + "\nthe end\n")
    bundle.copy(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "b").read_text() == "x\nthe end\n"

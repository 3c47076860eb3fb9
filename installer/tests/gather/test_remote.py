"""Ends of ssh when gathering a host's archive is cut short: nothing is left running."""

from __future__ import annotations

import gc
import os
import tempfile
from pathlib import Path

import pytest

from installer.gather import remote
from installer.gather.remote import Access, Running
from installer.testing.agent_kit import Programs

ENDLESS = "echo $$ > $log; cat > /dev/null; exec cat /dev/zero"


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    programs = Programs(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{programs.folder}:{os.environ['PATH']}")
    return programs


def access(timeout: float = 60) -> Access:
    return Access(user="core", key=None, options=(), timeout=timeout)


def ended(ssh: Programs) -> bool:
    """Return whether the ssh that ran has ended, and been buried."""
    return not Path(f"/proc/{int(ssh.log('ssh'))}").exists()


def test_a_host_that_sends_too_much(ssh: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "LARGEST_PACKED", 1000)
    ssh.put("ssh", ENDLESS)
    assert remote.fetch(access(), "192.0.2.1", tmp_path / "packed", Running()) == "the host sent more than 1000 bytes"
    assert ended(ssh)


def test_a_disk_that_is_full(ssh: Programs) -> None:
    ssh.put("ssh", ENDLESS)
    with pytest.raises(OSError, match="No space left"):
        remote.fetch(access(), "192.0.2.1", Path("/dev/full"), Running())
    assert ended(ssh)


def test_a_host_that_says_nothing(ssh: Programs, tmp_path: Path) -> None:
    ssh.put("ssh", "echo $$ > $log; exec sleep 1000")
    assert remote.fetch(access(1), "192.0.2.1", tmp_path / "packed", Running()) == "it did not end within 1 s"
    assert ended(ssh)


def test_a_host_that_hangs_up_before_the_script_is_sent(ssh: Programs, tmp_path: Path) -> None:
    """The unsent rest is let go at once: not found unsent, and an error of nobody's, when memory is tidied."""
    ssh.put("ssh", "exec 0<&-; echo 'connect: Connection refused' >&2; exit 255")
    for _ in range(20):
        assert remote.fetch(access(), "192.0.2.1", tmp_path / "packed", Running()) == "connect: Connection refused"
    gc.collect()


def test_an_ssh_that_never_stops_complaining(ssh: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its words are read, so that it ends, and kept nowhere: temporary files may take no byte here."""
    monkeypatch.setattr(tempfile, "tempdir", "/proc")
    ssh.put("ssh", "cat > /dev/null; echo 'no route' >&2; head -c 8000000 /dev/zero >&2; exit 255")
    assert remote.fetch(access(), "192.0.2.1", tmp_path / "packed", Running()).startswith("no route")


def test_a_master_connection_that_stays(ssh: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "COMPLAINTS_WAIT", 0.1)
    ssh.put("ssh", "cat > /dev/null; sleep 1 >/dev/null & echo 'no route' >&2; exit 255")
    assert remote.fetch(access(5), "192.0.2.1", tmp_path / "packed", Running()) == "no route"


def test_a_machine_without_ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert (
        remote.fetch(access(), "192.0.2.1", tmp_path / "packed", Running())
        == "ssh cannot be run: No such file or directory"
    )

"""Programs under the agent's hands, real ones: slow, missing, talkative, undecodable, leaving children behind."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
from pathlib import Path

import pytest

from installer.hostsys import commands
from installer.hostsys import system as hostsys
from installer.hostsys.errors import CommandError
from installer.hostsys.system import HostSystem
from installer.testing.agent_kit import Host, Programs, programs_in
from installer.testing.service.rendezvous_kit import wait_for

LONG = 30.0


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    return programs_in(tmp_path / "bin", monkeypatch)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def gone(pid: int) -> bool:
    """Return whether the process has ended. One that waits to be buried has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def sh(script: str, timeout: float = LONG, **options: object) -> commands.Completed:
    return commands.run(["sh", "-c", script], timeout, **options)  # type: ignore[arg-type]


def test_a_program_that_ends() -> None:
    assert sh("echo out; echo err >&2; exit 3") == commands.Completed(3, b"out\n", b"err\n")
    assert sh("echo out; echo err >&2", merged=True) == commands.Completed(0, b"out\nerr\n", b"")
    assert sh("kill -9 $$").code == -signal.SIGKILL
    assert sh("printf '\\377\\000'").out == b"\xff\0"
    assert sh("exec >&- 2>&-; exit 4") == commands.Completed(4, b"", b"")
    assert sh("echo $A$HOME", env={"A": "b"}).out == b"b\n"
    with pytest.raises(FileNotFoundError):
        commands.run(["/no/such/program"], LONG)


def test_nothing_is_to_be_had_from_standard_input() -> None:
    assert sh("read -r line || echo nothing").out == b"nothing\n"


def test_a_program_that_takes_too_long_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = f"echo $$ >> {pids}; (trap '' TERM; echo $BASHPID >> {pids}; while :; do sleep 1; done) & "
    script += f"sleep 1000 & echo $! >> {pids}; echo said; while [ $(wc -l < {pids}) -lt 3 ]; do :; done; sleep 1000"
    done = commands.run(["bash", "-c", script], 1.0)
    assert done == commands.Completed(None, b"said\n", b"", "did not end within 1 s")
    started = [int(line) for line in pids.read_text().split()]
    assert len(started) == 3
    wait_for("what it started to end", lambda: all(map(gone, started)), LONG)


def test_a_program_may_end_in_its_own_way(tmp_path: Path) -> None:
    """Asked before it is killed: podman takes its container with it then."""
    mark = tmp_path / "mark"
    sh(f"trap 'echo cleaned > {mark}; exit' TERM; while :; do sleep 0.05; done", 0.5)
    assert mark.read_text() == "cleaned\n"


def test_one_that_does_not_listen_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "GRACE", 0.2)
    done = sh("trap '' TERM; echo $$; while :; do sleep 0.05; done", 0.5)
    assert done.code is None
    assert gone(int(done.out))


def test_a_program_that_prints_too_much_is_ended(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    done = sh(f"echo $$ > {pid}; exec cat /dev/zero", largest=1000)
    assert done == commands.Completed(None, bytes(1000), b"", "printed more than 1000 bytes")
    assert gone(int(pid.read_text()))
    done = sh("head -c 600 /dev/zero; head -c 600 /dev/zero >&2", largest=1000)
    assert (done.code, len(done.out) + len(done.err)) == (None, 1000)
    assert sh("head -c 1000 /dev/zero", largest=1000) == commands.Completed(0, bytes(1000), b"")
    assert sh("head -c 1001 /dev/zero", largest=1000).code is None


def test_much_output_on_both_sides_is_all_taken() -> None:
    """More than a pipe holds, on either: neither side waits for the other."""
    done = sh("head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2; head -c 300000 /dev/zero")
    assert (done.code, len(done.out), len(done.err)) == (0, 3300000, 3000000)


def test_what_a_daemon_holds_open_is_not_waited_for(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    done = sh(f"sleep 1000 & echo $! > {pid}; echo started")
    assert done == commands.Completed(0, b"started\n", b"")
    # It was not this program's to end: what ends well leaves its daemons alone.
    daemon = int(pid.read_text())
    assert not gone(daemon)
    os.kill(daemon, signal.SIGKILL)


def test_a_daemon_that_prints_for_ever_does_not_hold_up_the_end(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    sh(f"(exec cat /dev/zero) & echo $! > {pid}", largest=100_000)
    # Ended with it when it had printed too much, left alone otherwise.
    with contextlib.suppress(ProcessLookupError):
        os.kill(int(pid.read_text()), signal.SIGKILL)


def test_output_is_fed_on_as_it_comes() -> None:
    seen: list[bytes] = []
    done = sh("echo one; echo err >&2; echo two", feed=seen.append)
    assert b"".join(seen) == done.out == b"one\ntwo\n"

    def refuse(chunk: bytes) -> None:
        raise ValueError(chunk.decode())

    pid = 0
    with pytest.raises(ValueError, match=r"\d+") as caught:
        sh("echo $$; sleep 1000", feed=refuse)
    pid = int(str(caught.value))
    wait_for("the program to end", lambda: gone(pid), LONG)


def test_the_host_of_the_agent(host: Host, programs: Programs) -> None:
    programs.put("fine", 'echo "$LC_ALL $1"; echo noise >&2')
    assert host.run("fine", "a b") == "C.UTF-8 a b\n"
    programs.put("odd", "printf 'a\\377b'")
    assert host.run("odd") == "a�b"
    assert host.run_with({"SECRET": "s"}, "sh", "-c", "echo $SECRET") == "s\n"
    assert host.run_json("echo", '{"a": 1}') == {"a": 1}
    assert host.run_json("true") is None
    with pytest.raises(CommandError, match="echo no: exit code 0: output is not JSON"):
        host.run_json("echo", "no")


def test_a_program_that_fails(host: Host, programs: Programs) -> None:
    programs.put("bad", "echo out; echo 'it broke' >&2; exit 7")
    with pytest.raises(CommandError) as caught:
        host.run("bad", "a", "b", "c")
    assert str(caught.value) == "bad a b: exit code 7: it broke"
    assert (caught.value.code, caught.value.detail) == (7, "it broke")
    programs.put("mute", "echo on stdout; exit 7")
    with pytest.raises(CommandError, match="on stdout"):
        host.run("mute")
    programs.put("wordy", "head -c 5000 /dev/zero | tr '\\0' x >&2; exit 1")
    with pytest.raises(CommandError) as caught:
        host.run("wordy")
    assert caught.value.detail == "x" * 2000
    with pytest.raises(CommandError, match="exit code 7"):
        host.run_with({}, "bad")


def test_a_slow_command_is_an_error_only_to_those_who_check(
    host: Host, programs: Programs, caplog: pytest.LogCaptureFixture
) -> None:
    """A minute that one command takes too long must not end an installation that can do without its answer."""
    programs.put("slow", "echo half; sleep 1000")
    with pytest.raises(CommandError) as caught:
        host.run("slow", "-x", timeout=0.5)
    assert (str(caught.value), caught.value.code) == ("slow -x: did not end within 0.5 s", None)
    with caplog.at_level(logging.WARNING):
        assert host.run("slow", "-x", timeout=0.5, check=False) == "half\n"
    assert "slow -x: did not end within 0.5 s" in caplog.text


def test_a_missing_program_is_an_error_only_to_those_who_check(host: Host, programs: Programs) -> None:
    with pytest.raises(CommandError) as caught:
        host.run("no-such-program", "x")
    assert caught.value.code is None
    assert str(caught.value).startswith("no-such-program: ")
    assert host.run("no-such-program", "x", check=False) == ""
    programs.put("bad", "echo out; exit 7")
    assert host.run("bad", check=False) == "out\n"


def test_an_argument_that_no_program_can_be_given(host: Host, programs: Programs) -> None:
    programs.put("fine", "exit 0")
    with pytest.raises(CommandError, match=r"fine: .*embedded null byte"):
        host.run("fine", "a\0b")
    with pytest.raises(CommandError, match=r"fine: .*embedded null byte"):
        host.run_with({"A": "\0"}, "fine")
    assert host.run("fine", "a\0b", check=False) == ""


def test_paths_and_files_of_the_host(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.write("/etc/odd", b" a\xffb \n")
    assert host.path("/etc/odd") == tmp_path / "etc/odd"
    assert host.read("/etc/odd") == "a�b"
    assert host.read("/etc/none") == ""
    assert host.read("/etc", "default") == "default"


def test_commands_enter_the_host_from_a_container_only() -> None:
    assert HostSystem(Path("/")).command(("a", "b")) == ["a", "b"]
    inside = HostSystem(Path("/host")).command(("a", "b"))
    assert inside[:3] == ["nsenter", "--target", "1"]
    assert inside[-3:] == ["--", "a", "b"]


def test_where_the_host_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NODE0_HOST_ROOT", str(tmp_path))
    assert hostsys.detect().root == tmp_path
    monkeypatch.delenv("NODE0_HOST_ROOT")
    assert hostsys.detect().root == Path("/host" if Path("/host/etc").is_dir() else "/")

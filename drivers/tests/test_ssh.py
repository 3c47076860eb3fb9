"""SSH to machines that come and go."""

from pathlib import Path
from typing import Any

import pytest

from drivers.errors import ConnectionFailedError
from drivers.ssh import PrefixedSsh, connect, write_config


def stand_in(folder: Path, complaint: str, times: int) -> list[str]:
    """Words before `ssh`: a program that fails as ssh does for `times` calls after the first, and answers then."""
    count, program = folder / "calls", folder / "ssh-stand-in"
    program.write_text(
        f"#!/bin/sh\necho >> {count}\ncalls=$(wc -l < {count})\n"
        f"if [ $calls -gt 1 ] && [ $calls -le {times + 1} ]; then echo '{complaint}' >&2; exit 255; fi\n"
        "echo call $calls\n"
    )
    program.chmod(0o755)
    return [str(program)]


def config(folder: Path) -> Path:
    write_config(folder / "config", folder / "key", folder)
    return folder / "config"


def test_a_command_that_a_dying_shared_connection_did_not_take_is_sent_again(tmp_path: Path):
    prefix = stand_in(tmp_path, "mux_client_request_session: read from master failed: Broken pipe", 1)
    host = connect("192.0.2.1", prefix, config(tmp_path))
    assert host.run("hostname").stdout == "call 3\n"


def test_it_is_sent_again_once(tmp_path: Path):
    prefix = stand_in(tmp_path, "mux_client_request_session: read from master failed: Broken pipe", 2)
    host = connect("192.0.2.1", prefix, config(tmp_path))
    with pytest.raises(RuntimeError):
        host.run("hostname")


def test_a_command_that_may_have_run_is_not_sent_again(tmp_path: Path):
    prefix = stand_in(tmp_path, "client_loop: send disconnect: Broken pipe", 1)
    host = connect("192.0.2.1", prefix, config(tmp_path))
    with pytest.raises(RuntimeError):
        host.run("hostname")


def test_no_answer_at_all_is_told_with_the_last_words(tmp_path: Path):
    program = tmp_path / "ssh-stand-in"
    program.write_text("#!/bin/sh\necho 'connect to host: No route to host' >&2\nexit 255\n")
    program.chmod(0o755)
    with pytest.raises(ConnectionFailedError, match="No route to host"):
        connect("192.0.2.1", [str(program)], config(tmp_path), timeout=0.1)


def test_a_machine_that_lets_one_in_and_does_nothing_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("drivers.ssh._ANSWER_SECONDS", 0.1)
    program = tmp_path / "ssh-stand-in"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    with pytest.raises(ConnectionFailedError, match=r"no SSH .* last: 192\.0\.2\.1: a command did not end in 0\.1 s"):
        connect("192.0.2.1", [str(program)], config(tmp_path), timeout=0.1)


def host_that(folder: Path, command: str) -> Any:
    """Return a host that answers, and does this at each later command."""
    program = folder / "ssh-stand-in"
    program.write_text(f"#!/bin/sh\nif [ -e {folder}/asked ]; then {command}; fi\ntouch {folder}/asked\n")
    program.chmod(0o755)
    return connect("192.0.2.1", [str(program)], config(folder))


@pytest.mark.parametrize("stream", ["1", "2"])
def test_a_machine_that_never_stops_talking_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stream: str):
    monkeypatch.setattr("drivers.ssh.MOST_BYTES", 1 << 16)
    result = host_that(tmp_path, f"yes >&{stream}; exit 255").run("journalctl")
    assert result.rc == 141
    assert len(result.stdout if stream == "1" else result.stderr) == 1 << 16


def test_a_machine_that_says_nothing_is_waited_for_so_long(tmp_path: Path):
    host = host_that(tmp_path, "sleep 60")
    host.backend.limit = 0.1
    with pytest.raises(ConnectionFailedError, match=r"192\.0\.2\.1: a command did not end in 0\.1 s"):
        host.run("journalctl")


@pytest.mark.parametrize("address", ["192.0.2.1", "2001:db8::9"])
def test_an_address_of_either_family_is_a_host_and_no_port(tmp_path: Path, address: str):
    host = PrefixedSsh(address, [], tmp_path / "config").host
    assert (host.name, host.port) == (address, None)

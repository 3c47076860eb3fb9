"""Numbers from people: what is refused, where the limits are, and that every command line asks for them here."""

import argparse
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from installer.agent import __main__ as agent
from installer.agent.swarm import command as swarm
from installer.assisted.errors import ConfigurationError
from installer.cli import main
from installer.common.numbers import real, real_type, whole, whole_type
from installer.errors import ConfigError
from installer.orchestrator import __main__ as orchestrator
from installer.rendezvous import settings, standalone

BAD = [
    "", " ", "x", "nan", "NaN", "inf", "-inf", "infinity", "1e400", "1e12", "-1", "-1e9", "9" * 400, "٣", "３",
    "1_000", "0x10",    "1,5", "1 ", " 1", "1\n", "²", "1e", "--", "1.2.3", "+", ".", "1e99999999",
]  # fmt: skip
REPOSITORY = Path(__file__).parents[3]
RULE = r"^must be a (whole number|number of seconds) from 1 to 1000, not '"


@pytest.mark.parametrize("text", BAD)
def test_refused(text):
    for read in (lambda: whole(text, 1, 1000), lambda: real(text, 1, 1000, "seconds")):
        with pytest.raises(ValueError, match=RULE) as caught:
            read()
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 120
    for kind in (whole_type(1, 1000), real_type(1, 1000)):
        with pytest.raises(argparse.ArgumentTypeError):
            kind(text)


def test_limits():
    assert [whole(text, -5, 10) for text in ("-5", "10", "+3", "0", "007")] == [-5, 10, 3, 0, 7]
    assert [real(text, 0.5, 10) for text in (".5", "10", "1e1", "1.", "5E-1", "+2.5")] == [0.5, 10, 10, 1, 0.5, 2.5]
    for text in ("-6", "11", "1.0", "1e1"):
        with pytest.raises(ValueError, match="from -5 to 10"):
            whole(text, -5, 10)
    for text in ("0.4999", "10.0001", "0"):
        with pytest.raises(ValueError, match=r"must be a number from 0\.5 to 10, not"):
            real(text, 0.5, 10)
    assert whole_type(1, 3)("2") == 2
    assert real_type(1, 3)("2") == 2.0
    assert isinstance(real_type(1, 3)("2"), float)


@given(st.text())
def test_any_text_is_a_number_or_refused(text):
    for read in (whole, real):
        try:
            number = read(text, -1000, 1000)
        except ValueError:
            continue
        assert -1000 <= number <= 1000
        assert text.isascii()


@pytest.mark.parametrize("text", ["nan", "٣", "--", "0.99", "2592001"])
@pytest.mark.parametrize("target", ["bootstrap-complete", "install-complete"])
def test_timeout_of_wait_for(tmp_path, capsys, target, text):
    """Before anything is done: not even the log file is there."""
    with pytest.raises(SystemExit) as caught:
        main(["agent", "wait-for", target, "--dir", str(tmp_path), f"--timeout={text}"])
    assert caught.value.code == 2
    rule = "expected one argument" if text == "--" else "must be a number of seconds from 1 to 2592000, not '"
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("level=fatal msg=node0")
    assert f": argument --timeout: {rule}" in last
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", ["1", "2592000", "0.5e2"])
def test_timeouts_that_are_fine(tmp_path, capsys, text):
    """They are accepted, and wait-for goes on to look for the state."""
    assert main(["agent", "wait-for", "install-complete", "--dir", str(tmp_path), "--timeout", text]) == 1
    assert "cannot read the state" in capsys.readouterr().err


SWARM = ["--url", "https://h", "--token", "t", "--infra-env-id", "i"]
ORCHESTRATOR = [f"--{name}=x" for name in ("role", "infra-env-id", "cluster-id", "host-id", "boot-device", "url")]
COMMANDS: dict[str, Any] = {
    "interval": lambda bad: agent.parse_arguments(["--url=x", "--infra-env-id=i", f"--interval={bad}"]),
    "control-plane-count": lambda bad: orchestrator.parse_arguments([*ORCHESTRATOR, f"--control-plane-count={bad}"]),
    "N": lambda bad: swarm.checked_arguments([*SWARM, "--", bad]),
    **{
        name: lambda bad, name=name: swarm.checked_arguments(["5", *SWARM, f"--{name}={bad}"])
        for name in ("seconds", "ramp", "p99", "step", "hold", "service-pid", "clusters", "cluster-size")
    },
}  # fmt: skip


@pytest.mark.parametrize("text", ["nan", "1e12", "-1", "٣"])
@pytest.mark.parametrize("command", COMMANDS)
def test_other_programs(capsys, command, text):
    with pytest.raises(SystemExit) as caught:
        COMMANDS[command](text)
    assert caught.value.code == 2
    assert "must be a " in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("port", ["0", "65536", "-1", "٨٠٩٠", "８０９０", "x", "", "8_090", "1e3", "9" * 5000])
def test_ports(port):
    with pytest.raises(ConfigError, match=r"^--listen 192\.0\.2\.1:.*: the port must be a whole number from 1 to"):
        standalone.listening(f"192.0.2.1:{port}")
    with pytest.raises(ConfigurationError, match=r"LISTEN_PORT.*must be a whole number from 1 to 65535"):
        settings.load({"LISTEN_PORT": port})


def test_an_ipv6_address_to_listen_on_is_in_brackets():
    assert standalone.listening("[2001:db8::1]:8090") == ("2001:db8::1", 8090)
    with pytest.raises(ConfigError, match=r"an IPv6 address must be in brackets, such as \[2001:db8::1\]:8090"):
        standalone.listening("2001:db8::1:8090")


@pytest.mark.parametrize("text", ["nan", "inf", "-1s", "1e3s", "9" * 400, "8785h", "٣s", " ", "h", "1x", "1hh",
                                  "1..2s", "1h 30m", "s1", "1µs"])  # fmt: skip
def test_durations_of_the_service(text):
    for name in (
        "HOST_PREPARE_TIMEOUT",
        "NEXT_INSTRUCTION_SECONDS",
        "REQUESTS_PER_SECOND",
        "HOST_STAGE_REBOOTING_TIMEOUT",
    ):
        with pytest.raises(ConfigurationError, match=name):
            settings.load({name: text})


def test_durations_that_are_fine():
    for text, seconds in (("90", 90), ("1h30m", 5400), ("1.5h", 5400), ("500ms", 0.5), ("0", 0), ("8784h", 31622400)):
        assert settings.load({"HOST_PREPARE_TIMEOUT": text}).prepare_host == seconds
    with pytest.raises(ConfigurationError, match="MONITOR_INTERVAL"):
        settings.load({"MONITOR_INTERVAL": "99ms"})  # it would do nothing else any more
    assert settings.load({"MONITOR_INTERVAL": "100ms"}).monitor_seconds == 0.1


def test_the_service_tells_it_in_one_line():
    done = subprocess.run(
        [sys.executable, "-m", "installer.rendezvous"], cwd=REPOSITORY, capture_output=True, text=True, timeout=60,
        env={**os.environ, "LISTEN_PORT": "1e9"}, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "LISTEN_PORT" in done.stderr.splitlines()[-1]

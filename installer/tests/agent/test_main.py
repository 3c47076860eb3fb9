"""The agent's command line: what it prints, and its exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from installer.agent import __main__ as agent
from installer.hostsys import system as hostsys
from installer.testing.agent_kit import Host, Programs, programs_in

WORDS = ["--url", "https://192.0.2.1:8090", "--infra-env-id", "i", "--host-id", "h"]


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    monkeypatch.setattr(hostsys, "detect", lambda: Host(tmp_path))
    monkeypatch.setenv("PULL_SECRET_TOKEN", "t")
    return programs_in(tmp_path / "bin", monkeypatch)


def test_an_inventory_is_printed(programs: Programs, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("ip", "lsblk"):
        programs.put(name, "echo '[]'" if name == "ip" else """echo '{"blockdevices": []}'""")
    assert agent.main([*WORDS, "--inventory"]) == 0
    assert json.loads(capsys.readouterr().out)["disks"] == []


def test_an_inventory_that_cannot_be_taken_is_one_line(programs: Programs, capsys: pytest.CaptureFixture[str]) -> None:
    programs.put("ip", "exit 1")
    assert agent.main([*WORDS, "--inventory"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("agent: ip ")
    assert err.count("\n") == 1


def test_a_ca_that_is_not_there_is_one_line(
    programs: Programs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "ca.crt"
    assert agent.main([*WORDS, "--cacert", str(missing)]) == 1
    err = capsys.readouterr().err
    assert err.startswith("agent: ")
    assert str(missing) in err
    assert err.count("\n") == 1

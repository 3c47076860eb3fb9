"""`pytest scenarios/ --topology FILE`: the scenarios of the file's size, each test once."""

import subprocess
import sys
from pathlib import Path

import pytest

from lab import topology

ROOT = Path(__file__).parents[2]


def collected(file):
    command = [sys.executable, "-m", "pytest", "scenarios/", "-q", "--collect-only", "-p", "no:cacheprovider"]
    return subprocess.run(
        [*command, "--topology", str(file)], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize(
    ("preset", "scenario"),
    [("sno-bios", "sno-ipv4-static-bios"), ("compact-dhcp", "compact-ipv4-dhcp-bios"), ("ha", "ha-ipv4-static-uefi")],
)
def test_each_test_of_that_size_is_there_once_by_the_scenario_most_like_the_file(tmp_path, preset, scenario):
    (tmp_path / "mine.yaml").write_text(topology.load(preset).dump())
    tests = [line for line in collected(tmp_path / "mine.yaml").stdout.splitlines() if "::" in line]
    names = [line.partition("[")[0] for line in tests]
    assert "scenarios/test_install.py::test_console_answers" in names
    assert len(names) == len(set(names))
    assert f"scenarios/test_install.py::test_console_answers[{scenario}]" in tests
    assert {line.partition("[")[2].split("-")[0] for line in tests} == {scenario.split("-")[0]}


def test_a_file_that_is_none_is_told(tmp_path):
    (tmp_path / "mine.yaml").write_text("name: x\nnodes: 5\n")
    done = collected(tmp_path / "mine.yaml")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert done.stderr.strip() == f"ERROR: {tmp_path}/mine.yaml: nodes: must be a list, is int"

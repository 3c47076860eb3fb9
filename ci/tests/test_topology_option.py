"""`pytest scenarios/ --topology FILE`: the scenarios of the file's size, each test once."""

import pytest

from ci.tests.pytest_kit import collected, pytest_scenarios
from lab import topology


@pytest.mark.parametrize(
    ("preset", "scenario"),
    [("sno-bios", "sno-ipv4-static-bios"), ("compact-dhcp", "compact-ipv4-dhcp-bios"), ("ha", "ha-ipv4-static-uefi")],
)
def test_each_test_of_that_size_is_there_once_by_the_scenario_most_like_the_file(tmp_path, preset, scenario):
    (tmp_path / "mine.yaml").write_text(topology.load(preset).dump())
    tests = collected("--topology", str(tmp_path / "mine.yaml"))
    names = [line.partition("[")[0] for line in tests]
    assert "scenarios/test_install.py::test_console_answers" in names
    assert len(names) == len(set(names))
    assert f"scenarios/test_install.py::test_console_answers[{scenario}]" in tests
    assert {line.partition("[")[2].split("-")[0] for line in tests} == {scenario.split("-")[0]}


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("name: x\nnodes: 5\n", "nodes: must be a list, is int"),
        (
            topology.sno().dump().replace("role: master", "role: worker"),
            "nodes: none is a master, and a cluster has one at",
        ),
    ],
)
def test_a_file_that_is_none_is_reported(tmp_path, text, rule):
    (tmp_path / "mine.yaml").write_text(text)
    code, output = pytest_scenarios("--collect-only", "--topology", str(tmp_path / "mine.yaml"))
    assert code == pytest.ExitCode.USAGE_ERROR
    assert output.strip().startswith(f"ERROR: {tmp_path}/mine.yaml: {rule}")


@pytest.mark.parametrize("option", ["--topology", "--lab", "--chaos"])
def test_a_variable_that_is_not_set_is_no_default(option):
    """`--topology "$FILE"` would install the scenarios of every change in its place."""
    code, output = pytest_scenarios("--collect-only", f"{option}=")
    assert code == pytest.ExitCode.USAGE_ERROR
    assert f"argument {option}: must not be empty" in output

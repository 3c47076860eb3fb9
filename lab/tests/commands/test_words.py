"""Command lines that are none: the errors' words."""

import os
import time

import pytest

from lab import topology
from lab.commands import cli
from lab.host import records


def refused(capsys, *words):
    """Return the last line of what is said, and the first word of the usage that is shown."""
    with pytest.raises(SystemExit) as ended:
        cli.main([*words])
    assert ended.value.code == 2
    lines = capsys.readouterr().err.splitlines()
    return lines[-1], lines[0].removeprefix("usage: node0-lab ").split()[0]


@pytest.mark.parametrize(
    ("line", "unknown"),
    [
        ("down sno-1a2b", "sno-1a2b"),
        ("console sno-1a2b master-0", "master-0"),
        ("shot sno-1a2b master-0 x.png", "x.png"),
        ("collect sno-1a2b DIR", "DIR"),
    ],
)
def test_a_lab_that_is_named_without_its_option_is_told_the_option(line, unknown, capsys):
    command = line.split()[0]
    expected = f"node0-lab {command}: error: unrecognized arguments: {unknown} (which lab is said with --lab ID)"
    assert refused(capsys, *line.split()) == (expected, command)


def test_a_fault_says_so_too(capsys):
    stderr, _ = refused(capsys, "fault", "ls", "sno-1a2b")
    assert stderr == "node0-lab fault ls: error: unrecognized arguments: sno-1a2b (which lab is said with --lab ID)"


@pytest.mark.parametrize("line", ["ls sno-1a2b", "down --lab sno-1a2b also", "gc --no-such"])
def test_what_means_no_lab_is_not_told_the_option(line, capsys):
    stderr, _ = refused(capsys, *line.split())
    assert stderr == f"node0-lab: error: unrecognized arguments: {line.split()[-1]}"


def test_a_command_about_all_labs_takes_none(capsys):
    stderr, _ = refused(capsys, "--lab", "sno-1a2b", "ls")
    assert stderr == "node0-lab: error: argument --lab: ls is not about one lab"


@pytest.mark.parametrize(
    "line", ["--lab nope down", "down --lab nope", "--lab other console --lab nope m", "--lab nope fault ls"]
)
def test_the_lab_is_said_before_the_command_or_after_it(line, labs, capsys):
    assert cli.main(line.split()) == 1
    assert "no lab 'nope' here" in capsys.readouterr().err


def test_ssh_needs_a_machine_and_no_command(capsys):
    stderr, _ = refused(capsys, "ssh")
    assert stderr == "node0-lab ssh: error: the following arguments are required: NODE"


@pytest.fixture
def labs(tmp_path, monkeypatch):
    """Two labs that run."""
    monkeypatch.setenv("NODE0_STATE", str(tmp_path))
    me = (os.getpid(), 1)
    names = ("sno-1a2b", "sno-3c4d")
    locks = [
        records.create(records.Record(id=name, topology=topology.sno(), owner=me, created=time.time(), artifacts=""))
        for name in names
    ]
    yield names
    for lock in locks:
        os.close(lock)


@pytest.mark.parametrize(
    "line",
    [
        "ssh sno-3c4d master-0",
        "ssh sno-3c4d",
        "console sno-3c4d",
        "shot sno-3c4d x.png",
        "exec sno-3c4d true",
        "fault begin link-down --node sno-3c4d",
    ],
)
def test_a_lab_in_the_place_of_a_machine_is_told_the_option(line, labs, capsys):
    assert cli.main(line.split()) == 1
    assert capsys.readouterr().err == "node0-lab: sno-3c4d is a lab; which lab is said with --lab sno-3c4d\n"


def test_a_machine_is_no_lab(labs, capsys):
    assert cli.main(["ssh", "master-0"]) == 1
    assert capsys.readouterr().err == "node0-lab: several labs run; say which with --lab: sno-1a2b, sno-3c4d\n"


@pytest.mark.parametrize("line", ["-n x get pods", "--lab a -n x get pods", "-- -n x get pods"])
def test_kubectls_options_are_its_own(line):
    arguments = cli._parsed(cli.parser(), ["kubectl", *line.split()])
    assert cli._words(arguments) == ["-n", "x", "get", "pods"]

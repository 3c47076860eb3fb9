"""`node0-lab fault`: every fault has a command whose options are its fields."""

import argparse
import re
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from lab.commands import cli
from lab.commands.fault import fault_of
from lab.faults import (
    BlackHole,
    DiskErrors,
    DiskSlow,
    Fault,
    Kill,
    LinkDown,
    Loss,
    Partition,
    RegistryImage,
    RegistryRefuses,
)

PAGE = (Path(__file__).parents[3] / "docs/faults.md").read_text()


def parsed(*words: str) -> argparse.Namespace:
    return cli.parser().parse_args(["fault", "begin", *words])


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["link-down", "--node", "master-0"], LinkDown("master-0")),
        (["loss", "--percent", "2.5"], Loss(2.5)),
        (["black-hole", "--mtu", "1300", "--node", "master-1"], BlackHole(1300, "master-1")),
        (["partition", "--nodes", "master-0", "master-1"], Partition(("master-0", "master-1"))),
        (["kill", "--node", "master-0", "--process", "etcd"], Kill("master-0", "etcd")),
        (["registry-image", "--image", "etcd"], RegistryImage("etcd", "absent")),
        (["registry-refuses"], RegistryRefuses()),
        (["disk-errors", "--node", "master-0"], DiskErrors("master-0", "", "writes")),
        (
            ["disk-errors", "--node", "master-0", "--disk", "vdb", "--fails", "all"],
            DiskErrors("master-0", "vdb", "all"),
        ),
        (["disk-slow", "--node", "master-0", "--kib", "512"], DiskSlow("master-0", 512)),
    ],
)
def test_options_make_a_fault(words: list[str], fault: Fault) -> None:
    assert fault_of(parsed(*words)) == fault


def test_an_empty_default_is_told_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    for words, default in ((["disk-errors"], "the one to install on"), (["black-hole"], "all that the lab sends")):
        with pytest.raises(SystemExit):
            parsed(*words, "--help")
        assert f"(default: {default})" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("kind", get_args(Fault))
def test_no_option_has_the_name_of_what_the_command_itself_goes_by(kind: type[msgspec.Struct]) -> None:
    assert {field.name for field in msgspec.structs.fields(kind)}.isdisjoint({"what", "lab"})


@pytest.mark.parametrize("kind", get_args(Fault))
def test_each_fault_has_a_command_that_says_what_it_does(kind: type[msgspec.Struct], capsys) -> None:
    name = "".join(f"-{c.lower()}" if c.isupper() else c for c in kind.__name__).strip("-")
    with pytest.raises(SystemExit) as ended:
        parsed(name, "--help")
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert all(f"--{field.name.replace('_', '-')}" in text for field in msgspec.structs.fields(kind))
    assert " ".join((kind.__doc__ or "x").split())[:40] in " ".join(text.split())


@pytest.mark.parametrize("kind", get_args(Fault))
def test_the_page_says_what_each_fault_does(kind: type[msgspec.Struct]) -> None:
    assert re.search(rf"^\| [^|]*`{kind.__name__}`[^|]* \| \w", PAGE, re.M)


@pytest.mark.parametrize(
    "words",
    [["link-down"], ["link-down", "--no", "a"], ["loss", "--percent", "x"], ["kill", "--node", "a", "--process", "b"]],
)
def test_what_is_wrong_is_an_option(words: list[str], capsys) -> None:
    with pytest.raises(SystemExit) as ended:
        parsed(*words)
    assert ended.value.code == 2
    assert "error: " in capsys.readouterr().err

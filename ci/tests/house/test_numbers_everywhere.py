"""Numbers of command lines and of the environment are checked for their range: plain int and float are not used."""

import ast
import os

import pytest

from ci.syntax import nodes, sources
from lab.commands.cli import main as lab_main
from lab.errors import LabError
from lab.host import budget
from lab.release import __main__ as release


def unchecked(source: str) -> list[str]:
    """Command line arguments with `type=int` or `float`, and `int()` or `float()` of the environment."""
    conversions = []
    for node in nodes(source, ast.Call):
        for keyword in node.keywords:
            # `add_argument` under any name: its first value is the argument's name.
            named = node.args and isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str)
            if named and keyword.arg == "type" and ast.unparse(keyword.value) in ("int", "float"):
                conversions.append(f"{node.lineno}: {ast.unparse(node)}")
        if isinstance(node.func, ast.Name) and node.func.id in ("int", "float") and "environ" in ast.unparse(node):
            conversions.append(f"{node.lineno}: {ast.unparse(node)}")
    return conversions


def test_every_number_is_checked():
    assert [f"{path}:{line}" for path, source in sources(tests=False).items() for line in unchecked(source)] == []


def test_an_unchecked_number_is_found():
    assert unchecked('p.add_argument("--x", type=int)')
    assert unchecked('add("x", type=float)')
    assert unchecked('int(os.environ.get("X") or 1)')
    assert not unchecked('p.add_argument("--x", type=Path)')


BAD = ["nan", "inf", "1e400", "1e12", "-1", "٣", "", "x", "9" * 400]


@pytest.mark.parametrize("text", BAD)
@pytest.mark.parametrize(
    "words", [["up", "sno", "--wait={}"], ["deploy", "d", "--wait={}"], ["deploy", "d", "--memory={}"]], ids=" ".join
)
def test_the_lab(capsys, words, text):
    with pytest.raises(SystemExit) as caught:
        lab_main([word.format(text) for word in words])
    assert caught.value.code == 2
    assert "must be a " in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("text", [*BAD, "0.9"])
def test_the_release(capsys, text):
    with pytest.raises(SystemExit) as caught:
        release.parser().parse_args(["prune", f"--hours={text}"])
    assert caught.value.code == 2
    assert "must be a number of hours from 1 to 87600, not" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["NODE0_BUDGET_MIB", "NODE0_BUDGET_VCPU"])
def test_the_budget(tmp_path, monkeypatch, name):
    for text in (*BAD, "0", "1.5"):
        monkeypatch.setenv(name, text)
        if text:
            with pytest.raises(LabError, match=f"^{name}: must be a whole number from 1 to"):
                budget.capacity(tmp_path)
        else:
            assert budget.capacity(tmp_path).vcpu > 0
    monkeypatch.setenv(name, "7")
    assert 7 in (budget.capacity(tmp_path).mib, budget.capacity(tmp_path).vcpu)
    assert os.environ[name] == "7"

"""`ci/bench/run`: its table of measurements, and command lines that are refused."""

import ast
import importlib.util
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from ci.bench import __main__ as bench


@pytest.fixture
def measured(monkeypatch):
    """Provide the names of what ran, in order; nothing is measured."""
    names: list[str] = []

    def fake(name: str) -> bench.Benchmark:
        return replace(bench.BENCHMARKS[name], run=lambda _args: names.append(name))

    monkeypatch.setattr(bench, "BENCHMARKS", {name: fake(name) for name in bench.BENCHMARKS})
    return names


def test_each_is_measured_once_in_the_tables_order(measured):
    bench.main([])
    bench.main(["machines", "swarm", "image", "swarm"])
    assert measured == ["image", "image", "swarm", "machines"]


def test_data_of_the_judges_is_nothing_to_others(measured, monkeypatch):
    monkeypatch.setenv("NODE0_JUDGES_DATA", "/nowhere")
    bench.main(["image"])
    assert measured == ["image"]


def test_each_names_a_module_whose_run_takes_the_options(monkeypatch):
    """Read from the syntax: to import them all takes seconds."""
    seen = []

    def imported(name):
        tree = ast.parse(Path(importlib.util.find_spec(name).origin).read_text())
        (run,) = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "run"]
        takes = range(len(run.args.args) - len(run.args.defaults), len(run.args.args) + 1)
        return SimpleNamespace(run=lambda *values: seen.append((name, len(values) in takes)))

    monkeypatch.setattr(importlib, "import_module", imported)
    args = bench.parser().parse_args([])
    named = [each.run for each in bench.BENCHMARKS.values() if "_run_of" in each.run.__qualname__]
    for run in named:
        run(args)
    assert len(seen) == len(named) > 5
    assert [name for name, fits in seen if not fits] == []


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("oracle image", "oracle is measured alone"),
        ("judges --data /nowhere", "/nowhere: no such folder"),
        ("oracle --installer /nowhere", "oracle needs --installer PATH"),
        ("oracle-service", "oracle-service needs --url URL"),
        ("oracle-service --url http://x --token /nowhere", "/nowhere: no such file"),
        ("redfish --schemas /usr", "redfish needs --schemas DIR and --ironic FILE"),
        ("conformity --spec /nowhere", "conformity needs --spec FILE"),
        ("nonsense", "invalid choice: 'nonsense'"),
    ],
)
def test_bad_options_are_refused_before_anything_is_measured(measured, capsys, words, problem):
    with pytest.raises(SystemExit) as ended:
        bench.main(words.split())
    assert ended.value.code == 2
    assert problem in capsys.readouterr().err
    assert measured == []


def test_help_names_every_benchmark(capsys):
    with pytest.raises(SystemExit):
        bench.main(["--help"])
    listed = capsys.readouterr().out.partition("benchmarks:\n")[2]
    assert re.findall(r"^  (\S+)  ", listed, re.M) == list(bench.BENCHMARKS)

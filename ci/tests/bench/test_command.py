"""`ci/bench/run`: what is measured, and what of the command line does not fit."""

import re
from dataclasses import replace

import pytest

from ci.bench import __main__ as bench


@pytest.fixture
def measured(monkeypatch):
    """The names of what ran, in order; nothing is measured."""
    names: list[str] = []

    def fake(name: str) -> bench.Benchmark:
        return replace(bench.BENCHMARKS[name], run=lambda _args: names.append(name))

    monkeypatch.setattr(bench, "BENCHMARKS", {name: fake(name) for name in bench.BENCHMARKS})
    return names


def test_the_quick_ones_are_measured_by_default(measured):
    bench.main([])
    assert measured == ["image", "builds", "media"]


def test_each_is_measured_once_in_the_tables_order(measured):
    bench.main(["machines", "engine", "image", "engine"])
    assert measured == ["image", "engine", "machines"]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("house image", "house is measured alone"),
        ("mutants --root /nowhere", "--root is not a checkout"),
        ("redfish --schemas /usr", "redfish needs --schemas DIR and --ironic FILE"),
        ("image idle", "idle needs --lab ID"),
        ("conformity --spec /nowhere", "conformity needs --spec FILE"),
        ("floor --scenario nonsense", "nonsense"),
        ("nonsense", "invalid choice: 'nonsense'"),
    ],
)
def test_what_does_not_fit_is_told_before_anything_is_measured(measured, capsys, words, problem):
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

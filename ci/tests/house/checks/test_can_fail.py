"""Tests can fail, a skip says why, and nobody sleeps for a fixed time (CONTRIBUTING.md, "Style" and "Tests").

Read from the syntax: an assertion that is there may still be empty, but one that is not there proves nothing for sure.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from ci.imports import sources
from ci.syntax import nodes, parse, walk

#: Calls that raise where something is not as it should be.
JUDGES = ("raises", "warns", "fail", "timeout", "wait_for", "wait_until")
#: How many helpers may lie between a test and the assertion.
DEEPEST = 3
#: Measurements whose length is their subject.
MEASURED = {"ci/bench/installs/idle.py", "ci/bench/installs/machines.py"}
Function = ast.FunctionDef | ast.AsyncFunctionDef


def last(call: ast.Call) -> str:
    """The last part of what is called."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def checks(word: ast.keyword) -> bool:
    """Whether it is `check`, and not said to be false."""
    return word.arg == "check" and not (isinstance(word.value, ast.Constant) and not word.value.value)


def judges(node: ast.AST) -> bool:
    """Whether a statement or call fails where something is not as it should be."""
    if isinstance(node, ast.Call):
        return last(node) in JUDGES or "assert" in last(node) or any(checks(word) for word in node.keywords)
    return isinstance(node, ast.Raise) or (isinstance(node, ast.Assert) and not isinstance(node.test, ast.Constant))


def functions(source: str) -> Iterator[Function]:
    """All of a module."""
    yield from nodes(source, ast.FunctionDef)
    yield from nodes(source, ast.AsyncFunctionDef)


def helpers_of(texts: Iterable[str]) -> dict[str, list[Function]]:
    """All functions by their names."""
    by_name: dict[str, list[Function]] = {}
    for source in texts:
        for function in functions(source):
            by_name.setdefault(function.name, []).append(function)
    return by_name


def judged(test: Function, helpers: Mapping[str, Sequence[Function]]) -> bool:
    """Whether it may fail on purpose, or any helper that it calls by its name."""
    reached, seen = [test], set[str]()
    for _ in range(1 + DEEPEST):
        if any(judges(node) for function in reached for node in ast.walk(function)):  # most end after a few nodes
            return True
        calls = {last(node) for function in reached for node in walk(function) if isinstance(node, ast.Call)}
        reached = [function for name in calls - seen for function in helpers.get(name, ())]
        seen |= calls
    return False


def empty(source: str, helpers: Mapping[str, Sequence[Function]]) -> Iterator[str]:
    """Tests in a module that assert nothing, nor does a helper that they call by its name."""
    tests = (function for function in functions(source) if function.name.startswith("test_"))
    return (test.name for test in tests if not judged(test, helpers))


def silent_skips(source: str) -> Iterator[int]:
    """Lines that skip a test, or expect it to fail, and do not say why."""
    ways = {f"pytest.{mark}{name}" for mark in ("", "mark.") for name in ("skip", "xfail")}
    with_reason = {id(call.func) for call in nodes(source, ast.Call) if call.args or call.keywords}
    for node in nodes(source, ast.Attribute):
        if node.attr in ("skip", "xfail") and id(node) not in with_reason and ast.unparse(node) in ways:
            yield node.lineno


def sleeps(node: ast.AST) -> Iterator[int]:
    """Lines that sleep for more than nothing outside of a loop, where nobody looks whether it was enough."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.While() | ast.For() | ast.AsyncFor():
                continue
            case ast.Call(args=[ast.Constant(value=0), *_]):
                pass
            case ast.Call(func=ast.Name(id="sleep") | ast.Attribute(attr="sleep")):
                yield child.lineno
        yield from sleeps(child)


def test_every_test_can_fail():
    helpers = helpers_of(sources().values())
    tests = {path: source for path, source in sources().items() if Path(path).name.startswith("test_")}
    assert [f"{path}: {name}" for path, source in tests.items() for name in empty(source, helpers)] == []


def test_a_skip_says_why():
    assert [f"{path}:{line}" for path, source in sources().items() for line in silent_skips(source)] == []


def test_nobody_sleeps_for_a_fixed_time():
    """Tests may: some hold a connection up on purpose."""
    ours = {path: source for path, source in sources(tests=False).items() if "sleep" in source}
    assert {path for path, source in ours.items() if any(sleeps(parse(source)))} == MEASURED


@pytest.mark.parametrize(
    ("source", "wrong"),
    [
        ("def test_x(): run()", True), ("def test_x(): assert True", True), ("def test_x(): assert y", False),
        ("def test_x():\n    with pytest.raises(E): y()", False), ("def test_x(): mock.assert_called_once()", False),
        ("def test_x(): holds()\ndef holds(): also()\ndef also(): assert y", False),
        ("def test_x(): subprocess.run(y, check=True)", False),
    ],
)  # fmt: skip
def test_one_that_cannot_fail_is_seen(source, wrong):
    assert bool([*empty(source, helpers_of([source]))]) is wrong


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("pytest.skip()", [1]), ("pytest.mark.xfail()", [1]),
        ("pytest.skip('why')", []), ("@pytest.mark.skip\ndef test_x(): ...", [1]),
        ("@pytest.mark.xfail(reason='why')\ndef test_x(): ...", []),
    ],
)  # fmt: skip
def test_a_silent_skip_is_seen(source, lines):
    assert [*silent_skips(source)] == lines


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("time.sleep(1)", [1]), ("time.sleep(0)", []), ("while not y():\n    time.sleep(1)", []),
        ("def f():\n    sleep(SECONDS)", [2]),
    ],
)  # fmt: skip
def test_a_fixed_sleep_is_seen(source, lines):
    assert [*sleeps(ast.parse(source))] == lines

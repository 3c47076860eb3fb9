"""Tests can fail, a skip says why, and nobody sleeps for a fixed time (CONTRIBUTING.md, "Style" and "Tests").

Read from the syntax: an assertion that is there may still be empty, but one that is not there proves nothing for sure.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ci.imports import modules

ROOT = Path(__file__).parents[4]
ROOMS = ("installer", "drivers", "lab", "scenarios", "ci")
#: Calls that raise where something is not as it should be.
JUDGES = ("raises", "warns", "fail", "timeout", "wait_for", "wait_until")
#: How many helpers may lie between a test and the assertion.
DEEPEST = 3
#: Measurements whose length is their subject.
MEASURED = {"ci/bench/installs/idle.py", "ci/bench/installs/machines.py"}
Function = ast.FunctionDef | ast.AsyncFunctionDef


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.Module]:
    """Syntax of every module, by its path."""
    return {str(path.relative_to(ROOT)): ast.parse(path.read_text()) for path in modules(ROOT, ROOMS).values()}


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


@dataclass
class Functions:
    """Functions of one name: whether any of them may fail on purpose, and what they call."""

    judge: bool = False
    calls: set[str] = field(default_factory=set)

    def add(self, function: Function) -> None:
        """Look at one more."""
        for node in ast.walk(function):
            self.judge = self.judge or judges(node)
            if isinstance(node, ast.Call):
                self.calls.add(last(node))


def functions(tree: ast.Module) -> Iterator[Function]:
    """All of a module."""
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def helpers_of(trees: Iterable[ast.Module]) -> dict[str, Functions]:
    """All functions by their names."""
    by_name: dict[str, Functions] = {}
    for tree in trees:
        for function in functions(tree):
            by_name.setdefault(function.name, Functions()).add(function)
    return by_name


def empty(tree: ast.Module, helpers: Mapping[str, Functions]) -> Iterator[str]:
    """Tests in a module that assert nothing, nor does a helper that they call by its name."""
    for function in functions(tree):
        if not function.name.startswith("test_"):
            continue
        test = Functions()
        test.add(function)
        calls, seen = test.calls, {*test.calls}
        judged = test.judge
        for _ in range(DEEPEST):
            reached = [helpers[name] for name in calls if name in helpers]
            judged = judged or any(one.judge for one in reached)
            calls = {name for one in reached for name in one.calls} - seen
            seen |= calls
        if not judged:
            yield function.name


def silent_skips(tree: ast.Module) -> Iterator[int]:
    """Lines that skip a test, or expect it to fail, and do not say why."""
    ways = {f"pytest.{mark}{name}" for mark in ("", "mark.") for name in ("skip", "xfail")}
    called: set[int] = set()
    for node in ast.walk(tree):  # a call before what it calls
        if isinstance(node, ast.Call):
            called.add(id(node.func))
            if not node.args and not node.keywords and ast.unparse(node.func) in ways:
                yield node.lineno
        elif isinstance(node, ast.Attribute) and id(node) not in called and ast.unparse(node) in ways:
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


def test_every_test_can_fail(trees):
    helpers = helpers_of(trees.values())
    tests = {path: tree for path, tree in trees.items() if Path(path).name.startswith("test_")}
    assert [f"{path}: {name}" for path, tree in tests.items() for name in empty(tree, helpers)] == []


def test_a_skip_says_why(trees):
    assert [f"{path}:{line}" for path, tree in trees.items() for line in silent_skips(tree)] == []


def test_nobody_sleeps_for_a_fixed_time(trees):
    """Tests may: some hold a connection up on purpose."""
    ours = {path: tree for path, tree in trees.items() if not {"tests", "testing"} & set(Path(path).parts)}
    assert {path for path, tree in ours.items() if any(sleeps(tree))} == MEASURED


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
    tree = ast.parse(source)
    assert bool([*empty(tree, helpers_of([tree]))]) is wrong


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("pytest.skip()", [1]), ("pytest.skip('why')", []), ("@pytest.mark.skip\ndef test_x(): ...", [1]),
        ("@pytest.mark.xfail(reason='why')\ndef test_x(): ...", []),
    ],
)  # fmt: skip
def test_a_silent_skip_is_seen(source, lines):
    assert [*silent_skips(ast.parse(source))] == lines


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("time.sleep(1)", [1]), ("time.sleep(0)", []), ("while not y():\n    time.sleep(1)", []),
        ("def f():\n    sleep(SECONDS)", [2]),
    ],
)  # fmt: skip
def test_a_fixed_sleep_is_seen(source, lines):
    assert [*sleeps(ast.parse(source))] == lines

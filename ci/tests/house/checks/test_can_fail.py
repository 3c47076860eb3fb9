"""Tests can fail, a skip says why, and nobody sleeps for a fixed time (CONTRIBUTING.md, "Style" and "Tests").

Only the syntax is looked at: whether an assertion means anything, nobody can tell from it.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from ci.syntax import nodes, parse, sources, walk

#: Calls that fail a test.
ASSERTING = ("raises", "warns", "fail", "timeout", "wait_for", "wait_until")
#: How many calls may lie between a test and its assertion.
DEPTH = 3
#: Measurements that last as long as the user asks for.
MEASURED = {"ci/bench/installs/machines.py", "ci/bench/service/hub.py"}
Function = ast.FunctionDef | ast.AsyncFunctionDef


def called_name(call: ast.Call) -> str:
    """Return the name of a called function or method, without what is before its last dot."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def is_check(word: ast.keyword) -> bool:
    """Tell whether a keyword argument is `check=` with anything but a false constant."""
    return word.arg == "check" and not (isinstance(word.value, ast.Constant) and not word.value.value)


def asserts(node: ast.AST) -> bool:
    """Tell whether a node is an assertion, a `raise`, or a call of ASSERTING."""
    if isinstance(node, ast.Call):
        name = called_name(node)
        return name in ASSERTING or "assert" in name or any(is_check(word) for word in node.keywords)
    return isinstance(node, ast.Raise) or (isinstance(node, ast.Assert) and not isinstance(node.test, ast.Constant))


def functions(source: str) -> Iterator[Function]:
    """All functions of a module, nested ones too."""
    yield from nodes(source, ast.FunctionDef)
    yield from nodes(source, ast.AsyncFunctionDef)


def helpers_of(texts: Iterable[str]) -> dict[str, list[Function]]:
    """All functions by their names."""
    by_name: dict[str, list[Function]] = {}
    for source in texts:
        for function in functions(source):
            by_name.setdefault(function.name, []).append(function)
    return by_name


def can_fail(test: Function, helpers: Mapping[str, Sequence[Function]]) -> bool:
    """Tell whether a test asserts something, or a helper does that it calls by its name."""
    reached, seen = [test], set[str]()
    for _ in range(1 + DEPTH):
        if any(asserts(node) for function in reached for node in ast.walk(function)):  # most end after a few nodes
            return True
        calls = {called_name(node) for function in reached for node in walk(function) if isinstance(node, ast.Call)}
        reached = [function for name in calls - seen for function in helpers.get(name, ())]
        seen |= calls
    return False


def without_assertion(source: str, helpers: Mapping[str, Sequence[Function]]) -> Iterator[str]:
    """Return the tests of a module that assert nothing, themselves or in a helper that they call by its name."""
    tests = (function for function in functions(source) if function.name.startswith("test_"))
    return (test.name for test in tests if not can_fail(test, helpers))


def skips_without_reason(source: str) -> Iterator[int]:
    """Lines with a skip or xfail without a reason."""
    ways = {f"pytest.{mark}{name}" for mark in ("", "mark.") for name in ("skip", "xfail")}
    with_reason = {id(call.func) for call in nodes(source, ast.Call) if call.args or call.keywords}
    for node in nodes(source, ast.Attribute):
        if node.attr in ("skip", "xfail") and id(node) not in with_reason and ast.unparse(node) in ways:
            yield node.lineno


def sleeps(node: ast.AST) -> Iterator[int]:
    """Lines with a sleep outside of a loop (`sleep(0)` aside): a loop polls, this one hopes that the time is enough."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.While() | ast.For() | ast.AsyncFor():
                continue
            case ast.Call(args=[ast.Constant(value=0), *_]):
                pass
            case ast.Call(func=ast.Name(id="sleep") | ast.Attribute(attr="sleep")):
                yield child.lineno
        yield from sleeps(child)


@pytest.mark.slow
def test_every_test_can_fail():
    helpers = helpers_of(sources().values())
    tests = {path: source for path, source in sources().items() if Path(path).name.startswith("test_")}
    assert [f"{path}: {name}" for path, source in tests.items() for name in without_assertion(source, helpers)] == []


def test_a_skip_says_why():
    assert [f"{path}:{line}" for path, source in sources().items() for line in skips_without_reason(source)] == []


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
def test_a_test_without_assertion_is_found(source, wrong):
    assert bool([*without_assertion(source, helpers_of([source]))]) is wrong


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("pytest.skip()", [1]), ("pytest.mark.xfail()", [1]),
        ("pytest.skip('why')", []), ("@pytest.mark.skip\ndef test_x(): ...", [1]),
        ("@pytest.mark.xfail(reason='why')\ndef test_x(): ...", []),
    ],
)  # fmt: skip
def test_a_skip_without_a_reason_is_found(source, lines):
    assert [*skips_without_reason(source)] == lines


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("time.sleep(1)", [1]), ("time.sleep(0)", []), ("while not y():\n    time.sleep(1)", []),
        ("def f():\n    sleep(SECONDS)", [2]),
    ],
)  # fmt: skip
def test_a_fixed_sleep_is_found(source, lines):
    assert [*sleeps(ast.parse(source))] == lines

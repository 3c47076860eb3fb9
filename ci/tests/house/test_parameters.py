"""Up to four positional parameters; what comes after them is given by its name (CONTRIBUTING.md, "Style")."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from ci.imports import modules

ROOT = Path(__file__).parents[3]
ROOMS = ("installer", "drivers", "lab", "scenarios", "ci")
MOST = 4


def by_name(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether pytest calls it, which gives each parameter by its name."""
    return function.name.startswith("test_") or any("fixture" in ast.unparse(one) for one in function.decorator_list)


def too_many(tree: ast.AST) -> Iterator[str]:
    """Functions with more positional parameters than that, `self` and `cls` aside: `name (how many)`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not by_name(node):
            names = [one.arg for one in (*node.args.posonlyargs, *node.args.args)]
            count = len(names) - (names[:1] in (["self"], ["cls"]))
            if count > MOST:
                yield f"{node.name} ({count})"


def test_no_function_has_more_than_four_positional_parameters():
    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in modules(ROOT, ROOMS).values()
        for name in too_many(ast.parse(path.read_text()))
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("def f(a, b, c, d, e): ...", ["f (5)"]),
        ("def f(a, b, c, d, *, e): ...", []),
        ("def f(a, /, b, c, d, e): ...", ["f (5)"]),
        ("class A:\n    def f(self, a, b, c, d): ...\n    async def g(self, a, b, c, d, e): ...", ["g (5)"]),
        ("def outer():\n    def f(a, b, c, d, e, f): ...", ["f (6)"]),
        ("def test_f(a, b, c, d, e): ...", []),
        ("@pytest.fixture(scope='module')\ndef f(a, b, c, d, e): ...", []),
    ],
)
def test_what_counts_is_seen(source, names):
    assert list(too_many(ast.parse(source))) == names

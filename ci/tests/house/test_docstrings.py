"""Public functions and classes say what they are for (CONTRIBUTING.md, "Style")."""

import ast
from collections.abc import Iterator

import pytest

from ci.imports import sources
from ci.syntax import parse

ROOMS = ("drivers", "lab", "scenarios", "ci")


def undocumented(node: ast.Module | ast.ClassDef, above: str = "") -> Iterator[str]:
    """Public functions and classes in a module or class that have no docstring, by their dotted names."""
    for one in node.body:
        if not isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        if one.name.startswith(("_", "test_")):
            continue
        if ast.get_docstring(one) is None:
            yield above + one.name
        if isinstance(one, ast.ClassDef):
            yield from undocumented(one, f"{above}{one.name}.")


def test_everything_public_has_a_docstring():
    """Of the installer ruff wants them."""
    ours = {path: source for path, source in sources(*ROOMS).items() if "tests" not in path.split("/")}
    assert [f"{path}: {one}" for path, source in ours.items() for one in undocumented(parse(source))] == []


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("def f(): pass", ["f"]),
        ('async def f():\n    """Does."""', []),
        ('class A:\n    """Is."""\n    def f(self): pass\n    def _g(self): pass', ["A.f"]),
        ("class _A:\n    def f(self): pass", []),
    ],
)
def test_what_has_no_docstring_is_found(source, names):
    assert list(undocumented(ast.parse(source))) == names

"""Patterns mean the same in every Python that runs them.

Debian 12's Python 3.11.2 forgets, in a possessive group, what the group could still give back (CPython gh-106052,
mended in 3.11.5): parts of a text go unmatched. An atomic group around a greedy one says the same, and is right.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
POSSESSIVE_GROUP = re.compile(r"(?<!\\)\)(?:[+*?]|\{\{?[\d,]+\}\}?)\+")


def texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every literal that a call of ``re.…`` is given, f-strings as written but for their values."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "re"
        ):
            for part in ast.walk(node):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part.lineno, part.value


@pytest.mark.parametrize("room", ["installer", "lab", "drivers", "scenarios", "ci"])
def test_no_group_is_possessive(room: str) -> None:
    possessive = [
        f"{path.relative_to(ROOT)}:{line}: {text}"
        for path in sorted((ROOT / room).rglob("*.py"))
        if path != Path(__file__)
        for line, text in texts(ast.parse(path.read_text()))
        if POSSESSIVE_GROUP.search(text)
    ]
    assert possessive == [], "write (?>(?:...)+) instead of (?:...)++"


def halves(tree: ast.Module) -> Iterator[str]:
    """Compiled patterns that end with $ and are asked with ``match``: a newline behind what they want passes."""
    ends = {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
        for target in node.targets
        if isinstance(target, ast.Name)
        for _, text in texts(node.value)
        if text.endswith("$") and not text.endswith(r"\$")
    }
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr="match") if name in ends:
                yield f"{node.lineno}: {name}"


@pytest.mark.parametrize("room", ["installer", "lab", "drivers", "scenarios", "ci"])
def test_no_newline_passes_behind_a_whole_name(room: str) -> None:
    dollars = [
        f"{path.relative_to(ROOT)}:{one}"
        for path in sorted((ROOT / room).rglob("*.py"))
        for one in halves(ast.parse(path.read_text()))
    ]
    assert dollars == [], "$ matches before a newline at the end too: ask with fullmatch"
    assert list(halves(ast.parse('A = re.compile(r"^a$")\nA.match(x)'))) == ["2: A"]


@pytest.mark.parametrize("text", ["(?:a)++", "(?:a)?+b", "(a){0,3}+"])
def test_a_possessive_group_is_known(text: str) -> None:
    assert POSSESSIVE_GROUP.search(text)


@pytest.mark.parametrize("text", [r"\)++", "(?>(?:a)+)", "(?:a++)+"])
def test_what_is_right_is_let_be(text: str) -> None:
    assert not POSSESSIVE_GROUP.search(text)

"""Patterns that end where their text does."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

import pytest

from ci.syntax import nodes, sources, walk


def texts(found: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    """Line and text of all string literals in calls of ``re.…``; of f-strings the literal parts."""
    for node in found:
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "re"
        ):
            for part in walk(node):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part.lineno, part.value


def _ends_with_dollar(node: ast.AST) -> bool:
    """Tell whether the last literal of an expression (a string, a sum, an f-string) ends with an unescaped $."""
    literals = [part for part in walk(node) if isinstance(part, ast.Constant)]
    literals.sort(key=lambda part: (part.lineno, part.col_offset))  # of an f-string in their order
    last = literals[-1].value if literals else ""
    return isinstance(last, str) and last.endswith("$") and not last.endswith(r"\$")


def open_ended_patterns(source: str) -> Iterator[str]:
    """Patterns that end with $ where a whole text is meant: a newline behind what they want passes.

    Those that are compiled and asked with ``match``, those that ``re.match`` is given, and ``pattern=`` of a type
    (msgspec.Meta), which searches.
    """
    ends = {
        target.id
        for node in nodes(source, ast.Assign)
        if isinstance(node.value, ast.Call)
        for target in node.targets
        if isinstance(target, ast.Name)
        for _, text in texts(walk(node.value))
        if text.endswith("$") and not text.endswith(r"\$")
    }
    for node in nodes(source, ast.Attribute, ast.Call):
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr="match") if name in ends:
                yield f"{node.lineno}: {name}"
            case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr="match"), args=[literal, *_]) if (
                _ends_with_dollar(literal)
            ):
                yield f"{node.lineno}: re.match"
            case ast.Call(keywords=words):
                for word in words:
                    if word.arg == "pattern" and _ends_with_dollar(word.value):
                        yield f"{node.lineno}: pattern="


def test_no_pattern_lets_a_newline_pass_at_the_end() -> None:
    dollars = [f"{path}:{pattern}" for path, source in sources().items() for pattern in open_ended_patterns(source)]
    assert dollars == [], "$ matches before a newline at the end too: ask with fullmatch, or end with \\Z"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('A = re.compile(r"^a$")\nA.match(x)', ["2: A"]),
        ('A = re.compile(r"^a$")\nA.search(x)', []),
        ('re.match("a$", x)', ["1: re.match"]),
        ('re.match(f"{b}a$", x)', ["1: re.match"]),
        (r're.match(r"a\$", x)', []),
        ('x: Annotated[str, msgspec.Meta(pattern="^a$")]', ["1: pattern="]),
        ('x: Annotated[str, Meta(pattern="^" + b + "$", min_length=1)]', ["1: pattern="]),
        (r'x: Annotated[str, Meta(pattern=r"^a\Z")]', []),
    ],
)
def test_an_open_ended_pattern_is_found(source: str, expected: list[str]) -> None:
    assert list(open_ended_patterns(source)) == expected

"""Which tests are run against a mutant: those that run its lines or, where it is bound at import, those that use it."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from ci.mutation.measure import SHARED, Measured
from ci.mutation.operators import Mutant
from ci.mutation.plan import Project


class Chooser:
    """Chooses tests by which of them run which lines."""

    def __init__(self, project: Project, measured: Iterable[Measured]) -> None:
        self._project = project
        self.seconds: dict[str, float] = {}
        self._of: dict[tuple[str, int], set[str]] = defaultdict(set)
        self._uses: dict[str, dict[str, set[int]]] = {}
        for one in measured:
            self.seconds.update(one.seconds)
            for path, by_test in one.lines.items():
                for test, lines in by_test.items():
                    tests = set(one.seconds) if test == SHARED else {test} & set(one.seconds)
                    for line in lines:
                        self._of[path, line] |= tests

    def tests(self, mutant: Mutant, budget: float) -> tuple[list[str], int]:
        """Tests in the order in which to run them, the quickest first, and how many were left out for the budget.

        The budget is in seconds that they take without a mutant; at least one is run.
        """
        tests = self._uses_of(mutant) if mutant.bound else self._lines(mutant.path, mutant.line, mutant.end_line)
        chosen: list[str] = []
        total = 0.0
        for test in sorted(tests, key=lambda name: (self.seconds[name], name)):
            total += self.seconds[test]
            if chosen and total > budget:
                break
            chosen.append(test)
        return chosen, len(tests) - len(chosen)

    def _lines(self, path: str, first: int, last: int) -> set[str]:
        tests: set[str] = set()
        for line in range(first, last + 1):
            tests |= self._of.get((path, line), set())
        if tests:
            return tests
        # Parts of an expression may count for its statement's first line only.
        for start, end in _statements(str(self._project.root / path)):
            if start <= first <= end:
                within = [self._of.get((path, line), set()) for line in range(start, end + 1)]
                tests = set().union(*within)
        return tests

    def _uses_of(self, mutant: Mutant) -> set[str]:
        tests: set[str] = set()
        for name in mutant.bound:
            if name not in self._uses:
                self._uses[name] = self._find(name)
            for path, lines in self._uses[name].items():
                for line in lines:
                    tests |= self._of.get((path, line), set())
        return tests

    def _find(self, name: str) -> dict[str, set[int]]:
        """Lines that use a name, by file; a use at import (a table, a default) stands for its file's functions."""
        uses: dict[str, set[int]] = {}
        for path in sorted((self._project.root / self._project.code).rglob("*.py")):
            if {"tests", "testing"} & set(path.relative_to(self._project.root).parts):
                continue
            text = path.read_text()
            if name in text:
                lines = _used(text, name)
                if lines:
                    uses[str(path.relative_to(self._project.root))] = lines
        return uses


def _used(text: str, name: str) -> set[int]:
    lines: set[int] = set()

    def visit(node: ast.AST, function: ast.AST | None) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
            lines.update(range(node.body[0].lineno, (node.end_lineno or node.lineno) + 1))
        used = (isinstance(node, ast.Name) and node.id == name) or (
            isinstance(node, ast.Attribute) and node.attr == name
        )
        used = used or (isinstance(node, ast.keyword) and node.arg == name)
        if used and function is not None:
            lines.add(node.lineno)  # type: ignore[attr-defined]
        elif used and isinstance(getattr(node, "ctx", None), ast.Load):
            lines.update(n.lineno for n in ast.walk(tree) if isinstance(n, ast.stmt))
        inner = node if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) else function
        for child in ast.iter_child_nodes(node):
            visit(child, inner)

    tree = ast.parse(text)
    visit(tree, None)
    return lines


def _statements(path: str) -> list[tuple[int, int]]:
    """Simple statements, and the heads of the others, outermost first."""
    statements = []
    for node in ast.walk(ast.parse(Path(path).read_text())):
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            end = body[0].lineno - 1 if isinstance(body, list) and body else node.end_lineno or node.lineno
            statements.append((node.lineno, max(node.lineno, end)))
    return statements

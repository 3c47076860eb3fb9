"""Tests use what a room offers, not its private parts: what a test needs has a name without an underscore, or a kit.

The list only shrinks: a file that reaches further, or one that is not in it, fails, and so does one that reaches less.
"""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[3]
ROOMS = ("installer", "drivers", "lab", "scenarios", "ci")

#: Test module -> how often it names a private part of what it tests.
KNOWN: dict[str, int] = {
    "installer/tests/assisted/test_restclient.py": 1,  # headers: the token among them is nobody's to read
    "installer/tests/rendezvous/reconcile/test_judging.py": 1,
    "lab/tests/release/test_keys.py": 1,  # a step of a build of minutes: another name were another key
}


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def reaches(source: str) -> int:
    """How often private parts of others are named: `other._x` and `from other import _x`, not what is defined here."""
    tree = ast.parse(source)
    own: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            own.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
            own.add(node.attr)
    count = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            count += is_private(node.attr) and node.attr not in own and node.attr != "_exit"  # os._exit is for all
        elif isinstance(node, ast.ImportFrom):
            count += sum(is_private(alias.name) for alias in node.names)
    return count


def test_tests_reach_into_no_private_parts() -> None:
    uses = {}
    for room in ROOMS:
        for path in (ROOT / room).rglob("*.py"):
            if "tests" in path.relative_to(ROOT).parts and (count := reaches(path.read_text())):
                uses[str(path.relative_to(ROOT))] = count
    assert uses == KNOWN


def test_what_counts_as_a_reach() -> None:
    assert reaches("import a\na._b(a.c, a.__d__)\nfrom a import _e, f\n") == 2
    assert reaches("class A:\n    def _b(self): self._c = 1\n\ndef test(a): a._b(); a._c") == 0

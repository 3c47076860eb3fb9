"""Who imports whom in this repository, by the syntax: nothing is imported for it.

Three kinds of edges: `now` when the module is loaded, `late` within a function, `typing` for the type checker alone.
Modules that are started or loaded by a name in a string are found as well.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ci.syntax import nodes, parse

ROOT = Path(__file__).parents[1]
ROOMS = ("installer", "drivers", "lab", "scenarios", "ci")
Kind = Literal["now", "late", "typing"]

# In a script the program before `-m` may be an image's entry point, on another line.
_STARTED_IN_SCRIPT = re.compile(r"(?:^|\s)-m\s+([A-Za-z_]\w*\.[\w.]+)")
_STARTED = re.compile(r"python[\d.]*(?:\s+-\w+)*\s+-m\s+([A-Za-z_][\w.]*)")
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
_BEGUN = re.compile(r"(?:[A-Za-z_]\w*\.)+")
_LOADS = ("import_module", "importlib.import_module", "__import__")
#: The fields of a statement that hold statements.
_BLOCKS = ("body", "handlers", "orelse", "finalbody", "cases")


@dataclass(frozen=True, order=True)
class Edge:
    """The module `importer` imports the module `imported`, both of the repository."""

    importer: str
    imported: str
    kind: Kind
    line: int

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.imported} ({self.kind})"


def modules(root: Path, rooms: Iterable[str]) -> dict[str, Path]:
    """Dotted name to file of every Python module in the rooms."""
    by_name = {}
    for room in rooms:
        for path in (root / room).rglob("*.py"):
            parts = path.relative_to(root).with_suffix("").parts
            by_name[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return by_name


def sources(*rooms: str, tests: bool = True) -> dict[str, str]:
    """Texts of the modules of these rooms of the repository (default: all), by path; with tests and kits or without."""
    paths = [path.relative_to(ROOT) for path in sorted(modules(ROOT, rooms or ROOMS).values())]
    kept = [path for path in paths if tests or not {"tests", "testing"} & set(path.parts)]
    return {str(path): (ROOT / path).read_text() for path in kept}


def _for_typing(test: ast.expr) -> bool:
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def _statements(node: ast.AST, kind: Kind) -> Iterator[tuple[ast.Import | ast.ImportFrom, Kind]]:
    """The imports below a node. Only statements hold any, so expressions are not looked through."""
    for child in (child for name in _BLOCKS for child in getattr(node, name, ())):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, kind
        elif isinstance(child, ast.If) and _for_typing(child.test):
            for number, branch in enumerate((child.body, child.orelse)):
                yield from _statements(ast.Module(branch, []), kind if number else "typing")
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _statements(child, "late" if kind == "now" else kind)
        else:
            yield from _statements(child, kind)


def imports(name: str, source: str, modules: Collection[str], *, package: bool = False) -> Iterator[Edge]:
    """What the module `name` imports of `modules`; `package`: it is an `__init__`, to which dots are relative."""
    for node, kind in _statements(parse(source), "now"):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        else:
            above = name.split(".")
            above = above[: len(above) + package - node.level] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            inner = [f"{base}.{alias.name}" for alias in node.names]
            targets = [one if one in modules else base for one in inner]
        for target in sorted(set(targets)):
            if target != name and target in modules:
                yield Edge(name, target, kind, node.lineno)


def graph(by_name: Mapping[str, Path]) -> list[Edge]:
    """Every import between the modules."""
    edges: list[Edge] = []
    for name, path in sorted(by_name.items()):
        edges += imports(name, path.read_text(), by_name, package=path.name == "__init__.py")
    return edges


def loops(edges: Iterable[tuple[str, str]]) -> list[set[str]]:
    """The import cycles: strongly connected components (Tarjan) of two and more modules."""
    follow: dict[str, list[str]] = {}
    for start, end in edges:
        follow.setdefault(start, []).append(end)
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_: list[str] = []
    components = []

    def visit(node: str) -> None:
        order[node] = lowest[node] = len(order)
        open_.append(node)
        for other in follow.get(node, ()):
            if other not in order:
                visit(other)
                lowest[node] = min(lowest[node], lowest[other])
            elif other in open_:
                lowest[node] = min(lowest[node], order[other])
        if lowest[node] == order[node]:
            group = set(open_[open_.index(node) :])
            del open_[open_.index(node) :]
            if len(group) > 1:
                components.append(group)

    for node in list(follow):
        if node not in order:
            visit(node)
    return components


def named(source: str, modules: Collection[str], *, python: bool) -> Iterator[tuple[int, str]]:
    """Lines and modules that strings of a Python file, or a script, name: `python -m a.b`, `"-m", "a.b"`, `"a.b"`; of
    names that are put together (`f"a.b.{c}"`, `"a.b." + c`) the part that is known.

    Docstrings name modules for readers, and are left out.
    """
    if not python:
        for number, line in enumerate(source.splitlines(), 1):
            if not line.lstrip().startswith("#"):
                yield from (
                    (number, started[1]) for started in _STARTED_IN_SCRIPT.finditer(line) if started[1] in modules
                )
        return
    yield from _put_together(source, modules)
    documents = {id(node.value) for node in nodes(source, ast.Expr)}
    for node in nodes(source, ast.Constant):
        if not isinstance(node.value, str) or id(node) in documents:
            continue
        whole = [node.value] if _DOTTED.fullmatch(node.value) else []
        for name in [*whole, *(started[1] for started in _STARTED.finditer(node.value))]:
            parts = name.split(".")
            inner = (".".join(parts[:end]) for end in range(len(parts), 1, -1))
            if module := next((one for one in inner if one in modules), None):
                yield node.lineno, module


def _put_together(source: str, modules: Collection[str]) -> Iterator[tuple[int, str]]:
    """Packages whose modules are named by strings put together at run time, and modules given to import_module()."""
    for node in nodes(source, ast.JoinedStr, ast.BinOp, ast.Call):
        match node:
            case (
                ast.JoinedStr(values=[ast.Constant(value=str(begun)), *_])
                | ast.BinOp(left=ast.Constant(value=str(begun)), op=ast.Add())
            ) if _BEGUN.fullmatch(begun) and begun[:-1] in modules:
                yield node.lineno, begun[:-1]
            case ast.Call(func=loads, args=[ast.Constant(value=str(name)), *_]) if (
                "." not in name and name in modules and ast.unparse(loads) in _LOADS
            ):
                yield node.lineno, name

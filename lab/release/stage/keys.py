"""The key of a stage of the lab release: a hash of everything that the stage is made from.

A key covers two things. The stage's *inputs* are one declared object: its builder gets that object and nothing else, so
it cannot depend on anything undeclared. The stage's *code* is the builder's source and that of everything it uses in
this package, with the constants that it reads (patches, lists, flags, environments), but without comments and
docstrings. A change of either gives another key, and there is no version number to raise, or to forget.

Not in a key: what a package archive happens to hold on the day (a finished stage stays until something here changes),
and how the build is shown, locked and stored (_ABOUT_BUILDING).
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import functools
import hashlib
import inspect
import json
import os
import re
import subprocess
import sys
import textwrap
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from lab.release.stage import progress
from lab.release.stage.errors import ToolMissing

T = TypeVar("T")

_PACKAGE = __name__.rsplit(".", 2)[0]  # lab.release
# As modules name their own files, and without links on the way there.
_CHECKOUTS = (Path(__file__).absolute().parents[3], Path(__file__).resolve().parents[3])
# Modules that are about building, not about what is built.
_ABOUT_BUILDING = frozenset(f"{_PACKAGE}.stage.{name}" for name in ("progress", "store", "keys", "errors"))


@dataclass(frozen=True)
class File:
    """A file that goes into a stage: its bytes and whether it can be run count, its place does not."""

    path: Path
    sha256: str

    @classmethod
    def of(cls, path: Path) -> File:
        """The file as it is now."""
        return cls(path, file_sha256(path))

    def key(self) -> object:
        """What a key says of it."""
        return {"sha256": self.sha256, "executable": os.access(self.path, os.X_OK)}


@dataclass(frozen=True)
class Built:
    """A finished stage that another one is made from; its name holds its own key."""

    path: Path

    def key(self) -> object:
        """What a key says of it."""
        return {"stage": f"{self.path.parent.name}/{self.path.name}"}


@dataclass(frozen=True)
class Unkeyed(Generic[T]):
    """An input that is no part of the key, since the result does not depend on it; the place of use says why."""

    value: T

    def key(self) -> object:
        """Nothing."""
        return None


def files(paths: Iterable[tuple[str, Path]]) -> dict[str, File]:
    """Files by the names that they will have."""
    return {name: File.of(path) for name, path in paths}


def host_packages(*names: str) -> dict[str, str]:
    """Versions of Debian packages of the host, whose files or output go into a stage. Raises ToolMissing."""
    argv = [progress.need("dpkg-query", "dpkg"), "-W", "-f", "${db:Status-Abbrev}${Package} ${Version}\n", *names]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    installed = [line[3:].strip() for line in done.stdout.splitlines() if line.startswith("ii")]
    versions = dict(line.split() for line in installed)
    for name in names:
        if name not in versions:
            raise ToolMissing(f"Debian package {name}", f"apt-get install {name}")
    return versions


def file_sha256(path: Path) -> str:
    """Hex SHA-256 of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def canonical(value: object) -> Any:
    """``value`` as JSON that is the same for equal values: what a key says of it.

    Raises TypeError for what does not say what it is, such as a path: give a File or a Built instead.
    """
    match value:
        case None | bool() | int() | float() | str():
            return value.value if isinstance(value, enum.Enum) else value
        case bytes():
            return {"bytes": value.hex()}
        case File() | Built() | Unkeyed():
            return value.key()
        case Mapping():
            return {str(name): canonical(value[name]) for name in sorted(value)}
        case tuple() | list():
            return [canonical(item) for item in value]
        case set() | frozenset():
            return sorted((canonical(item) for item in value), key=json.dumps)
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            parts = {field.name: canonical(getattr(value, field.name)) for field in dataclasses.fields(value)}
            return {"is": type(value).__name__, **parts}
    raise TypeError(f"a {type(value).__name__} cannot be part of a key: {value!r}")


def digest_of(value: object) -> str:
    """Hex SHA-256 of what a key says of ``value``; the order of a mapping does not matter."""
    return hashlib.sha256(json.dumps(canonical(value), sort_keys=True).encode()).hexdigest()


def tree_digest(paths: Iterable[tuple[str, Path]]) -> str:
    """Hex SHA-256 over (name in the result, file) pairs: names, execute bits and bytes."""
    return digest_of(files(paths))


def stage_key(inputs: object, build: Callable[..., object]) -> str:
    """The key of a stage: hex SHA-256 of its inputs and of its builder's code."""
    return digest_of({"inputs": inputs, "code": code_of(build)})


def code_of(function: Callable[..., object]) -> str:
    """Hex SHA-256 of a function's code: its own, and of this package what it uses, with the constants it reads.

    Raises TypeError when it is a closure over anything: then it knows something that no key would say.
    """
    if getattr(inspect.unwrap(function), "__closure__", None):
        raise TypeError(f"{function!r} is a closure: what it is to know belongs into the stage's inputs")
    pieces: dict[str, Any] = {}
    waiting: list[Any] = [inspect.unwrap(function)]
    while waiting:
        part = waiting.pop()
        name = f"{part.__module__}.{part.__qualname__}"
        if name in pieces:
            continue
        text, used = _parsed(part)
        constants: dict[str, Any] = {}
        pieces[name] = {"text": text, "constants": constants}
        for path, value in _resolved(used, vars(sys.modules[part.__module__])):
            if isinstance(value, (types.FunctionType, type)):
                if _counts(value.__module__):
                    waiting.append(value)
            elif not _is_plumbing(value):
                constants[path] = _constant(value)
    return hashlib.sha256(json.dumps(pieces, sort_keys=True).encode()).hexdigest()


def _counts(module: str | None) -> bool:
    """Whether code of a module belongs into keys."""
    return bool(module) and f"{module}.".startswith(f"{_PACKAGE}.") and module not in _ABOUT_BUILDING


def _is_plumbing(value: object) -> bool:
    """Modules, types for annotations, and what other packages made: their versions are the environment's affair."""
    if isinstance(value, (types.ModuleType, types.BuiltinFunctionType, typing.TypeVar, types.GenericAlias)):
        return True
    return isinstance(value, types.UnionType) or type(value).__module__ in ("typing", "collections.abc")


def _constant(value: object) -> object:
    """A module's constant as a key says it; a path or pattern stands for itself."""
    if isinstance(value, Path):
        # The checkout may lie anywhere; what lies in it is said by a File where it matters.
        inside = next((value.relative_to(top) for top in _CHECKOUTS if value.is_relative_to(top)), value)
        return {"path": str(inside)}
    if isinstance(value, re.Pattern):
        return {"pattern": value.pattern, "flags": value.flags}
    return canonical(value)


@functools.cache
def _parsed(part: Any) -> tuple[str, tuple[str, ...]]:
    """The code of a function or class without docstrings, and the names that it loads, dotted once."""
    [tree] = ast.parse(textwrap.dedent(inspect.getsource(part))).body
    used = set()
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=head), attr=tail):
                used.add(f"{head}.{tail}")
            case ast.Name(id=head):
                used.add(head)
    return _without_words(tree), tuple(sorted(used))


def _without_words(tree: ast.AST) -> str:
    """A piece of code as text, without docstrings and comments."""
    for node in ast.walk(tree):
        if (
            isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
            and ast.get_docstring(node) is not None
        ):
            node.body = node.body[1:] or [ast.Pass()]
    return ast.dump(tree, annotate_fields=False)


def _resolved(used: Iterable[str], names: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    """What the names stand for in a module; names of locals and builtins are left out, modules' attributes taken."""
    for path in used:
        head, _, tail = path.partition(".")
        if head not in names:
            continue
        value = Path(names[head]) if head == "__file__" else names[head]
        if tail:
            if not (isinstance(value, types.ModuleType) and _counts(value.__name__)):
                continue
            value = getattr(value, tail)
        yield path, inspect.unwrap(value) if callable(value) else value

"""The key of a stage of the lab release: a hash of everything that the stage is made from.

A key covers two things. The stage's *inputs* are one declared object: its builder gets that object and nothing else, so
it cannot depend on anything undeclared. The stage's *code* is the bytes of the builder's module and of all of this
package and of installer.common that it imports. A change of either gives another key, and there is no version number to
raise, or to forget.

Not in a key: what a package archive happens to hold on the day (a finished stage stays until something here changes),
and how the build is shown, locked and stored (_ABOUT_BUILDING).
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import functools
import hashlib
import importlib.util
import inspect
import json
import os
import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from lab.release.stage import progress
from lab.release.stage.errors import ToolMissing

T = TypeVar("T")

_PACKAGE = __name__.rsplit(".", 2)[0]  # lab.release
_OURS = (f"{_PACKAGE}.", "installer.common.")
# Modules that are about building, not about what is built.
_ABOUT_BUILDING = frozenset(f"{_PACKAGE}.stage.{name}" for name in ("progress", "store", "keys", "errors"))


@dataclass(frozen=True)
class File:
    """A file that goes into a stage: its bytes and whether it can be run count, its place does not."""

    path: Path
    sha256: str

    @classmethod
    def of(cls, path: Path) -> File:
        """Return the file as it is now."""
        return cls(path, file_sha256(path))

    def key(self) -> object:
        """Return its part of a key."""
        return {"sha256": self.sha256, "executable": os.access(self.path, os.X_OK)}


@dataclass(frozen=True)
class Built:
    """A finished stage that another one is made from; its name holds its own key."""

    path: Path

    def key(self) -> object:
        """Return its part of a key."""
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
    """Return the key of a stage: hex SHA-256 of its inputs and of its builder's code."""
    return digest_of({"inputs": inputs, "code": code_of(build)})


def code_of(function: Callable[..., object]) -> str:
    """Return the hex SHA-256 of the bytes of a function's module, and of all of ours that it imports, directly or not.

    Raises TypeError for a closure over anything: it would know something that no key says.
    """
    if getattr(inspect.unwrap(function), "__closure__", None):
        raise TypeError(f"{function!r} is a closure: what it is to know belongs into the stage's inputs")
    found: dict[str, str] = {}
    waiting = [inspect.unwrap(function).__module__]
    while waiting:
        name = waiting.pop()
        if name in found or name in _ABOUT_BUILDING or not f"{name}.".startswith(_OURS):
            continue
        source = Path(str(importlib.import_module(name).__file__)).read_bytes()
        found[name] = hashlib.sha256(source).hexdigest()
        waiting += _imported(source)
    return digest_of(found)


@functools.cache
def _imported(source: bytes) -> tuple[str, ...]:
    """Return the modules that a source imports, at any place; of what it takes from a package its modules alone."""
    names: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith(_OURS):
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            names += [str(node.module), *filter(_is_module, inner)]
    return tuple(names)


def _is_module(name: str) -> bool:
    package = importlib.util.find_spec(name.rpartition(".")[0])
    return bool(package and package.submodule_search_locations) and importlib.util.find_spec(name) is not None

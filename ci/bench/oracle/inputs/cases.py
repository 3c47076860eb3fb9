"""The inputs: valid ones, fields with other values, values of other types, other YAML, and pairs of such changes."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from ci.bench.oracle.inputs.bases import Config, bases
from ci.bench.oracle.inputs.fields import FIELDS, extras
from ci.bench.oracle.inputs.material import Material
from ci.bench.oracle.inputs.texts import texts
from ci.bench.oracle.inputs.values import ABSENT, KINDS
from ci.bench.oracle.programs import Input

STRUCTURES, PAIRS = 450, 300
_FILES = {"install": "install-config.yaml", "agent": "agent-config.yaml"}
_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


@dataclass(frozen=True)
class Change:
    """A field of one of the two files, set or taken away."""

    file: str
    path: str
    value: Any

    def __str__(self) -> str:
        text = "absent" if self.value is ABSENT else json.dumps(self.value, default=str, ensure_ascii=False)
        return f"{self.file} {self.path}={text if len(text) < 60 else text[:57] + '...'}"


def dump(document: Config) -> bytes:
    """A document as YAML."""
    return yaml.dump(document, Dumper=_DUMPER, sort_keys=False, width=1000, allow_unicode=True).encode()


def apply(document: Config, path: str, value: Any) -> None:
    """Set or remove the field at a dotted path. Raises LookupError or TypeError where there is no such place."""
    *parents, last = (int(part) if part.isdigit() else part for part in path.split("."))
    container: Any = document
    for part in parents:
        container = container.setdefault(part, {}) if isinstance(container, dict) else container[part]
    if value is ABSENT:
        del container[last]
    elif isinstance(container, list) and last == len(container):
        container.append(copy.deepcopy(value))
    else:
        container[last] = copy.deepcopy(value)


def walk(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """All fields of a document, nested ones too, with their dotted paths."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        field_path = f"{path}.{key}" if path else str(key)
        yield field_path, item
        yield from walk(item, field_path)


def general(path: str) -> str:
    """A path with `*` in the place of indices."""
    return ".".join("*" if part.isdigit() else part for part in path.split("."))


def of_other_types(value: Any) -> list[Any]:
    """Values that a field of this type must not hold, and the limits of those that it may."""
    if isinstance(value, bool):
        return ["x", 1, None, []]
    if isinstance(value, int):
        return ["x", 1.5, True, [], {}, None]
    if isinstance(value, str):
        return [5, True, [], {}, None, "", f" {value}", f"{value} ", value + "x" * 300]
    if isinstance(value, list):
        return ["x", {}, 5, None, [], value + value if value else [None]]
    return ["x", [], 5, None, {}]


class Cases:
    """All inputs of one seed."""

    def __init__(self, material: Material, seed: int) -> None:
        self._bases = bases(material.certificate)
        self._material = material
        self._rng = random.Random(seed)
        # Most inputs change only one of the two files: writing the other anew took half of the time.
        self._as_they_are = {(name, file): dump(document) for name, file, document in self._documents()}

    def all(self) -> list[Input]:
        """All inputs, each once, named by their base and what was changed in it."""
        every = [self._input(name, []) for name in self._bases]
        fields = [*self._fields(), *self._extras()]
        every += (self._input(name, [change]) for name, change in fields)
        structures = list(self._structures())
        chosen = self._rng.sample(structures, min(STRUCTURES, len(structures)))
        every += (self._input(name, [change]) for name, change in chosen)
        install, agent = self._bases["sno"]
        for name, files in texts(dump(install).decode(), dump(agent).decode()).items():
            every.append(Input(f"text: {name}", files))
        every += self._pairs([*fields, *chosen])
        unique: dict[tuple[tuple[str, bytes], ...], Input] = {}
        for one in every:
            unique.setdefault(tuple(sorted(one.files.items())), one)
        return list(unique.values())

    def _input(self, base: str, changes: list[Change]) -> Input:
        files = {_FILES[file]: self._as_they_are[base, file] for file in _FILES}
        for file, document in zip(_FILES, self._bases[base], strict=True):
            if mine := [change for change in changes if change.file == file]:
                changed = copy.deepcopy(document)
                for change in mine:
                    apply(changed, change.path, change.value)
                files[_FILES[file]] = dump(changed)
        return Input(f"{base}: {'; '.join(map(str, changes)) or 'as it is'}", files, base=not changes)

    def _documents(self) -> Iterator[tuple[str, str, Config]]:
        for name, (install, agent) in self._bases.items():
            yield name, "install", install
            yield name, "agent", agent

    def _fields(self) -> Iterator[tuple[str, Change]]:
        """Each value of each field once, in one of the bases that have the field."""
        places: dict[tuple[str, str], list[tuple[str, str]]] = {}
        for name, file, document in self._documents():
            for path, _ in walk(document):
                places.setdefault((file, general(path)), []).append((name, path))
        for file, pattern, kind in FIELDS:
            for value in KINDS[kind] if isinstance(kind, str) else kind:
                name, path = self._rng.choice(places[file, pattern])
                yield name, Change(file, path, value)

    def _extras(self) -> Iterator[tuple[str, Change]]:
        material = self._material
        for names, file, path, values in extras(material.certificate, material.other, material.key):
            for name in names.split():
                own = path.replace("BASE", next(iter(self._bases[name][0]["platform"])))
                for value in values:
                    if value is not ABSENT or own in dict(
                        walk(dict(zip(_FILES, self._bases[name], strict=True))[file])
                    ):
                        yield name, Change(file, own, value)

    def _structures(self) -> Iterator[tuple[str, Change]]:
        for name, file, document in self._documents():
            for path, value in walk(document):
                yield name, Change(file, path, ABSENT)
                for other in of_other_types(value):
                    yield name, Change(file, path, other)
                if isinstance(value, dict):
                    yield name, Change(file, f"{path}.unknownKey", "x")
                if isinstance(value, list) and value:
                    yield name, Change(file, f"{path}.{len(value)}", value[0])

    def _pairs(self, single: list[tuple[str, Change]]) -> Iterator[Input]:
        """Two changes of one base, neither within the other."""
        by_base: dict[str, list[Change]] = {}
        for name, change in single:
            by_base.setdefault(name, []).append(change)
        names = sorted(name for name, changes in by_base.items() if len(changes) > 5)
        count = 0
        while count < PAIRS:
            name = self._rng.choice(names)
            one, other = self._rng.sample(by_base[name], 2)
            paths = (f"{one.file}.{one.path}.", f"{other.file}.{other.path}.")
            if paths[0].startswith(paths[1]) or paths[1].startswith(paths[0]):
                continue
            try:
                pair = self._input(name, [one, other])
            except (LookupError, TypeError, AttributeError):  # the first change removed the place of the second
                continue
            count += 1
            yield pair

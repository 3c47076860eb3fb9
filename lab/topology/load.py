"""Topologies from YAML: all that is wrong with a file at once, each with the field's path."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from installer.common.formats import YamlError, yamltext
from installer.common.inputs import read_input
from lab.errors import TopologyError
from lab.topology.model import Topology
from lab.topology.presets import PATTERN, PRESETS
from lab.topology.problems import Checked, Problem, collecting, line, written

_WHERE = re.compile(r"(.*?) - at `\$(.*)`", re.DOTALL)
_MISSING = object()
_SHOWN = 60
_PLAIN = (int, bool, bool | None)
_TYPES = ((bool, "true or false"), (int, "a whole number"), (str, "text"))
#: Lists, and the fields for a single value that they replace.
_REPLACED_BY_LIST = {
    "nics": ("mac",),
    "disks": ("disk_gib",),
    "networks": ("machine_network", "address", "aliases", "addressing"),
    "api_vips": ("api_vip",),
    "ingress_vips": ("ingress_vip",),
}
_PATH = re.compile(r"[a-z_0-9]+(\[\d+\])*(\.[a-z_0-9]+(\[\d+\])*)*")


class _Reader:
    """Makes structs of plain data and collects what is wrong."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def struct(self, value: Any, kind: type[Checked], path: str) -> Any:
        """Return a struct, or _MISSING when it cannot be made."""
        if not isinstance(value, Mapping):
            self.problems.append((path, f"must be a mapping, is {_named(value)}"))
            return _MISSING
        types, known = _fields(kind)
        for name in value:
            if name not in types:
                self.problems.append(
                    (_join(path, str(name)), f"there is no field {name!r}; there are {', '.join(types)}")
                )
        fields: dict[str, Any] = {}
        for field in known:
            if field.name in value:
                fields[field.name] = self.value(value[field.name], types[field.name], _join(path, field.name))
            elif field.required:
                self.problems.append((_join(path, field.name), "is missing"))
        wrong = {name for name, found in fields.items() if found is _MISSING}
        if any(field.required and (field.name not in fields or field.name in wrong) for field in known):
            return _MISSING
        if not all(types[name] in _PLAIN for name in wrong):
            return _MISSING
        # With the default in the place of a number or a truth that is none, all else can be looked at.
        struct = kind(**{name: found for name, found in fields.items() if name not in wrong})
        for where, message in struct.problems():
            if re.split(r"[.\[]", where)[0] not in wrong:
                self.problems.append((_join(path, where), message))
        return _MISSING if wrong else struct

    def value(self, value: Any, kind: Any, path: str) -> Any:
        """Return a field's value, or _MISSING when it is of another type."""
        if get_origin(kind) is tuple and issubclass(get_args(kind)[0], Checked):
            return self.structs(value, get_args(kind)[0], path)
        choices = next((get_args(option) for option in (kind, *get_args(kind)) if get_origin(option) is Literal), ())
        if choices and value not in (*choices, *((None,) if NoneType in get_args(kind) else ())):
            self.problems.append((path, f"{value!r} is not one of {', '.join(choices)}"))
            return _MISSING
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            at = _WHERE.fullmatch(str(error))
            message, inner = (at[1], at[2]) if at else (str(error), "")
            self.problems.append(
                (path + inner, _mistyped(_at(value, inner), get_args(kind)[0] if inner else kind) or message)
            )
            return _MISSING

    def structs(self, value: Any, kind: type[Checked], path: str) -> Any:
        """Return a list of structs, or _MISSING when one cannot be made."""
        if not isinstance(value, list | tuple):
            self.problems.append((path, f"must be a list, is {_named(value)}"))
            return _MISSING
        structs = tuple(self.struct(item, kind, f"{path}[{index}]") for index, item in enumerate(value))
        return _MISSING if _MISSING in structs else structs


@cache
def _fields(kind: type[Checked]) -> tuple[Mapping[str, Any], tuple[msgspec.structs.FieldInfo, ...]]:
    """Return the types of a struct's fields by their names, and the fields: both evaluate its annotations, which is
    slow."""
    return get_type_hints(kind), msgspec.structs.fields(kind)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path and name and not name.startswith("[") else path + name


def _at(value: Any, path: str) -> Any:
    """Return the item at `[2]` or so in a list."""
    for index in re.findall(r"\[(\d+)\]", path):
        value = value[int(index)]
    return value


def _mistyped(value: Any, kind: Any) -> str:
    """Say why a value is not of the type that is wanted; empty where msgspec says it better."""
    if get_origin(kind) is tuple and not isinstance(value, list | tuple):
        return f"{value!r} is not a list"
    kinds = {*get_args(kind), kind}
    if str in kinds and isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value!r} is a number to YAML; put it in quotes"
    expected = next((text for known, text in _TYPES if known in kinds), "")
    literal = repr(value)
    return f"{literal if len(literal) <= _SHOWN else f'{literal[:_SHOWN]}...'} is not {expected}" if expected else ""


def _named(value: Any) -> str:
    return "nothing" if value is None else type(value).__name__


def read(document: Any, source: str = "topology") -> Topology:
    """Return the topology that plain data describe. Raises TopologyError with `source` and all fields that are
    wrong."""
    reader = _Reader()
    with collecting():
        topology = reader.struct(document, Topology, "")
    if reader.problems or not isinstance(topology, Topology):
        raise TopologyError(source, [line(*problem) for problem in reader.problems])
    return topology


def load_text(text: str | bytes, source: str = "topology") -> Topology:
    """Return the topology in a YAML text. Raises TopologyError with `source` and all fields that are wrong."""
    try:
        document = yamltext.load(text, alone=True)
    except YamlError as error:
        raise TopologyError(source, str(error)) from error
    return read(document, source)


def load(name_or_path: str) -> Topology:
    """Return a preset by its name (lab.topology.presets) or a YAML file by its path."""
    if name_or_path in PRESETS:
        return PRESETS[name_or_path]()
    path = Path(name_or_path)
    try:
        text = read_input(path)
    except OSError as error:
        near = difflib.get_close_matches(name_or_path, PRESETS, n=1)
        meant = f"; {near[0]} perhaps?" if near else ""
        problem = f"neither a readable file ({error.strerror}) nor a preset ({PATTERN}){meant}"
        raise TopologyError(name_or_path, problem) from error
    return load_text(text, source=name_or_path)


def changed(shape: Topology, settings: Iterable[str]) -> Topology:
    """Return the topology with these fields changed, for example `nodes[0].memory_mib=8192`; values are YAML.

    Raises TopologyError, whose source is the setting.
    """
    for setting in settings:
        document = written(shape)
        source = f"--set {setting}"
        path, equals, text = setting.partition("=")
        if not equals or not _PATH.fullmatch(path):
            raise TopologyError(source, "want FIELD=VALUE, for example nodes[0].memory_mib=8192")
        try:
            value = yamltext.load(text, alone=True)
        except YamlError as error:
            raise TopologyError(source, str(error)) from error
        _put(document, path, value, source)
        shape = read(document, source)
    return shape


def _put(document: Any, path: str, value: Any, source: str) -> None:
    steps: list[str | int] = [int(step) if step.isdecimal() else step for step in re.findall(r"[a-z_0-9]+", path)]
    container = document
    for number, step in enumerate(steps):
        last = number == len(steps) - 1
        walked = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps[:number])[1:]
        if isinstance(container, list | tuple) and isinstance(step, int):
            if step >= len(container):
                folder = walked[: walked.rfind(".") + 1]
                single = () if container else _REPLACED_BY_LIST.get(str(steps[number - 1]), ())
                names = " or ".join([*(folder + name for name in single), f"all of {walked}"])
                rule = f"there is no {walked}[{step}]: {walked} has {len(container)} entries; set {names}"
                raise TopologyError(source, rule)
        elif not isinstance(container, dict) or isinstance(step, int):
            raise TopologyError(source, f"{walked or 'a topology'} has no field {step}")
        if last:
            container[step] = value
            for name in _REPLACED_BY_LIST.get(str(step), ()) if value else ():
                container.pop(name, None)
        else:
            container = container.get(step) if isinstance(container, dict) else container[step]

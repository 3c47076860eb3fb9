"""From YAML nodes to frozen dataclasses, strictly: all unknown fields and all wrong types at once, each with its line.

A dataclass's field is spelled in camelCase in YAML unless its metadata gives another `key`. As in Go's YAML library a
string field takes numbers and booleans as they are written, and null leaves a field at its default.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import types
import typing
from functools import cache
from typing import Any, TypeVar

import yaml

from installer.redact import shortened
from installer.yamltext import YamlError, construct, is_null

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class DecodeError:
    """A field that does not fit its type, or that there is not."""

    path: str
    line: int
    text: str
    unknown: bool = False

    def __str__(self) -> str:
        where = f"{self.path}: " if self.path and not self.unknown else ""
        # Values are quoted in it, and an error is one line whatever they hold.
        return " ".join(f"line {self.line}: {where}{self.text}".replace("\n", "\\n").splitlines())


def key(name: str, **kwargs: Any) -> Any:
    """A dataclass field that YAML spells `name`; keyword arguments are those of dataclasses.field."""
    return dataclasses.field(metadata={"key": name}, **kwargs)


def camel(name: str) -> str:
    """machine_network -> machineNetwork."""
    head, *tail = name.split("_")
    return head + "".join(part.capitalize() for part in tail)


@cache
def _fields(cls: Any) -> dict[str, tuple[str, Any]]:
    hints = typing.get_type_hints(cls)
    return {
        str(field.metadata.get("key", camel(field.name))): (field.name, hints[field.name])
        for field in dataclasses.fields(cls)
    }


class _Decoder:
    def __init__(self) -> None:
        self.errors: list[DecodeError] = []

    def fail(self, node: yaml.Node, path: str, text: str, unknown: bool = False) -> None:
        self.errors.append(DecodeError(path, node.start_mark.line + 1, text, unknown))

    def value(self, node: yaml.Node, hint: Any, path: str) -> Any:
        """The decoded value; None after an error, which is then in `errors`."""
        origin, args = typing.get_origin(hint), typing.get_args(hint)
        if origin in (typing.Union, types.UnionType):
            if is_null(node):
                return None
            return self.value(node, next(arg for arg in args if arg is not type(None)), path)
        if hint is Any:
            try:
                return construct(node)
            except YamlError as error:
                self.fail(node, path, error.text)
                return None
        if dataclasses.is_dataclass(hint):
            return self.struct(node, typing.cast(type, hint), path)
        if origin is tuple:
            if is_null(node):
                return ()
            if not isinstance(node, yaml.SequenceNode):
                return self.fail(node, path, f"must be a list, is {_what(node)}")
            return tuple(self.value(item, args[0], f"{path}[{index}]") for index, item in enumerate(node.value))
        if origin is dict:
            if is_null(node):
                return {}
            if not isinstance(node, yaml.MappingNode):
                return self.fail(node, path, f"must be a map, is {_what(node)}")
            return {name.value: self.value(item, args[1], f"{path}.{name.value}") for name, item in node.value}
        return self.scalar(node, hint, path)

    def scalar(self, node: yaml.Node, hint: Any, path: str) -> Any:
        if not isinstance(node, yaml.ScalarNode):
            return self.fail(node, path, f"must be a {_NAMES[hint]}, is {_what(node)}")
        if hint is str:
            return "" if is_null(node) else node.value
        if is_null(node):
            return None
        try:
            data = construct(node)
        except YamlError as error:
            return self.fail(node, path, error.text)
        if type(data) is not hint:
            return self.fail(node, path, f"must be a {_NAMES[hint]}, is {_what(node)}")
        return data

    def struct(self, node: yaml.Node, cls: type[T], path: str) -> T | None:
        if is_null(node):
            return cls()
        if not isinstance(node, yaml.MappingNode):
            self.fail(node, path, f"must be a map, is {_what(node)}")
            return None
        struct_type: Any = cls
        fields = _fields(struct_type)
        values: dict[str, Any] = {}
        for name_node, value_node in node.value:
            name = name_node.value
            here = f"{path}.{name}" if path else name
            if name not in fields:
                near = difflib.get_close_matches(name, fields, n=1, cutoff=0.75)
                hint = f', did you mean "{near[0]}"?' if near else ""
                inside = f" in {path}" if path else ""
                self.fail(
                    name_node, here, f"unknown field {json.dumps(name, ensure_ascii=False)}{inside}{hint}", unknown=True
                )
                continue
            attribute, wanted = fields[name]
            before = len(self.errors)
            value = self.value(value_node, wanted, here)
            if len(self.errors) == before and not (value is None and is_null(value_node)):
                values[attribute] = value
        return cls(**values)


_NAMES = {str: "string", int: "number", bool: "boolean", float: "number"}


def _what(node: yaml.Node) -> str:
    if isinstance(node, yaml.MappingNode):
        return "a map"
    if isinstance(node, yaml.SequenceNode):
        return "a list"
    return f'"{shortened(node.value, 40)}"'


def decode(node: yaml.Node, cls: type[T]) -> tuple[T, list[DecodeError]]:
    """`node` as a `cls` (whose fields must all have defaults), and all that was wrong with it, in file order."""
    decoder = _Decoder()
    value = decoder.struct(node, cls, "")
    return (value if value is not None else cls()), sorted(decoder.errors, key=lambda error: error.line)

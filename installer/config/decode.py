"""From YAML nodes to frozen dataclasses, strictly: all unknown fields and all wrong types at once, each with its line.

A dataclass's field is spelled in camelCase in YAML unless its metadata gives another `key`. The rest is as in Go, whose
encoding/json and sigs.k8s.io/yaml these files were written for:

- a field matches whatever the case of its letters, an exact spelling first;
- `<<` merges a map, and a field that is set twice that way is an error;
- a string takes numbers and booleans as Go prints them, except in the fields of Kubernetes' TypeMeta;
- a number may be written as 3.0 and must fit the width of its type;
- null leaves a field at its default.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import types
import typing
from collections.abc import Callable
from functools import cache
from importlib import resources
from typing import Any, TypeVar

import yaml

from installer.common.formats import YamlError
from installer.common.formats.composer import shown_name
from installer.common.formats.yamltext import construct, go_text, is_null
from installer.common.redact import shortened

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Bits:
    """The width of a number, the second part of Annotated[int, Bits(32)]; Go's int and int64 have 64 bits."""

    count: int = 64
    signed: bool = True

    def fits(self, value: int) -> bool:
        """Return whether the value is one of this width."""
        low, high = (-(1 << self.count - 1), 1 << self.count - 1) if self.signed else (0, 1 << self.count)
        return low <= value < high


@dataclasses.dataclass(frozen=True)
class Verbatim:
    """A string that takes no number and no boolean: the second part of Annotated[str, Verbatim()]."""


@dataclasses.dataclass(frozen=True)
class Shape:
    """Plain data of a type of clouds.json, the second part of Annotated[Any, Shape("aws.Platform")].

    Those types are of openshift/installer's pkg/types: the name of another one, a list, a map as {"*": type}, or any.
    """

    name: str


@dataclasses.dataclass(frozen=True)
class DecodeError:
    """A field that does not fit its type, or that does not exist."""

    path: str
    line: int
    text: str
    unknown: bool = False

    def __str__(self) -> str:
        where = f"{self.path}: " if self.path and not self.unknown else ""
        # Values are quoted in it, and an error is one line whatever they hold.
        return " ".join(f"line {self.line}: {where}{self.text}".replace("\n", "\\n").splitlines())


def key(name: str, **kwargs: Any) -> Any:
    """Return a dataclass field that YAML spells `name`; keyword arguments are those of dataclasses.field."""
    return dataclasses.field(metadata={"key": name}, **kwargs)


def camel(name: str) -> str:
    """machine_network -> machineNetwork."""
    head, *tail = name.split("_")
    return head + "".join(part.capitalize() for part in tail)


@cache
def _fields(cls: Any) -> dict[str, tuple[str, Any, bool]]:
    """By their keys: name, type, and whether a value may be shown."""
    hints = typing.get_type_hints(cls, include_extras=True)
    return {
        str(field.metadata.get("key", camel(field.name))): (field.name, hints[field.name], field.repr)
        for field in dataclasses.fields(cls)
    }


@cache
def _folded(cls: Any) -> dict[str, str]:
    return {_fold(name): name for name in _fields(cls)}


# The letters beyond ASCII that Go folds to one within it: the long s and the sign of the Kelvin.
_ODD = str.maketrans({"\u017f": "s", "\u212a": "k"})


def _fold(name: str) -> str:
    """Return a name whatever the case of its letters, as Go's encoding/json compares them."""
    return name.translate(_ODD).lower()


class _Decoder:
    def __init__(self) -> None:
        self.errors: list[DecodeError] = []
        self.changed: list[str] = []
        self.secret = False

    def read_as(self, node: yaml.Node, path: str, text: str, why: str = "it is not in quotes") -> None:
        """Note where a value is another one than what stands there."""
        if node.value != text:
            change = "is not read as it stands" if self.secret else f"{node.value} is read as {text}"
            self.changed.append(f"line {node.start_mark.line + 1}: {path}: {change}, since {why}")

    def fail(self, node: yaml.Node, path: str, text: str, unknown: bool = False) -> None:
        self.errors.append(DecodeError(path, node.start_mark.line + 1, text, unknown))

    def value(self, node: yaml.Node, hint: Any, path: str) -> Any:
        """Return the decoded value; None after an error, which is then in `errors`."""
        origin, args = typing.get_origin(hint), typing.get_args(hint)
        if origin in (typing.Union, types.UnionType):
            if is_null(node):
                return None
            return self.value(node, next(arg for arg in args if arg is not type(None)), path)
        if hint is Any:
            self.once(node, path)
            return self.plain(node, path)
        if origin is typing.Annotated:
            return self.annotated(node, args[0], args[1], path)
        if dataclasses.is_dataclass(hint):
            return self.struct(node, typing.cast(type, hint), path)
        if origin is tuple:
            if is_null(node):
                return ()
            if not isinstance(node, yaml.SequenceNode):
                return self.fail(node, path, f"must be a list, is {_kind(node)}")
            return tuple(self.value(item, args[0], f"{path}[{index}]") for index, item in enumerate(node.value))
        if origin is dict:
            if is_null(node):
                return {}
            if not isinstance(node, yaml.MappingNode):
                return self.fail(node, path, f"must be a map, is {_kind(node)}")
            return {
                name.value: self.value(item, args[1], f"{path}.{name.value}") for name, item in self.items(node, path)
            }
        if hint is int:
            return self.number(node, Bits(), path)
        return self.scalar(node, hint, path)

    def annotated(self, node: yaml.Node, hint: Any, what: Any, path: str) -> Any:
        """Return a number of a width, a string as it stands, or a string that a function reads."""
        if isinstance(what, Bits):
            return self.number(node, what, path)
        if isinstance(what, Shape):
            before = len(self.errors)
            self.shape(node, what.name, path)
            self.once(node, path)
            return None if len(self.errors) > before else self.plain(node, path)
        if is_null(node):
            return ""
        if not isinstance(node, yaml.ScalarNode) or type(self.plain(node, path)) is not str:
            return self.fail(node, path, f"must be a {_NAMES[hint]}, is {_what(node)}")
        if isinstance(what, Verbatim):
            return node.value
        try:
            return what(node.value)
        except ValueError as error:
            return self.fail(node, path, str(error))

    def shape(self, node: yaml.Node, kind: Any, path: str) -> None:
        """Note where the node differs from its type in clouds.json."""
        if is_null(node) or kind == "any":
            return
        if isinstance(kind, list):
            if not isinstance(node, yaml.SequenceNode):
                self.fail(node, path, f"must be a list, is {_kind(node)}")
                return
            for index, item in enumerate(node.value):
                self.shape(item, kind[0], f"{path}[{index}]")
        elif isinstance(kind, dict):
            if not isinstance(node, yaml.MappingNode):
                self.fail(node, path, f"must be a map, is {_kind(node)}")
                return
            for name, item in self.items(node, path):
                self.shape(item, kind["*"], f"{path}.{name.value}")
        elif kind in _PLAIN:
            self.value(node, _PLAIN[kind], path)
        elif not isinstance(node, yaml.MappingNode):
            self.fail(node, path, f"must be a map, is {_kind(node)}")
        else:
            fields = _clouds()[str(kind)]
            folded = {_fold(name): name for name in fields}
            for name_node, value_node in self.items(node, path):
                field_name = name_node.value if name_node.value in fields else folded.get(_fold(name_node.value))
                if field_name is None:
                    self.unknown(name_node, path, fields)
                else:
                    self.shape(value_node, fields[field_name], f"{path}.{field_name}")

    def plain(self, node: yaml.Node, path: str) -> Any:
        try:
            return construct(node)
        except YamlError as error:
            return self.fail(node, path, error.text)

    def number(self, node: yaml.Node, bits: Bits, path: str) -> int | None:
        if is_null(node):
            return None
        data = self.plain(node, path) if isinstance(node, yaml.ScalarNode) else None
        if isinstance(data, bool) or not isinstance(data, int | float) or (isinstance(data, float) and data % 1):
            self.fail(node, path, f"must be a number, is {_what(node)}")
        elif not bits.fits(int(data)):
            sort = "" if bits.signed else "u"
            self.fail(node, path, f"must be a number of type {sort}int{bits.count}, is {_what(node)}")
        else:
            self.not_octal(node, int(data), path)
            return int(data)
        return None

    def not_octal(self, node: yaml.Node, data: int, path: str) -> None:
        """Note a number that means another one to whoever reads it as decimal."""
        if node.value.isdigit() and int(node.value) != data:
            self.read_as(node, path, str(data), "a 0 in front makes it octal")

    def scalar(self, node: yaml.Node, hint: Any, path: str) -> Any:
        if not isinstance(node, yaml.ScalarNode):
            return self.fail(node, path, f"must be a {_NAMES[hint]}, is {_what(node)}")
        if is_null(node):
            return "" if hint is str else None
        before = len(self.errors)
        data = self.plain(node, path)
        if len(self.errors) > before:
            return None
        if hint is str:
            text = go_text(data)
            self.read_as(node, path, text)
            return text
        if type(data) is not hint:
            return self.fail(node, path, f"must be a {_NAMES[hint]}, is {_what(node)}")
        return data

    def items(self, node: yaml.MappingNode, path: str) -> list[tuple[yaml.Node, yaml.Node]]:
        """Names and values of a map, those that it merges included; a name that comes twice is an error."""
        entries: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        for name_node, value_node in node.value:
            pairs = [(name_node, value_node)]
            if name_node.tag == "tag:yaml.org,2002:merge":
                pairs = []
                sources = value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]
                for source in sources:
                    if isinstance(source, yaml.MappingNode):
                        pairs += self.items(source, path)
                    else:
                        self.fail(source, path, "map merge requires map or sequence of maps as the value")
            for name, value in pairs:
                if is_null(name):
                    self.fail(name, path, "a name must be a string, is null")
                if name.value in entries:
                    self.fail(name_node, path, f"key {_quoted(name.value)} already set in map")
                entries[name.value] = (name, value)
        return list(entries.values())

    def once(self, node: yaml.Node, path: str) -> None:
        """Note names that come twice anywhere in a node of any form: what is merged may not be given anew. And numbers
        that are read as others."""
        if isinstance(node, yaml.MappingNode):
            for name, value in self.items(node, path):
                self.once(value, f"{path}.{name.value}")
        elif isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                self.once(item, f"{path}[{index}]")
        elif node.value.isdigit() and isinstance(data := self.plain(node, path), int):
            self.not_octal(node, data, path)

    def struct(self, node: yaml.Node, cls: type[T], path: str) -> T | None:
        if is_null(node):
            return cls()
        if not isinstance(node, yaml.MappingNode):
            self.fail(node, path, f"must be a map, is {_kind(node)}")
            return None
        struct_type: Any = cls
        fields = _fields(struct_type)
        values: dict[str, Any] = {}
        # The last of several spellings of a field counts, in the order of JSON's keys.
        for name_node, value_node in sorted(self.items(node, path), key=lambda item: str(item[0].value)):
            name = name_node.value if name_node.value in fields else _folded(struct_type).get(_fold(name_node.value))
            if name is None:
                self.unknown(name_node, path, fields)
                continue
            attribute, kind, shown = fields[name]
            before, outside = len(self.errors), self.secret
            self.secret = outside or not shown
            value = self.value(value_node, kind, f"{path}.{name}" if path else name)
            self.secret = outside
            if len(self.errors) == before and not (value is None and is_null(value_node)):
                values[attribute] = value
        return cls(**values)

    def unknown(self, node: yaml.Node, path: str, fields: dict[str, Any]) -> None:
        name = node.value
        near = difflib.get_close_matches(name, fields, n=1, cutoff=0.75)
        hint = f', did you mean "{near[0]}"?' if near else ""
        inside = f" in {path}" if path else ""
        field_path = f"{path}.{name}" if path else name
        self.fail(node, field_path, f"unknown field {_quoted(name)}{inside}{hint}", unknown=True)


_PLAIN: dict[str, Any] = {"str": str, "bool": bool, "int": int, "int64": int, "int32": typing.Annotated[int, Bits(32)]}


@cache
def _clouds() -> dict[str, dict[str, Any]]:
    text = resources.files(__package__ or "").joinpath("data/clouds.json").read_text()
    types_by_name: dict[str, dict[str, Any]] = json.loads(text)
    return types_by_name


_NAMES = {str: "string", int: "number", bool: "boolean", float: "number"}


def _kind(node: yaml.Node) -> str:
    """Describe a value in a collection's place. A scalar is not shown: it may be a password whose name was left out."""
    if isinstance(node, yaml.MappingNode):
        return "a map"
    return "a list" if isinstance(node, yaml.SequenceNode) else "a single value"


def _what(node: yaml.Node) -> str:
    """Describe a value in a single value's place."""
    return f'"{shortened(node.value, 40)}"' if isinstance(node, yaml.ScalarNode) else _kind(node)


def _quoted(name: str) -> str:
    return json.dumps(shown_name(name), ensure_ascii=False)


def decode(node: yaml.Node, cls: type[T], warn: Callable[[str], None] | None = None) -> tuple[T, list[DecodeError]]:
    """`node` as a `cls` (whose fields must all have defaults), and all that was wrong with it, in file order.

    `warn` is called with a line for each value that is not what stands in the file: 0x10 is 16, and yes is true.
    """
    decoder = _Decoder()
    value = decoder.struct(node, cls, "")
    if warn is not None:
        for change in decoder.changed:
            warn(change)
    return (value if value is not None else cls()), sorted(decoder.errors, key=lambda error: error.line)

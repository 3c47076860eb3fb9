"""Reading YAML as OpenShift's installer does: strictly, with the line that each complaint is about.

PyYAML speaks YAML 1.1, where `52:54:00:11:22:33` is a number in base 60 and `2024-01-01` a date. Go's parser, which
these files were written for, takes both as strings; so do we. Duplicate keys, which PyYAML lets pass, are errors.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml


class YamlError(Exception):
    """The text is not YAML, or has a key twice; `line` counts from 1."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(f"line {line}: {text}" if line else text)
        self.line = line


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """SafeLoader with Go's idea of which plain scalars are not strings."""


_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("bool", r"yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF", "yYnNtTfFoO"),
    ("int", r"[-+]?(?:0b[01_]+|0o?[0-7_]+|0|[1-9][0-9_]*|0x[0-9a-fA-F_]+)", "-+0123456789"),
    (
        "float",
        r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        "-+0123456789.",
    ),
    ("null", r"~|null|Null|NULL|", "~nN\0"),
    ("merge", r"<<", "<"),
):
    for _char in _first:
        _resolvers = _Loader.yaml_implicit_resolvers.setdefault("" if _char == "\0" else _char, [])
        _resolvers.append((f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_pattern})$")))


def compose(text: str) -> yaml.Node | None:
    """The node tree of a one-document text, None if it is empty."""
    documents = list(compose_all(text))
    if len(documents) > 1:
        raise YamlError(documents[1].start_mark.line + 1, "only one document is expected")
    return documents[0] if documents else None


def compose_all(text: str) -> Iterator[yaml.Node]:
    """The node trees of all non-empty documents of a text."""
    loader = _Loader(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            _check_keys(node)
            if not is_null(node):
                yield node
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        raise YamlError(line, str(error.problem or error.context or "cannot be parsed")) from error
    except yaml.YAMLError as error:
        raise YamlError(0, " ".join(str(error).split())) from error
    finally:
        loader.dispose()


def _check_keys(root: yaml.Node) -> None:
    todo, seen = [root], {id(root)}
    while todo:
        node = todo.pop()
        children: list[yaml.Node] = []
        if isinstance(node, yaml.MappingNode):
            names: set[str] = set()
            for key, value in node.value:
                if not isinstance(key, yaml.ScalarNode):
                    raise YamlError(key.start_mark.line + 1, "a key must be a plain name")
                if key.value in names:
                    raise YamlError(key.start_mark.line + 1, f'key "{key.value}" already set in map')
                names.add(key.value)
                children.append(value)
        elif isinstance(node, yaml.SequenceNode):
            children = list(node.value)
        for child in children:
            if id(child) not in seen:  # an alias leads to a node that was looked at already, even to itself
                seen.add(id(child))
                todo.append(child)


def is_null(node: yaml.Node) -> bool:
    """True for null and for nothing at all."""
    return bool(node.tag == "tag:yaml.org,2002:null")


def construct(node: yaml.Node) -> Any:
    """A node as plain data: dict, list, str, int, float, bool, None."""
    loader = _Loader("")
    try:
        return loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        raise YamlError(line, str(error.problem)) from error
    finally:
        loader.dispose()


def load(text: str) -> Any:
    """A one-document text as plain data."""
    node = compose(text)
    return None if node is None else construct(node)


def load_all(text: str) -> list[Any]:
    """All documents of a text as plain data."""
    return [construct(node) for node in compose_all(text)]


def dump(data: Any) -> str:
    """Plain data as YAML, keys in the order given, long lines unbroken, texts with lines as blocks."""
    return str(yaml.dump(data, Dumper=_Dumper, default_flow_style=False, sort_keys=False, width=1 << 20))


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """SafeDumper that never writes anchors and shows texts of several lines as blocks."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, data: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", data, style="|" if "\n" in data else None)


_Dumper.add_representer(str, _text)

"""Reads YAML that users and other programs have written, as Go reads it, with limits on its expansion.

PyYAML expands aliases without limit, takes `52:54:00:11:22:33` for a number in base 60 and `2024-01-01` for a date, and
raises odd errors for tags that do not fit. All YAML in the lab is read here; what cannot be is a `yaml.YAMLError`.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

MAX_DEPTH = 128
# How much may come of aliases, by nodes, is what go-yaml allows: 99 % of small documents, 10 % of large ones.
_FREE_ALIASED, _FREE_NODES = 100, 1000
_SMALL, _LARGE = 400_000, 4_000_000


class Refused(yaml.YAMLError):
    """YAML by its form, but not what is read here; one line, with the line of the text."""


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """SafeLoader with Go's idea of which plain scalars are not strings."""


_KINDS = (
    ("bool", r"yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF", "yYnNtTfFoO"),
    ("int", r"[-+]?(?:0|0b[01]{1,64}|0o?[0-7]{1,21}|[1-9][0-9]{0,18}|0x[0-9a-fA-F]{1,16})", "-+0123456789"),
    (
        "float",
        r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        "-+0123456789.",
    ),
    ("null", r"~|null|Null|NULL|", "~nN\0"),
    ("merge", r"<<", "<"),
)
_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in _KINDS:
    for _char in _first:
        _found = _Loader.yaml_implicit_resolvers.setdefault("" if _char == "\0" else _char, [])
        _found.append((f"tag:yaml.org,2002:{_tag}", re.compile(rf"(?:{_pattern})\Z")))


def load_all(text: str | bytes) -> list[Any]:
    """All documents of a text as plain data. Raises yaml.YAMLError."""
    try:
        text = text.decode() if isinstance(text, bytes) else text
        _check(text)
        return list(yaml.load_all(text, Loader=_Loader))
    except yaml.MarkedYAMLError as error:
        # Not its own text, which has several lines and quotes the document.
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}: " if mark else ""
        raise Refused(f"{where}{error.problem or error.context}") from None
    except yaml.YAMLError:
        raise
    except UnicodeDecodeError as error:
        raise Refused(f"not UTF-8 text at byte {error.start}") from None
    except (ValueError, KeyError, IndexError, AttributeError, TypeError, OverflowError, RecursionError) as error:
        # Without its text, which may quote what is secret.
        raise Refused(f"a value does not fit its tag ({type(error).__name__})") from error


def load(text: str | bytes) -> Any:
    """Return the only document of a text, None if it is empty. Raises yaml.YAMLError."""
    documents = load_all(text)
    if len(documents) > 1:
        raise Refused("only one document is expected")
    return documents[0] if documents else None


def load_once(text: str | bytes) -> Any:
    """Return the same of what people write, where a key that stands in a mapping twice is a mistake. Raises
    yaml.YAMLError."""
    document = load(text)
    for node in yaml.compose_all(text, Loader=_Loader):
        _check_keys(node)
    return document


def _check_keys(root: yaml.Node | None) -> None:
    nodes, seen = [root], set[int]()
    while nodes:
        node = nodes.pop()
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            nodes += node.value
        elif isinstance(node, yaml.MappingNode):
            keys = set[tuple[str, str]]()
            for key, value in node.value:
                nodes += [key, value]
                if isinstance(key, yaml.ScalarNode):
                    if (key.tag, key.value) in keys:
                        raise Refused(f'line {key.start_mark.line + 1}: key "{key.value}" already set in map')
                    keys.add((key.tag, key.value))


def _check(text: str) -> None:
    """Refuse cycles, depth and expansion, by the parser's events: composing a tree of them recurses."""
    anchors: dict[str, tuple[int, int]] = {}
    stack: list[tuple[str | None, int, int]] = []  # anchor, nodes with aliases written out, levels
    nodes = aliased = 0
    for event in yaml.parse(text, Loader=_Loader):
        line = event.start_mark.line + 1 if event.start_mark is not None else 0
        size, levels, anchor = 1, 0, getattr(event, "anchor", None)
        if isinstance(event, yaml.DocumentStartEvent):
            anchors, nodes, aliased = {}, 0, 0
            continue
        if isinstance(event, yaml.AliasEvent):
            if any(name == anchor for name, _, _ in stack):
                raise Refused(f"line {line}: an anchor's value contains itself")
            if anchor not in anchors:
                raise Refused(f"line {line}: unknown anchor referenced")
            size, levels = anchors[anchor]
            aliased, anchor = aliased + size, None
        elif isinstance(event, (yaml.SequenceStartEvent, yaml.MappingStartEvent)):
            stack.append((anchor, 1, 1))
            nodes += 1
            if len(stack) > MAX_DEPTH:
                raise Refused(f"line {line}: exceeded max depth of {MAX_DEPTH}")
            continue
        elif isinstance(event, (yaml.SequenceEndEvent, yaml.MappingEndEvent)):
            anchor, size, levels = stack.pop()
            nodes -= 1  # its beginning was counted
        elif not isinstance(event, yaml.ScalarEvent):
            continue
        nodes += 1
        _check_expansion(line, nodes + aliased, aliased)
        if anchor is not None:
            anchors[anchor] = (size, levels)
        if stack:
            if len(stack) + levels > MAX_DEPTH:
                raise Refused(f"line {line}: exceeded max depth of {MAX_DEPTH}")
            name, all_nodes, deepest = stack.pop()
            stack.append((name, all_nodes + size, max(deepest, levels + 1)))


def _check_expansion(line: int, nodes: int, aliased: int) -> None:
    share = 0.1 if nodes >= _LARGE else 0.99 - 0.89 * (max(nodes, _SMALL) - _SMALL) / (_LARGE - _SMALL)
    if aliased > _FREE_ALIASED and nodes > _FREE_NODES and aliased > share * nodes:
        raise Refused(f"line {line}: document contains excessive aliasing")

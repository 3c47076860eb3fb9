"""The composer of YAML: trees of nodes that are safe to walk, with no cycle, stack overflow or expansion bomb.

PyYAML composes recursively (in C, where a deep text ends the process) and leaves aliases to those who walk the tree.
Here the tree is made of the parser's events in one loop, and what aliases would expand to is counted as Go's YAML
library does, which Kubernetes' tools read with: they refuse the same documents.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import yaml

from installer.common.formats import YamlError
from installer.common.redact import shortened

# Kubernetes' objects stay far below; Go's library gives up at 10,000, Rust's, which nmstate reads with, at 128.
MAX_DEPTH = 128
# The share of a document's nodes that may come from aliases: 99 % in small documents, down to 10 % in large ones
# (go-yaml).
_FREE_ALIASED, _FREE_NODES = 100, 1000
_SMALL, _LARGE = 400_000, 4_000_000
# Go shares an alias' text where we write it again: aliases may add so many characters, or ten times those of the file.
_FREE_TEXT = 4 << 20
# Characters of a key that an error shows.
_NAME = 80
# This name looks like a secret's, but holds fencing's settings, whose names may be shown.
_LIST_OF_LOGINS = "credentials"


@dataclass(slots=True)
class _Extent:
    """The size of a node whose aliases are written out: nodes, characters of its scalars, levels."""

    nodes: int = 1
    text: int = 0
    levels: int = 0


@dataclass(slots=True)
class _Open:
    """A collection that is still being read."""

    node: yaml.SequenceNode | yaml.MappingNode
    anchor: str | None
    _: KW_ONLY
    extent: _Extent = field(default_factory=lambda: _Extent(levels=1))
    key: yaml.ScalarNode | None = None
    names: set[str] = field(default_factory=set)


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


_KNOWN_TAGS = frozenset(
    f"tag:yaml.org,2002:{name}"
    for name in ("null", "bool", "str", "int", "float", "timestamp", "seq", "map", "binary", "merge")
)


class Composer:
    """The documents of one text, by a loader's parser and resolver."""

    def __init__(self, text: str | bytes, loader: type[Any]) -> None:
        self._text = decoded(text)
        self._other_tags = bool(getattr(loader, "other_tags", False))
        try:
            self._loader = loader(self._text)
        except yaml.YAMLError as error:
            raise self._error_of(error) from error
        except UnicodeEncodeError as error:  # a lone surrogate, which no file can hold
            raise YamlError(self._text[: error.start].count("\n") + 1, "not text") from error

    def documents(self) -> Iterator[yaml.Node]:
        """Yield the root node of each document. Raises YamlError."""
        try:
            while self._loader.check_event():
                event = self._loader.get_event()
                if isinstance(event, yaml.DocumentStartEvent):
                    if self._other_tags and event.version not in (None, (1, 1)):
                        raise YamlError(_line(event), "found incompatible YAML document, whose version is not 1.1")
                    yield self._document()
        except yaml.YAMLError as error:
            raise self._error_of(error) from error
        finally:
            self._loader.dispose()

    def _error_of(self, error: yaml.YAMLError) -> YamlError:
        if isinstance(error, yaml.MarkedYAMLError):
            # The parser reports a text that ends too early at the line after the last one.
            last = self._text.rstrip().count("\n") + 1
            line = min(error.problem_mark.line + 1, last) if error.problem_mark else 0
            return YamlError(line, str(error.problem or error.context or "cannot be parsed"))
        position = getattr(error, "position", None)
        if isinstance(position, int):
            # The C parser counts bytes, the other one characters.
            before = self._text.encode(errors="surrogatepass")[:position]
            return YamlError(before.count(b"\n") + 1, str(getattr(error, "reason", "cannot be parsed")))
        return YamlError(0, " ".join(str(error).split()))

    def _document(self) -> yaml.Node:
        anchors: dict[str, tuple[yaml.Node, _Extent]] = {}
        stack: list[_Open] = []
        nodes, aliased, aliased_text = 0, 0, 0
        while True:
            event: Any = self._loader.get_event()
            nodes += 1
            anchor, extent = getattr(event, "anchor", None), _Extent()
            start, end = event.start_mark, event.end_mark
            node: yaml.Node
            if isinstance(event, yaml.AliasEvent):
                node, extent = self._aliased(event, anchors, stack)
                aliased, aliased_text = aliased + extent.nodes, aliased_text + extent.text
                check_expansion(_line(event), nodes + aliased, aliased, text=aliased_text, length=len(self._text))
                anchor = None
            elif isinstance(event, yaml.ScalarEvent):
                tag = self._tag(event, yaml.ScalarNode, event.value)
                node = yaml.ScalarNode(tag, event.value, start, end, style=event.style)
                extent.text = len(event.value)
            elif isinstance(event, (yaml.SequenceStartEvent, yaml.MappingStartEvent)):
                kind = yaml.SequenceNode if isinstance(event, yaml.SequenceStartEvent) else yaml.MappingNode
                node = kind(self._tag(event, kind, None), [], start, end)
                _check_depth(_line(event), len(stack) + 1)
                _check_key(stack, node, _line(event))
                stack.append(_Open(node, anchor))
                continue
            else:  # the end of a collection: that of the document comes after its root
                nodes -= 1
                done = stack.pop()
                node, anchor, extent = done.node, done.anchor, done.extent
            if anchor is not None:
                anchors[anchor] = (node, extent)
            if not stack:
                return node
            _check_depth(_line(event), len(stack) + extent.levels)
            _add(stack, node, extent, _line(event))

    def _tag(self, event: Any, kind: type[yaml.Node], value: str | None) -> str:
        """Return the tag. Go ignores those that only other programs know, and a lone exclamation mark."""
        tag = event.tag
        is_known = tag is not None and (tag in _KNOWN_TAGS or not self._other_tags)
        if tag is None or (tag == "!" and kind is not yaml.ScalarNode):
            return str(self._loader.resolve(kind, value, event.implicit))
        if tag == "!" or not is_known:
            return str(self._loader.resolve(kind, value, (False, True)))
        return str(tag)

    @staticmethod
    def _aliased(
        event: yaml.AliasEvent, anchors: dict[str, tuple[yaml.Node, _Extent]], stack: list[_Open]
    ) -> tuple[yaml.Node, _Extent]:
        name = event.anchor
        # The alias is not shown: an unquoted password that begins with an asterisk is read as an alias too.
        if any(collection.anchor == name for collection in stack):
            raise YamlError(_line(event), "an anchor's value contains itself")
        if name not in anchors:
            raise YamlError(_line(event), "unknown anchor referenced")
        return anchors[name]


def decoded(text: str | bytes) -> str:
    """Decode a text that is UTF-16 by its byte order mark, or else UTF-8. Raises YamlError."""
    if isinstance(text, str):
        return text
    encoding = "utf-16" if text[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"
    try:
        return text.decode(encoding)
    except UnicodeDecodeError as error:
        line = text[: error.start].count(b"\n") + 1
        raise YamlError(line, f"not {encoding.upper()} text at byte {error.start}") from error


def shown_name(name: str) -> str:
    """Return a key for an error, without the value that follows its colon where a blank is missing."""
    name, colon, _ = name.partition(":")
    return f"{shortened(name, _NAME)}{':...' if colon else ''}"


def _check_depth(line: int, levels: int) -> None:
    if levels > MAX_DEPTH:
        raise YamlError(line, f"exceeded max depth of {MAX_DEPTH}")


def _check_key(stack: list[_Open], node: yaml.Node, line: int) -> None:
    if stack and isinstance(stack[-1].node, yaml.MappingNode) and stack[-1].key is None:
        raise YamlError(line, "a key must be a plain name")


def _within_secret(stack: list[_Open]) -> bool:
    """Check whether an open collection is a secret's value by the name before it, or a part of such a value."""
    from installer.common.redact.names import sensitive  # for an error only

    names = [collection.key.value for collection in stack if collection.key is not None]
    return any(name != _LIST_OF_LOGINS and bool(sensitive(name)) for name in names)


def _add(stack: list[_Open], node: yaml.Node, extent: _Extent, line: int) -> None:
    """Put a node that is complete into its collection, the last of the open ones."""
    parent = stack[-1]
    parent.extent.nodes += extent.nodes
    parent.extent.text += extent.text
    parent.extent.levels = max(parent.extent.levels, extent.levels + 1)
    if isinstance(parent.node, yaml.SequenceNode):
        parent.node.value.append(node)
    elif parent.key is not None:
        parent.node.value.append((parent.key, node))
        parent.key = None
    else:
        if not isinstance(node, yaml.ScalarNode):
            raise YamlError(line, "a key must be a plain name")
        if node.value in parent.names and node.tag != "tag:yaml.org,2002:merge":
            name = "(not shown)" if _within_secret(stack) else f'"{shown_name(node.value)}"'
            raise YamlError(line, f"key {name} already set in map")
        parent.names.add(node.value)
        parent.key = node


def check_expansion(line: int, nodes: int, aliased: int, *, text: int, length: int) -> None:
    """Raise YamlError where too many of the `nodes` are `aliased`, or aliases make much `text` of a short file.

    `text` and `length` of the file in characters. By the bounds of Go's library.
    """
    share = 0.1 if nodes >= _LARGE else 0.99 - 0.89 * (max(nodes, _SMALL) - _SMALL) / (_LARGE - _SMALL)
    if (aliased > _FREE_ALIASED and nodes > _FREE_NODES and aliased > share * nodes) or (
        text > _FREE_TEXT and text > 10 * length
    ):
        raise YamlError(line, "document contains excessive aliasing")

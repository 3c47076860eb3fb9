"""The reader and writer of YAML: as strict as Go's, with the line that each complaint is about.

All YAML is read here (a test sees to it). PyYAML speaks YAML 1.1, where `52:54:00:11:22:33` is a number in base 60 and
`2024-01-01` a date. Go's parser (sigs.k8s.io/yaml, by go-yaml v2), which these files were written for, takes both as
strings; so do we. Duplicate keys, which PyYAML lets pass, are errors. Tags of other programs are ignored.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
import struct
from collections.abc import Iterator
from typing import Any, ClassVar

import yaml

from installer.common.formats import YamlError
from installer.common.formats.composer import Composer

_TAG = "tag:yaml.org,2002:"
_BOOLS = {"y": True, "n": False, "yes": True, "no": False, "true": True, "false": False, "on": True, "off": False}
# Numbers in base 60 and dates are quoted as Go does, for readers of YAML 1.1.
_BASE60 = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?\Z")
_DATE = re.compile(r"\d{4}-\d\d?-\d\d?(?:[Tt ]|\Z)", re.ASCII)
# Numbers with more digits need more than 64 bits in every base.
_LONGEST_INT = 80


class GO(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """SafeLoader with Go's idea of which plain scalars are not strings; foreign tags are ignored."""

    other_tags = True


class CORE(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML 1.2's core schema, as nmstate reads: decimal numbers even with leading zeros, no merging."""


def _resolvers(loader: Any, *kinds: tuple[str, str, str]) -> None:
    """Set a loader's (tag, pattern, the characters that it may begin with; \\0 for nothing at all)."""
    loader.yaml_implicit_resolvers = {}
    for tag, pattern, first in kinds:
        for char in first:
            resolvers = loader.yaml_implicit_resolvers.setdefault("" if char == "\0" else char, [])
            resolvers.append((_TAG + tag, re.compile(f"(?:{pattern})\\Z")))


_resolvers(
    GO,
    ("bool", r"y|Y|yes|Yes|YES|n|N|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF", "yYnNtTfFoO"),
    ("int", r"[-+]?(?:0b_*[01][01_]*|0|0o?[0-7_]*[0-7]_*|[1-9][0-9_]*|0x_*[0-9a-fA-F][0-9a-fA-F_]*)", "-+0123456789"),
    (
        "float",
        r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        "-+0123456789.",
    ),
    ("null", r"~|null|Null|NULL|", "~nN\0"),
    ("merge", r"<<", "<"),
)
_resolvers(
    CORE,
    ("null", r"~|null|Null|NULL|", "~nN\0"),
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?[0-9]{1,40}|0x[0-9a-fA-F]{1,32}", "-+0123456789"),
    (
        "float",
        r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        "-+0123456789.",
    ),
)


def compose(text: str | bytes, schema: type[Any] = GO, *, alone: bool = False) -> yaml.Node | None:
    """Return the node tree of a text's first document, None if it is empty. Raises YamlError.

    Go's library does not read the rest; nmstate's, which is CORE's, refuses more, and so do we if it is to be `alone`.
    """
    documents = Composer(text, schema).documents()
    node = next(documents, None)
    if (alone or schema is CORE) and (more := next(documents, None)) is not None:
        raise YamlError(more.start_mark.line + 1, "only one document is expected")
    return None if node is None or is_null(node) else node


def compose_all(text: str | bytes, schema: type[Any] = GO) -> Iterator[yaml.Node]:
    """Yield the node trees of all non-empty documents of a text. Raises YamlError."""
    for node in Composer(text, schema).documents():
        if not is_null(node):
            yield node


def is_null(node: yaml.Node) -> bool:
    """Check whether the node is null, written or left out."""
    return bool(node.tag == f"{_TAG}null")


def construct(node: yaml.Node, schema: type[Any] = GO) -> Any:
    """Turn a node into plain data: dict, list, str, int, float, bool, None. Raises YamlError."""
    kind = str(node.tag).removeprefix(_TAG)
    if isinstance(node, yaml.ScalarNode):
        return _scalar(node, kind, schema)
    if isinstance(node, yaml.SequenceNode) and kind == "seq":
        return [construct(item, schema) for item in node.value]
    if isinstance(node, yaml.MappingNode) and kind == "map":
        return _mapping(node, schema)
    raise _unsupported(node)


def _mapping(node: yaml.MappingNode, schema: type[Any]) -> dict[Any, Any]:
    merged: dict[Any, Any] = {}
    own: dict[Any, Any] = {}
    for key, value in node.value:
        if key.tag == f"{_TAG}merge":
            sources = value.value if isinstance(value, yaml.SequenceNode) else [value]
            for source in reversed(sources):  # the first one counts most
                if not isinstance(source, yaml.MappingNode):
                    line = source.start_mark.line + 1
                    raise YamlError(line, "map merge requires map or sequence of maps as the value")
                merged.update(_mapping(source, schema))
        else:
            own[construct(key, schema)] = construct(value, schema)
    return {**merged, **own}


def _scalar(node: yaml.ScalarNode, kind: str, schema: type[Any]) -> Any:
    text = str(node.value)
    try:
        match kind:
            case "str" | "timestamp" | "merge":
                return text
            case "null":
                return None
            case "bool":
                return _BOOLS[text.lower()]
            case "int" if text.isascii():
                return _core_int(text) if schema is CORE else _int(text)
            case "float" if text.isascii():
                return _float(text)
            case "int" | "float":
                raise ValueError(text)
            case "binary":
                return base64.b64decode("".join(text.split()), validate=True).decode()
    except (ValueError, KeyError, binascii.Error):
        # The text is not shown: it may be a password that begins with an exclamation mark, and so may the tag below.
        raise YamlError(node.start_mark.line + 1, f"cannot decode the value as a !!{kind}") from None
    raise _unsupported(node)


def _unsupported(node: yaml.Node) -> YamlError:
    return YamlError(node.start_mark.line + 1, "the value has a tag that is not known, or that is not for its kind")


def _int(text: str) -> int | float | str:
    """Read a number as Go does: beyond 64 bits it is a float, and beyond a float's range a string."""
    digits = text.replace("_", "")
    if len(digits) <= _LONGEST_INT:
        body = digits.lstrip("+-")
        old_octal = body[:1] == "0" and body[1:].isdigit()
        value = int(digits, 8 if old_octal else 0)
        if -(1 << 63) <= value < 1 << 64:
            return value
    try:
        return _float(digits)
    except ValueError:
        return text


def _core_int(text: str) -> int:
    return int(text, 16 if text.startswith("0x") else 10)


def _float(text: str) -> float | str:
    plain = text.replace("_", "").lower()
    if plain.endswith((".inf", ".nan")):
        return float(plain.replace(".", "", 1))
    value = float(plain)
    return text if value in (float("inf"), float("-inf")) else value


def go_text(data: Any) -> str:
    """Write a scalar as sigs.k8s.io/yaml gives it to a string field: 1.50 -> 1.5, 0x10 -> 16, yes -> true."""
    if isinstance(data, bool):
        return "true" if data else "false"
    return _go_float(data) if isinstance(data, float) else str(data)


def _go_float(value: float) -> str:
    """Write the fewest digits that mean the same number of 32 bits: strconv.FormatFloat(value, 'g', -1, 32)."""
    try:
        single = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        single = math.copysign(math.inf, value)
    if not math.isfinite(single):
        return {"inf": "+Inf", "-inf": "-Inf"}.get(str(single), "NaN")
    mantissa, exponent = "0", 0
    for digits in range(9):
        text = f"{single:.{digits}e}"
        if struct.pack("f", float(text)) == struct.pack("f", single):
            mantissa, _, power = text.partition("e")
            exponent = int(power)
            break
    count = len(mantissa.strip("-").replace(".", ""))
    if exponent < -4 or exponent >= 6:
        return f"{mantissa}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"
    return f"{single:.{max(0, count - 1 - exponent)}f}"


def load(text: str | bytes, schema: type[Any] = GO, *, alone: bool = False) -> Any:
    """Return a text's first document as plain data, None if it is empty (`compose`). Raises YamlError."""
    node = compose(text, schema, alone=alone)
    return None if node is None else construct(node, schema)


def load_all(text: str | bytes, schema: type[Any] = GO) -> list[Any]:
    """Return all documents of a text as plain data. Raises YamlError."""
    return [construct(node, schema) for node in compose_all(text, schema)]


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """SafeDumper that never writes anchors and shows texts of several lines as blocks.

    A text is quoted where any reader would take it for something else: those of YAML 1.1 (PyYAML's own rules), or
    Go's, to which 0o644 and 12e03 are numbers too.
    """

    yaml_implicit_resolvers: ClassVar[dict[str, list[tuple[str, re.Pattern[str]]]]] = {
        char: [*yaml.SafeDumper.yaml_implicit_resolvers.get(char, []), *GO.yaml_implicit_resolvers.get(char, [])]
        for char in {*yaml.SafeDumper.yaml_implicit_resolvers, *GO.yaml_implicit_resolvers}
    }

    def ignore_aliases(self, data: Any) -> bool:
        return True


class _GoDumper(_Dumper):
    """A dumper that writes a text plain where Go would read it back as a text, else in double quotes."""

    yaml_implicit_resolvers = GO.yaml_implicit_resolvers

    def resolved(self: Any, data: str) -> str:
        """Return the tag that a reader gives to the plain text."""
        return str(self.resolve(yaml.ScalarNode, data, (True, False)))


def _text(dumper: yaml.SafeDumper, data: str) -> yaml.ScalarNode:
    return dumper.represent_scalar(f"{_TAG}str", data, style="|" if "\n" in data else None)


def _as_go_quotes(dumper: yaml.SafeDumper, data: str) -> yaml.ScalarNode:
    plain = _GoDumper.resolved(dumper, data) == f"{_TAG}str" and not _BASE60.match(data) and not _DATE.match(data)
    return dumper.represent_scalar(f"{_TAG}str", data, style="|" if "\n" in data else None if plain else '"')


_Dumper.add_representer(str, _text)
_GoDumper.add_representer(str, _as_go_quotes)


def dump(data: Any) -> str:
    """Write plain data as YAML, keys in the order given, long lines unbroken, texts with lines as blocks."""
    return str(yaml.dump(data, Dumper=_Dumper, default_flow_style=False, sort_keys=False, width=1 << 20))


def go_dump(data: Any) -> str:
    """Write plain data as sigs.k8s.io/yaml does, letter for letter: keys sorted, long lines wrapped at 80 columns."""
    return str(
        yaml.dump(data, Dumper=_GoDumper, default_flow_style=False, sort_keys=True, width=80, allow_unicode=True)
    )

"""JSON from others, bodies and the texts in them: read within limits, so that it takes a moment at most."""

from __future__ import annotations

import gc
import re
from typing import Any, TypeVar

import msgspec

from installer.common.redact import shortened

# The most values of a document: the cost is by values, and so many are read in about 20 ms. The largest legitimate
# document is the inventory of a host with a thousand disks, about 40,000.
MOST = 65_536
# Ignition, install-config and manifests need less than twenty. What was read is also written, compared and redacted.
DEEPEST = 64
LARGE = 64 * 1024
T = TypeVar("T")
_EXPECTED = re.compile(r"Expected `(.+)`, got `(.+)`")
_PATTERN = re.compile(r"Expected `str` matching regex '(.+)'")
_UNKNOWN = re.compile(r"Object contains unknown field `(.+)`")
_MISSING = re.compile(r"Object missing required field `(.+)`")
_WORDS = {
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
}


def typed(text: str | bytes, kind: type[T], *, counted: bool = True) -> T:
    """The value of a JSON text whose shape is known; with ``counted`` off however many there are. Raises
    msgspec.MsgspecError."""
    if counted:
        _check(text)
    try:
        return msgspec.json.decode(text, type=kind)
    except RecursionError:
        raise msgspec.ValidationError(f"nested deeper than {DEEPEST}") from None


def _check(text: str | bytes) -> None:
    # Each value but the first comes with one of these.
    if isinstance(text, bytes):
        marks = text.count(b",") + text.count(b"[") + text.count(b"{")
    else:
        marks = text.count(",") + text.count("[") + text.count("{")
    if marks > MOST:
        raise msgspec.ValidationError(f"more than {MOST} values")


def parsed(text: str | bytes) -> Any:
    """The value of a JSON text. Raises ValueError."""
    _check(text)
    # JSON makes many objects and no cycles: the collector would go through them for nothing, again and again.
    quiet = len(text) > LARGE and gc.isenabled()
    if quiet:
        gc.disable()
    try:
        value = msgspec.json.decode(text)
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from None
    except RecursionError:
        raise ValueError(f"nested deeper than {DEEPEST}") from None
    finally:
        if quiet:
            gc.enable()
    if not _is_flat(value):
        raise ValueError(f"nested deeper than {DEEPEST}")
    return value


def _is_flat(value: Any) -> bool:
    level = [value] if isinstance(value, list | dict) else []
    for _ in range(DEEPEST):
        if not level:
            return True
        level = [
            child
            for item in level
            for child in (item.values() if type(item) is dict else item)
            if type(child) is dict or type(child) is list
        ]
    return not level


def in_words(error: msgspec.ValidationError, whole: str) -> str:
    """Say in words what does not fit: the field (or the ``whole``), and what it must be.

    No value is shown, but for one that is not of an enumeration.
    """
    rule, _, path = str(error).partition(" - at `$")
    path = path.removesuffix("`").removeprefix(".")
    if missing := _MISSING.fullmatch(rule):
        return f"{path}{'.' if path else ''}{missing[1]} is required"
    if unknown := _UNKNOWN.fullmatch(rule):
        return f'{path or whole}: unknown field "{shortened(unknown[1], 80)}"'
    if wrong := _EXPECTED.fullmatch(rule):
        expected = [_WORDS.get(name, name) for name in wrong[1].split(" | ") if name != "null"]
        rule = f"must be {' or '.join(expected)}, not {_WORDS.get(wrong[2], wrong[2])}"
    if pattern := _PATTERN.fullmatch(rule):
        rule = f"must match {pattern[1]}"
    rule = rule.replace("Expected `str` of length", "must be a text of length")
    # An enumeration's, or a range's.
    return f"{path or whole}: {rule}" if wrong is None else f"{path or whole} {rule}"

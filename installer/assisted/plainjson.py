"""JSON of others, bodies and the texts in them: read in a moment, or not at all."""

from __future__ import annotations

import gc
from typing import Any, TypeVar

import msgspec

# Values are what costs: so many are read in about 20 ms. The most that is sent in earnest is the inventory of a host
# with a thousand disks, about 40,000.
MOST = 65_536
# Ignition, install-config and manifests need less than twenty. What was read is also written, compared and redacted.
DEEPEST = 64
LARGE = 64 * 1024
T = TypeVar("T")


def typed(text: str | bytes, kind: type[T]) -> T:
    """The value of a JSON text whose shape is known. Raises msgspec.MsgspecError."""
    _check(text)
    try:
        return msgspec.json.decode(text, type=kind)
    except RecursionError:
        raise msgspec.ValidationError(f"nested deeper than {DEEPEST}") from None


def _check(text: str | bytes) -> None:
    # No value without one of these, but for one.
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

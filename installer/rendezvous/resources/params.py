"""Parameters and bodies that do not fit the specification are refused as upstream's service refuses them.

Upstream's is made by go-swagger, which judges them before any of its own code does: 422 for what does not fit, whether
or not an operation documents it, with a body of its own, whose code tells the rule (go-openapi/errors, schema.go).
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING, TypeVar

import msgspec

from installer.assisted.errors import Invalid, Unparsable
from installer.redact import shortened

if TYPE_CHECKING:
    from aiohttp import web

WRONG_TYPE, REQUIRED, NOT_ALLOWED, TOO_SMALL = 601, 602, 606, 609
_INT64 = 1 << 63
T = TypeVar("T")
_EXPECTED = re.compile(r"Expected `(.+)`, got `(.+)`")
_MISSING = re.compile(r"Object missing required field `(.+)`")
_WORDS = {
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
}


def integer(request: web.Request, name: str, least: int = -_INT64) -> int | None:
    """A number of the query, None without it. Raises Invalid."""
    text = request.query.get(name)
    if text is None:
        return None
    try:
        number = int(text)
    except ValueError:
        number = _INT64
    if not -_INT64 <= number < _INT64:
        raise Invalid(f"{name} in query must be of type int64: {shortened(text, 80)!r}", WRONG_TYPE)
    if number < least:
        raise Invalid(f"{name} in query should be greater than or equal to {least}", TOO_SMALL)
    return number


def told(error: msgspec.ValidationError, whole: str) -> str:
    """What does not fit, in words: the field (or the ``whole``), and what it must be.

    No value is shown, but for one that is not of an enumeration.
    """
    rule, _, path = str(error).partition(" - at `$")
    path = path.removesuffix("`").removeprefix(".")
    if missing := _MISSING.fullmatch(rule):
        return f"{path}{'.' if path else ''}{missing[1]} is required"
    if wrong := _EXPECTED.fullmatch(rule):
        wanted = [_WORDS.get(name, name) for name in wrong[1].split(" | ") if name != "null"]
        rule = f"must be {' or '.join(wanted)}, not {_WORDS.get(wrong[2], wrong[2])}"
    # An enumeration's, or a range's.
    return f"{path or whole}: {rule}" if wrong is None else f"{path or whole} {rule}"


def decoded(value: object, kind: type[T]) -> T:
    """A request's JSON value as a struct. Raises Unparsable, which names the field."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise Unparsable(told(error, "body")) from None


def required(value: T | None, name: str) -> T:
    """The value of a field in a body. Raises Invalid when it is not there."""
    if value is None:
        raise Invalid(f"{name} in body is required", REQUIRED)
    return value


def one_of(value: object, name: str, place: str, allowed: Collection[str]) -> None:
    """Raise Invalid unless the value of `name`, in `place` (query, body), is one of those that are allowed."""
    if value not in allowed:
        raise Invalid(
            f"{name} in {place} should be one of {', '.join(allowed)}, not {shortened(str(value), 80)!r}", NOT_ALLOWED
        )

"""Parameters and bodies that do not fit the specification are refused as upstream's service refuses them.

Upstream's is made by go-swagger, which judges them before any of its own code does. Of its 422 and 415 the service
makes 400 (pkg/app/middleware.go), whether or not an operation documents it, with a body of its own: code, message.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import inspect

from installer.assisted.errors import Unparsable
from installer.common.formats import jsontext
from installer.common.redact import shortened

if TYPE_CHECKING:
    from aiohttp import web

# As go-openapi has it: dashes may be left out.
UUID = re.compile("-?".join(f"[0-9a-fA-F]{{{length}}}" for length in (8, 4, 4, 4, 12)))
# How a time of RFC 3339 begins: go-openapi takes no other form of ISO 8601.
DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_INT64 = 1 << 63
# As Go reads a number of the query: no blanks, no underscores, no other script's digits.
_NUMBER = re.compile(r"[+-]?[0-9]{1,19}")
T = TypeVar("T")
TRUE = frozenset({"true", "1", "yes", "ok", "y", "on", "selected", "checked", "t", "enabled"})
# Generated clients write an option that is not set as their language does.
FALSE = frozenset({"", "false", "0", "no", "n", "off", "f", "disabled", "none", "null", "undefined"})
_ENUM = re.compile(r"(.+): Invalid enum value (.*)")


def integer(request: web.Request, name: str, least: int = -_INT64) -> int | None:
    """Return a number of the query, None without it. Raises Unparsable."""
    text = request.query.get(name)
    if text is None:
        return None
    number = int(text) if _NUMBER.fullmatch(text) else _INT64
    if not -_INT64 <= number < _INT64:
        raise Unparsable(f"{name} in query must be of type int64: {shortened(text, 80)!r}")
    if number < least:
        raise Unparsable(f"{name} in query should be greater than or equal to {least}")
    return number


def boolean(text: str | None, name: str, place: str = "query") -> bool:
    """Return a boolean of the query or a header (`place`); none and an empty one are false. Raises Unparsable.

    Words for true are those of upstream's service, which takes everything else for false (go-openapi's ConvertBool).
    """
    word = (text or "").lower()
    if word not in TRUE | FALSE:
        raise Unparsable(f"{name} in {place} must be of type bool: {shortened(text or '', 80)!r}")
    return word in TRUE


def decoded(value: object, kind: type[T]) -> T:
    """Return a request's JSON value as a struct. Raises Unparsable, which names the field."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        words = jsontext.in_words(error, "body")
        if match := _ENUM.fullmatch(words):
            allowed = ", ".join(name or "''" for name in _allowed(kind, match[1]))
            words = f"{match[1]} {match[2]} is not one of {allowed}"
        raise Unparsable(words) from None


def _allowed(kind: type, path: str) -> list[str]:
    """Return the values of an enumeration within a struct, by its path (``platform.type``, ``disks[...].role``)."""
    at: Any = inspect.type_info(kind)
    for name in re.findall(r"[A-Za-z_-]+", path):
        at = next(field.type for field in at.fields if field.encode_name == name)
        while isinstance(at, inspect.UnionType | inspect.ListType):
            inner = at.types if isinstance(at, inspect.UnionType) else (at.item_type,)
            at = next(item for item in inner if not isinstance(item, inspect.NoneType))
    return [str(item) for item in (at.cls if isinstance(at, inspect.EnumType) else at.values)]


def required(value: T | None, name: str, place: str = "body") -> T:
    """Return the value of `name`, in `place` (query, body). Raises Unparsable when it is not there."""
    if value is None:
        raise Unparsable(f"{name} in {place} is required")
    return value


def uuid(text: str, name: str, place: str) -> None:
    """Raise Unparsable unless the text of `name`, in `place` (path, query), is a UUID."""
    if not UUID.fullmatch(text):
        raise Unparsable(f"{name} in {place} must be of type uuid: {shortened(text, 80)!r}")


def date_time(text: str, name: str) -> datetime:
    """Return a moment of the body in UTC, which is meant where no zone is named, as go-openapi takes it. Raises
    Unparsable."""
    try:
        moment = datetime.fromisoformat(text) if DATE.match(text) else None
        # The first and the last hours of a calendar may be in no year of UTC.
        at = moment and (moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        at = None
    if at is None:
        raise Unparsable(f"{name} in body must be of type date-time: {shortened(text, 80)!r}")
    return at


def file_name(request: web.Request, allowed: Collection[str]) -> str:
    """Return the query's file_name. Raises Unparsable unless it is one of those that are allowed."""
    name = required(request.query.get("file_name"), "file_name", "query")
    one_of(name, "file_name", "query", allowed)
    return name


def one_of(value: object, name: str, place: str, allowed: Collection[str]) -> None:
    """Raise Unparsable unless the value of `name`, in `place` (query, body), is one of those that are allowed."""
    if value not in allowed:
        raise Unparsable(f"{name} in {place} should be one of {', '.join(allowed)}, not {shortened(str(value), 80)!r}")

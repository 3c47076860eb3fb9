"""Parameters and bodies that do not fit the specification are refused as upstream's service refuses them.

Upstream's is made by go-swagger, which judges them before any of its own code does: 422 for what does not fit, whether
or not an operation documents it, with a body of its own, whose code tells the rule (go-openapi/errors, schema.go).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from installer.assisted.errors import Invalid
from installer.redact import shortened

if TYPE_CHECKING:
    from aiohttp import web

WRONG_TYPE, REQUIRED, NOT_ALLOWED, TOO_SMALL = 601, 602, 606, 609
_INT64 = 1 << 63


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


def require(body: Mapping[str, Any], *names: str) -> None:
    """Raise Invalid for the first of the names that the body does not have."""
    for name in names:
        if body.get(name) is None:
            raise Invalid(f"{name} in body is required", REQUIRED)


def one_of(value: object, name: str, place: str, allowed: Collection[str]) -> None:
    """Raise Invalid unless the value of `name`, in `place` (query, body), is one of those that are allowed."""
    if value not in allowed:
        raise Invalid(
            f"{name} in {place} should be one of {', '.join(allowed)}, not {shortened(str(value), 80)!r}", NOT_ALLOWED
        )

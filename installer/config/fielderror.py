"""Errors about fields, in the grammar of Kubernetes' field.Error (reference/installer.md §0)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from installer.common.redact import redact
from installer.errors import ConfigError


class Kind(Enum):
    """The kinds of field error; the value is the text between path and detail."""

    REQUIRED = "Required value"
    INVALID = "Invalid value"
    UNSUPPORTED = "Unsupported value"
    FORBIDDEN = "Forbidden"
    DUPLICATE = "Duplicate value"
    TOO_MANY = "Too many"
    NOT_FOUND = "Not found"
    INTERNAL = "Internal error"


@dataclass(frozen=True)
class FieldError:
    """One thing that is wrong with one field. `value` is what was given (None where the kind shows none).

    As a text it is without secrets: those that a field's name or their own look tells of.
    """

    kind: Kind
    path: str
    value: Any = None
    detail: str = ""

    def __str__(self) -> str:
        head = f"{self.path}: {self.kind.value}"
        shows_value = self.kind in (Kind.INVALID, Kind.UNSUPPORTED, Kind.DUPLICATE, Kind.NOT_FOUND, Kind.TOO_MANY)
        if shows_value:
            head += f": {json.dumps(redact(self.value), default=str, ensure_ascii=False)}"
        return f"{head}: {self.detail}" if self.detail else head


def required(path: str, detail: str = "") -> FieldError:
    """Make the error of a required field that is missing."""
    return FieldError(Kind.REQUIRED, path, None, detail)


def invalid(path: str, value: Any, detail: str) -> FieldError:
    """Make the error of a value that breaks a rule."""
    return FieldError(Kind.INVALID, path, value, detail)


def unsupported(path: str, value: Any, supported: Iterable[str]) -> FieldError:
    """Make the error of a value that is not supported."""
    names = ", ".join(json.dumps(name) for name in supported)
    return FieldError(Kind.UNSUPPORTED, path, value, f"supported values: {names}")


def forbidden(path: str, detail: str) -> FieldError:
    """Make the error of a field that must not be set here."""
    return FieldError(Kind.FORBIDDEN, path, None, detail)


def internal(path: str, detail: str) -> FieldError:
    """Make the error of a field that cannot be judged, since another is wrong."""
    return FieldError(Kind.INTERNAL, path, None, detail)


def duplicate(path: str, value: Any) -> FieldError:
    """Make the error of a value that must be unique and is not."""
    return FieldError(Kind.DUPLICATE, path, value)


def too_many(path: str, count: int, limit: int) -> FieldError:
    """Make the error of a list that is too long."""
    return FieldError(Kind.TOO_MANY, path, count, f"must have at most {limit} item{'s' if limit != 1 else ''}")


def aggregate(errors: Sequence[FieldError | str]) -> str:
    """Several errors as `[e1, e2]`, one without brackets; identical texts count once."""
    texts = list(dict.fromkeys(str(error) for error in errors))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def raise_if_any(wrap: str, errors: Sequence[FieldError | str], file: str | None = None) -> None:
    """Raise ConfigError `<wrap>: <aggregate>` if there are errors at all."""
    if errors:
        raise ConfigError(f"{wrap}: {aggregate(errors)}", file=file)

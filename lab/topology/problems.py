"""Problems of a topology, by field: structs find them, and a file's reader collects them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache, wraps
from typing import Any, ParamSpec, TypeVar, cast

import msgspec

from lab.errors import LabError

P = ParamSpec("P")
T = TypeVar("T")
Problem = tuple[str, str]
"""A field's path, for example `nics[1].mac`, and what is wrong with it."""
_COLLECTING: ContextVar[bool] = ContextVar("collecting", default=False)


def line(path: str, message: str) -> str:
    """Return one problem as text."""
    return f"{path}: {message}" if path else message


class FieldsError(LabError, ValueError):
    """Fields of a struct contradict each other or their rules."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(line(*problem) for problem in self.problems))


@contextmanager
def collecting() -> Iterator[None]:
    """Structs made within the block do not raise: their maker asks for their problems."""
    token = _COLLECTING.set(True)
    try:
        yield
    finally:
        _COLLECTING.reset(token)


class Checked(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A part of a topology. It raises FieldsError, with all of its problems, when it is made."""

    def problems(self) -> Iterator[Problem]:
        """Yield the problems of its own fields, and between its parts; the parts find those within them."""
        yield from ()

    def fill(self) -> None:
        """Set what follows from other fields."""

    def derived_fields(self) -> Iterator[str]:
        """Yield the fields that `fill` would set as they are."""
        yield from ()

    def __post_init__(self) -> None:
        self.fill()
        if not _COLLECTING.get() and (problems := list(self.problems())):
            raise FieldsError(problems)


def written(struct: Checked) -> dict[str, Any]:
    """Return its fields as plain data, as a file has to say them: without what follows from others, and changes with
    them."""
    left_out = set(struct.derived_fields())
    return {name: _plain(getattr(struct, name)) for name in struct.__struct_fields__ if name not in left_out}


def _plain(value: Any) -> Any:
    if isinstance(value, Checked):
        return written(value)
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def remembered(make: Callable[P, T]) -> Callable[P, T]:
    """Return a function that makes a struct of nothing but its arguments, called once for equal ones: checking a
    topology asks for the same NICs and networks dozens of times. Not while problems are collected: nothing raises
    then."""
    cached = cast(Callable[P, T], lru_cache(1 << 12)(make))

    @wraps(make)
    def call(*args: P.args, **named: P.kwargs) -> T:
        return make(*args, **named) if _COLLECTING.get() else cached(*args, **named)

    return call


def within(path: str, number: int, least: int, most: int) -> Iterator[Problem]:
    """Check that a number is within limits."""
    if not least <= number <= most:
        yield path, f"{number} is not within {least} to {most}"


def unique(named: Iterable[tuple[str, str]], what: str) -> Iterator[Problem]:
    """Check that values, with the paths of their fields, are all different; empty ones do not count."""
    pairs = [(path, value) for path, value in named if value]
    counts = Counter(value for _, value in pairs)
    seen: dict[str, str] = {}
    for path, value in pairs:
        if counts[value] > 1 and value in seen:
            yield path, f"{what} {value} is used more than once, by {seen[value]} too"
        seen.setdefault(value, path)

"""Parts of both state tables: guards, which are symbols, and texts with placeholders."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

Facts = TypeVar("Facts", contravariant=True)


@dataclass(frozen=True)
class Guard(Generic[Facts]):
    """A question that a row of a table asks of the facts; ``~guard`` asks for the opposite."""

    test: Callable[[Facts], bool]
    negated: bool = False

    def __call__(self, facts: Facts) -> bool:
        """Return the answer."""
        return self.test(facts) is not self.negated

    def __invert__(self) -> Guard[Facts]:
        return replace(self, negated=not self.negated)


class _Blank(dict[str, str]):
    """A word that is missing is left empty rather than failing a transition."""

    def __missing__(self, key: str) -> str:
        return ""


def filled(text: str, words: Mapping[str, str]) -> str:
    """Return the text with each ``{name}`` in it replaced by that word, or by nothing where there is no such word."""
    return text.format_map(_Blank(words))

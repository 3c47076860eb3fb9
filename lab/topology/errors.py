"""Errors of topologies, by field."""

from __future__ import annotations

from collections.abc import Iterable

from lab.errors import LabError

Problem = tuple[str, str]
"""A field's path, for example `nics[1].mac`, and what is wrong with it."""


def line(path: str, message: str) -> str:
    """Return one problem as text."""
    return f"{path}: {message}" if path else message


class FieldsError(LabError, ValueError):
    """Fields of a struct contradict each other or their rules."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(line(*problem) for problem in self.problems))

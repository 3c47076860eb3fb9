"""What scenarios raise on purpose: what is wrong with the tables of the catalogue."""

from __future__ import annotations


class ScenarioError(Exception):
    """Base of everything that scenarios raise on purpose."""


class TableError(ScenarioError, ValueError):
    """The table is wrong; a line for each error."""


class MatrixError(ScenarioError, ValueError):
    """The table is wrong; a line for each error."""

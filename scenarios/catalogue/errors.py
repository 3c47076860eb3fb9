"""Errors in the tables of the catalogue."""

from __future__ import annotations


class ScenarioError(Exception):
    """Base of everything that scenarios raise on purpose."""


class TableError(ScenarioError, ValueError):
    """A table of faults or of other scenarios is wrong; a line for each error."""


class MatrixError(ScenarioError, ValueError):
    """matrix.yaml is wrong; a line for each error."""

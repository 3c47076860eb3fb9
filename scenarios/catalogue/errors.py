"""What is wrong with the tables of the catalogue."""

from __future__ import annotations


class TableError(ValueError):
    """The table is wrong; a line for each error."""


class MatrixError(ValueError):
    """The table is wrong; a line for each error."""

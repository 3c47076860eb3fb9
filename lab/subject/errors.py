"""Errors of releases."""

from __future__ import annotations

from lab.errors import LabError


class IncompleteImage(LabError, ValueError):
    """A part of an image is not in its store; names it."""

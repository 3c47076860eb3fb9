"""Errors of conformance runs."""

from __future__ import annotations

from lab.errors import LabError


class ConformanceError(LabError):
    """The suite cannot be run as asked: names the option, file or spec."""

"""How a run of tests ends early."""

from __future__ import annotations


class Timeout(Exception):
    """A run took longer than it may."""

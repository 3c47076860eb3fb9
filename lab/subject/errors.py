"""What is wrong with a release."""

from __future__ import annotations


class IncompleteImage(ValueError):
    """A part of an image is not in its store; names it."""

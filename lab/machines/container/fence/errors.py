"""What the fence refuses, and what cannot be read behind it."""

from __future__ import annotations


class NotAllowed(Exception):
    """An option that no machine may use."""


class CannotRead(Exception):
    """The reader came to no answer; `str()` says why in a line."""

"""How a run of tests ends early."""

from __future__ import annotations

from ci.errors import CiError


class Timeout(CiError):
    """A run took longer than it may."""

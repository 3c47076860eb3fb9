"""What this host's kernel, or its administrator, does not give."""

from __future__ import annotations

from lab.errors import LabError


class UnsupportedHostError(LabError):
    """This host has no control groups that a machine could be limited by; the text is one line."""


class NoUsersError(LabError):
    """All users from the first one on are taken."""

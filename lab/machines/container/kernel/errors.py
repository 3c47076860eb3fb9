"""What this host's kernel, or its administrator, does not give."""

from __future__ import annotations


class UnsupportedHostError(Exception):
    """This host has no control groups that a machine could be limited by; the text is one line."""


class NoUsersError(Exception):
    """All users from the first one on are taken."""

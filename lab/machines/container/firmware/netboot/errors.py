"""Why a machine does not boot from its network."""

from __future__ import annotations

from lab.errors import LabError


class NotFetched(LabError):
    """A URL that could not be fetched; `str()` says why."""


class NoLease(LabError):
    """Nobody answered, or nobody with an address; `str()` is which."""

"""Why a machine does not boot from its network."""

from __future__ import annotations


class NotFetched(Exception):
    """A URL that could not be fetched; `str()` says why."""


class NoLease(Exception):
    """Nobody answered, or nobody with an address; `str()` is which."""

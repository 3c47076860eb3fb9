"""What the service remembers of hosts and clusters only while it runs."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

Key = tuple[str, str]


class Reconciled(NamedTuple):
    """When a cluster was last reconciled: the store's version of it, and until when nothing can change by itself."""

    version: int
    until: datetime


class Scratch:
    """Never stored: it is lost with the process, which costs one round of judging and asking.

    What must outlive the process is a field of the store's model.
    """

    def __init__(self) -> None:
        # By (infra-env, host): the version, of its cluster or else its own, for which it was asked everything
        # (steps.Plan.up_to_date).
        self.asked: dict[Key, int] = {}
        # Refused registrations that have an event: its name, the caller's address, the reason.
        self.refused: set[tuple[str, str, str]] = set()
        # By cluster.
        self.reconciled: dict[str, Reconciled] = {}

    def forget(self) -> None:
        """Judge and ask everything anew."""
        self.asked.clear()
        self.reconciled.clear()

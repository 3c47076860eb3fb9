"""What the service remembers of hosts and clusters only while it runs."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

Key = tuple[str, str]


class Rest(NamedTuple):
    """A cluster that was reconciled: the store's version of it then, and until when nothing can change by itself."""

    version: int
    until: datetime


class Scratch:
    """Never stored: lost with the process, and empty it costs no more than one round of judging and asking.

    What must outlive the process is a field of the store's model.
    """

    def __init__(self) -> None:
        # By (infra-env, host): the version, of its cluster or else its own, about which it was asked all
        # (steps.Plan.up_to_date).
        self.asked: dict[Key, int] = {}
        # Registrations that were refused and told of: event, the asker's address, why.
        self.refused: set[tuple[str, str, str]] = set()
        # By cluster.
        self.rests: dict[str, Rest] = {}

    def forget(self) -> None:
        """All is judged and asked anew."""
        self.asked.clear()
        self.rests.clear()

"""Hosts that are connected, and units that were sent to one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field

from ci.informer.engine.announce import RELEASE
from ci.informer.engine.unit import Unit
from lab.host.budget import Amount


@dataclass
class Flight:
    """A unit that was sent to a host, and has not ended. `turn` is the number of the call that sent it."""

    unit: Unit
    name: str
    address: str
    turn: int
    _: KW_ONLY
    missing: float | None = None  # since when the host is gone (monotonic)


@dataclass
class Place:
    """A host that is connected, and what it announced."""

    name: str
    has: Mapping[str, float]
    others: Amount = field(default_factory=Amount)  # what units of other collectors take
    sent: set[str] = field(default_factory=set)  # releases that it has copied for earlier units

    def knows(self, release: str) -> bool:
        """Whether it need not copy a release, which takes minutes, before a run."""
        return bool(release) and (release in self.sent or RELEASE + release in self.has)

"""What happens to packets on their way, all but their loss: late, out of order, twice, with a wrong bit.

They go by a daemon of the lab (lab.daemons.switch.impair) instead of sch_netem, which the kernel of a lab's host may
lack. Several can last on one card at once, and in both directions: a packet goes from each to the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import ClassVar

import msgspec

from lab.daemons.switch import impair
from lab.daemons.switch.impair import Impairment
from lab.faults import bpf
from lab.faults.network import attach, detach, devices, there
from lab.faults.values import Jitter, Milliseconds, Percent, Way
from lab.running import RunningLab

_SERVICE = "impair"
# The packet programs' names on a card: before those that drop; and how far the places of what comes from a machine are
# behind those of what goes to it.
_PROGRAM, _FROM = 80, 8


class _Impaired(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What these faults have in common. `place` is where one is in their order on a card, and its name there."""

    place: ClassVar[int]
    node: str = ""
    way: Way = "to"

    def _impairment(self) -> Impairment:
        raise NotImplementedError

    @property
    def _place(self) -> int:
        """Its place among all on a card: what comes from a machine goes by others than what goes to it."""
        return self.place + (_FROM if self.way == "from" else 0)

    def begin(self, lab: RunningLab) -> None:
        """Turn packets aside on all cards that lead to the machine, or on none. Raises LabError."""
        cards = there(lab, self.node)
        lab.services.start(_SERVICE)
        with ExitStack() as begun:
            for card in cards:
                request = impair.Request(
                    op="begin", card=card, place=self._place, impairment=self._impairment(), back=self.way == "from"
                )
                reply = impair.ask(lab.layout.impair, request)
                begun.callback(self._let_pass, lab, [card])
                if self.way == "from":
                    attach(lab, [reply.name], bpf.as_received(reply.card, reply.mark), _PROGRAM, way="from")
                marks = range(reply.first_mark, reply.last_mark + 1)
                attach(lab, [card], bpf.aside(reply.device, marks), _PROGRAM + self._place, way=self.way)
            begun.pop_all()

    def end(self, lab: RunningLab) -> None:
        """Let them pass."""
        self._let_pass(lab, devices(lab, self.node))

    def _let_pass(self, lab: RunningLab, cards: Sequence[str]) -> None:
        # All cards first: packets pass then, even where the daemon does not answer.
        detach(lab, cards, _PROGRAM + self._place, self.way)
        if lab.services.running().get(_SERVICE):
            for card in cards:
                impair.ask(lab.layout.impair, impair.Request(op="end", card=card, place=self._place))


class Latency(_Impaired, frozen=True, tag=True, forbid_unknown_fields=True):
    """Packets to (or from) a running machine come `ms` milliseconds late, give or take `jitter_ms`, which also puts
    them out of order; without a machine, all that the lab itself sends (or gets)."""

    place = 1
    ms: Milliseconds
    jitter_ms: Jitter = 0

    def __post_init__(self) -> None:
        if self.jitter_ms > self.ms:
            raise ValueError(f"jitter_ms: {self.jitter_ms} is more than ms, {self.ms}: nothing comes before it is sent")

    def _impairment(self) -> Impairment:
        return Impairment(ms=self.ms, jitter_ms=self.jitter_ms)


class Reordered(_Impaired, frozen=True, tag=True, forbid_unknown_fields=True):
    """`percent` percent of the packets to (or from) a running machine come `ms` milliseconds late, behind others that
    were sent after them; without a machine, of all that the lab itself sends (or gets)."""

    place = 2
    percent: Percent
    ms: Milliseconds = 20

    def _impairment(self) -> Impairment:
        return Impairment(ms=self.ms, late=self.percent)


class Duplicated(_Impaired, frozen=True, tag=True, forbid_unknown_fields=True):
    """`percent` percent of the packets to (or from) a running machine come twice; without a machine, of all that the
    lab itself sends (or gets)."""

    place = 3
    percent: Percent

    def _impairment(self) -> Impairment:
        return Impairment(twice=self.percent)


class Corrupted(_Impaired, frozen=True, tag=True, forbid_unknown_fields=True):
    """`percent` percent of the packets to (or from) a running machine come with one wrong bit, so that their checksums
    are wrong; without a machine, of all that the lab itself sends (or gets)."""

    place = 4
    percent: Percent

    def _impairment(self) -> Impairment:
        return Impairment(wrong=self.percent)

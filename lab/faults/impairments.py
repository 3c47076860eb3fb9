"""What happens to packets on their way, all but their loss: late, out of order, twice, with a wrong bit.

They go by a daemon of the lab (lab.daemons.switch.impair) instead of sch_netem, which the kernel of a lab's host may
lack. Several can last on one card at once: a packet goes from each to the next.
"""

from __future__ import annotations

from contextlib import ExitStack

import msgspec

from lab.daemons.switch import impair
from lab.daemons.switch.impair import Impairment
from lab.faults import bpf
from lab.faults.network import devices, there
from lab.faults.values import Jitter, Milliseconds, Percent
from lab.running import RunningLab

_SERVICE = "impair"
# Their order on a card, and the names of their packet programs there: before those that drop.
_LATE, _ORDER, _TWICE, _WRONG = 1, 2, 3, 4
_PROGRAM = 90


class Latency(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """Packets to a running machine come `ms` milliseconds late, give or take `jitter_ms`, which also puts them out of
    order; without a machine, all that the lab itself sends."""

    ms: Milliseconds
    jitter_ms: Jitter = 0
    node: str = ""

    def __post_init__(self) -> None:
        if self.jitter_ms > self.ms:
            raise ValueError(f"jitter_ms: {self.jitter_ms} is more than ms, {self.ms}: nothing comes before it is sent")

    def begin(self, lab: RunningLab) -> None:
        """Delay."""
        _turn_aside(lab, self.node, _LATE, Impairment(ms=self.ms, jitter_ms=self.jitter_ms))

    def end(self, lab: RunningLab) -> None:
        """Delay no more."""
        _let_pass(lab, self.node, _LATE)


class Reordered(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """`percent` percent of the packets to a running machine come `ms` milliseconds late, behind others that were sent
    after them; without a machine, of all that the lab itself sends."""

    percent: Percent
    ms: Milliseconds = 20
    node: str = ""

    def begin(self, lab: RunningLab) -> None:
        """Hold some of them up."""
        _turn_aside(lab, self.node, _ORDER, Impairment(ms=self.ms, late=self.percent))

    def end(self, lab: RunningLab) -> None:
        """Hold none up any more."""
        _let_pass(lab, self.node, _ORDER)


class Duplicated(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """`percent` percent of the packets to a running machine come twice; without a machine, of all that the lab itself
    sends."""

    percent: Percent
    node: str = ""

    def begin(self, lab: RunningLab) -> None:
        """Send some twice."""
        _turn_aside(lab, self.node, _TWICE, Impairment(twice=self.percent))

    def end(self, lab: RunningLab) -> None:
        """Send each once."""
        _let_pass(lab, self.node, _TWICE)


class Corrupted(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """`percent` percent of the packets to a running machine come with one wrong bit, so that their checksums are wrong;
    without a machine, of all that the lab itself sends."""

    percent: Percent
    node: str = ""

    def begin(self, lab: RunningLab) -> None:
        """Spoil some."""
        _turn_aside(lab, self.node, _WRONG, Impairment(wrong=self.percent))

    def end(self, lab: RunningLab) -> None:
        """Spoil none any more."""
        _let_pass(lab, self.node, _WRONG)


def _turn_aside(lab: RunningLab, node: str, place: int, how: Impairment) -> None:
    """On all cards that lead to the machine, or on none. Raises LabError."""
    cards = there(lab, node)
    lab.services.start(_SERVICE)
    with ExitStack() as begun:
        for card in cards:
            reply = impair.ask(lab.layout.impair, impair.Request("begin", card, place, how))
            begun.callback(_end, lab, card, place)
            marks = range(reply.first_mark, reply.last_mark + 1)
            lab.inside(bpf.attach, card, bpf.aside(reply.device, marks), _PROGRAM + place)
        begun.pop_all()


def _let_pass(lab: RunningLab, node: str, place: int) -> None:
    for card in devices(lab, node):
        _end(lab, card, place)


def _end(lab: RunningLab, card: str, place: int) -> None:
    lab.inside(bpf.detach, card, _PROGRAM + place)
    if lab.services.running().get(_SERVICE):
        impair.ask(lab.layout.impair, impair.Request("end", card, place))

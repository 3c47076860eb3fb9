"""Faults of packets on their way, all but their loss: late, out of order, twice, with a wrong bit, too many.

They go by a daemon of the lab (lab.daemons.switch.impair) instead of sch_netem, which the kernel of a lab's host may
lack. Several can last on one NIC at once, and in both directions: a packet goes from each to the next.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from typing import ClassVar

from lab.daemons.switch import impair
from lab.daemons.switch.impair import Impairment
from lab.faults import bpf
from lab.faults.network import OfCables, attach, detach, devices, running_devices, taps, tc
from lab.faults.values import Jitter, Kbit, Milliseconds, Percent, Way, check_nic
from lab.running import RunningLab

_SERVICE = "impair"
# The packet programs' names on a NIC: before those that drop; and how far the places of what comes from a machine are
# behind those of what goes to it.
_PROGRAM, _FROM = 80, 8


class _Impaired(OfCables, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of these faults. `place` is their order on a NIC, by which each is known there."""

    place: ClassVar[int]
    node: str = ""

    def __post_init__(self) -> None:
        check_nic(self.node, self.nic)

    def _impairment(self) -> Impairment:
        raise NotImplementedError

    def begin(self, lab: RunningLab) -> None:
        """Turn packets aside on all NICs that lead to the machine, or on none. Raises LabError."""
        _turn_aside(lab, running_devices(lab, self.node, self.nic), self.place, self._impairment(), way=self.way)

    def end(self, lab: RunningLab) -> None:
        """Let them pass."""
        _let_pass(lab, devices(lab, self.node, self.nic), self.place, self.way)


class Latency(_Impaired, frozen=True, tag=True, forbid_unknown_fields=True):
    """Packets to (or from) a running machine, or one NIC of it, come `ms` milliseconds late, give or take `jitter_ms`,
    which also puts them out of order; without a machine, all that the lab itself sends (or gets)."""

    place = 1
    ms: Milliseconds
    jitter_ms: Jitter = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.jitter_ms > self.ms:
            raise ValueError(f"jitter_ms: {self.jitter_ms} is more than ms, {self.ms}: nothing comes before it is sent")

    def _impairment(self) -> Impairment:
        return Impairment(ms=self.ms, jitter_ms=self.jitter_ms)


class Reordered(_Impaired, frozen=True, tag=True, forbid_unknown_fields=True):
    """`percent` percent of the packets to (or from) a running machine, or one NIC of it, come `ms` milliseconds late,
    behind others that were sent after them; without a machine, of all that the lab itself sends (or gets)."""

    place = 2
    percent: Percent
    ms: Milliseconds = 20

    def _impairment(self) -> Impairment:
        return Impairment(ms=self.ms, late=self.percent)


class Duplicated(_Impaired, frozen=True, tag=True, forbid_unknown_fields=True):
    """`percent` percent of the packets to (or from) a running machine, or one NIC of it, come twice; without a
    machine, of all that the lab itself sends (or gets)."""

    place = 3
    percent: Percent

    def _impairment(self) -> Impairment:
        return Impairment(twice=self.percent)


class Corrupted(_Impaired, frozen=True, tag=True, forbid_unknown_fields=True):
    """`percent` percent of the packets to (or from) a running machine, or one NIC of it, come with one wrong bit, so
    that their checksums are wrong; without a machine, of all that the lab itself sends (or gets)."""

    place = 4
    percent: Percent

    def _impairment(self) -> Impairment:
        return Impairment(wrong=self.percent)


class Throttle(OfCables, frozen=True, tag=True, forbid_unknown_fields=True):
    """Traffic to (or from) a running machine, or one NIC of it, is limited to `kbit` kbit/s, each NIC by itself;
    packets that would wait over 400 ms are dropped."""

    place: ClassVar[int] = 5
    node: str
    kbit: Kbit

    def begin(self, lab: RunningLab) -> None:
        """Put a token bucket before each NIC, or before none. Raises LabError."""
        ports = running_devices(lab, self.node, self.nic)
        if self.way == "from":
            # The kernel shapes what a NIC sends, and not what it gets.
            _turn_aside(lab, ports, self.place, Impairment(kbit=self.kbit), way=self.way)
            return
        shape = f"tbf rate {self.kbit}kbit burst {impair.burst(self.kbit)}kbit latency {impair.WAIT_MS}ms"
        with ExitStack() as begun:
            for port in ports:
                tc(lab, f"qdisc add dev {port} root {shape}")
                begun.callback(_unshape, lab, [port])
            begun.pop_all()

    def end(self, lab: RunningLab) -> None:
        """Remove it; if the machine's power was cut, the NIC and its limit are gone already."""
        ports = taps(lab, self.node, self.nic)
        if self.way == "from":
            _let_pass(lab, ports, self.place, self.way)
        else:
            _unshape(lab, ports)


def _unshape(lab: RunningLab, ports: Sequence[str]) -> None:
    """Take what shapes packets away; a NIC that is new since has nothing of the kind."""
    for port in ports:
        shown = lab.inside(subprocess.run, ["tc", "qdisc", "show", "dev", port], capture_output=True, text=True)
        if re.search(r"^qdisc tbf ", shown.stdout, re.MULTILINE):
            tc(lab, f"qdisc del dev {port} root")


def _at(place: int, way: Way) -> int:
    """Return the place on a NIC by the way: packets from a machine have places behind those of packets to it."""
    return place + (_FROM if way == "from" else 0)


def _turn_aside(lab: RunningLab, ports: Sequence[str], place: int, how: Impairment, *, way: Way) -> None:
    """Turn packets aside at all of these ends, or at none. Raises LabError."""
    at = _at(place, way)
    lab.services.start(_SERVICE)
    with ExitStack() as begun:
        for port in ports:
            request = impair.Request(op="begin", nic=port, place=at, impairment=how, back=way == "from")
            reply = impair.ask(lab.layout.impair, request)
            begun.callback(_let_pass, lab, [port], place, way)
            if way == "from":
                attach(lab, [reply.name], bpf.as_received(reply.nic, reply.mark), _PROGRAM, way="from")
            marks = range(reply.mark, reply.last_mark + 1)
            attach(lab, [port], bpf.aside(reply.device, marks), _PROGRAM + at, way=way)
        begun.pop_all()


def _let_pass(lab: RunningLab, ports: Sequence[str], place: int, way: Way) -> None:
    at = _at(place, way)
    # At all of them first: packets pass then, even where the daemon does not answer.
    detach(lab, ports, _PROGRAM + at, way)
    if lab.services.running().get(_SERVICE):
        for port in ports:
            impair.ask(lab.layout.impair, impair.Request(op="end", nic=port, place=at))

"""Small programs for the kernel's packet path: what is dropped, or turned aside, of what a NIC sends or gets.

The kernel of a lab's host may lack sch_netem and act_gact; cls_bpf it needs for neither. A program is a list of eBPF
instructions, as those of the lab's switch (lab.daemons.switch.bpf).
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from lab.daemons.switch.bpf import ALL, INGRESS, load
from lab.daemons.switch.bpf import instruction as _instruction
from lab.errors import LabError
from lab.faults.values import Way

# linux/pkt_cls.h: TC_ACT_UNSPEC, on to the next program, and TC_ACT_SHOT; linux/bpf.h: bpf_get_prandom_u32,
# bpf_ktime_get_ns, bpf_redirect.
_NEXT, _SHOT, _RANDOM, _CLOCK, _REDIRECT = -1, 2, 7, 5, 23
# linux/pkt_sched.h: TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_EGRESS).
_EGRESS = 0xFFFFFFF3
# linux/bpf.h: BPF_F_INGRESS of bpf_redirect.
_AS_RECEIVED = 1
# struct __sk_buff begins with the packet's length, which includes the Ethernet header; its mark is the third word.
_ETHERNET, _MARK = 14, 8


def _drop_if(compare: int, value: int) -> Iterable[bytes]:
    """Drop where r0 (32 bits) compares so with the value, else let the next program decide."""
    yield _instruction(0x06 | compare, dst=0, value=value, offset=2)  # if w0 OP value goto +2
    yield _instruction(0xB7, dst=0, value=_NEXT)
    yield _instruction(0x95)
    yield _instruction(0xB7, dst=0, value=_SHOT)
    yield _instruction(0x95)


def lossy(percent: float) -> bytes:
    """Return a program that drops each packet with this probability, in percent."""
    random = _instruction(0x85, value=_RANDOM)
    return random + b"".join(_drop_if(0xA0, round(percent / 100 * 0xFFFFFFFF)))  # JLT


# Fields of struct __sk_buff (linux/bpf.h) of what is to be sent in several packets: its length as these, how many, and
# what each but the last carries.
_WIRE_LENGTH, _SEGMENTS, _CARRIES = 160, 164, 176
# Of TCP without options, where a machine says how much each carries and not how many there are.
_TCP_HEADERS = _ETHERNET + 40


def no_larger(size: int) -> bytes:
    """Return a program that drops each packet of more than `size` bytes without its Ethernet header, and tells nobody.
    What the NIC or the kernel is still to cut counts by the size of the pieces."""
    program = b"".join(
        (
            _instruction(0x61, dst=0, src=1),  # r0 = skb->len
            _instruction(0x61, dst=2, src=1, offset=_CARRIES),
            _instruction(0x15, dst=2, value=0, offset=11),  # in one piece: to the end
            _instruction(0x61, dst=3, src=1, offset=_SEGMENTS),
            _instruction(0x25, dst=3, value=1, offset=3),  # if r3 > 1 goto +3
            _instruction(0xBF, dst=0, src=2),
            _instruction(0x07, dst=0, value=_TCP_HEADERS),
            _instruction(0x05, offset=6),  # to the end
            # All but the first have headers that skb->len does not count.
            _instruction(0x61, dst=4, src=1, offset=_WIRE_LENGTH),
            _instruction(0x1F, dst=4, src=0),  # r4 -= r0
            _instruction(0x17, dst=3, value=1),  # r3 -= 1
            _instruction(0x3F, dst=4, src=3),  # r4 /= r3
            _instruction(0x0F, dst=4, src=2),  # r4 += r2
            _instruction(0xBF, dst=0, src=4),
        )
    )
    return program + b"".join(_drop_if(0x20, size + _ETHERNET))  # JGT


def at_times(period_ms: int, down_ms: int) -> bytes:
    """Return a program that drops all packets in the first `down_ms` of each `period_ms` milliseconds."""
    clock = _instruction(0x85, value=_CLOCK)
    milliseconds = _instruction(0x37, dst=0, value=1_000_000) + _instruction(0x97, dst=0, value=period_ms)
    return clock + milliseconds + b"".join(_drop_if(0xA0, down_ms))  # JLT


# Frames with an IPv4 header of 20 bytes: EtherType, protocol (UDP), source port.
_HEADERS = ((0x28, 12, 0x0800), (0x30, 23, 17), (0x28, 34, 53))


def names_lossy(percent: float) -> bytes:
    """Return a program that drops each answer of a DNS server (UDP, IPv4) with this probability, in percent."""
    program = _instruction(0xBF, dst=6, src=1)
    for code, offset, wanted in _HEADERS:
        # r0 = what the packet has at this offset; packets that have something else are left to the next program.
        program += _instruction(code, value=offset) + _instruction(0x15, dst=0, value=wanted, offset=2)
        program += _instruction(0xB7, dst=0, value=_NEXT) + _instruction(0x95)
    return program + lossy(percent)


def aside(interface: int, marks: range) -> bytes:
    """Return a program that has every packet sent by the NIC with this index instead of going on; packets with one of
    these marks have been there already, and are left to the next program."""
    program = _instruction(0x61, dst=2, src=1, offset=_MARK)  # w2 = skb->mark
    program += _instruction(0x14, dst=2, value=marks.start)
    program += _instruction(0xA6, dst=2, value=len(marks), offset=4)  # if w2 < VALUE goto +4
    program += _instruction(0xB7, dst=1, value=interface) + _instruction(0xB7, dst=2, value=0)
    program += _instruction(0x85, value=_REDIRECT) + _instruction(0x95)
    return program + _instruction(0xB7, dst=0, value=_NEXT) + _instruction(0x95)


def as_received(interface: int, mark: int) -> bytes:
    """Return a program that has every packet come to the NIC with this index, with this mark: what `aside` has turned
    away there comes back."""
    program = _instruction(0xB7, dst=2, value=mark)
    program += _instruction(0x63, dst=1, src=2, offset=_MARK)  # skb->mark = w2
    program += _instruction(0xB7, dst=1, value=interface) + _instruction(0xB7, dst=2, value=_AS_RECEIVED)
    return program + _instruction(0x85, value=_REDIRECT) + _instruction(0x95)


def _parent(way: Way) -> int:
    return _EGRESS if way == "to" else INGRESS


def attach(device: str, program: bytes, priority: int, way: Way = "to") -> None:
    """Run a program for each packet that a NIC sends (to who is behind it) or gets (from there); the
    `priority` (1 and more) is its name. In the lab's network namespace. Raises LabError."""
    from pyroute2 import IPRoute  # 0.14 s of each command, of which few have a fault of packets
    from pyroute2.netlink.exceptions import NetlinkError

    try:
        fd = load(program)
    except OSError as error:
        raise LabError(f"the kernel refuses a packet program: {error.strerror}") from error
    try:
        with IPRoute() as route:
            [index] = route.link_lookup(ifname=device) or [0]
            if not index:
                raise LabError(f"there is no NIC {device}: is the machine on?")
            try:
                route.tc("add", "clsact", index)
            except NetlinkError as error:
                if error.code != 17:  # EEXIST: another fault's
                    raise
            route.tc(
                "add-filter", "bpf", index, priority, parent=_parent(way), prio=priority, protocol=ALL, fd=fd,
                name="fault", direct_action=True, **{"class": 1},
            )  # fmt: skip
    except NetlinkError as error:
        if error.code == 17:
            raise LabError("it has a fault of this kind already: end that first") from error
        raise LabError(f"{device}: the kernel takes no packet program: {error}") from error
    finally:
        os.close(fd)


def detach(device: str, priority: int, way: Way = "to") -> None:
    """Take it away; nothing when the NIC has gone, and with it the program. Raises LabError."""
    from pyroute2 import IPRoute
    from pyroute2.netlink.exceptions import NetlinkError

    with IPRoute() as route:
        indexes = route.link_lookup(ifname=device)
        if not indexes:
            return
        try:
            route.tc("del-filter", "bpf", indexes[0], 0, parent=_parent(way), prio=priority, protocol=ALL)
        except NetlinkError as error:
            if error.code not in (2, 22):  # ENOENT, EINVAL: none is there any more
                raise LabError(f"{device}: {error}") from error

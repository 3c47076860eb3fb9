"""LACP: two of us, or one of us and what somebody else says, agree."""

import struct

from hypothesis import given
from hypothesis import strategies as st

from lab.daemons.switch import lacp
from lab.daemons.switch.lacp import AGGREGATION, COLLECTING, DEFAULTED, DISTRIBUTING, EXPIRED, SYNCHRONIZED, Side

OURS, THEIRS = bytes.fromhex("026e30000001"), bytes.fromhex("5254006e6000")
# What Linux's bonding says first by its second port, written by hand: state 0x4f, no partner known.
LINUX = bytes.fromhex(
    "01010114ffff5254006e6000000f00ff00024f0000000214ffff0000000000000001 00ff0001 00000000".replace(" ", "")
    + "031000000000000000000000000000000000"[:32]
    + "00" * 54
)


def test_what_linux_says_is_understood():
    assert lacp.unpack(LINUX) == (Side(THEIRS, 15, 2, 0x4F), Side(bytes(6), 1, 1, 0))


def test_what_is_said_has_its_place():
    data = lacp.pack(Side(OURS, 7, 3, 0x3F), Side(THEIRS, 15, 2, 0x4F))
    assert len(data) == 110
    assert data[:4] == b"\x01\x01\x01\x14"
    assert data[42:] == b"\x03\x10" + bytes(66)
    assert struct.unpack("!H6sHHHB", data[4:19]) == (0xFFFF, OURS, 7, 0xFF, 3, 0x3F)
    assert lacp.unpack(data) == (Side(OURS, 7, 3, 0x3F), Side(THEIRS, 15, 2, 0x4F))


def agree(ours, theirs, now=0.0, lost=()):
    """Say and hear, both ways, until nobody has anything new to say."""
    for _ in range(6):
        for index in range(len(ours.ports)):
            if index not in lost:
                theirs.hear(index, ours.say(index), now)
                ours.hear(index, theirs.say(index), now)


@given(st.integers(1, 4))
def test_two_sides_agree_on_all_ports(count):
    ours, theirs = lacp.Aggregator(OURS, 1, count), lacp.Aggregator(THEIRS, 15, count)
    assert not any(port.carries for port in ours.ports)
    assert all(port.actor.state & DEFAULTED or not port.partner.key for port in ours.ports)
    agree(ours, theirs)
    for port in (*ours.ports, *theirs.ports):
        assert port.actor.state & 0xF8 == SYNCHRONIZED | COLLECTING | DISTRIBUTING


def test_who_is_silent_for_three_seconds_is_out_and_the_others_go_on():
    ours, theirs = lacp.Aggregator(OURS, 1, 2), lacp.Aggregator(THEIRS, 15, 2)
    agree(ours, theirs)
    agree(ours, theirs, now=2.0, lost={0})
    assert [port.carries for port in ours.ports] == [True, True]
    agree(ours, theirs, now=3.0, lost={0})
    ours.look(3.5)
    assert [port.carries for port in ours.ports] == [False, True]
    assert ours.ports[0].actor.state & EXPIRED
    agree(ours, theirs, now=4.0)
    assert [port.carries for port in ours.ports] == [True, True]
    ours.lost(1, 4.0)
    assert [port.carries for port in ours.ports] == [True, False]


def test_cables_of_two_machines_are_not_one():
    ours, theirs, other = (
        lacp.Aggregator(OURS, 1, 2),
        lacp.Aggregator(THEIRS, 15, 1),
        lacp.Aggregator(b"\x02other", 15, 1),
    )
    for _ in range(6):
        for index, them in enumerate((theirs, other)):
            them.hear(0, ours.say(index), 0.0)
            ours.hear(index, them.say(0), 0.0)
    assert [port.carries for port in ours.ports] == [True, False]


def test_who_does_not_aggregate_gets_no_frames():
    ours = lacp.Aggregator(OURS, 1, 1)
    for _ in range(3):
        ours.hear(0, lacp.pack(Side(THEIRS, 1, 1, 0x3F & ~AGGREGATION), ours.ports[0].actor), 0.0)
    assert not ours.ports[0].carries


@given(st.binary(max_size=120), st.integers(0, 119), st.integers(0, 255))
def test_nothing_that_comes_in_breaks_it(junk, place, byte):
    ours, theirs = lacp.Aggregator(OURS, 1, 2), lacp.Aggregator(THEIRS, 15, 2)
    agree(ours, theirs)
    changed = bytearray(theirs.say(0))
    changed[place % len(changed)] = byte
    for data in (junk, bytes(changed)):
        ours.hear(0, data, 1.0)
        ours.look(1.0)
    assert ours.ports[1].carries or ours.ports[0].carries

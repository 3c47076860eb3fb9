"""The switch's programs: which cables need them, and that the kernel takes them."""

import os
import selectors
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab import topology
from lab.daemons.switch import bpf
from lab.daemons.switch.__main__ import _Group
from lab.daemons.switch.config import Group, groups
from lab.layout import Layout

TEXT = """
name: x
networks: [{{name: a, ipv4: 10.1.0.0/24}}, {{name: b, ipv4: 10.2.0.0/24, vlan: 7, mtu: 9000}}]
nodes:
  - name: m
    role: master
    nics: [{{mac: "52:54:00:00:00:01"{first}}}, {{mac: "52:54:00:00:00:02"}}]
    bonds: [{bond}]
"""
PORTS = ("nv525400000001", "nv525400000002")


def groups_of(tmp_path, *, first="", bond=""):
    return groups(Layout(tmp_path, topology.load_text(TEXT.format(first=first, bond=bond))))


def test_plain_nics_and_active_backup_are_no_business_of_the_switch(tmp_path):
    assert groups_of(tmp_path, first=", addresses: [10.1.0.9]") == ()
    assert groups_of(tmp_path, bond="{nics: [enp1s0, enp2s0], addresses: [10.1.0.9]}") == ()


def test_an_aggregated_bond_is_one_group(tmp_path):
    bond = "{mode: 802.3ad, nics: [enp1s0, enp2s0], network: a, trunk: [b], addresses: [10.1.0.9]}"
    [group] = groups_of(tmp_path, bond=bond)
    assert (group.ports, group.lacp) == (PORTS, True)
    assert [(leg.bridge, leg.vlan, leg.mtu) for leg in group.legs] == [("lab0", 0, 1500), ("lab1", 7, 9000)]
    [group] = groups_of(tmp_path, bond="{mode: balance-xor, nics: [enp1s0, enp2s0], addresses: [10.1.0.9]}")
    assert (group.ports, group.lacp) == (PORTS, False)


def test_ports_of_an_active_backup_trunk_are_groups_of_their_own(tmp_path):
    two = groups_of(tmp_path, bond="{nics: [enp1s0, enp2s0], trunk: [b], addresses: [10.2.0.9]}")
    assert [group.ports for group in two] == [(PORTS[0],), (PORTS[1],)]
    assert len({leg.name for group in two for leg in group.legs}) == 2
    assert all(len(leg.name) < 15 for group in two for leg in group.legs)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: programs for the kernel")
@given(
    st.lists(st.tuples(st.integers(0, 4094), st.integers(1, 1 << 20)), max_size=8, unique_by=lambda leg: leg[0]),
    st.integers(0, 4094),
    st.lists(st.integers(1, 1 << 20), max_size=6),
)
def test_the_kernel_takes_every_program(legs, vlan, ports):
    for program in (bpf.from_port(legs), bpf.to_ports(vlan, ports)):
        os.close(bpf.load(program))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: programs for the kernel")
def test_what_the_kernel_has_against_a_program_is_told():
    with pytest.raises(OSError, match="R0 !read_ok"):
        bpf.load(bytes.fromhex("9500000000000000"))


def test_a_cable_that_goes_as_it_comes_does_not_end_the_switch(monkeypatch):
    with selectors.DefaultSelector() as selector:
        switched = _Group(Group(ports=("nv1", "lo"), legs=()), 0, selector)
        switched.look({"nv1": {"ifindex": 1 << 30, "flags": ["LOWER_UP"]}}, 0)
        monkeypatch.setattr(bpf, "attach", lambda *_: os.open("/nowhere", os.O_RDONLY))
        with pytest.raises(FileNotFoundError):
            switched.look({"lo": {"ifindex": socket.if_nametoindex("lo"), "flags": ["LOWER_UP"]}}, 0)

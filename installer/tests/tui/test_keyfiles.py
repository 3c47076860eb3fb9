"""Networks as typed on the console: what is refused, and what the real NetworkManager makes of the rest."""

from ipaddress import ip_interface

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from installer.testing.network.network_manager import canonical, why_not
from installer.testing.network.nmstate_compare import parse
from installer.tui.keyfiles import BOND_MODES, DHCP, OFF, OWN, STATIC, Network, problems, profiles

NICS = ("eth0", "eth1", "enp175s0f0np0")
STATIC_V4 = {"ipv4": STATIC, "address4": "192.168.1.20/24", "gateway4": "192.168.1.1"}
texts = st.text(st.characters(codec="utf-8"), max_size=20)


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"vlan": "4095"}, "VLAN: 4095 is no number from 1 to 4094"),
        ({"bonded": "eth1 eth7"}, "Bond with: this machine has no NIC eth7"),
        ({"ipv4": STATIC}, "IPv4 address: a static network needs one, like 192.168.1.20/24"),
        ({**STATIC_V4, "address4": "192.168.1.20"}, "IPv4 address: 192.168.1.20 is no IPv4 address with a prefix, "),
        ({**STATIC_V4, "address4": "192.168.1.255/24"}, "IPv4 address: 192.168.1.255/24 is the network's own or its"),
        (
            {**STATIC_V4, "gateway4": "192.168.2.1"},
            "IPv4 gateway: 192.168.2.1 is not in the network of 192.168.1.20/24",
        ),
        ({**STATIC_V4, "gateway4": "192.168.1.20"}, "IPv4 gateway: 192.168.1.20 is this machine's own address"),
        ({"ipv6": STATIC, "address6": "10.0.0.1/8"}, "IPv6 address: 10.0.0.1/8 is no IPv6 address with a prefix"),
        ({"ipv4": OFF, "ipv6": OFF}, "IPv4, IPv6: one of them must be on"),
        ({"dns": "192.168.1.1 dns.example"}, "DNS servers: dns.example is no IP address"),
        ({"search": "a_b.example -x"}, "Search domains: -x is no domain"),
    ],
)
def test_what_is_wrong_is_said_of_its_field(fields, wrong):
    [line] = problems(Network(nic="eth0", **fields), NICS)
    assert line.startswith(wrong)


@given(st.fixed_dictionaries(dict.fromkeys(("bonded", "vlan", "address4", "gateway6", "dns", "search"), texts)))
def test_whatever_is_typed_is_refused_or_becomes_profiles(typed):
    network = Network(nic="eth0", ipv4=STATIC, ipv6=STATIC, address6="2001:db8::1/64", **typed)
    if not problems(network, NICS):
        sections = {section for text in profiles(network).values() for section in parse(text)}
        assert sections <= {"connection", "ipv4", "ipv6", "bond", "vlan"}


def typed_networks():
    address = st.integers(2, 250).map(lambda number: f"10.1.0.{number}/24")
    return st.builds(
        Network,
        nic=st.sampled_from(NICS),
        bonded=st.sampled_from(("", "eth1", "eth0, eth1")),
        bond_mode=st.sampled_from(BOND_MODES),
        vlan=st.sampled_from(("", "7", " 4094 ")),
        ipv4=st.sampled_from((DHCP, STATIC)),
        address4=address,
        gateway4=st.sampled_from(("", "10.1.0.1")),
        ipv6=st.sampled_from((DHCP, STATIC, OFF)),
        address6=st.just("2001:db8::5/64 2001:db8:1::5/64"),
        gateway6=st.sampled_from(("", "fe80::1")),
        dns=st.sampled_from(("", "10.1.0.1", "10.1.0.1 2001:db8::53")),
        search=st.sampled_from(("", "lab.example other.example")),
    )


@pytest.mark.slow
@pytest.mark.skipif(bool(why_not()), reason=why_not())
@settings(max_examples=40)
@given(typed_networks())
def test_networkmanager_understands_the_profiles_as_they_were_meant(network):
    assert problems(network, NICS) == []
    files = profiles(network)
    assert all(len(name.removeprefix(OWN).removesuffix(".nmconnection")) <= 15 for name in files)
    read = {}
    for name, text in files.items():
        written, complaint = canonical(text)
        assert complaint == "", (text, complaint)
        read[name] = parse(written)
    top = read[f"{OWN}{network.top}.nmconnection"]
    if network.ipv4 == STATIC:
        assert top["ipv4"]["address1"].split(",")[0] == network.address4
    if network.ipv6 == STATIC:
        addresses = [top["ipv6"][f"address{number}"].split(",")[0] for number in (1, 2)]
        assert [ip_interface(text) for text in addresses] == [ip_interface(t) for t in network.address6.split()]
    assert top["connection"]["interface-name"] == network.top
    for port in network.ports:
        assert read[f"{OWN}{port}.nmconnection"]["connection"]["master"] == "bond0"
    if network.vlan:
        assert top["vlan"] == {"flags": "1", "id": network.vlan.strip(), "parent": network.base}
        assert read[f"{OWN}{network.base}.nmconnection"]["ipv4"]["method"] == "disabled"

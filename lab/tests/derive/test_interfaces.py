"""Interfaces of NMState documents, in the forms that it has for them, and what of a machine comes of each."""

import pytest
import yaml

from lab.derive import derive
from lab.errors import ConfigsError

INSTALL = yaml.safe_load("""
metadata: {name: c}
baseDomain: d.e
controlPlane: {replicas: 1}
compute: [{replicas: 0}]
networking: {machineNetwork: [{cidr: 10.20.30.0/24}]}
platform: {none: {}}
""")
STATIC = "ipv4: {enabled: true, dhcp: false, address: [{ip: 10.20.30.80, prefix-length: 24}]}"
DHCP = "ipv4: {enabled: true, dhcp: true}"
CARDS = """
- {name: eno1, macAddress: "00:1b:21:3c:00:01"}
- {name: eno2, macAddress: "00:1b:21:3c:00:02"}
"""


def machine(interfaces, device="eno1", cards=CARDS):
    """The machine, and the networks, of a host with these interfaces, whose default route is by one of them."""
    document = {
        "interfaces": yaml.safe_load(interfaces),
        "dns-resolver": {"config": {"server": ["10.20.30.2"]}},
        "routes": {
            "config": [{"destination": "0.0.0.0/0", "next-hop-address": "10.20.30.1", "next-hop-interface": device}]
        },
    }
    host = {"hostname": "a", "interfaces": yaml.safe_load(cards), "networkConfig": document}
    derived = derive(INSTALL, {"rendezvousIP": "10.20.30.80", "hosts": [host]})
    return derived.nodes[0], {network.name: network for network in derived.all_networks}


@pytest.mark.parametrize(
    "ports", ["ports: [eno2, eno1]", "slaves: [eno2, eno1]", "ports-config: [{name: eno2}, {name: eno1, priority: 9}]"]
)
def test_ports_of_a_bond_have_several_names(ports):
    node, _ = machine(f"- {{name: b0, type: bond, {STATIC}, link-aggregation: {{mode: 1, {ports}}}}}", "b0")
    [bond] = node.bonds
    assert (bond.mode, bond.nics, bond.addresses) == ("active-backup", ("enp2s0", "enp1s0"), ("10.20.30.80",))


def test_a_bond_without_ports_is_told_by_the_field_that_it_should_have():
    with pytest.raises(ConfigsError, match=r"interfaces\[0\].link-aggregation.port: b0 is a bond of no cards"):
        machine(f"- {{name: b0, type: bond, {STATIC}, link-aggregation: {{mode: 1}}}}", "b0")


@pytest.mark.parametrize(
    "kind",
    [
        "type: vxlan, vxlan: {base-iface: eno1, id: 7, remote: 10.20.30.9}",
        "type: mac-vlan, mac-vlan: {base-iface: eno2, mode: bridge}",
        "type: mac-vtap, mac-vtap: {base-iface: eno2, mode: bridge}",
    ],
)
def test_what_lies_over_a_card_is_the_hosts_own_business(kind):
    node, networks = machine(f"[{{name: eno1, {STATIC}}}, {{name: x0, {kind}, ipv4: {{enabled: false}}}}]")
    assert [nic.mac for nic in node.all_nics] == ["00:1b:21:3c:00:01", "00:1b:21:3c:00:02"]
    assert (node.ip, len(networks)) == ("10.20.30.80", 1)


def test_a_mac_vlan_with_an_address_is_in_the_network_of_its_card():
    address = "ipv4: {enabled: true, address: [{ip: 10.9.0.5, prefix-length: 24}]}"
    node, networks = machine(
        f"[{{name: eno1, {STATIC}}}, {{name: m0, type: mac-vlan, mac-vlan: {{base-iface: eno2}}, {address}}}]"
    )
    assert networks[node.nics[1].network].ipv4 == "10.9.0.0/24"
    assert node.nics[1].addresses == ("10.9.0.5",)


def test_a_vlan_may_lie_over_a_card_that_only_the_kernel_names():
    address = "ipv4: {enabled: true, address: [{ip: 10.9.0.5, prefix-length: 24}]}"
    over = f"{{name: enp7s0.60, type: vlan, vlan: {{base-iface: enp7s0, id: 60}}, {address}}}"
    node, networks = machine(f"[{{name: eno1, {STATIC}}}, {over}]")
    assert [nic.name for nic in node.all_nics] == ["enp1s0", "enp2s0", "enp7s0"]
    [trunk] = node.nics[2].trunk
    assert (networks[trunk].vlan, networks[trunk].ipv4) == (60, "10.9.0.0/24")


def test_a_port_of_a_bridge_is_a_card_though_nobody_lists_it():
    bridge = "{name: br1, type: linux-bridge, bridge: {port: [{name: eno7}]}, ipv4: {enabled: false}}"
    node, _ = machine(f"[{{name: eno1, {STATIC}}}, {bridge}]")
    assert [nic.name for nic in node.all_nics] == ["enp1s0", "enp2s0", "eno7"]


@pytest.mark.parametrize(
    ("interfaces", "device"),
    [
        (f"[{{name: b0, type: bond, mac-address: 02:00:00:00:00:09, {DHCP}, "
         "link-aggregation: {mode: 1, port: [eno1, eno2]}}]", "b0"),
        (f"[{{name: eno1.7, type: vlan, mac-address: 02:00:00:00:00:09, {DHCP}, vlan: {{base-iface: eno1, id: 7}}}}]",
         "eno1.7"),
        (f"[{{name: eno1, type: ethernet, mac-address: 02:00:00:00:00:09, {DHCP}}}]", "eno1"),
    ],
)  # fmt: skip
def test_a_host_is_leased_its_address_by_the_mac_address_that_it_takes(interfaces, device):
    node, _ = machine(interfaces, device)
    [one] = [one for one in node.attached if one.addresses]
    assert (one.clones, one.addresses) == (("02:00:00:00:00:09",), ("10.20.30.80",))
    assert node.all_nics[0].mac == "00:1b:21:3c:00:01"


def test_a_mac_address_that_a_card_has_is_no_other():
    bond = f"{{name: b0, type: bond, mac-address: '00:1b:21:3c:00:02', {DHCP}, "
    node, _ = machine(f"[{bond} link-aggregation: {{mode: 1, port: [eno1, eno2]}}}}]", "b0")
    assert node.bonds[0].clones == ()


OFF = "{name: eno1, ipv4: {enabled: false}}"
ASKS_BY_ITSELF = [
    (f"[{OFF}]", "00:1b:21:3c:00:02"),
    ("[{name: eno2, state: absent}, {name: eno1, state: ignore}]", "00:1b:21:3c:00:01"),
    ("[{name: br0, type: linux-bridge, bridge: {port: [{name: eno1}]}}]", "00:1b:21:3c:00:02"),
]


@pytest.mark.parametrize(("interfaces", "mac"), ASKS_BY_ITSELF)
def test_a_card_of_which_nothing_is_said_asks_by_itself(interfaces, mac):
    host = {"interfaces": yaml.safe_load(CARDS), "networkConfig": {"interfaces": yaml.safe_load(interfaces)}}
    [node] = derive(INSTALL, {"rendezvousIP": "10.20.30.80", "hosts": [host]}).nodes
    assert [nic.mac for nic in node.nics if nic.addresses == ("10.20.30.80",)] == [mac]


@pytest.mark.parametrize(
    "interfaces",
    [
        f"[{OFF}, {{name: eno2}}]",
        f"[{OFF}, {{name: d0, type: dummy, {STATIC}}}, {{name: eno2, state: down, ipv6: {{enabled: false}}}}]",
        "[{name: b0, type: bond, link-aggregation: {mode: 1, port: [eno1, eno2]}}]",
        "[{name: br0, type: linux-bridge, bridge: {port: [{name: eno1}, {name: eno2}]}}]",
    ],
)
def test_a_host_without_any_address_is_told(interfaces):
    with pytest.raises(ConfigsError, match=r"networkConfig.interfaces: none has an address or asks for one"):
        machine(interfaces)


def test_what_is_down_is_started_as_the_service_has_it():
    node, _ = machine(f"[{{name: eno1, state: down, {STATIC}}}]")
    assert node.nics[0].addresses == ("10.20.30.80",)


def test_names_of_fields_may_be_in_any_case_as_go_reads_them():
    cards = '[{Name: eno1, macaddress: "00:1b:21:3c:00:0a"}]'
    node, _ = machine(f"[{{name: eno1, {STATIC}}}]", cards=cards)
    assert node.mac == "00:1b:21:3c:00:0a"


def test_no_card_has_a_mac_address_of_zeros():
    with pytest.raises(ConfigsError, match=r"macAddress: '00:00:00:00:00:00' is no network card's"):
        machine(f"[{{name: eno1, {STATIC}}}]", cards='[{name: eno1, macAddress: "00:00:00:00:00:00"}]')


def test_a_network_that_is_made_up_is_none_of_the_clusters_own():
    install = yaml.safe_load(yaml.safe_dump(INSTALL))
    install["networking"] |= {"clusterNetwork": [{"cidr": "192.168.192.0/20"}], "serviceNetwork": ["192.168.208.0/24"]}
    interfaces = yaml.safe_load(f"[{{name: eno1, {DHCP}}}, {{name: eno2, {DHCP}}}]")
    host = {"interfaces": yaml.safe_load(CARDS), "networkConfig": {"interfaces": interfaces}}
    derived = derive(install, {"rendezvousIP": "10.20.30.80", "hosts": [host]})
    assert [network.ipv4 for network in derived.networks] == ["10.20.30.0/24", "192.168.209.0/24"]

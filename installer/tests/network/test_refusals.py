"""installer.network: what is refused, by the name of the field, all problems of a document together."""

import copy
from typing import Any

import pytest

from installer.errors import NetworkConfigError
from installer.network import InvalidNetworkConfig, UnreadableDocument, keyfiles
from installer.network.document import load
from installer.testing.network.network_documents import GOOD

TWO_FAMILIES_MIXED = ["10.0.0.1", "fd00::1", "10.0.0.2"]

# Where something is put into the good document, what, and where the problem is expected (None: at the same place).
CASES = [
    ("interfaces", None, None),
    ("routes", None, None),
    ("route-rules", None, None),
    ("hostname", {"running": ["a"]}, "hostname.running"),
    ("ovs-db", [], None),
    ("ovs-db", {"other_config": "x"}, "ovs-db.other_config"),
    ("ovs-db", {"unknown": 1}, "ovs-db.unknown"),
    ("interfaces[0].state", None, None),
    ("interfaces[0].mtu", None, None),
    ("interfaces[0].ipv6.dhcp", None, None),
    ("interfaces[0].ethtool", {"feature": None}, "interfaces[0].ethtool.feature"),
    ("interfaces[0].ethtool", {"feature": {"rx": "no"}}, "interfaces[0].ethtool.feature.rx"),
    ("dns-resolver.config.server", ["10.0.0.1", "fd00::1", "10.0.0.1"], None),
    ("interfaces[3].link-aggregation.port", ["eno2", "eno2"], "interfaces[3].link-aggregation.port[1]"),
    ("interfaces[3].link-aggregation.ports-config", [], "interfaces[3].link-aggregation.ports-config"),
    ("interfaces[3].link-aggregation.options.miimon", None, None),
    ("interfaces[4].bridge.options.multicast-router", None, None),
    ("routes.config[0].next-hop-address", "", None),
    ("routes.config[0].source", "", None),
    ("routes.config[0].metric", None, None),
    ("route-rules.config[0].ip-from", "", "route-rules.config[0]"),
    ("route-rules.config[0].priority", None, None),
    ("foo", 1, None),
    ("interfaces", {}, None),
    ("interfaces[0]", "eno1", None),
    ("interfaces[0].foo", "bar", None),
    ("interfaces[0].name", "eth/0", None),
    ("interfaces[0].name", "a-name-too-long0", None),
    ("interfaces[0].name", "..", None),
    ("interfaces[0].name", 5, None),
    ("interfaces[0].name", 1.5, None),
    ("interfaces[0].min-mtu", "68", None),
    ("interfaces[0].lldp", {}, "interfaces[0].lldp.enabled"),
    ("interfaces[0].ipv4.allow-extra-address", 1, None),
    ("interfaces[2].ipv4.dhcp-send-hostname", 1, None),
    ("interfaces[2].ipv4.dhcp-send-hostname", "yes", None),
    ("interfaces[4].bridge.options.vlan-default-pvid", 2, None),
    ("interfaces[4].bridge.options.vlan-default-pvid", "1", None),
    ("interfaces[4].bridge.options.hello-timer", "1", None),
    ("interfaces[5].vlan.reorder-headers", 1, None),
    ("interfaces[5].vlan.loose-binding", "yes", None),
    ("interfaces[0].name", None, None),
    ("interfaces[1].name", "eno1", None),
    ("interfaces[0].type", "wifi", None),
    ("interfaces[0].type", "macsec", None),
    ("interfaces[0].type", "ipvlan", None),
    ("interfaces[0].state", "sideways", None),
    ("interfaces[0].mac-address", "zz", None),
    ("interfaces[0].identifier", "mac-address", None),
    ("interfaces[0].mtu", 1, None),
    ("interfaces[0].mtu", 1000, None),
    ("interfaces[0].mtu", 70000, None),
    ("interfaces[0].profile-name", "../up", None),
    ("interfaces[0].profile-name", "bond0", "interfaces[3].name"),
    ("interfaces[1].wait-ip", "ipv4", None),
    ("interfaces[0].copy-mac-from", "eno2", None),
    ("interfaces[3].copy-mac-from", "eno9", None),
    ("interfaces[3].copy-mac-from", "eno3", None),
    ("interfaces[0].ipv4.enabled", "maybe", None),
    ("interfaces[0].ipv4.enabled", None, ""),
    ("interfaces[0].ipv4.enabled", False, "interfaces[0].ipv4.address"),
    ("interfaces[2].ipv4.enabled", None, ""),
    ("interfaces[0].ipv4.autoconf", True, None),
    ("interfaces[0].ipv4.address[0].ip", "10.0.0.300", None),
    ("interfaces[0].ipv4.address[0].ip", "fd00::1", None),
    ("interfaces[0].ipv4.address[0].ip", "224.0.0.1", None),
    ("interfaces[0].ipv4.address[0].prefix-length", 33, None),
    ("interfaces[0].ipv4.address[0].prefix-length", None, None),
    ("interfaces[0].ipv4.address[0].metric", 3, None),
    ("interfaces[0].ipv6.dhcp", False, "interfaces[0].ipv6.autoconf"),
    ("interfaces[0].ipv6.token", "fd00::1", None),
    ("interfaces[0].ipv6.dhcp-duid", "uuid", None),
    ("interfaces[2].ipv4.dhcp-custom-hostname", "not a name", None),
    ("interfaces[1].ipv4", {"enabled": True, "dhcp": True}, "interfaces[1].ipv4.enabled"),
    ("interfaces[1].controller", "br0", None),
    ("interfaces[1].controller", "eno3", None),
    ("interfaces[1].state", "absent", "interfaces[3].link-aggregation.port[0]"),
    ("interfaces[3].link-aggregation", None, None),
    ("interfaces[3].link-aggregation.mode", None, None),
    ("interfaces[3].link-aggregation.mode", 7, None),
    ("interfaces[3].link-aggregation.port[0]", "bond0", None),
    ("interfaces[3].link-aggregation.port[0]", "eno4", "interfaces[4].bridge.port[0]"),
    ("interfaces[3].link-aggregation.ports-config", [{"name": "eno9"}], None),
    ("interfaces[3].link-aggregation.options.foo", 1, None),
    ("interfaces[3].link-aggregation.options.lacp_rate", "slowest", None),
    ("interfaces[3].link-aggregation.options.arp_interval", 5, None),
    ("interfaces[3].link-aggregation.options.balance-slb", True, None),
    ("interfaces[3].link-aggregation.options.primary", "eno1", None),
    ("interfaces[4].bridge.options.stp.hello-time", 11, None),
    ("interfaces[4].bridge.options.group-forward-mask", 1, None),
    ("interfaces[4].bridge.port[0].vlan", {"mode": "trunk"}, "interfaces[4].bridge.port[0].vlan.trunk-tags"),
    ("interfaces[4].bridge.port[0].vlan", {"mode": "access"}, "interfaces[4].bridge.port[0].vlan.tag"),
    ("interfaces[5].vlan", None, None),
    ("interfaces[5].vlan.id", 4095, None),
    ("interfaces[5].vlan.id", None, None),
    ("interfaces[5].vlan.base-iface", None, None),
    ("interfaces[5].vlan.base-iface", "vlan7", "interfaces[5]"),
    ("routes.config[0].destination", None, None),
    ("routes.config[0].destination", "300.0.0.0/8", None),
    ("routes.config[0].destination", "10.0.0.0/33", None),
    ("routes.config[0].destination", "0.0.0.0/8", None),
    ("routes.config[0].next-hop-interface", None, None),
    ("routes.config[0].next-hop-interface", "eno9", None),
    ("routes.config[0].next-hop-interface", "eno2", None),
    ("routes.config[0].next-hop-address", "fd00::1", None),
    ("routes.config[0].weight", 300, None),
    ("routes.config[0].cwnd", 0, None),
    ("routes.config[0].metric", "x", None),
    ("routes.config[0].route-type", "blackhole", None),
    ("routes.config[0].onlink", True, None),
    ("route-rules.config[0].ip-from", None, "route-rules.config[0]"),
    ("route-rules.config[0].family", "ipv6", None),
    ("route-rules.config[0].fwmask", 1, None),
    ("route-rules.config[0].fwmark", 0, None),
    ("route-rules.config[0].suppress-prefix-length", 33, None),
    ("route-rules.config[0].iif", "eno9", None),
    ("dns-resolver.config.server[0]", "ns.example", None),
    ("dns-resolver.config.server", TWO_FAMILIES_MIXED, None),
    ("dns-resolver.config.server[0]", "fe80::1%eno9", "dns-resolver.config.server"),
    ("dns-resolver.config.search", ["two words"], "dns-resolver.config.search[0]"),
    ("dns-resolver.config.options", ["ndots"], "dns-resolver.config.options[0]"),
]


def test_a_virtual_function_by_its_nic_cannot_be_named():
    """As OpenShift's example of dual-port NICs has it."""
    vf = "sriov:eno1:0"
    bond = {"mode": "active-backup", "port": [vf], "options": {"primary": vf}}
    interfaces = [{"name": vf, "type": "ethernet"}, {"name": "bond0", "type": "bond", "link-aggregation": bond}]
    with pytest.raises(InvalidNetworkConfig) as caught:
        keyfiles({"interfaces": interfaces})
    found = [problem.path for problem in caught.value.problems if "NMState looks up on the host" in problem.rule]
    section = "interfaces[1].link-aggregation"
    assert found == ["interfaces[0].name", f"{section}.options.primary", f"{section}.port[0]"]


def _steps(path):
    parts = path.replace("]", "").replace("[", ".#").split(".")
    return [int(part[1:]) if part.startswith("#") else part for part in parts]


def _changed(path, value):
    document = copy.deepcopy(load(GOOD))
    *way, last = _steps(path)
    place = document
    for step in way:
        place = place[step]
    place[last] = value
    return document


def _paths(document):
    with pytest.raises(InvalidNetworkConfig) as caught:
        keyfiles(document)
    return [problem.path for problem in caught.value.problems], str(caught.value)


def test_the_good_document_is_good():
    assert len(keyfiles(load(GOOD))) == 7


@pytest.mark.parametrize(("path", "value", "expected"), CASES, ids=lambda case: str(case)[:60])
def test_refused_by_path(path, value, expected):
    paths, text = _paths(_changed(path, value))
    assert (expected or path) in paths
    assert "\n" not in text


def test_all_problems_at_once_each_once():
    document = _changed("interfaces[0].mtu", 1)
    document["interfaces"][3]["link-aggregation"]["mode"] = "x"
    document["routes"]["config"][0]["metric"] = "y"
    document["foo"] = 1
    with pytest.raises(InvalidNetworkConfig) as caught:
        keyfiles(document)
    assert [(item.path, item.value) for item in caught.value.problems] == [
        ("interfaces[0].mtu", "1"),
        ("interfaces[3].link-aggregation.mode", "'x'"),
        ("routes.config[0].metric", "'y'"),
        ("foo", "1"),
    ]
    assert isinstance(caught.value, NetworkConfigError)


def test_a_route_needs_an_address_of_its_family():
    document = _changed("interfaces[0].ipv4.address", [])
    assert "interfaces[0].ipv4.address" in _paths(document)[0]


def test_loops_are_refused():
    document = {
        "interfaces": [
            {"name": "br0", "type": "linux-bridge", "bridge": {"port": [{"name": "vlan7"}]}},
            {"name": "vlan7", "type": "vlan", "vlan": {"base-iface": "br0", "id": 7}},
        ]
    }
    assert set(_paths(document)[0]) == {"interfaces[0]", "interfaces[1]"}


def test_secrets_never_show():
    document = load(GOOD)
    document["interfaces"][0]["802.1x"] = {"eap-methods": ["pwd"], "password": "hush\nhush", "identity": " x"}
    paths, text = _paths(document)
    assert "interfaces[0].802.1x.password" in paths
    assert "hush" not in text


@pytest.mark.parametrize(
    "text",
    [
        "a: [",
        "a: 1\na: 2",
        "- {{}: 1}",
        "\x00",
        "a: !!python/object:os.system {}",
        "&a [*a",
        "[" * 5000,
        "--- 1\n--- 2",
    ],
)
def test_unreadable_text(text):
    with pytest.raises(UnreadableDocument):
        load(text)


@pytest.mark.parametrize("config", [[], "text", 3, {1: 2}])
def test_not_a_mapping(config):
    with pytest.raises(InvalidNetworkConfig):
        keyfiles(config)


PVID = "bridge.options.vlan-default-pvid"
OTHER_KINDS = [
    ({"type": "veth"}, "veth"),
    ({"type": "vrf", "vrf": {"port": [], "route-table-id": 0}}, "vrf.route-table-id"),
    ({"type": "vxlan", "vxlan": {"id": 1 << 24, "base-iface": "eno1"}}, "vxlan.id"),
    ({"type": "vxlan", "vxlan": {"id": 5, "remote": "10.0.0.1", "local": "fd00::1"}}, "vxlan.local"),
    ({"type": "mac-vlan", "mac-vlan": {"base-iface": "eno1", "mode": "loud"}}, "mac-vlan.mode"),
    (
        {"type": "mac-vlan", "mac-vlan": {"base-iface": "eno1", "mode": "vepa", "promiscuous": False}},
        "mac-vlan.promiscuous",
    ),
    ({"type": "infiniband", "infiniband": {"mode": "datagram", "base-iface": "ib0", "pkey": 0x8001}}, "name"),
    ({"type": "infiniband", "infiniband": {"mode": "datagram"}}, "infiniband.pkey"),
    ({"type": "vxlan", "vxlan": {"id": 5, "base-iface": "eno1", "learning": "no"}}, "vxlan.learning"),
    (
        {"type": "infiniband", "infiniband": {"mode": "datagram", "base-iface": "ib0", "pkey": 0x8000}},
        "infiniband.pkey",
    ),
    ({"type": "infiniband", "infiniband": {"mode": "datagram"}, "mtu": 65521}, "mtu"),
    ({"type": "loopback"}, "name"),
    ({"type": "vxlan", "vxlan": {"id": 5, "base-iface": None}}, "vxlan.base-iface"),
    ({"type": "linux-bridge", "bridge": {"options": {"vlan-default-pvid": 0}, "port": []}}, PVID),
    ({"type": "linux-bridge", "bridge": {"options": {"vlan-default-pvid": 0}, "port": None}}, PVID),
    ({"type": "ovs-interface"}, ""),
    ({"type": "ovs-bridge", "bridge": {"allow-extra-patch-ports": 1}}, "bridge.allow-extra-patch-ports"),
    ({"type": "ovs-bridge", "bridge": {"options": {"stp": 1}}}, "bridge.options.stp"),
    ({"type": "ovs-bridge", "bridge": {"options": {"stp": None}}}, "bridge.options.stp"),
    ({"type": "ovs-interface", "dpdk": {"devargs": "0000:1:0.0", "n_rxq_desc": 3}}, "dpdk.n_rxq_desc"),
    ({"type": "ovs-bridge", "bridge": {"port": [{"name": "x0"}]}}, "bridge.port[0]"),
    ({"type": "ovs-bridge", "mac-address": "02:00:00:00:00:01"}, "mac-address"),
    ({"type": "ovs-bridge", "ipv4": {"enabled": True, "address": [{"ip": "10.0.0.9", "prefix-length": 24}]}}, "ipv4"),
    ({"type": "ovs-bridge", "ipv6": {"enabled": True, "dhcp": True}}, "ipv6"),
    ({"type": "ovs-interface", "patch": {"peer": "p"}, "mtu": 1500}, "mtu"),
    ({"type": "ovs-interface", "patch": {"peer": "p"}, "ipv6": {"enabled": True}}, "ipv6.enabled"),
    ({"type": "dummy", "identifier": "mac-address", "mac-address": "02:00:00:00:00:01"}, "identifier"),
    ({"type": "ethernet", "ovs-db": {"external_ids": {"a": "b"}}}, "ovs-db"),
    ({"type": "ethernet", "ethtool": {"feature": {"warp": True}}}, "ethtool.feature.warp"),
    ({"type": "ethernet", "ethernet": {"auto-negotiation": False, "speed": 100}}, "ethernet.auto-negotiation"),
    ({"type": "ethernet", "ethernet": {"sr-iov": {"total-vfs": 1, "vfs": [{"id": 1}]}}}, "ethernet.sr-iov.vfs[0].id"),
    ({"type": "ethernet", "802.1x": {"eap-methods": ["peap"], "identity": "a", "password": "b"}}, "802.1x.phase2-auth"),
    ({"type": "ethernet", "802.1x": {"eap-methods": ["tls"], "identity": "a"}}, "802.1x.client-cert"),
]


@pytest.mark.parametrize(("fields", "expected"), OTHER_KINDS, ids=lambda case: str(case)[:60])
def test_other_kinds(fields, expected):
    paths, _ = _paths({"interfaces": [{"name": "x0", **fields}]})
    assert f"interfaces[0].{expected}".rstrip(".") in paths


# Upstream writes these, and NetworkManager refuses the profile or drops the option without a word.
BOND_OPTIONS = [
    ("balance-rr", {"lacp_rate": "fast"}, "lacp_rate"),
    ("802.3ad", {"arp_interval": 5, "arp_ip_target": "10.0.0.1"}, "arp_interval"),
    ("active-backup", {"arp_interval": 5}, "arp_interval"),
    ("active-backup", {"arp_ip_target": "10.0.0.1"}, "arp_ip_target"),
    ("active-backup", {"num_grat_arp": 1, "num_unsol_na": 2}, "num_unsol_na"),
    ("active-backup", {"miimon": 0, "updelay": 5}, "updelay"),
    ("active-backup", {"tlb_dynamic_lb": True}, "tlb_dynamic_lb"),
    ("broadcast", {"primary": "eno1"}, "primary"),
    ("802.3ad", {"ad_actor_system": "01:00:00:00:00:01"}, "ad_actor_system"),
]


@pytest.mark.parametrize(("mode", "options", "expected"), BOND_OPTIONS)
def test_bond_options_that_do_not_go_together(mode, options, expected):
    bond = {"mode": mode, "port": ["eno1"], "options": options}
    paths, _ = _paths({"interfaces": [{"name": "bond0", "type": "bond", "link-aggregation": bond}]})
    assert f"interfaces[0].link-aggregation.options.{expected}" in paths


@pytest.mark.parametrize(
    "document",
    [
        "interfaces: [{name: e, type: ethernet, 802.1x: {identity: u, eap-methods: [md5], pasword: s3cr3t}}]",
        "interfaces: [{name: e, type: ethernet, 802-1x: {password: s3cr3t}}]",
        "interfaces: [{name: e, type: ethernet, 802.1x: {identity: u, eap-methods: [md5], password: [s3cr3t]}}]",
    ],
)
def test_values_that_may_be_secret_are_not_shown(document):
    with pytest.raises(InvalidNetworkConfig) as caught:
        keyfiles(load(document))
    assert "s3cr3t" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "{name: eno1, type: ethernet, ipv4: {enabled: true, dhcp: true, dhcp-send-hostname: null}}",
        "{name: v7, type: vlan, vlan: {base-iface: eno1, id: 7, reorder-headers: null, loose-binding: null}}",
        "{name: x1, type: vxlan, vxlan: {id: 5, learning: null}}",
        "{name: br0, type: linux-bridge, bridge: {options: {vlan-default-pvid: null}, port: [{name: eno1}]}}",
        "{name: eno1, type: ethernet, min-mtu: null, max-mtu: 9000}",
    ],
)
def test_null_is_as_absent_where_only_plain_values_are_taken(text):
    assert keyfiles(load(f"interfaces: [{text}]"))


def test_empty_external_ids_make_no_section():
    bridge = "name: br0, type: ovs-bridge, bridge: {port: [{name: eno1}]}"
    with_notes = keyfiles(load(f"interfaces: [{{{bridge}, ovs-db: {{external_ids: {{}}}}}}]"))
    assert with_notes == keyfiles(load(f"interfaces: [{{{bridge}}}]"))


WITHOUT_EFFECT: dict[str, dict[str, Any]] = {
    "hostname.config": {"hostname": {"config": "h.example"}},
    "ovs-db": {"ovs-db": {"other_config": {"a": "b"}}},
    "ovn": {"ovn": {"bridge-mappings": []}},
    "interfaces[0].mptcp": {"mptcp": {"address-flags": ["signal"]}},
    "interfaces[0].dispatch": {"dispatch": {"post-activation": "true"}},
    "interfaces[0].description": {"description": "two\nlines=1"},
}


@pytest.mark.parametrize("path", WITHOUT_EFFECT)
def test_fields_without_effect_are_logged(path, caplog):
    nic: dict[str, Any] = {"name": "eno1", "type": "ethernet", "state": "up", "ipv4": {"enabled": True, "dhcp": True}}
    more: Any = WITHOUT_EFFECT[path]
    document = {"interfaces": [{**nic, **more}]} if path.startswith("interfaces") else {"interfaces": [nic], **more}
    assert keyfiles(document) == keyfiles({"interfaces": [nic]})
    assert [record.message.partition(" ")[0] for record in caplog.records] == [path]


def test_a_vlan_of_priority_only():
    nic = {"name": "eno1", "type": "ethernet", "state": "up"}
    vlan = {"name": "eno1.0", "type": "vlan", "state": "up", "vlan": {"base-iface": "eno1", "id": 0}}
    assert "\nid=0\n" in keyfiles({"interfaces": [nic, vlan]})["eno1.0.nmconnection"]


def test_duplicate_addresses_and_servers_count_once():
    address = {"ip": "192.168.111.80", "prefix-length": 24}
    nic = {"name": "eno1", "type": "ethernet", "state": "up", "ipv4": {"enabled": True, "address": [address]}}
    dns = {"config": {"server": ["192.168.111.1"]}}
    twice = {**nic, "ipv4": {"enabled": True, "address": [address, address]}}
    assert keyfiles({"interfaces": [twice], "dns-resolver": {"config": {"server": ["192.168.111.1"] * 2}}}) == keyfiles(
        {"interfaces": [nic], "dns-resolver": dns}
    )

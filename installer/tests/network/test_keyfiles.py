"""installer.network: what documents become. All data is our own; facts are from reference/nmstate.md."""

import uuid

import pytest

from installer.network import keyfiles
from installer.network.document import load
from installer.testing.network.network_documents import DOCUMENTS
from installer.testing.network.nmstate_compare import parse

FOREVER = "2147483647"


def parsed_keyfiles(name_or_text):
    """Keyfiles of a document, parsed: {profile: {section: {key: value}}}."""
    files = keyfiles(load(DOCUMENTS.get(name_or_text, name_or_text)))
    return {name.removesuffix(".nmconnection"): parse(text) for name, text in files.items()}


def test_static_ethernet_whole_text():
    assert keyfiles(load(DOCUMENTS["static"])) == {
        "enp1s0.nmconnection": f"""[connection]
autoconnect=true
autoconnect-slaves=-1
id=enp1s0
interface-name=enp1s0
type=802-3-ethernet
uuid={uuid.uuid5(uuid.NAMESPACE_URL, "ethernet://enp1s0")}

[ipv4]
address0=10.20.0.5/22
dhcp-timeout={FOREVER}
dns=10.20.0.1;10.20.0.2
dns-options=timeout:3;rotate
dns-priority=40
dns-search=lab.example;example
method=manual
route0=0.0.0.0/0,10.20.0.1,0
route0_options=table=254

[ipv6]
addr-gen-mode=0
dhcp-timeout={FOREVER}
method=disabled

[ethernet]
cloned-mac-address=52:54:00:12:34:56
mtu=9000
"""
    }


def test_empty_documents_give_no_files():
    assert keyfiles({}) == keyfiles({"interfaces": []}) == keyfiles(load("")) == {}


def test_dhcp_keys():
    sections = parsed_keyfiles("dhcp")["eno1"]
    shared = {
        "dhcp-send-hostname": "true",
        "dhcp-timeout": FOREVER,
        "ignore-auto-dns": "false",
        "ignore-auto-routes": "false",
        "method": "auto",
        "never-default": "false",
    }
    assert sections["ipv4"] == shared | {"dhcp-client-id": "mac"}
    six = {"addr-gen-mode": "0", "dhcp-duid": "ll", "dhcp-iaid": "mac", "ra-timeout": FOREVER}
    assert sections["ipv6"] == shared | six


def test_dhcp_options():
    files = parsed_keyfiles("dhcp-options")
    four, six = files["eno1"]["ipv4"], files["eno1"]["ipv6"]
    assert four["ignore-auto-dns"] == four["ignore-auto-routes"] == four["never-default"] == "true"
    assert (four["route-table"], four["route-metric"]) == ("120", "77")
    assert (four["dhcp-client-id"], four["dhcp-fqdn"]) == ("duid", "node7.lab.example")
    assert (four["may-fail"], six["may-fail"]) == ("false", "true")
    assert (six["method"], six["dhcp-duid"], six["dhcp-send-hostname"]) == ("dhcp", "llt", "false")
    assert files["eno2"]["ipv6"]["token"] == "::5:6"
    assert files["eno3"]["ipv6"]["addr-gen-mode"] == "1"


def test_resolver_goes_where_addresses_are_known_first():
    files = parsed_keyfiles("dhcp-options")
    # eno1 refuses the servers of DHCP, so it is preferred for IPv4; eno3 is static, so it is for IPv6.
    assert files["eno1"]["ipv4"]["dns"] == "9.9.9.9"
    assert files["eno1"]["ipv4"]["dns-priority"] == "40"
    assert files["eno1"]["ipv4"]["dns-search"] == "lab.example"
    assert files["eno3"]["ipv6"]["dns"] == "2620:fe::fe"
    assert files["eno3"]["ipv6"]["dns-priority"] == "50"
    assert "dns-search" not in files["eno3"]["ipv6"]
    assert "dns" not in files["eno2"]["ipv6"]


def test_resolver_goes_where_the_default_route_leads():
    """NetworkManager forgets the servers of a card without a link: another network's cable takes no names along."""
    text = """
interfaces:
- {name: eno1, ipv4: {enabled: true, address: [{ip: 10.9.0.80, prefix-length: 24}]}}
- {name: eno2, ipv4: {enabled: true, address: [{ip: 10.0.0.80, prefix-length: 24}]}}
dns-resolver: {config: {server: [10.0.0.1]}}
routes: {config: [{destination: DESTINATION, next-hop-address: 10.0.0.1, next-hop-interface: eno2, table-id: TABLE}]}
"""
    for destination, table, holder in (
        ("0.0.0.0/0", 254, "eno2"),
        ("10.0.0.0/8", 254, "eno1"),
        ("0.0.0.0/0", 7, "eno1"),
    ):
        files = parsed_keyfiles(text.replace("DESTINATION", destination).replace("TABLE", str(table)))
        assert [name for name in files if "dns" in files[name]["ipv4"]] == [holder]


def test_search_alone_goes_to_an_automatic_family_ipv6_first():
    text = """
interfaces:
- {name: eno1, ipv4: {enabled: true, address: [{ip: 10.0.0.1, prefix-length: 8}]}}
- {name: eno2, ipv4: {enabled: true, dhcp: true}, ipv6: {enabled: true, dhcp: true, autoconf: true}}
dns-resolver: {config: {search: [a.example]}}
"""
    assert parsed_keyfiles(text)["eno2"]["ipv6"]["dns-search"] == "a.example"


def test_link_local_server_names_its_interface():
    text = """
interfaces:
- {name: eno1, ipv6: {enabled: true, dhcp: true, autoconf: true}}
- {name: eno2, ipv6: {enabled: true, dhcp: true, autoconf: true}}
dns-resolver: {config: {server: ["fe80::53%eno2"]}}
"""
    files = parsed_keyfiles(text)
    assert files["eno2"]["ipv6"]["dns"] == "fe80::53"
    assert "dns" not in files["eno1"]["ipv6"]


def test_several_addresses_and_routes_in_upstreams_order():
    sections = parsed_keyfiles("dual-stack")["eno1"]
    four = sections["ipv4"]
    assert [four[f"address{n}"] for n in range(3)] == ["10.1.0.2/24", "10.1.1.2/24", "10.9.9.9/32"]
    assert sections["ipv6"]["address0"] == "fd00::10/64"
    assert (four["route0"], four["route0_options"]) == ("0.0.0.0/0,10.1.0.1,100", "table=254")
    assert (four["route1"], four["route1_options"]) == ("10.7.7.7/32,,0", "table=254,cwnd=12,lock-cwnd=true")
    # Host bits cleared; two routes that differ in their metric are both kept, which upstream does not do.
    numbered = {four[f"route{n}"]: four[f"route{n}_options"] for n in (2, 3)}
    assert numbered == {"172.16.0.0/12,10.1.0.9,0": "table=900,src=10.1.1.2", "172.16.0.0/12,10.1.0.9,5": "table=900"}
    assert sections["ipv6"]["route0"] == "::/0,fd00::1,300"
    assert (sections["ipv6"]["dns-priority"], four["dns-priority"]) == ("40", "50")


def test_equal_routes_count_once():
    text = """
interfaces: [{name: eno1, ipv4: {enabled: true, dhcp: true}}]
routes:
  config:
  - {destination: 10.0.0.0/8, next-hop-address: 10.1.1.1, next-hop-interface: eno1}
  - {destination: 10.9.9.9/8, next-hop-address: 10.1.1.1, next-hop-interface: eno1, table-id: 0, metric: -1}
"""
    four = parsed_keyfiles(text)["eno1"]["ipv4"]
    assert four["route0"] == "10.0.0.0/8,10.1.1.1,0"
    assert "route1" not in four


def test_bond_with_vlans():
    files = parsed_keyfiles("bond-vlan")
    assert list(files) == ["bond0", "svc", "bond0.42", "eno1", "eno2"]
    bond = files["bond0"]
    assert bond["bond"] == {
        "ad_select": "count",
        "lacp_rate": "fast",
        "miimon": "120",
        "min_links": "1",
        "mode": "802.3ad",
        "xmit_hash_policy": "layer2+3",
    }
    assert bond["connection"]["autoconnect-slaves"] == "1"
    assert bond["ethernet"] == {"cloned-mac-address": "02:00:00:00:01:00"}
    port = files["eno1"]
    assert (port["connection"]["master"], port["connection"]["slave-type"]) == ("bond0", "bond")
    assert set(port) == {"connection", "ethernet"}
    assert files["bond0.42"]["vlan"] == {"flags": "1", "id": "42", "parent": "bond0"}
    assert files["bond0.42"]["ipv4"]["dns"] == "10.42.0.1"
    assert files["svc"]["vlan"] == {"flags": "6", "id": "7", "parent": "eno3", "protocol": "802.1ad"}


@pytest.mark.parametrize(
    ("mode_given", "mode"),
    [
        *((number, name) for number, name in enumerate(["balance-rr", "active-backup", "balance-xor", "broadcast"])),
        *(("4", "802.3ad"), ("balance-tlb", "balance-tlb"), (6, "balance-alb")),
    ],
)
def test_every_bond_mode_by_name_or_number(mode_given, mode):
    bond = {"name": "bond0", "type": "bond", "link-aggregation": {"mode": mode_given, "ports": ["eno1"]}}
    assert parse(keyfiles({"interfaces": [bond]})["bond0.nmconnection"])["bond"] == {"mode": mode}


def test_bond_ports_that_the_document_does_not_list_get_profiles():
    files = parsed_keyfiles("bond-backup")
    assert files["eno5"]["bond-port"] == {"prio": "-4", "queue-id": "3"}
    assert "bond-port" not in files["eno6"]
    bond = files["bond1"]["bond"]
    assert (bond["arp_validate"], bond["all_slaves_active"], bond["primary"]) == ("all", "1", "eno6")


def test_mac_identifier():
    files = parsed_keyfiles("by-mac")
    assert "interface-name" not in files["port-a"]["connection"]
    assert files["port-a"]["ethernet"] == {"mac-address": "02:AA:00:00:00:01"}
    assert files["Second port"]["ethernet"] == {"mac-address": "02:AA:00:00:00:02"}
    # The interface's name is hashed, whatever the profile is called.
    assert files["Second port"]["connection"]["uuid"] == str(uuid.uuid5(uuid.NAMESPACE_URL, "ethernet://port-b"))


def test_bridge():
    files = parsed_keyfiles("bridge")
    assert files["br-lan"]["bridge"] == {
        "ageing-time": "120",
        "forward-delay": "10",
        "group-forward-mask": "16384",
        "hello-time": "3",
        "max-age": "30",
        "multicast-hash-max": "1024",
        "multicast-router": "enabled",
        "multicast-snooping": "false",
        "priority": "4096",
        "stp": "true",
        "vlan-default-pvid": "0",
        "vlan-filtering": "true",
        "vlan-protocol": "802.1Q",
    }
    assert files["br-lan"]["ethernet"]["cloned-mac-address"] == "02:00:00:00:03:01"
    assert files["eno1"]["bridge-port"] == {"hairpin-mode": "true", "path-cost": "40", "priority": "20"}
    assert files["eno2"]["bridge-port"] == {"vlans": "12 pvid untagged"}
    assert files["eno3"]["bridge-port"] == {"vlans": "9 pvid untagged,15,20-29"}


def test_controller_field_is_as_good_as_the_list_of_ports():
    text = """
interfaces:
- {name: br0, type: linux-bridge}
- {name: eno1, controller: br0}
"""
    files = parsed_keyfiles(text)
    assert files["eno1"]["connection"]["master"] == "br0"
    assert files["eno1"]["bridge-port"] == {}


def test_rules_and_special_routes():
    files = parsed_keyfiles("policy-routing")
    first, second, lo = files["eno1"], files["eno2"], files["lo"]
    assert (
        first["ipv4"]["routing-rule0"] == "priority 40000 from 0.0.0.0/0 iif eno1 type prohibit table 254 fwmark 16/255"
    )
    assert second["ipv4"]["routing-rule0"] == "priority 500 from 10.6.0.0/24 table 200"
    # Numbered on from the highest priority given.
    assert second["ipv4"]["routing-rule1"] == "priority 40001 to 198.51.100.7/32 table 200"
    assert second["ipv6"]["routing-rule0"] == "priority 600 to fd99::/64 from fd06::/64 table 254"
    assert first["ipv4"]["routing-rule1"] == "priority 40002 from 0.0.0.0/0 suppress_prefixlength 0 table 254"
    assert (lo["ipv4"]["route0"], lo["ipv4"]["route0_options"]) == ("192.0.2.0/24,,0", "table=254,type=blackhole")
    assert lo["connection"]["type"] == "loopback"


def test_a_loopback_with_the_mtu_that_the_kernel_gives_it():
    """`nmstatectl show` has it; a profile of lo has no MTU, in nmstatectl's keyfiles either."""
    own = {"mac-address": "00:00:00:00:00:00"}
    lo = {"ipv4": {"enabled": True, "address": [{"ip": "127.0.0.1", "prefix-length": 8}]}}
    document = {"interfaces": [{"name": "lo", "type": "loopback", "state": "up", "mtu": 65536, **own, **lo}]}
    assert "mtu" not in keyfiles(document)["lo.nmconnection"]


def test_states():
    files = parsed_keyfiles("states")
    assert set(files) == {"eno1", "eno4", "eno5", "eno6"}
    assert files["eno1"]["connection"]["autoconnect"] == "false"
    assert files["eno4"]["connection"]["type"] == "802-3-ethernet"
    assert files["eno5"]["ipv6"]["method"] == "link-local"
    assert files["eno6"]["ipv4"]["method"] == "disabled"
    # A backslash is escaped, as GLib's keyfiles want it.
    assert files["eno6"]["user"]["nmstate.interface.description"] == "uplink; C:\\\\spare"


def test_hardware():
    sections = parsed_keyfiles("hardware")["eno1"]
    assert sections["ethernet"] == {
        "accept-all-mac-addresses": "1",
        "auto-negotiate": "false",
        "duplex": "full",
        "speed": "10000",
    }
    assert sections["sriov"]["vf.0"] == "mac=02:00:00:00:0F:00 spoof-check=true trust=false vlans=44.2.q"
    assert sections["sriov"]["vf.3"] == "min-tx-rate=10 max-tx-rate=500"
    assert sections["ethtool"]["feature-rx"] == "true"
    assert sections["ethtool"]["coalesce-adaptive-tx"] == "1"
    assert sections["connection"]["lldp"] == "1"


def test_open_vswitch():
    files = parsed_keyfiles("ovs")
    assert files["trunk7-port"]["ovs-port"] == {
        "bond-downdelay": "50",
        "bond-mode": "balance-tcp",
        "bond-updelay": "100",
        "lacp": "active",
        "trunks": "3,10-12",
        "vlan-mode": "trunk",
    }
    assert files["br-ex-br"]["ovs-external-ids"] == {"data.owner": "lab"}
    assert files["br-ex-if"]["connection"]["master"] == "br-ex"
    assert files["br-ex-if"]["connection"]["slave-type"] == "ovs-port"
    assert files["eno2"]["connection"]["master"] == "trunk7"
    assert files["patch1-if"]["ovs-patch"] == {"peer": "patch0"}


def test_an_ovs_bridge_has_no_addresses(caplog):
    """Addresses of the bridge are those of an interface in it; that a family is on asks for none."""
    settings = "mtu: 1400, ipv4: {enabled: true}, ipv6: {enabled: true}"
    files = parsed_keyfiles(f"interfaces: [{{name: br-x, type: ovs-bridge, {settings}}}]")
    assert files["br-x-br"]["ipv4"] == files["br-x-br"]["ipv6"] == {"dhcp-timeout": FOREVER, "method": "disabled"}
    assert "ethernet" not in files["br-x-br"]
    assert [record.getMessage() for record in caplog.records] == [
        "interfaces[0].mtu has no effect: an OVS bridge has none, an ovs-interface in it may"
    ]


def test_virtual_kinds():
    files = parsed_keyfiles("virtual")
    assert files["veth-b"]["veth"] == {"peer": "veth-a"}
    assert files["eno1"]["ipv4"]["address0"] == "10.9.0.1/24"  # ports of a VRF keep their addresses
    assert files["eno1"]["connection"]["slave-type"] == "vrf"
    assert files["mt0"]["macvlan"] == {"mode": "4", "parent": "eno2", "promiscuous": "false", "tap": "true"}
    assert files["ib0.8001"]["infiniband"] == {"p-key": "32769", "parent": "ib0", "transport-mode": "connected"}
    assert "ethernet" not in files["ib0"]


def test_yaml_reads_macs_and_words_as_nmstate_does():
    document = load("a: 52:54:00:12:34:56\nb: 10\nc: on\nd: true\ne: 0x1f\nf: 017\ng: ~\nh: 2020-01-01\n")
    assert document == {
        "a": "52:54:00:12:34:56",
        "b": 10,
        "c": "on",
        "d": True,
        "e": 31,
        "f": 17,
        "g": None,
        "h": "2020-01-01",
    }


@pytest.mark.parametrize("section", ["", ", bridge: {}", ", bridge: {port: []}", ", bridge: {port: null}"])
def test_an_ovs_bridge_without_ports_has_an_internal_one_of_its_name(section):
    files = parsed_keyfiles(f"interfaces: [{{name: br-x, type: ovs-bridge{section}}}]")
    assert list(files) == ["br-x-br", "br-x-port", "br-x-if"]
    assert files["br-x-port"]["connection"]["slave-type"] == "ovs-bridge"
    assert files["br-x-if"]["ovs-interface"] == {"type": "internal"}
    assert files["br-x-if"]["ipv4"]["method"] == files["br-x-if"]["ipv6"]["method"] == "disabled"
    assert files["br-x-if"]["connection"]["uuid"] == str(uuid.uuid5(uuid.NAMESPACE_URL, "ovs-interface://br-x"))


def test_an_ovs_bridge_keeps_the_interface_of_its_name_and_one_that_is_down_gets_none():
    own = "{name: br-x, type: ovs-interface, ipv4: {enabled: true, dhcp: true}}"
    files = parsed_keyfiles(f"interfaces: [{{name: br-x, type: ovs-bridge}}, {own}]")
    assert files["br-x-if"]["ipv4"]["method"] == "auto"
    assert list(parsed_keyfiles("interfaces: [{name: br-x, type: ovs-bridge, state: down}]")) == ["br-x-br"]


@pytest.mark.parametrize(
    "entry",
    [
        "{name: br-x, type: ovs-bridge, bridge: {allow-extra-patch-ports: null}}",
        "{name: e, ipv6: null, profile-name: null, mac-address: null}",
    ],
)
def test_null_is_as_good_as_absent_where_upstream_takes_it(entry):
    assert parsed_keyfiles(f"interfaces: [{entry}]")

"""Contradictions that `deploy --plan` refuses, and of which `agent create` warns."""

import pytest

from installer.config.contradictions import contradictions
from installer.config.load import parse_agent_config, parse_install_config, resolve_hosts
from installer.config.rendezvous import choose
from installer.testing.create.inputs_kit import COMPACT, FENCED, changed, many_hosts, text
from lab.derive import derive
from lab.errors import ConfigsError
from lab.inputs.configs import Access, agent_config, install_config
from scenarios.catalogue.ids import topology_of

HOST_2 = "agent-config.yaml: hosts[2].networkConfig"
IP = "interfaces[0].ipv4.address[0].ip"
VIPS = "install-config.yaml: platform.baremetal"
NAMES = [
    "sno-ipv4-static-uefi",
    "compact-ipv4-static-uefi",
    "ha-ipv6-static-uefi",
    "compact-ipv4-static-uefi-bond_vlan",
    "sno-ipv4-dhcp-uefi",
]
ADDRESS = "hosts.2.networkConfig.interfaces.0.ipv4.address.0.ip"


def three_hosts():
    """Return valid inputs of a compact cluster with static addresses."""
    _, agent = many_hosts(3)
    for index, host in enumerate(agent["hosts"]):
        host["networkConfig"]["interfaces"][0]["ipv4"]["address"] = [
            {"ip": f"192.168.111.8{index}", "prefix-length": 24}
        ]
        host["networkConfig"]["routes"]["config"][0]["next-hop-address"] = "192.168.111.1"
        host["rootDeviceHints"] = {"deviceName": "/dev/vda"}
        host["networkConfig"]["dns-resolver"]["config"]["server"] = ["192.168.111.1"]
    return (
        changed(COMPACT, "compute", [{"name": "worker", "replicas": 0}]),
        {**agent, "rendezvousIP": "192.168.111.80"},
    )


def warnings(install, agent):
    """Return the lines of which `agent create` warns."""
    parsed, listed = parse_install_config(text(install)), parse_agent_config(text(agent))
    hosts = resolve_hosts(parsed, listed)
    place = ("agent-config.yaml", "hosts") if listed.hosts else ("install-config.yaml", "platform.baremetal.hosts")
    return list(contradictions(parsed, hosts, choose(listed, hosts), file=place[0], path=place[1]))


def test_valid_inputs_have_no_warning():
    install, agent = three_hosts()
    assert warnings(install, agent) == []
    derive(install, agent)


@pytest.mark.parametrize("name", NAMES)
def test_what_scenarios_install_has_no_warning(name):
    topology = topology_of(name)
    access = Access('{"auths": {"lab:5000": {"auth": "bGFi"}}}', "", COMPACT["sshKey"], ())
    assert warnings(install_config(topology, access), agent_config(topology)) == []


@pytest.mark.parametrize(
    ("path", "value", "place", "rule"),
    [
        ("rendezvousIP", "192.168.111.99", "agent-config.yaml: rendezvousIP", "192.168.111.99 is no host's"),
        ("rendezvousIP", "192.168.111.255", "agent-config.yaml: rendezvousIP", "broadcast address"),
        ("rendezvousIP", "10.9.9.9", "agent-config.yaml: rendezvousIP", "none of the machine networks"),
        (ADDRESS, "192.168.111.81", f"{HOST_2}.{IP}", "is that of hosts[1]"),
        (ADDRESS, "192.168.111.0", f"{HOST_2}.{IP}", "network's own"),
        (ADDRESS, "192.168.111.1", f"{HOST_2}.{IP}", "next hop of the host's own default route"),
        ("hosts.2.networkConfig.routes", {}, f"{HOST_2}.routes.config", "no default route"),
        ("hosts.2.networkConfig.dns-resolver", {}, f"{HOST_2}.dns-resolver.config.server", "no DNS server"),
        ("hosts.2.networkConfig.routes.config.0.next-hop-address", "10.9.9.9", f"{HOST_2}.routes", "cannot be reached"),
        (ADDRESS, "10.3.3.3", HOST_2, "none is in machineNetwork"),
        ("hosts.1.hostname", "localhost", "agent-config.yaml: hosts[1].hostname", "hostname-valid"),
    ],
)
def test_both_halves_name_what_is_wrong_with_a_host(path, value, place, rule):
    install, agent = three_hosts()
    both_name(install, changed(agent, path, value), place, rule)


@pytest.mark.parametrize(
    ("field", "address", "place", "rule"),
    [
        ("apiVIPs", "192.168.111.81", f"{VIPS}.apiVIPs[0]", "is an address of hosts[1].networkConfig"),
        ("apiVIPs", "192.168.111.1", "agent-config.yaml: hosts[0].networkConfig.routes", "no router's"),
        ("ingressVIPs", "192.168.111.255", f"{VIPS}.ingressVIPs[0]", "broadcast address"),
    ],
)
def test_both_halves_name_what_is_wrong_with_a_virtual_ip(field, address, place, rule):
    install, agent = three_hosts()
    both_name(changed(install, f"platform.baremetal.{field}", [address]), agent, place, rule)


def both_name(install, agent, place, rule):
    """Assert that `agent create` warns of it, and that no lab is derived."""
    lines = warnings(install, agent)
    assert any(line.startswith(f"{place}: ") and rule in line for line in lines), lines
    with pytest.raises(ConfigsError) as refused:
        derive(install, agent)
    assert rule in str(refused.value)


def test_the_rendezvous_ip_is_no_virtual_one():
    install, agent = three_hosts()
    assert warnings(install, {**agent, "hosts": [], "rendezvousIP": "192.168.111.5"}) == [
        f"{VIPS}.apiVIPs[0]: 192.168.111.5 is an address of rendezvousIP too"
    ]


def test_an_address_has_many_spellings():
    install, agent = three_hosts()
    agent = changed(agent, "hosts.0.networkConfig.routes.config.0.table-id", "254")
    assert warnings(install, {**agent, "rendezvousIP": "::ffff:192.168.111.80"}) == []


def test_two_cards_in_one_network():
    install, agent = three_hosts()
    agent["hosts"][2]["interfaces"].append({"name": "eth1", "macAddress": "52:54:00:00:99:02"})
    second = {"ipv4": {"enabled": True, "address": [{"ip": "192.168.111.92", "prefix-length": 25}]}}
    agent["hosts"][2]["networkConfig"]["interfaces"].append({"name": "eth1", "type": "ethernet", **second})
    both_name(install, agent, HOST_2, "their networks overlap")


def test_names_of_two_hosts():
    install, agent = three_hosts()
    agent = changed(agent, "hosts.1.hostname", "host-0")
    assert warnings(install, agent) == [
        "agent-config.yaml: hosts[1].hostname: host-0 is the name of hosts[0] too (hostname-unique)"
    ]
    with pytest.raises(ConfigsError, match="host-0 is used more than once"):
        derive(install, agent)


def test_a_host_that_asks_may_have_any_address():
    install, agent = three_hosts()
    settings = "hosts.2.networkConfig.interfaces.0.ipv4"
    dhcp = changed(agent, settings, {"enabled": True, "dhcp": True})
    assert warnings(install, {**dhcp, "rendezvousIP": "192.168.111.99"}) == []
    # An address counts only where its family is switched on.
    off = changed(agent, settings, {"enabled": False, "address": [{"ip": "192.168.111.81", "prefix-length": 24}]})
    assert warnings(install, off) == []


def test_what_machines_may_share_is_no_contradiction():
    install, agent = three_hosts()
    shared = [
        ("ipv4", {"enabled": True, "address": [{"ip": "127.0.0.1", "prefix-length": 8}]}),
        ("ipv4", {"enabled": True, "address": [{"ip": "169.254.20.10", "prefix-length": 32}]}),
        ("ipv6", {"enabled": True, "address": [{"ip": "fe80::1", "prefix-length": 64}]}),
    ]
    for host in agent["hosts"]:
        network = host["networkConfig"]
        network["interfaces"] += [{"name": "eth9", "type": "ethernet", family: settings} for family, settings in shared]
        # Neither is the main table's route.
        route = {"destination": "0.0.0.0/0", "next-hop-address": "192.168.111.81", "next-hop-interface": "eth0"}
        network["routes"]["config"] += [{**route, "state": "absent"}, {**route, "table-id": 200}]
    assert warnings(install, agent) == []


def test_a_card_that_the_document_says_nothing_of_asks():
    install, agent = three_hosts()
    for number, host in enumerate(agent["hosts"]):
        host["networkConfig"]["interfaces"][0]["ipv4"]["address"][0]["ip"] = f"10.9.9.{number + 2}"
        host["networkConfig"]["routes"] = {}
        host["interfaces"].append({"name": "eth1", "macAddress": f"52:54:00:00:99:0{number}"})
    assert warnings(install, agent) == []


@pytest.mark.parametrize("name", ["Node-1", "node-", "a.-b", "a_b", "../x", "n" * 64])
def test_names_that_the_service_refuses_are_reported(name):
    install, agent = three_hosts()
    [line] = warnings(install, changed(agent, "hosts.1.hostname", name))
    assert line.startswith(f"agent-config.yaml: hosts[1].hostname: {name} ")
    assert "hostname-valid" in line


def test_credentials_of_no_host_are_reported():
    _, agent = three_hosts()
    agent["hosts"].pop()
    install = changed(FENCED, "compute", [{"name": "worker", "replicas": 0}])
    install = changed(install, "controlPlane.fencing.credentials.0.hostName", "host-0")
    both_name(install, agent, "install-config.yaml: controlPlane.fencing.credentials[1].hostName", "is neither of")
    # Of a host without a name, the credential may be.
    del agent["hosts"][1]["hostname"]
    assert warnings(install, agent) == []


def test_hosts_of_the_platform_are_named_by_their_own_path():
    install, agent = three_hosts()
    hosts = [
        {"name": f"m{number}", "bootMACAddress": host["interfaces"][0]["macAddress"]}
        for number, host in enumerate(agent.pop("hosts"))
    ]
    hosts[1]["name"] = "localhost"
    install = changed(install, "platform.baremetal.hosts", hosts)
    assert [line.split(" is ")[0] for line in warnings(install, agent)] == [
        "install-config.yaml: platform.baremetal.hosts[1].name: localhost"
    ]

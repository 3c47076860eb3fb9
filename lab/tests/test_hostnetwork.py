"""Hosts' NMState documents: the installer takes them, and what they say is what the topology says."""

import subprocess

import pytest
import yaml

from lab import topology
from lab.deploy import default_installer
from lab.inputs import hostnetwork
from lab.inputs.configs import Access, agent_config, install_config
from lab.testing.topologies import WIDE

BONDED = WIDE.replace("  - {name: oob", "  - {name: third, ipv4: 10.7.0.0/24}\n  - {name: oob")


def keyfiles(document, tmp_path):
    file = tmp_path / "document.yaml"
    file.write_text(yaml.safe_dump(document))
    command = [*default_installer(), "nmstate", "gc", "--dir", str(tmp_path), str(file)]
    completed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert completed.returncode == 0, completed.stderr
    return completed.stdout


def test_a_bond_with_a_vlan_and_both_versions_of_ip(tmp_path):
    shape = topology.load_text(BONDED)
    document = hostnetwork.nmstate(shape, shape.nodes[0])
    interfaces = {entry["name"]: entry for entry in document["interfaces"]}
    assert set(interfaces) == {"enp1s0", "enp2s0", "enp9s0", "bond0", "bond0.111"}
    assert interfaces["enp1s0"]["ipv4"] == {"enabled": True, "dhcp": True}
    aggregation = interfaces["bond0"]["link-aggregation"]
    assert (aggregation["mode"], aggregation["port"]) == ("802.3ad", ["enp2s0", "enp9s0"])
    assert interfaces["bond0.111"]["vlan"] == {"base-iface": "bond0", "id": 111}
    assert not interfaces["bond0"]["ipv4"]["enabled"]
    assert interfaces["bond0.111"]["mtu"] == interfaces["bond0"]["mtu"] == interfaces["enp2s0"]["mtu"] == 9000
    assert interfaces["bond0.111"]["ipv4"]["address"] == [{"ip": "192.168.111.80", "prefix-length": 24}]
    assert interfaces["bond0.111"]["ipv6"]["address"] == [{"ip": "fd2e:6f44:5dd8::80", "prefix-length": 64}]
    routes = {r["destination"]: (r["next-hop-address"], r["next-hop-interface"]) for r in document["routes"]["config"]}
    assert routes == {"0.0.0.0/0": ("192.168.111.254", "bond0.111"), "::/0": ("fd2e:6f44:5dd8::1", "bond0.111")}
    assert document["dns-resolver"]["config"]["server"] == ["8.8.8.8"]
    assert "192.168.111.80/24" in keyfiles(document, tmp_path)


@pytest.mark.parametrize("name", ["sno", "ha", "compact-dhcp"])
def test_presets_documents_are_taken_too(name, tmp_path):
    shape = topology.load(name)
    assert {hostnetwork.needs_document(shape, node) for node in shape.nodes} == {shape.addressing == "static"}
    for node in {shape.nodes[0], shape.nodes[-1]}:
        assert keyfiles(hostnetwork.nmstate(shape, node), tmp_path)


def test_a_nic_that_makes_its_own_address(tmp_path):
    advertised = '10.9.0.0/24, ipv6: "fd00:9::/64", gateway: none, router_advertisements: on'
    shape = topology.load_text(WIDE.replace("10.9.0.0/24, gateway: none, dhcp: on", advertised))
    document = hostnetwork.nmstate(shape, shape.nodes[0])
    nic = document["interfaces"][0]
    assert nic["ipv4"]["address"] == [{"ip": "10.9.0.10", "prefix-length": 24}]
    assert nic["ipv6"] == {"enabled": True, "dhcp": True, "autoconf": True}
    assert "method=auto" in keyfiles(document, tmp_path)


def test_the_default_route_is_by_the_network_that_the_host_is_known_in():
    text = BONDED.replace("gateway: none, dhcp: on, dns: none, ntp: [10.9.0.7]", "dns: lab")
    shape = topology.load_text(text)
    [route, _] = hostnetwork.nmstate(shape, shape.nodes[0])["routes"]["config"]
    assert (route["next-hop-address"], route["next-hop-interface"]) == ("192.168.111.254", "bond0.111")


def test_the_configs_of_dual_stack():
    shape = topology.load_text(WIDE)
    hosts = agent_config(shape)["hosts"]
    assert hosts[0]["interfaces"] == [
        {"name": f"enp{bus}s0", "macAddress": f"52:54:00:00:01:0{n}"} for n, bus in enumerate((1, 2, 9))
    ]
    assert hosts[0]["rootDeviceHints"] == {"serialNumber": "master-0-nvme0n1"}

    config = install_config(shape, Access("{}", "", "", (("a", "b"),)))
    assert config["platform"]["baremetal"] == {
        "apiVIPs": ["192.168.111.5", "fd2e:6f44:5dd8::5"],
        "ingressVIPs": ["192.168.111.4", "fd2e:6f44:5dd8::4"],
    }
    networks = [entry["cidr"] for entry in config["networking"]["machineNetwork"]]
    assert networks == ["192.168.111.0/24", "10.9.0.0/24", "fd2e:6f44:5dd8::/64"]
    assert config["networking"]["serviceNetwork"] == ["172.30.0.0/16", "fd02::/112"]

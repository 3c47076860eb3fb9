"""Machines for hosts: for interfaces in all forms that NMState documents have, for what is left open, for fencing."""

import pytest
import yaml

from ci.tests.halves.derive.kit import lab_for
from installer.testing.create.inputs_kit import COMPACT, FENCED, SNO, changed
from lab import topology
from lab.errors import TopologyError

INSTALL = changed(SNO, "networking", {"machineNetwork": [{"cidr": "10.20.30.0/24"}]})
STATIC = "ipv4: {enabled: true, dhcp: false, address: [{ip: 10.20.30.80, prefix-length: 24}]}"
DHCP = "ipv4: {enabled: true, dhcp: true}"
OFF = "ipv4: {enabled: false}"
NICS = [{"name": f"eno{n}", "macAddress": f"00:1b:21:3c:00:0{n}"} for n in (1, 2)]


def agent(*hosts, rendezvous="10.20.30.80"):
    return {"apiVersion": "v1beta1", "kind": "AgentConfig", "rendezvousIP": rendezvous, "hosts": list(hosts)}


def machine(interfaces, device="eno1", *, hop="10.20.30.1", servers=("10.20.30.2",), install=INSTALL):
    """Return the machine, and the networks, of a host with these interfaces; `device` is that of a default route."""
    document = {"interfaces": yaml.safe_load(interfaces)}
    if device:
        route = {"destination": "0.0.0.0/0", "next-hop-address": hop, "next-hop-interface": device}
        document |= {"routes": {"config": [route]}, "dns-resolver": {"config": {"server": list(servers)}}}
    derived = lab_for(install, agent({"hostname": "a", "interfaces": NICS, "networkConfig": document}))
    return derived.nodes[0], {network.name: network for network in derived.all_networks}


@pytest.mark.parametrize(
    "kind",
    [
        "type: vxlan, vxlan: {base-iface: eno1, id: 7, remote: 10.20.30.9}",
        "type: mac-vlan, mac-vlan: {base-iface: eno2, mode: bridge}",
        "type: mac-vtap, mac-vtap: {base-iface: eno2, mode: bridge}",
    ],
)
def test_what_lies_over_a_nic_is_the_hosts_own_business(kind):
    node, networks = machine(f"[{{name: eno1, {STATIC}}}, {{name: x0, {kind}, {OFF}}}]")
    assert [nic.mac for nic in node.all_nics] == ["00:1b:21:3c:00:01", "00:1b:21:3c:00:02"]
    assert (node.ip, len(networks)) == ("10.20.30.80", 1)


def test_a_mac_vlan_with_an_address_is_in_the_network_of_its_nic():
    address = "ipv4: {enabled: true, address: [{ip: 10.9.0.5, prefix-length: 24}]}"
    over = f"{{name: m0, type: mac-vlan, mac-vlan: {{base-iface: eno2, mode: bridge}}, {address}}}"
    node, networks = machine(f"[{{name: eno1, {STATIC}}}, {over}]")
    assert networks[node.nics[1].network].ipv4 == "10.9.0.0/24"
    assert node.nics[1].addresses == ("10.9.0.5",)


def test_a_vlan_may_lie_over_a_nic_that_only_the_kernel_names():
    address = "ipv4: {enabled: true, address: [{ip: 10.9.0.5, prefix-length: 24}]}"
    over = f"{{name: enp7s0.60, type: vlan, vlan: {{base-iface: enp7s0, id: 60}}, {address}}}"
    node, networks = machine(f"[{{name: eno1, {STATIC}}}, {over}]")
    assert [nic.name for nic in node.all_nics] == ["enp1s0", "enp2s0", "enp7s0"]
    [trunk] = node.nics[2].trunk
    assert (networks[trunk].vlan, networks[trunk].ipv4) == (60, "10.9.0.0/24")


def test_a_port_of_a_bridge_is_a_nic_though_nobody_lists_it():
    bridge = f"{{name: br1, type: linux-bridge, bridge: {{port: [{{name: eno7}}]}}, {OFF}}}"
    node, _ = machine(f"[{{name: eno1, {STATIC}}}, {bridge}]")
    assert [nic.name for nic in node.all_nics] == ["enp1s0", "enp2s0", "eno7"]


@pytest.mark.parametrize(
    "interfaces",
    [
        f"[{{name: b0, type: bond, mac-address: 02:00:00:00:00:09, {DHCP}, "
        "link-aggregation: {mode: 1, port: [eno1, eno2]}}]",
        f"[{{name: eno1.7, type: vlan, mac-address: 02:00:00:00:00:09, {DHCP}, vlan: {{base-iface: eno1, id: 7}}}}]",
        f"[{{name: eno1, type: ethernet, mac-address: 02:00:00:00:00:09, {DHCP}}}]",
    ],
)
def test_a_host_is_leased_its_address_by_the_mac_address_that_it_takes(interfaces):
    node, _ = machine(interfaces, "")
    [attached] = [attached for attached in node.attached if attached.addresses]
    assert (attached.clones, attached.addresses) == (("02:00:00:00:00:09",), ("10.20.30.80",))
    assert node.all_nics[0].mac == "00:1b:21:3c:00:01"


def test_a_mac_address_that_a_nic_has_is_no_other():
    bond = f"{{name: b0, type: bond, mac-address: '00:1b:21:3c:00:02', {DHCP}, "
    node, _ = machine(f"[{bond} link-aggregation: {{mode: 1, port: [eno1, eno2]}}}}]", "")
    assert node.bonds[0].clones == ()


@pytest.mark.parametrize(
    ("interfaces", "mac"),
    [
        (f"[{{name: eno1, {OFF}}}]", "00:1b:21:3c:00:02"),
        ("[{name: br0, type: linux-bridge, bridge: {port: [{name: eno1}]}}]", "00:1b:21:3c:00:02"),
    ],
)
def test_a_nic_of_which_nothing_is_said_asks_by_itself(interfaces, mac):
    node, _ = machine(interfaces, "")
    assert [nic.mac for nic in node.nics if nic.addresses == ("10.20.30.80",)] == [mac]


def test_what_is_down_is_started_as_the_service_has_it():
    node, _ = machine(f"[{{name: eno1, state: down, {STATIC}}}]")
    assert node.nics[0].addresses == ("10.20.30.80",)


def test_a_network_that_is_made_up_is_none_of_the_clusters_own():
    networking = {
        "machineNetwork": [{"cidr": "10.20.30.0/24"}],
        "clusterNetwork": [{"cidr": "192.168.192.0/20", "hostPrefix": 23}],
        "serviceNetwork": ["192.168.208.0/24"],
    }
    install = changed(SNO, "networking", networking)
    _, networks = machine(f"[{{name: eno1, {DHCP}}}, {{name: eno2, {DHCP}}}]", "", install=install)
    assert [network.ipv4 for network in networks.values()] == ["10.20.30.0/24", "192.168.209.0/24"]


def test_a_router_outside_of_the_machine_network_may_be_the_dns_server_too():
    wide = STATIC.replace("length: 24", "length: 23")
    _, networks = machine(f"[{{name: eno1, {wide}}}]", hop="10.20.31.1", servers=["10.20.31.1"])
    assert "10.20.31.1" in networks["machine"].aliases


@pytest.mark.parametrize("length", [29, 30])
def test_a_small_network_has_room_for_one_node(length):
    install = changed(SNO, "networking", {"machineNetwork": [{"cidr": f"10.20.30.80/{length}"}]})
    document = {"interfaces": yaml.safe_load(
        f"[{{name: eno1, {STATIC.replace('30.80', '30.82').replace('24', str(length))}}}]")}  # fmt: skip
    document |= {"routes": {"config": [
        {"destination": "0.0.0.0/0", "next-hop-address": "10.20.30.81", "next-hop-interface": "eno1"}]}}  # fmt: skip
    document |= {"dns-resolver": {"config": {"server": ["10.20.30.81"]}}}
    host = {"interfaces": NICS[:1], "networkConfig": document}
    derived = lab_for(install, agent(host, rendezvous="10.20.30.82"))
    assert (derived.nodes[0].ip, derived.gateway) == ("10.20.30.82", "10.20.30.81")


def test_defaults_are_openshifts():
    install = {**COMPACT, "platform": {"none": {}}}
    for name in ("controlPlane", "compute", "networking"):
        del install[name]
    derived = lab_for(install, agent(rendezvous="10.0.7.7"))
    assert (len(derived.masters), len(derived.workers), derived.machine_network) == (3, 3, "10.0.0.0/16")
    assert (derived.addressing, derived.rendezvous_ip) == ("dhcp", "10.0.7.7")
    # The service makes the weakest masters where nobody says a role.
    assert [n.memory_mib for n in derived.nodes] == [topology.MASTER_MIB] * 3 + [topology.MASTER_MIB + 256] * 3


def test_memory_processors_and_firmware_are_as_the_user_says():
    derived = lab_for(INSTALL, agent(), memory_mib=9000, vcpu=3, firmware="bios")
    assert {(node.memory_mib, node.vcpu, node.firmware) for node in derived.nodes} == {(9000, 3, "bios")}


def test_the_host_with_the_rendezvous_ip_is_a_master_though_workers_are_listed_before_it():
    install = changed(changed(COMPACT, "compute", [{"name": "worker", "replicas": 1}]), "platform", {"none": {}})
    hosts = []
    for n in range(4):
        interface = {"name": "eth0", "type": "ethernet", "ipv4": {
            "enabled": True, "address": [{"ip": f"192.168.111.8{n}", "prefix-length": 24}]}}  # fmt: skip
        route = {"destination": "0.0.0.0/0", "next-hop-address": "192.168.111.1", "next-hop-interface": "eth0"}
        hosts.append({
            "interfaces": [{"name": "eth0", "macAddress": f"52:54:00:00:00:0{n}"}],
            "networkConfig": {
                "interfaces": [interface], "routes": {"config": [route]},
                "dns-resolver": {"config": {"server": ["192.168.111.1"]}},
            },
        })  # fmt: skip
    derived = lab_for(install, agent(*hosts, rendezvous="192.168.111.83"))
    assert [node.role for node in derived.nodes] == ["master", "master", "worker", "master"]


@pytest.mark.parametrize("names", [(), ("edge-a",)])
def test_two_masters_without_names_have_those_of_their_credentials(names):
    install = changed(FENCED, "compute", [{"name": "worker", "replicas": 0}])
    for number, name in enumerate(("Edge-b.corp.example", "edge-a")):
        install = changed(install, f"controlPlane.fencing.credentials.{number}.hostName", name)
    hosts = [{"hostname": name, "interfaces": [NICS[0]]} for name in names]
    derived = lab_for(install, agent(*hosts, rendezvous="192.168.111.80"))
    assert sorted(node.name for node in derived.nodes) == ["edge-a", "edge-b"]
    assert derived.fenced


def test_a_clock_at_an_address_of_every_hosts_own_is_not_the_labs():
    config = {**agent(), "additionalNTPSources": ["127.127.1.0", "10.20.30.7", "ntp.example.com"]}
    plan = lab_for(INSTALL, config).dump()
    assert "10.20.30.7\n" in plan
    assert "127.127" not in plan


def test_a_balancer_is_the_users_where_openshift_has_none():
    assert not lab_for(INSTALL, agent()).load_balancer
    several = changed(INSTALL, "controlPlane.replicas", 3)
    assert lab_for(several, agent()).load_balancer
    vips = {"apiVIPs": ["10.20.30.5"], "ingressVIPs": ["10.20.30.5"], "loadBalancer": {"type": "UserManaged"}}
    derived = lab_for(changed(several, "platform", {"baremetal": vips}), agent())
    assert derived.load_balancer
    assert "10.20.30.5/32" in derived.lab_addresses(derived.home)


def test_a_network_without_room_is_refused():
    install = changed(changed(INSTALL, "controlPlane.replicas", 5), "compute.0.replicas", 2)
    install = changed(install, "networking.machineNetwork.0.cidr", "10.20.30.80/29")
    with pytest.raises(TopologyError, match=r"10.20.30.80/29 is too small for the cluster and a lab"):
        lab_for(install, agent(rendezvous="10.20.30.82"))

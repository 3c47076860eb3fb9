"""Configurations as the field writes them: each leads to a lab without an edit, and to the right one."""

from functools import partial

import msgspec
import pytest
import yaml

from lab import topology
from lab.derive import derive

#: Each worker collects the table below: libyaml reads it in a tenth of the time.
load = partial(yaml.load, Loader=yaml.CSafeLoader)

INSTALL = """
apiVersion: v1
metadata: {name: site}
baseDomain: corp.example
controlPlane: {name: master, replicas: MASTERS}
compute: [{name: worker, replicas: WORKERS}]
networking:
  machineNetwork: [{cidr: 10.20.30.0/24}]
platform: {none: {}}
"""
BAREMETAL = "platform: {baremetal: {apiVIPs: [10.20.30.5], ingressVIPs: [10.20.30.6]}}"


def install(masters, workers=0, **changes):
    """install-config.yaml with some fields changed."""
    text = INSTALL.replace("MASTERS", str(masters)).replace("WORKERS", str(workers))
    return load(text) | {key: load(value) for key, value in changes.items()}


def hosts(count, config, *, cards=1, **more):
    """agent-config.yaml's hosts; `N` in the network config is the host's number, `@K` its card K's MAC address."""
    listed = []
    for number in range(count):
        macs = [f"00:1b:21:3c:{card:02x}:{number:02x}" for card in range(cards)]
        text = config.replace("N", str(80 + number))
        for card, mac in enumerate(macs):
            text = text.replace(f"@{card}", f'"{mac}"')
        host = {
            "hostname": f"node{number}.site.corp.example",
            "interfaces": [{"name": f"eno{card + 1}", "macAddress": mac} for card, mac in enumerate(macs)],
            **{key: load(value) for key, value in more.items()},
        }
        if text:
            host["networkConfig"] = load(text)
        listed.append(host)
    return {"rendezvousIP": "10.20.30.80", "hosts": listed}


STATIC = """
interfaces:
  - {name: eno1, type: ethernet, state: up, mac-address: @0,
     ipv4: {enabled: true, dhcp: false, address: [{ip: 10.20.30.N, prefix-length: 24}]}}
dns-resolver: {config: {server: [10.20.30.2]}}
routes: {config: [{destination: 0.0.0.0/0, next-hop-address: 10.20.30.1, next-hop-interface: eno1}]}
"""
BOND = """
interfaces:
  - {name: eno1, type: ethernet, state: up, mac-address: @0, ipv4: {enabled: false}}
  - {name: eno2, type: ethernet, state: up, mac-address: @1, ipv4: {enabled: false}}
  - name: bond0
    type: bond
    state: up
    link-aggregation: {mode: MODE, port: [eno1, eno2], options: {miimon: "140"}}
    ipv4: {enabled: IP4, dhcp: false, address: [{ip: 10.20.30.N, prefix-length: 24}]}
"""
ON_BOND = """
dns-resolver: {config: {server: [10.20.30.2]}}
routes: {config: [{destination: 0.0.0.0/0, next-hop-address: 10.20.30.1, next-hop-interface: DEVICE}]}
"""
VLAN = """
  - name: bond0.312
    type: vlan
    state: up
    vlan: {base-iface: bond0, id: 312}
    ipv4: {enabled: true, dhcp: false, address: [{ip: 10.20.30.N, prefix-length: 24}]}
"""
TWO = """
interfaces:
  - {name: eno1, type: ethernet, state: up, mac-address: @0,
     ipv4: {enabled: true, dhcp: false, address: [{ip: 172.16.0.N, prefix-length: 24}]}}
  - {name: eno2, type: ethernet, state: up, mac-address: @1,
     ipv4: {enabled: true, dhcp: false, address: [{ip: 10.20.30.N, prefix-length: 24}]}}
dns-resolver: {config: {server: [10.20.30.2]}}
routes: {config: [{destination: 0.0.0.0/0, next-hop-address: 10.20.30.1, next-hop-interface: eno2}]}
"""
SIX = """
interfaces:
  - {name: eno1, type: ethernet, state: up, mac-address: @0,
     ipv6: {enabled: true, dhcp: false, autoconf: false, address: [{ip: "2001:db8:30::N", prefix-length: 64}]}}
dns-resolver: {config: {server: ["2001:db8:30::2"]}}
routes: {config: [{destination: "::/0", next-hop-address: "2001:db8:30::1", next-hop-interface: eno1}]}
"""
DUAL = """
interfaces:
  - {name: eno1, type: ethernet, state: up, mac-address: @0,
     ipv4: {enabled: true, dhcp: false, address: [{ip: 10.20.30.N, prefix-length: 24}]},
     ipv6: {enabled: true, dhcp: false, address: [{ip: "2001:db8:30::N", prefix-length: 64}]}}
dns-resolver: {config: {server: [10.20.30.2, "2001:db8:30::2"]}}
routes:
  config:
    - {destination: 0.0.0.0/0, next-hop-address: 10.20.30.1, next-hop-interface: eno1}
    - {destination: "::/0", next-hop-address: "2001:db8:30::1", next-hop-interface: eno1}
"""
JUMBO = STATIC.replace("state: up, mac", "state: up, mtu: 9000, mac")
BRIDGE = """
interfaces:
  - {name: eno1, type: ethernet, state: up, mac-address: @0, ipv4: {enabled: false}}
  - name: br-ex
    type: linux-bridge
    state: up
    bridge: {port: [{name: eno1}]}
    ipv4: {enabled: true, dhcp: false, address: [{ip: 10.20.30.N, prefix-length: 24}]}
dns-resolver: {config: {server: [10.20.30.2]}}
routes: {config: [{destination: 0.0.0.0/0, next-hop-address: 10.20.30.1, next-hop-interface: br-ex}]}
"""
DHCP_VLAN = """
interfaces:
  - {name: eno1, type: ethernet, state: up, mac-address: @0, ipv4: {enabled: false}}
  - {name: eno1.40, type: vlan, state: up, vlan: {base-iface: eno1, id: 40}, ipv4: {enabled: true, dhcp: true}}
"""
DUAL_NETWORKS = '{machineNetwork: [{cidr: 10.20.30.0/24}, {cidr: "2001:db8:30::/64"}]}'
DUAL_VIPS = '{baremetal: {apiVIPs: [10.20.30.5, "2001:db8:30::5"], ingressVIPs: [10.20.30.6, "2001:db8:30::6"]}}'
VIPS = "{baremetal: {apiVIPs: [10.20.30.5], ingressVIPs: [10.20.30.6]}}"
LACP = BOND.replace("MODE", "802.3ad")


def hinted(hints):
    return install(1), hosts(1, STATIC, rootDeviceHints=hints)


FIELD = {
    "sno-static": (install(1), hosts(1, STATIC)),
    "sno-dhcp": (install(1), hosts(1, "")),
    "compact-static": (install(3, platform=VIPS), hosts(3, STATIC)),
    "compact-none": (install(3), hosts(3, STATIC)),
    "ha-dhcp": (install(3, 2, platform=VIPS), hosts(5, "")),
    "ha-not-listed": (install(3, 2, platform=VIPS), {"rendezvousIP": "10.20.30.80"}),
    "bond-lacp": (install(3), hosts(3, LACP.replace("IP4", "true") + ON_BOND.replace("DEVICE", "bond0"), cards=2)),
    "bond-lacp-vlan": (
        install(3, platform=VIPS),
        hosts(3, LACP.replace("IP4", "false") + VLAN + ON_BOND.replace("DEVICE", "bond0.312"), cards=2),
    ),
    "bond-active-backup": (
        install(1),
        hosts(
            1,
            BOND.replace("MODE", "active-backup").replace("IP4", "true") + ON_BOND.replace("DEVICE", "bond0"),
            cards=2,
        ),
    ),
    "two-cards": (install(3, platform=VIPS), hosts(3, TWO, cards=2)),
    "vlan-dhcp": (install(1), hosts(1, DHCP_VLAN)),
    # The service would hold it up as the rendezvous host, as one node, or with virtual IPs.
    "bridge": (install(3), hosts(3, BRIDGE) | {"hosts": [*hosts(1, STATIC)["hosts"], *hosts(3, BRIDGE)["hosts"][1:]]}),
    "ipv6": (
        install(1, networking='{machineNetwork: [{cidr: "2001:db8:30::/64"}]}'),
        hosts(1, SIX) | {"rendezvousIP": "2001:db8:30::80"},
    ),
    "dual-stack": (install(3, networking=DUAL_NETWORKS, platform=DUAL_VIPS), hosts(3, DUAL)),
    "jumbo": (install(1), hosts(1, JUMBO)),
    "four": (install(4, platform=VIPS), hosts(4, STATIC)),
    "five": (install(5, platform=VIPS), hosts(5, STATIC)),
    "arbiter": (install(2, platform=VIPS, arbiter="{name: arbiter, replicas: 1}"), hosts(3, STATIC)),
    "two-nodes": (install(2, platform=VIPS), hosts(2, STATIC)),
    "external": (install(3, platform="{external: {platformName: other}}"), hosts(3, STATIC)),
    "sda": hinted("{deviceName: /dev/sda}"),
    "nvme": hinted("{deviceName: /dev/nvme1n1}"),
    "by-id": hinted("{deviceName: /dev/disk/by-id/wwn-0x5000c500a0b1c2d3}"),
    "serial": hinted("{serialNumber: S3Z8NB0K123456}"),
    "wwn": hinted('{wwn: "0x5000c500a0b1c2d3"}'),
    "model": hinted("{model: SAMSUNG MZ7KM480, vendor: ATA}"),
    "rotational": hinted("{rotational: false, minSizeGigabytes: 120}"),
    "capitals": (install(1), hosts(1, STATIC.replace("@0", '"00-1B-21-3C-00-00"'))),
}


@pytest.mark.parametrize("name", FIELD)
def test_it_is_derived_without_an_edit(name):
    derived = derive(*FIELD[name])
    assert topology.load_text(derived.dump()) == derived
    assert len(derived.nodes) == len(derived.masters) + len(derived.workers) + len(derived.arbiters)
    assert derived.gateway not in {node.ip for node in derived.nodes}


def one(name):
    derived = derive(*FIELD[name])
    return derived, derived.nodes[0]


def test_a_bond_has_a_partner_and_its_vlan_a_network():
    derived, node = one("bond-lacp-vlan")
    [network] = [net for net in derived.networks if net.vlan]
    assert (network.vlan, network.ipv4, network.gateway_of(4)) == (312, "10.20.30.0/24", "10.20.30.1")
    [bond] = node.bonds
    assert (bond.mode, bond.trunk, bond.addresses) == ("802.3ad", (network.name,), ("10.20.30.80",))
    assert [nic.mac for nic in node.nics] == ["00:1b:21:3c:00:00", "00:1b:21:3c:01:00"]
    assert node.ip == derived.rendezvous_ip == "10.20.30.80"
    assert "10.20.30.2" in network.aliases


def test_two_cards_are_in_two_networks_and_the_default_route_is_by_the_second():
    derived, node = one("two-cards")
    by_name = {net.name: net for net in derived.networks}
    first, second = (by_name[nic.network] for nic in node.nics)
    assert (first.ipv4, first.gateway_of(4)) == ("172.16.0.0/24", "")
    assert (second.ipv4, second.gateway_of(4)) == ("10.20.30.0/24", "10.20.30.1")
    assert node.ip == "10.20.30.80"
    assert derived.machine_subnets[0].with_prefixlen == "10.20.30.0/24"


def test_dual_stack_is_one_network_with_two_families():
    derived, node = one("dual-stack")
    [network] = derived.networks
    assert (network.ipv4, network.ipv6) == ("10.20.30.0/24", "2001:db8:30::/64")
    assert node.nics[0].addresses == ("10.20.30.80", "2001:db8:30::80")
    assert derived.vips("api") == ("10.20.30.5", "2001:db8:30::5")


def test_who_asks_for_an_address_gets_the_one_of_the_rendezvous():
    derived, node = one("vlan-dhcp")
    [network] = derived.networks
    assert (network.vlan, network.dhcp) == (40, True)
    assert node.nics[0].trunk == (network.name,)
    assert node.ip == "10.20.30.80"


def test_mtu_is_the_networks():
    assert [net.mtu for net in one("jumbo")[0].networks] == [9000]


@pytest.mark.parametrize(
    ("name", "disks"),
    [
        ("sda", [("scsi", True)]),
        ("nvme", [("nvme", False), ("nvme", True)]),
        ("by-id", [("scsi", True)]),
        ("serial", [("virtio", True)]),
        ("wwn", [("scsi", True)]),
        ("model", [("sata", True)]),
        ("rotational", [("sata", True)]),
    ],
)
def test_disks_satisfy_the_hints(name, disks):
    _, node = one(name)
    assert [(disk.bus, disk.root) for disk in node.disks] == disks
    root = next(disk for disk in node.disks if disk.root)
    hints = {"by-id": root.wwn, "wwn": root.wwn, "serial": root.serial, "model": root.model}
    wanted = {"serial": "S3Z8NB0K123456", "model": "SAMSUNG MZ7KM480"}
    if name in hints:
        assert hints[name] == wanted.get(name, "0x5000c500a0b1c2d3")
    if name == "rotational":
        assert (root.rotational, root.size_gib) == (False, 121)
    if name == "nvme":
        assert node.root_device == "/dev/nvme1n1"


def test_memory_and_processors_are_what_the_user_says():
    derived = derive(*FIELD["ha-dhcp"], memory_mib=9000, vcpu=3)
    assert {(node.memory_mib, node.vcpu) for node in derived.nodes} == {(9000, 3)}
    assert msgspec.to_builtins(derived)["nodes"][0]["memory_mib"] == 9000


def test_a_balancer_of_the_users_is_the_labs():
    platform = "{baremetal: {apiVIPs: [10.20.30.5], ingressVIPs: [10.20.30.5], loadBalancer: {type: UserManaged}}}"
    derived = derive(install(3, platform=platform), hosts(3, STATIC))
    assert derived.load_balancer
    assert "10.20.30.5/32" in derived.lab_addresses(derived.home)
    assert not derive(install(3, platform=VIPS), hosts(3, STATIC)).load_balancer


@pytest.mark.parametrize(("masters", "wanted"), [(1, False), (3, True)])
def test_on_platform_none_several_nodes_are_behind_one(masters, wanted):
    derived = derive(install(masters, platform="{none: {}}"), hosts(masters, STATIC))
    assert derived.load_balancer is wanted
    assert (
        derived.api_addresses == derived.ingress_addresses == ((derived.gateway,) if wanted else (derived.nodes[0].ip,))
    )


def test_of_hosts_whose_role_is_left_open_the_rendezvous_host_is_a_master_and_masters_are_the_weakest():
    files = hosts(5, STATIC) | {"rendezvousIP": "10.20.30.84"}
    derived = derive(install(3, 2, platform=VIPS), files)
    assert [node.role for node in derived.nodes] == ["master", "master", "worker", "worker", "master"]
    by_role = {role: {n.memory_mib for n in derived.nodes if n.role == role} for role in ("master", "worker")}
    assert max(by_role["master"]) < min(by_role["worker"])
    for host in files["hosts"][2:4]:
        host["role"] = "worker"
    plan = derive(install(3, 2, platform=VIPS), files)
    assert [n.memory_mib for n in plan.nodes if n.role == "worker"] == [topology.WORKER_MIB] * 2

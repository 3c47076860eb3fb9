"""Directories as OpenShift's documentation has them: `node0-lab deploy DIR --plan` makes a lab of each as it is."""

import pytest

from lab import topology
from lab.derive import AGENT, INSTALL
from lab.testing.directories import (
    DUAL,
    ETHERNETS,
    FOUR,
    MINE,
    NONE,
    SIX,
    STATIC,
    TWO,
    VIPS,
    agent,
    bond,
    ethernet,
    facts,
    hint,
    host,
    install,
    planned,
    several,
    static,
    tail,
    vlan,
)

BR_EX = """\
interfaces:
  - {name: eno1, type: ethernet, state: up, ipv4: {enabled: false}, ipv6: {enabled: false}}
  - name: br-ex
    type: ovs-bridge
    state: up
    bridge: {options: {mcast-snooping-enable: true}, port: [{name: eno1}, {name: br-ex}]}
  - {name: br-ex, type: ovs-interface, state: up, copy-mac-from: eno1, FAMILY}
"""
# With `allow-extra-patch-ports`, two bridges and a cable between them, as for bonds of balance-slb.
BR_PHY = """\
interfaces:
  - {name: eno1, type: ethernet, state: up, ipv4: {enabled: false}, ipv6: {enabled: false}}
  - {name: eno2, type: ethernet, state: up, ipv4: {enabled: false}, ipv6: {enabled: false}}
  - name: br-phy
    type: ovs-bridge
    state: up
    bridge:
      allow-extra-patch-ports: true
      port:
        - {name: phy-to-ex}
        - {name: slb, link-aggregation: {mode: balance-slb, port: [{name: eno1}, {name: eno2}]}}
  - {name: br-ex, type: ovs-bridge, state: up, bridge: {port: [{name: br-ex}, {name: ex-to-phy}]}}
  - {name: ex-to-phy, type: ovs-interface, state: up, patch: {peer: phy-to-ex}}
  - {name: phy-to-ex, type: ovs-interface, state: up, patch: {peer: ex-to-phy}}
  - {name: br-ex, type: ovs-interface, state: up, FAMILY}
"""
FOUR_CARDS = ["eno1", "eno2", "eno3", "eno4"]
DUAL_VIPS = """\
platform:
  baremetal:
    apiVIPs: [192.168.122.10, '2620:52:0:1302::a']
    ingressVIPs: [192.168.122.11, '2620:52:0:1302::b']
"""
BY_MAC = "identifier: mac-address, mac-address: '00:EF:44:20:E6:A@'"
MIRRORS = "imageDigestSources: [{mirrors: [registry.example.com:8443/ocp/release], source: quay.io/ocp/release}]\n"
PROXY = "proxy: {httpProxy: 'http://u:p@proxy.example.com:80', httpsProxy: 'http://proxy.example.com:80'}\n"
FENCED = f"featureSet: TechPreviewNoUpgrade\n{VIPS}"
BALANCED = "platform: {baremetal: {apiVIPs: [10.9.0.5], ingressVIPs: [10.9.0.6], loadBalancer: {type: UserManaged}}}\n"


#: Directories, and what of the plan says that it is the right one.
CASES = {
    "sno-dhcp": (install(), agent(host(["eno1"])), {"addressing": "dhcp", "ip": "192.168.122.2"}),
    "ha-static": (
        install(3, 2, VIPS), several(5),
        {"roles": "mmmww", "ip": "192.168.122.2", "gateway": "192.168.122.1", "macs": ["00:ef:44:20:e6:a2"]},
    ),
    "bond-active-backup": (
        install(3, 0, VIPS), several(3, TWO + bond("active-backup", MINE) + tail("bond0"), ETHERNETS),
        {"bonds": [("active-backup", "enp1s0 enp2s0", "")], "nets": [("192.168.122.0/24", 0, "192.168.122.1", 1500)]},
    ),
    "bond-lacp-vlan": (
        install(3, 0, VIPS),
        several(3, TWO + bond("802.3ad") + vlan("bond0", 404, MINE) + tail("bond0.404"), ETHERNETS),
        {"bonds": [("802.3ad", "enp1s0 enp2s0", "machine")],
         "nets": [("192.168.122.0/24", 404, "192.168.122.1", 1500)]},
    ),
    "default-route-on-the-second": (
        install(3, 0, VIPS),
        several(
            3, "interfaces:\n" + ethernet("eno1", static("172.16.9.@")) + ethernet("eno2", MINE)
            + tail("eno2", more=", {destination: 10.5.0.0/16, next-hop-address: 172.16.9.254, next-hop-interface: x}"),
            ETHERNETS,
        ),
        {
            "nets": [("192.168.122.0/24", 0, "192.168.122.1", 1500), ("172.16.9.0/24", 0, "", 1500)],
            "ip": "192.168.122.2", "answers": ["172.16.9.254"],
        },
    ),
    "ipv6": (
        install(machines=SIX),
        agent(
            host(["eno1"], "interfaces:\n" + ethernet("eno1", static("2620:52:0:1302::@", 64, 6))
                 + tail("eno1", "2620:52:0:1302::1", "['2620:52:0:1302::1']")),
            rendezvous="2620:0052:0:1302::2",
        ),
        {"ip": "2620:52:0:1302::2", "gateway": "2620:52:0:1302::1"},
    ),
    "dual-stack": (
        install(
            3, 0, DUAL_VIPS, machines=f"{FOUR[:-1]}, {SIX[1:]}",
        ),
        several(3, "interfaces:\n" + ethernet("eno1", DUAL) + tail("eno1")),
        {"nets": [("192.168.122.0/24 2620:52:0:1302::/64", 0, "192.168.122.1", 1500)],
         "addresses": ["192.168.122.2", "2620:52:0:1302::2"]},
    ),
    "disconnected": (install(3, 0, VIPS + MIRRORS), several(3), {"roles": "mmm", "proxy": False}),
    "proxy": (install(1, 0, NONE + PROXY), several(1), {"proxy": True}),
    "none-with-a-balancer": (install(3, 2), several(5), {"load_balancer": True, "roles": "mmmww"}),
    "user-managed-elsewhere": (
        install(3, 0, BALANCED), several(3), {"load_balancer": True, "answers": ["10.9.0.5", "10.9.0.6"]},
    ),
    "arbiter": (install(2, 0, VIPS + "arbiter: {name: arbiter, replicas: 1}\n"), several(3), {"roles": "mma"}),
    "fencing": (
        install(2, 0, FENCED).replace(
            "replicas: 2}", "replicas: 2, fencing: {credentials: [{hostName: node-2, address: "
            "'redfish+https://192.168.122.200/redfish/v1/Systems/1', username: u, password: p}]}}", 1,
        ),
        several(2), {"roles": "mm"},
    ),
    "five-masters": (install(5, 0, VIPS), several(5), {"roles": "mmmmm"}),
    "v1alpha1": (
        install(3, 0, VIPS),
        several(3, version="v1alpha1", more="additionalNTPSources: [192.168.122.7, ntp.example.com]\n"),
        {"answers": ["192.168.122.7"]},
    ),
    "before-v1alpha1": (
        install(3, 0, VIPS),
        "metadata: {name: ocp}\nspec:\n  rendezvousIP: 192.168.122.2\n  hosts:\n"
        + "".join(f"  {line}\n" for n in "234" for line in host(["eno1"], STATIC).replace("@", n).splitlines()),
        {"roles": "mmm", "ip": "192.168.122.2"},
    ),
    "mac-of-digits": (
        install(), agent(host(["eno1"], STATIC).replace("00:ef:44:20:e6:a@", "525400112233")),
        {"macs": ["52:54:00:11:22:33"]},
    ),
    "mtu-of-a-bond-s-vlan": (
        install(3, 0, VIPS),
        several(3, TWO + bond("802.3ad", "mtu: '9000', ipv4: {enabled: false}") + vlan("bond0", "'404'", MINE)
                .replace("bond0.'404'", "bond0.404") + tail("bond0.404"), ETHERNETS),
        {"nets": [("192.168.122.0/24", 404, "192.168.122.1", 9000)]},
    ),
    "two-dns-servers": (
        install(), several(1, STATIC.replace("[192.168.122.1]", "[192.168.122.53, 10.0.0.53]")),
        {"answers": ["192.168.122.53", "10.0.0.53"]},
    ),
    "br-ex-besides": (
        install(3, 0, VIPS),
        several(3, BR_EX.replace("FAMILY", static("172.16.9.@")) + ethernet("eno2", MINE) + tail("eno2"), ETHERNETS),
        {"addresses": ["192.168.122.2", "172.16.9.2"], "ip": "192.168.122.2"},
    ),
    "machine-networks-of-racks": (
        install(3, 2, BALANCED, machines="[{cidr: 192.168.122.0/24}, {cidr: 192.168.123.0/24}]"),
        agent(*[host(["eno1"], STATIC)] * 3, *[host(["eno1"], STATIC.replace("168.122", "168.123"))] * 2),
        {"nets": [(f"192.168.{n}.0/24", 0, f"192.168.{n}.1", 1500) for n in (122, 123)], "last": "192.168.123.6"},
    ),
    "two-machine-networks-of-each-host": (
        install(3, 0, VIPS, machines="[{cidr: 192.168.122.0/24}, {cidr: 192.168.123.0/24}]"),
        several(
            3, "interfaces:\n" + ethernet("eno1", static("192.168.123.@")) + ethernet("eno2", MINE) + tail("eno2"),
            ETHERNETS,
        ),
        {"nets": [("192.168.122.0/24", 0, "192.168.122.1", 1500), ("192.168.123.0/24", 0, "", 1500)],
         "ip": "192.168.122.2", "addresses": ["192.168.122.2", "192.168.123.2"]},
    ),
    "two-machine-networks-by-dhcp": (
        install(3, 0, VIPS, machines="[{cidr: 192.168.122.0/24}, {cidr: 192.168.123.0/24}]"),
        several(3, "interfaces:\n" + "".join(ethernet(one, "ipv4: {enabled: true, dhcp: true}") for one in ETHERNETS),
                ETHERNETS),
        {"nets": [("192.168.122.0/24", 0, "192.168.122.1", 1500), ("192.168.123.0/24", 0, "192.168.123.1", 1500)],
         "ip": "192.168.122.2", "addresses": ["192.168.122.2", "192.168.123.20"]},
    ),
    "a-second-card-by-dhcp": (
        install(3, 0, VIPS),
        several(3, "interfaces:\n" + ethernet("eno1", MINE) + ethernet("eno2", "ipv4: {enabled: true, dhcp: true}")
                + tail("eno1"), ETHERNETS),
        {"nets": [("192.168.122.0/24", 0, "192.168.122.1", 1500), ("192.168.200.0/24", 0, "", 1500)],
         "ip": "192.168.122.2"},
    ),
    "sr-iov-on-the-card": (
        install(), several(1, STATIC.replace("}]}}", "}]}, ethernet: {sr-iov: {total-vfs: 2}}}", 1)),
        {"ip": "192.168.122.2"},
    ),
    "ovs-balance-slb": (
        install(3, 0, VIPS),
        several(
            3, BR_PHY.replace("FAMILY", static("172.16.9.@")) + ethernet("eno3", MINE) + tail("eno3"), FOUR_CARDS[:3],
        ),
        {"bonds": [("balance-tlb", "enp1s0 enp2s0", "")], "addresses": ["192.168.122.2", "172.16.9.2"]},
    ),
    "a-bond-for-storage-besides": (
        install(3, 0, VIPS),
        several(
            3, "interfaces:\n" + "".join(map(ethernet, FOUR_CARDS)) + bond("active-backup", MINE)
            + bond("802.3ad", "mtu: 9000, ipv4: {enabled: false}", "bond1", "[eno3, eno4]")
            + vlan("bond1", 60, static("10.60.0.@")) + tail("bond0"),
            FOUR_CARDS,
        ),
        {
            "bonds": [("active-backup", "enp1s0 enp2s0", ""), ("802.3ad", "enp3s0 enp4s0", "net1")],
            "nets": [("192.168.122.0/24", 0, "192.168.122.1", 1500), ("10.60.0.0/24", 60, "", 9000)],
        },
    ),
    "a-bridge-over-a-vlan-of-a-bond": (
        install(3),
        agent(
            *[host(ETHERNETS, TWO + bond("802.3ad") + vlan("bond0", 404, "ipv4: {enabled: false}")
                   + "  - {name: br-ex, type: linux-bridge, state: up, bridge: {port: [{name: bond0.404}]}, "
                   + f"{MINE}}}\n" + tail("br-ex"))] * 2,
            # The service wants the rendezvous host's address on what it counts.
            host(ETHERNETS, TWO + bond("802.3ad") + vlan("bond0", 404, MINE) + tail("bond0.404")),
            rendezvous="192.168.122.4",
        ),
        {"bonds": [("802.3ad", "enp1s0 enp2s0", "machine")],
         "nets": [("192.168.122.0/24", 404, "192.168.122.1", 1500)]},
    ),
    "two-vlans-of-a-bond": (
        install(3, 0, VIPS),
        several(
            3, TWO + bond("802.3ad").replace("miimon: '150'", "lacp_rate: fast, xmit_hash_policy: layer3+4")
            + vlan("bond0", 404, MINE) + vlan("bond0", 405, static("10.40.5.@")) + tail("bond0.404"),
            ETHERNETS,
        ),
        {"bonds": [("802.3ad", "enp1s0 enp2s0", "machine net1")],
         "nets": [("192.168.122.0/24", 404, "192.168.122.1", 1500), ("10.40.5.0/24", 405, "", 1500)]},
    ),
    "dual-stack-that-asks": (
        install(3, 0, DUAL_VIPS, machines=f"{FOUR[:-1]}, {SIX[1:]}"),
        several(
            3, "interfaces:\n"
            + ethernet("eno1", "ipv4: {enabled: true, dhcp: true}, ipv6: {enabled: true, dhcp: true, autoconf: true}"),
        ),
        {"addressing": "dhcp", "ip": "192.168.122.2", "addresses": ["192.168.122.2", "2620:52:0:1302::14"]},
    ),
    "ipv6-first": (
        install(
            3, 0, "platform: {baremetal: {apiVIPs: ['2620:52:0:1302::a', 192.168.122.10], "
            "ingressVIPs: ['2620:52:0:1302::b', 192.168.122.11]}}\n", machines=f"{SIX[:-1]}, {FOUR[1:]}",
        ),
        several(3, "interfaces:\n" + ethernet("eno1", DUAL) + tail("eno1"), rendezvous="2620:52:0:1302::2"),
        {"ip": "2620:52:0:1302::2", "addresses": ["2620:52:0:1302::2", "192.168.122.2"], "last": "2620:52:0:1302::4"},
    ),
    "routes-by-rules": (
        install(3, 0, VIPS),
        several(
            3, "interfaces:\n" + ethernet("eno1", MINE) + ethernet("eno2", static("172.16.9.@"))
            + tail("eno1", more=", {destination: 0.0.0.0/0, next-hop-address: 172.16.9.254, table-id: 9}")
            + "route-rules: {config: [{ip-from: 172.16.9.0/24, route-table: 9, priority: 100}]}\n",
            ETHERNETS,
        ),
        {"nets": [("192.168.122.0/24", 0, "192.168.122.1", 1500), ("172.16.9.0/24", 0, "172.16.9.254", 1500)]},
    ),
    "dhcp-with-servers-of-its-own": (
        install(3, 0, VIPS),
        several(
            3, "interfaces:\n" + ethernet("eno1", "ipv4: {enabled: true, dhcp: true, auto-dns: false}")
            + "dns-resolver: {config: {server: [192.168.122.53, 10.5.0.53], search: [lab.example.com]}}\n",
        ),
        {"addressing": "dhcp", "answers": ["192.168.122.53", "10.5.0.53"]},
    ),
    "dhcp-on-a-vlan-beside-a-static-card": (
        install(3, 0, VIPS),
        several(
            3, "interfaces:\n" + ethernet("eno1", static("10.70.0.@"))
            + vlan("eno1", 30, "ipv4: {enabled: true, dhcp: true}"),
        ),
        {
            "addressing": "dhcp", "ip": "192.168.122.2", "addresses": ["192.168.122.2", "10.70.0.2"],
            "nets": [("192.168.122.0/24", 30, "192.168.122.1", 1500), ("10.70.0.0/24", 0, "", 1500)],
        },
    ),
    "a-card-by-its-mac-address": (
        install(),
        several(1, STATIC.replace("name: eno1", f"name: up, {BY_MAC}", 1).replace("interface: eno1", "interface: up")),
        {"macs": ["00:ef:44:20:e6:a2"], "addresses": ["192.168.122.2"]},
    ),
    "an-address-of-the-loopback-and-a-vrf": (
        install(3, 0, VIPS),
        several(
            3, "interfaces:\n"
            + "  - {name: lo, type: loopback, state: up, " + static("198.51.100.@", 32) + "}\n"
            + ethernet("eno1", MINE) + ethernet("eno2", static("172.16.9.@"))
            + "  - {name: blue, type: vrf, state: up, vrf: {port: [eno2], route-table-id: 100}}\n" + tail("eno1"),
            ETHERNETS,
        ),
        {"nets": [("192.168.122.0/24", 0, "192.168.122.1", 1500), ("172.16.9.0/24", 0, "", 1500)]},
    ),
    "node0-alone-is-listed": (
        install(3, 2, VIPS), several(1), {"roles": "mmmww", "ip": "192.168.122.2", "last": "192.168.122.23"},
    ),
    "workers-that-ask": (
        install(3, 2, VIPS),
        agent(*[host(["eno1"], STATIC, "    role: master\n")] * 3, *[host(["eno1"], "", "    role: worker\n")] * 2),
        {"roles": "mmmww", "ip": "192.168.122.2", "last": "192.168.122.21"},
    ),
    "hint-name": (*hint("{deviceName: /dev/sdb}"), {"disks": [("scsi", False), ("scsi", True)]}),
    "hint-serial": (*hint("{serialNumber: S3Z8NB0K123456}"), {"disks": [("virtio", True)]}),
    "hint-place": (*hint("{hctl: '0:0:0:0', model: QEMU}"), {"disks": [("scsi", True)]}),
    "hint-wwn-and-long-model": (
        *hint("{wwn: '0x5000c500a0b1c2d3', model: SAMSUNG MZ7KM480HAHP}"), {"disks": [("sata", True)]},
    ),
    "hint-size-and-vendor": (
        *hint("{minSizeGigabytes: 120, vendor: ATA, rotational: true}"), {"disks": [("sata", True)]},
    ),
    "hint-vendor-of-a-controller": (
        *hint("{vendor: DELL, model: PERC H740P Mini, rotational: false}"), {"disks": [("scsi", True)]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_it_is_planned_without_an_edit(name, tmp_path, capsys):
    *texts, wanted = CASES[name]
    code, out, err = planned(texts, tmp_path, capsys)
    assert (code, err) == (0, "")
    assert sorted((path.name, path.read_text()) for path in tmp_path.iterdir()) == [
        (AGENT, texts[1]),
        (INSTALL, texts[0]),
    ], "the user's files are left alone"
    summary = facts(topology.load_text(out))
    summary["answers"] = [text for text in wanted.get("answers", []) if text in summary["answers"]]
    assert {key: summary[key] for key in wanted} == wanted

"""Inputs as OpenShift's documentation and the field have them: each leads to the right lab, or to one line."""

import pytest

from ci.tests.halves.derive.kit import lab_for
from lab import topology
from lab.derive import AGENT, INSTALL
from lab.errors import TopologyError
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
  - {name: br-ex, type: ovs-interface, state: up, mac-address: '00:ef:44:20:e6:a@', FAMILY}
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
FOUR_NICS = ["eno1", "eno2", "eno3", "eno4"]
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
BALANCED = VIPS.replace("[192.168.122.11]", "[192.168.122.11], loadBalancer: {type: UserManaged}")

NICS_OF_TWO_SLOTS = ["ens1f0", "ens1f1", "ens2f0", "ens2f1"]
DHCP = "ipv4: {enabled: true, dhcp: true, auto-gateway: false, auto-dns: false}"
#: Hosts of install-config.yaml with BMCs of their own; agent-config.yaml has none.
LISTED = """\
platform:
  baremetal:
    apiVIPs: [192.168.122.10]
    ingressVIPs: [192.168.122.11]
    provisioningNetwork: Disabled
    hosts:
    - name: openshift-master-0
      role: master
      bootMACAddress: 0c:c4:7a:aa:bb:01
      bmc: {address: redfish-virtualmedia://10.1.1.1/redfish/v1/Systems/1, username: u, password: p}
      rootDeviceHints: {deviceName: /dev/sda}
    - name: openshift-master-1
      role: master
      bootMACAddress: 0c:c4:7a:aa:bb:02
      bmc: {address: redfish-virtualmedia://10.1.1.2/redfish/v1/Systems/1, username: u, password: p}
    - name: openshift-master-2
      role: master
      bootMACAddress: 0c:c4:7a:aa:bb:03
      bmc: {address: redfish-virtualmedia://10.1.1.3/redfish/v1/Systems/1, username: u, password: p}
"""
OCI = "platform: {external: {platformName: oci, cloudControllerManager: External}}\n"
TWO_BONDS = (
    "interfaces:\n"
    + bond("802.3ad", "mtu: 9000, mac-address: '00:ef:44:20:e6:a@', ipv4: {enabled: false}", nics="[ens1f0, ens2f0]")
    + bond("active-backup", name="bond1", nics="[ens1f1, ens2f1]")
    + vlan("bond0", 111, MINE) + vlan("bond1", 50, static("172.16.50.2@"))
    + tail("bond0.111", more=", {destination: 10.200.0.0/16, next-hop-address: 172.16.50.1, "
           "next-hop-interface: bond1.50}")
)  # fmt: skip
#: An address of its own length, and its router on the link.
ON_LINK = STATIC.replace("prefix-length: 24", "prefix-length: 32").replace(
    "routes: {config: [", "routes: {config: [{destination: 192.168.122.1/32, next-hop-interface: eno1}, "
)
MORE = "  - {name: vx0, type: vxlan, state: up, vxlan: {base-iface: eno1, id: 42, remote: 192.168.122.99}}\n" \
       "  - {name: v0, type: veth, state: up, veth: {peer: v1}}\n" \
       "  - {name: dummy0, type: dummy, state: up, " + static("10.255.0.1", 32) + "}\n" \
       "  - {name: eno8, type: ethernet, state: absent}\n  - {name: eno9, type: ethernet, state: ignore}\n"  # fmt: skip
ONE = "interfaces:\n" + ethernet("eno1")
OFF = "ipv4: {enabled: false}"


def bridge(port: str, families: str) -> str:
    """Return a Linux bridge br0 of one port."""
    return f"  - {{name: br0, type: linux-bridge, state: up, bridge: {{port: [{{name: {port}}}]}}, {families}}}\n"


def ovs(name: str, *ports: str) -> str:
    """Return an OVS bridge with ports of these names."""
    listed = ", ".join(f"{{name: {port}}}" for port in ports)
    return f"  - {{name: {name}, type: ovs-bridge, state: up, bridge: {{port: [{listed}]}}}}\n"


#: OVS bridges a, b and c, each patched to the two others; c has the NIC.
RING = (
    ONE + ovs("a", "a", "ab", "ac") + ovs("b", "ba", "bc") + ovs("c", "ca", "cb", "eno1")
    + "".join(
        f"  - {{name: {x + y}, type: ovs-interface, state: up, patch: {{peer: {y + x}}}}}\n"
        for x in "abc" for y in "abc" if x != y
    )
    + f"  - {{name: a, type: ovs-interface, state: up, {MINE}}}\n" + tail("a")
)  # fmt: skip


#: Directories, and facts of the right plan.
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
            + tail("eno2", more=", {destination: 10.5.0.0/16, next-hop-address: 172.16.9.254, "
                   "next-hop-interface: eno1}"),
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
    "user-managed": (
        install(3, 0, BALANCED), several(3), {"load_balancer": True, "answers": ["192.168.122.10", "192.168.122.11"]},
    ),
    "arbiter": (install(2, 0, VIPS + "arbiter: {name: arbiter, replicas: 1}\n"), several(3), {"roles": "mma"}),
    "fencing": (
        install(2, 0, FENCED).replace(
            "replicas: 2}", "replicas: 2, fencing: {credentials: [{hostName: node-2, address: "
            "'redfish+https://192.168.122.200/redfish/v1/Systems/1', username: u, password: p}, {hostName: node-3, "
            "address: 'redfish+https://192.168.122.201/redfish/v1/Systems/1', username: u, password: p}]}}", 1,
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
        install(3, 0, BALANCED, machines="[{cidr: 192.168.122.0/24}, {cidr: 192.168.123.0/24}]"),
        several(
            3, "interfaces:\n" + ethernet("eno1", static("192.168.123.@")) + ethernet("eno2", MINE) + tail("eno2"),
            ETHERNETS,
        ),
        {"nets": [("192.168.122.0/24", 0, "192.168.122.1", 1500), ("192.168.123.0/24", 0, "", 1500)],
         "ip": "192.168.122.2", "addresses": ["192.168.122.2", "192.168.123.2"]},
    ),
    "two-machine-networks-by-dhcp": (
        install(3, 0, BALANCED, machines="[{cidr: 192.168.122.0/24}, {cidr: 192.168.123.0/24}]"),
        several(3, "interfaces:\n" + "".join(ethernet(one, "ipv4: {enabled: true, dhcp: true}") for one in ETHERNETS),
                ETHERNETS),
        {"nets": [("192.168.122.0/24", 0, "192.168.122.1", 1500), ("192.168.123.0/24", 0, "192.168.123.1", 1500)],
         "ip": "192.168.122.2", "addresses": ["192.168.122.2", "192.168.123.20"]},
    ),
    "a-second-nic-by-dhcp": (
        install(3, 0, VIPS),
        several(3, "interfaces:\n" + ethernet("eno1", MINE) + ethernet("eno2", "ipv4: {enabled: true, dhcp: true}")
                + tail("eno1"), ETHERNETS),
        {"nets": [("192.168.122.0/24", 0, "192.168.122.1", 1500), ("192.168.200.0/24", 0, "", 1500)],
         "ip": "192.168.122.2"},
    ),
    "sr-iov-on-the-nic": (
        install(), several(1, STATIC.replace("}]}}", "}]}, ethernet: {sr-iov: {total-vfs: 2}}}", 1)),
        {"ip": "192.168.122.2"},
    ),
    "ovs-balance-slb": (
        install(3, 0, VIPS),
        several(
            3, BR_PHY.replace("FAMILY", static("172.16.9.@")) + ethernet("eno3", MINE) + tail("eno3"), FOUR_NICS[:3],
        ),
        {"bonds": [("balance-tlb", "enp1s0 enp2s0", "")], "addresses": ["192.168.122.2", "172.16.9.2"]},
    ),
    "a-bond-for-storage-besides": (
        install(3, 0, VIPS),
        several(
            3, "interfaces:\n" + "".join(map(ethernet, FOUR_NICS)) + bond("active-backup", MINE)
            + bond("802.3ad", "mtu: 9000, ipv4: {enabled: false}", "bond1", "[eno3, eno4]")
            + vlan("bond1", 60, static("10.60.0.@")) + tail("bond0"),
            FOUR_NICS,
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
            + tail("eno1", more=", {destination: 0.0.0.0/0, next-hop-address: 172.16.9.254, "
                   "next-hop-interface: eno2, table-id: 9}")
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
    "dhcp-on-a-vlan-beside-a-static-nic": (
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
    "a-nic-by-its-mac-address": (
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
    "hosts-of-install-config-with-bmcs": (
        install(3, 0, LISTED), agent(),
        {"roles": "mmm", "ip": "192.168.122.2", "macs": ["0c:c4:7a:aa:bb:01"], "disks": [("scsi", True)]},
    ),
    "two-bonds-with-a-vlan-each": (
        install(3, 0, VIPS), several(3, TWO_BONDS, NICS_OF_TWO_SLOTS),
        {"bonds": [("802.3ad", "enp1s0 enp3s0", "machine"), ("active-backup", "enp2s0 enp4s0", "net1")],
         "nets": [("192.168.122.0/24", 111, "192.168.122.1", 9000), ("172.16.50.0/24", 50, "", 1500)],
         "answers": ["172.16.50.1"]},
    ),
    "a-static-vlan-over-a-nic-that-asks": (
        install(3, 0, VIPS),
        several(3, "interfaces:\n" + ethernet("eno1", DHCP)
                + vlan("eno1", 1234, f"mtu: 1400, {MINE}").replace("eno1.1234", "machines") + tail("machines")),
        {"ip": "192.168.122.2",
         "nets": [("192.168.122.0/24", 1234, "192.168.122.1", 1400), ("192.168.200.0/24", 0, "", 1500)]},
    ),
    "a-router-on-the-link": (
        install(), several(1, ON_LINK), {"ip": "192.168.122.2", "gateway": "192.168.122.1"},
    ),
    "external-of-a-cloud": (
        install(3, 0, OCI), several(3, "", more="minimalISO: true\nbootArtifactsBaseURL: http://192.0.2.1/boot\n"),
        {"load_balancer": True, "roles": "mmm", "addressing": "dhcp"},
    ),
    "tunnels-dummies-and-what-is-left-alone": (
        install(), several(1, STATIC.replace("dns-resolver", MORE + "dns-resolver", 1)),
        {"ip": "192.168.122.2", "addresses": ["192.168.122.2"], "macs": ["00:ef:44:20:e6:a2"]},
    ),
    "a-second-router-of-a-higher-metric": (
        install(), several(1, "interfaces:\n" + ethernet("eno1", MINE)
                           + tail("eno1", more=", {destination: 0.0.0.0/0, next-hop-address: 192.168.122.254, "
                                  "next-hop-interface: eno1, metric: 200}")),
        {"gateway": "192.168.122.1", "answers": ["192.168.122.254"]},
    ),
    "machine-cidr-of-old": (
        install().replace("machineNetwork: [{cidr: 192.168.122.0/24}]", "machineCIDR: 192.168.122.0/24"), several(1),
        {"ip": "192.168.122.2", "gateway": "192.168.122.1"},
    ),
    "details-of-a-nic": (
        install(),
        several(1, STATIC.replace("state: up", "state: up, description: uplink, profile-name: uplink, lldp: {enabled: "
                                  "true}, ethtool: {ring: {rx: 4096}}, ethernet: {speed: 10000, duplex: full}", 1)),
        {"ip": "192.168.122.2"},
    ),
    "as-few-addresses-as-can-be": (
        install(
            3, 0, VIPS.replace("122.10", "122.5").replace("122.11", "122.6"), machines="[{cidr: 192.168.122.0/29}]"
        ),
        several(3, ""),
        {"ip": "192.168.122.2", "last": "192.168.122.4", "addressing": "dhcp"},
    ),
    "a-vlan-over-a-bridge": (
        install(), several(1, ONE + bridge("eno1", OFF) + vlan("br0", 40, MINE) + tail("br0.40")),
        {"ip": "192.168.122.2", "nets": [("192.168.122.0/24", 40, "192.168.122.1", 1500)]},
    ),
    "linux-bridges-beside-node0": (
        install(3),
        agent(host(["eno1"], STATIC), *[host(["eno1"], ONE + bridge("eno1", MINE) + tail("br0"))] * 2),
        {"roles": "mmm", "last": "192.168.122.4"},
    ),
    "hosts-of-platform-none-elsewhere": (
        install(3), agent(host(["eno1"], STATIC), *[host(["eno1"], STATIC.replace("168.122", "168.123"))] * 2),
        {"last": "192.168.123.4"},
    ),
    "a-ring-of-patch-cables": (
        install(3), agent(host(["eno1"], STATIC), *[host(["eno1"], RING)] * 2), {"last": "192.168.122.4"},
    ),
    "two-nics-without-names": (
        install(), agent("  - interfaces: [{macAddress: 00:ef:44:20:e6:a2}, {macAddress: 00:ef:44:20:e6:a3}]\n"),
        {"ip": "192.168.122.2", "macs": ["00:ef:44:20:e6:a2", "00:ef:44:20:e6:a3"]},
    ),
    "a-jumbo-frame": (
        install(), several(1, STATIC.replace("state: up", "state: up, mtu: 9000", 1)),
        {"nets": [("192.168.122.0/24", 0, "192.168.122.1", 9000)]},
    ),
    "replicas-alone": (install(3, 2, VIPS), agent(), {"roles": "mmmww", "addressing": "dhcp", "ip": "192.168.122.2"}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_it_is_planned_without_an_edit(name):
    *texts, wanted = CASES[name]
    shape = lab_for(*texts)
    summary = facts(shape)
    summary["answers"] = [text for text in wanted.get("answers", []) if text in summary["answers"]]
    assert {key: summary[key] for key in wanted} == wanted
    assert topology.load_text(shape.dump()) == shape


#: Inputs that are valid, and that no lab can have: the line that says so.
REFUSED = {
    "a-platform-of-a-cloud": (
        install(3, 0, VIPS), several(3), {"platform": "vsphere"},
        f"{INSTALL}: platform: must be none, baremetal or external in a lab, not vsphere",
    ),
    "another-architecture": (
        install().replace("amd64", "arm64"), several(1), {},
        f"{INSTALL}: architecture: the lab's machines are amd64, not arm64",
    ),
    "too-many-nodes": (
        install(3, 200, VIPS), agent(), {}, f"{INSTALL}: replicas: 203 nodes in all, a lab has at most 128",
    ),
    "a-contradiction": (
        install(3, 0, VIPS), several(3, STATIC.replace("168.122.@", "168.122.2"), rendezvous="192.168.122.2"), {},
        f"{AGENT}: hosts[1].networkConfig.interfaces[0].ipv4.address[0].ip: 192.168.122.2 is that of hosts[0]",
    ),
    "infiniband": (
        install(), several(1, STATIC.replace("dns-", "  - {name: ib0, type: infiniband, state: up, infiniband: "
                                             "{mode: datagram, pkey: '0xffff'}}\ndns-", 1), ETHERNETS), {},
        f"{AGENT}: hosts[0].networkConfig: ib0 is of type infiniband: labs have NICs, bonds, VLANs and bridges",
    ),
    "a-bond-of-vlans": (
        install(),
        several(1, TWO + vlan("eno1", 7, OFF) + bond("1", MINE, nics="[eno1.7]") + tail("bond0"), ETHERNETS), {},
        f"{AGENT}: hosts[0].networkConfig: bond0 has the port eno1.7, a vlan: labs have bonds of NICs",
    ),
    "a-vlan-over-a-vlan": (
        install(),
        several(1, "interfaces:\n" + ethernet("eno1", MINE) + vlan("eno1", 7, OFF)
                + vlan("eno1.7", 5, OFF).replace("{name: eno1.7.5", "{name: v5") + tail("eno1")), {},
        f"{AGENT}: hosts[0].networkConfig: v5 is a VLAN over a VLAN: labs carry one tag",
    ),
    "a-network-by-two-tags": (
        install(3), agent(*(host(["eno1"], ONE + vlan("eno1", n, MINE) + tail(f"eno1.{n}")) for n in (5, 6, 5))), {},
        f"{AGENT}: hosts[1].networkConfig: 6 is the tag of 192.168.122.0/24 here, and 5 elsewhere",
    ),
    "a-tag-of-two-networks": (
        install(),
        several(1, TWO + vlan("eno1", 9, MINE) + vlan("eno2", 9, static("172.16.0.@")) + tail("eno1.9"), ETHERNETS), {},
        f"{AGENT}: hosts[0].networkConfig: VLAN 9 is used more than once, by another network too",
    ),
    "an-mtu-that-no-lab-carries": (
        install(), several(1, STATIC.replace("state: up", "state: up, mtu: 65520", 1)), {},
        f"{AGENT}: hosts[0].networkConfig: 65520 is not within 1280 to 9216",
    ),
    "a-host-that-reaches-nobody": (
        install(3, 0, VIPS), agent(host(["eno1"], STATIC), host(ETHERNETS, TWO), host(["eno1"], STATIC)), {},
        f"{AGENT}: hosts[1].networkConfig: no NIC has an address or asks for one",
    ),
    "a-name-twice": (
        install(3), agent(host(["eno1"]), host(["eno1"]).replace("node-@", "node-2.b"), host(["eno1"])), {},
        f"{AGENT}: hosts[1].hostname: name node-2 is used more than once, by hosts[0]",
    ),
    "a-place-on-the-bus": (
        *hint("{deviceName: '/dev/disk/by-path/pci-0000:00:17.0-ata-1'}"), {},
        f"{AGENT}: hosts[0].rootDeviceHints.deviceName: /dev/disk/by-path/pci-0000:00:17.0-ata-1: labs have no such",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_by_file_and_field(name):
    install_config, agent_config, changes, line = REFUSED[name]
    with pytest.raises(TopologyError) as refused:
        lab_for(install_config, agent_config, changes=changes)
    assert str(refused.value).startswith(line)

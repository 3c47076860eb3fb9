"""Directories of further kinds, as the field has them: each is a lab as it is, or one line says why not."""

import pytest

from lab import topology
from lab.derive import AGENT, INSTALL
from lab.testing.directories import (
    ETHERNETS,
    MINE,
    NONE,
    STATIC,
    VIPS,
    agent,
    bond,
    ethernet,
    facts,
    hint,
    install,
    planned,
    several,
    static,
    tail,
    vlan,
)

FOUR_CARDS = ["ens1f0", "ens1f1", "ens2f0", "ens2f1"]
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
    - {name: openshift-master-1, role: master, bootMACAddress: '0c:c4:7a:aa:bb:02'}
    - {name: openshift-master-2, role: master, bootMACAddress: '0c:c4:7a:aa:bb:03'}
"""
OCI = "platform: {external: {platformName: oci, cloudControllerManager: External}}\n"
TWO_BONDS = (
    "interfaces:\n"
    + bond("802.3ad", "mtu: 9000, mac-address: '00:ef:44:20:e6:a@', ipv4: {enabled: false}", cards="[ens1f0, ens2f0]")
    + bond("active-backup", name="bond1", cards="[ens1f1, ens2f1]")
    + vlan("bond0", 111, MINE) + vlan("bond1", 50, static("172.16.50.2@"))
    + tail("bond0.111", more=", {destination: 10.200.0.0/16, next-hop-address: 172.16.50.1, metric: 150}")
)  # fmt: skip
#: An address of its own length, and its router on the link.
ON_LINK = STATIC.replace("prefix-length: 24", "prefix-length: 32").replace(
    "routes: {config: [", "routes: {config: [{destination: 192.168.122.1/32, next-hop-interface: eno1}, "
)
MORE = "  - {name: vx0, type: vxlan, state: up, vxlan: {base-iface: eno1, id: 42, remote: 192.168.122.99}}\n" \
       "  - {name: v0, type: veth, state: up, veth: {peer: v1}}\n" \
       "  - {name: dummy0, type: dummy, state: up, " + static("10.255.0.1", 32) + "}\n" \
       "  - {name: eno8, type: ethernet, state: absent}\n  - {name: eno9, type: ethernet, state: ignore}\n"  # fmt: skip
CASES = {
    "hosts-of-install-config-with-bmcs": (
        install(3, 0, LISTED), agent(),
        {"roles": "mmm", "ip": "192.168.122.2", "macs": ["0c:c4:7a:aa:bb:01"], "disks": [("scsi", True)]},
    ),
    "two-bonds-with-a-vlan-each": (
        install(3, 0, VIPS), several(3, TWO_BONDS, FOUR_CARDS),
        {"bonds": [("802.3ad", "enp1s0 enp3s0", "machine"), ("active-backup", "enp2s0 enp4s0", "net1")],
         "nets": [("192.168.122.0/24", 111, "192.168.122.1", 9000), ("172.16.50.0/24", 50, "", 1500)],
         "answers": ["172.16.50.1"]},
    ),
    "a-static-vlan-over-a-card-that-asks": (
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
    "details-of-a-card": (
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
    "hint-scsi-by-id": (*hint("{deviceName: /dev/disk/by-id/scsi-36001405a1b2c3d4e}"), {"disks": [("scsi", True)]}),
}  # fmt: skip
TOLD = {
    "nobody-to-meet": (
        install(), several(1, "").replace("rendezvousIP: 192.168.122.2\n", ""),
        f"{AGENT}: rendezvousIP: missing, and no host has a static address that the installer could take for "
        "it",
    ),
    "a-platform-of-a-cloud": (
        install(3, 0, "platform: {vsphere: {apiVIPs: [192.168.122.10]}}\n"), several(3),
        f"{INSTALL}: platform: must be none, baremetal or external in a lab, not vsphere",
    ),
    "a-place-on-the-bus": (
        *hint("{deviceName: '/dev/disk/by-path/pci-0000:00:17.0-ata-1'}"),
        f"{AGENT}: hosts[0].rootDeviceHints.deviceName: /dev/disk/by-path/pci-0000:00:17.0-ata-1: labs cannot "
        "put a disk there; use a kernel's name, serialNumber or wwn",
    ),
    "infiniband": (
        install(1, 0, NONE),
        several(1, STATIC.replace("dns-resolver", "  - {name: ib0, type: infiniband, state: up}\ndns-resolver", 1),
                ETHERNETS),
        f"{AGENT}: hosts[0].networkConfig.interfaces[1].type: ib0 is of type infiniband: labs have cards, "
        "bonds, VLANs and bridges over them",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_it_is_planned_without_an_edit(name, tmp_path, capsys):
    *texts, wanted = CASES[name]
    code, out, err = planned(texts, tmp_path, capsys)
    assert (code, err) == (0, "")
    summary = facts(topology.load_text(out))
    summary["answers"] = [text for text in wanted.get("answers", []) if text in summary["answers"]]
    assert {key: summary[key] for key in wanted} == wanted


@pytest.mark.parametrize("name", TOLD)
def test_it_is_told_in_one_line(name, tmp_path, capsys):
    *texts, line = TOLD[name]
    assert planned(texts, tmp_path, capsys) == (1, "", f"node0-lab: {line}\n")

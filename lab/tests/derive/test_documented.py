"""Directories as OpenShift's documentation has them: `node0-lab deploy DIR --plan` makes a lab of each as it is."""

import pytest

from lab import topology
from lab.commands import cli

INSTALL = """\
apiVersion: v1
baseDomain: lab.example.com
metadata: {name: CLUSTER}
controlPlane: {name: master, architecture: amd64, hyperthreading: Enabled, replicas: MASTERS}
compute: [{name: worker, architecture: amd64, hyperthreading: Enabled, replicas: WORKERS}]
networking:
  networkType: OVNKubernetes
  clusterNetwork: [{cidr: 10.128.0.0/14, hostPrefix: 23}]
  serviceNetwork: [172.30.0.0/16]
  machineNetwork: MACHINES
pullSecret: '{"auths": {"registry.example.com": {"auth": "dTpw"}}}'
sshKey: ssh-ed25519 AAAA user
"""
VIPS = "platform: {baremetal: {apiVIPs: [192.168.122.10], ingressVIPs: [192.168.122.11]}}\n"
NONE = "platform: {none: {}}\n"
FOUR = "[{cidr: 192.168.122.0/24}]"
SIX = '[{cidr: "2620:52:0:1302::/64"}]'


def install(masters=1, workers=0, more=NONE, *, machines=FOUR, name="ocp"):
    """install-config.yaml."""
    named = {"CLUSTER": name, "MASTERS": masters, "WORKERS": workers, "MACHINES": machines}
    text = INSTALL
    for word, value in named.items():
        text = text.replace(word, str(value))
    return text + more


def agent(*hosts, rendezvous="192.168.122.2", more="", version="v1beta1"):
    """agent-config.yaml; `@` in a host is its number, from 2 on."""
    head = f"apiVersion: {version}\nkind: AgentConfig\nmetadata: {{name: ocp}}\nrendezvousIP: {rendezvous}\n{more}"
    if not hosts:
        return head
    return head + "hosts:\n" + "".join(host.replace("@", str(number)) for number, host in enumerate(hosts, 2))


def host(cards, network="", more=""):
    """A host with cards of these names and a network document."""
    text = "  - hostname: node-@\n" + more + "    interfaces:\n"
    text += "".join(f"      - {{name: {name}, macAddress: 00:ef:44:2{n}:e6:a@}}\n" for n, name in enumerate(cards))
    lines = "".join(f"      {line}\n" for line in network.splitlines())
    return text + (f"    networkConfig:\n{lines}" if network else "")


def ethernet(name, families="ipv4: {enabled: false}", more=""):
    """An interface."""
    return f"  - {{name: {name}, type: ethernet, state: up, {families}{more}}}\n"


def static(address, length=24, version=4):
    """A family with an address of its own."""
    address = f"{{ip: '{address}', prefix-length: {length}}}"
    return f"ipv{version}: {{enabled: true, dhcp: false, address: [{address}]}}"


def tail(device, gateway="192.168.122.1", servers="[192.168.122.1]", more=""):
    """DNS servers and the default route."""
    default = "0.0.0.0/0" if "." in gateway else "'::/0'"
    route = f"{{destination: {default}, next-hop-address: '{gateway}', next-hop-interface: {device}, table-id: 254}}"
    return f"dns-resolver: {{config: {{server: {servers}}}}}\nroutes: {{config: [{route}{more}]}}\n"


def bond(mode, rest="ipv4: {enabled: false}", name="bond0", cards="[eno1, eno2]"):
    """A bond."""
    aggregation = f"link-aggregation: {{mode: {mode}, options: {{miimon: '150'}}, port: {cards}}}"
    return f"  - {{name: {name}, type: bond, state: up, {aggregation}, {rest}}}\n"


def vlan(base, tag, families):
    """A VLAN."""
    return f"  - {{name: {base}.{tag}, type: vlan, state: up, vlan: {{base-iface: {base}, id: {tag}}}, {families}}}\n"


TWO = "interfaces:\n" + ethernet("eno1") + ethernet("eno2")
MINE = static("192.168.122.@")
STATIC = "interfaces:\n" + ethernet("eno1", MINE) + tail("eno1")
DUAL = f"{MINE}, {static('2620:52:0:1302::@', 64, 6)}"
BR_EX = """\
interfaces:
  - {name: eno1, type: ethernet, state: up, ipv4: {enabled: false}, ipv6: {enabled: false}}
  - name: br-ex
    type: ovs-bridge
    state: up
    bridge: {options: {mcast-snooping-enable: true}, port: [{name: eno1}, {name: br-ex}]}
  - {name: br-ex, type: ovs-interface, state: up, copy-mac-from: eno1, FAMILY}
"""
ETHERNETS = ["eno1", "eno2"]
MIRRORS = "imageDigestSources: [{mirrors: [registry.example.com:8443/ocp/release], source: quay.io/ocp/release}]\n"
PROXY = "proxy: {httpProxy: 'http://u:p@proxy.example.com:80', httpsProxy: 'http://proxy.example.com:80'}\n"
FENCED = f"featureSet: TechPreviewNoUpgrade\n{VIPS}"
BALANCED = "platform: {baremetal: {apiVIPs: [10.9.0.5], ingressVIPs: [10.9.0.6], loadBalancer: {type: UserManaged}}}\n"


def hint(text):
    """One node with a hint."""
    return install(), agent(host(["eno1"], STATIC, f"    rootDeviceHints: {text}\n"))


def several(count, network=STATIC, cards=("eno1",), **more):
    """agent-config.yaml of some hosts."""
    return agent(*[host(cards, network)] * count, **more)


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
            3, 0, "platform: {baremetal: {apiVIPs: [192.168.122.10, '2620:52:0:1302::a'], "
            "ingressVIPs: [192.168.122.11, '2620:52:0:1302::b']}}\n", machines=f"{FOUR[:-1]}, {SIX[1:]}",
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
    "br-ex": (
        install(3, 0, VIPS), several(3, BR_EX.replace("FAMILY", MINE) + tail("br-ex")),
        {"addresses": ["192.168.122.2"], "gateway": "192.168.122.1"},
    ),
    "machine-networks-of-racks": (
        install(3, 2, VIPS, machines="[{cidr: 192.168.122.0/24}, {cidr: 192.168.123.0/24}]"),
        agent(*[host(["eno1"], STATIC)] * 3, *[host(["eno1"], STATIC.replace("168.122", "168.123"))] * 2),
        {"nets": [(f"192.168.{n}.0/24", 0, f"192.168.{n}.1", 1500) for n in (122, 123)], "last": "192.168.123.6"},
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
    "hint-name": (*hint("{deviceName: /dev/sdb}"), {"disks": [("scsi", False), ("scsi", True)]}),
    "hint-serial": (*hint("{serialNumber: S3Z8NB0K123456}"), {"disks": [("virtio", True)]}),
    "hint-place": (*hint("{hctl: '0:0:0:0', model: QEMU}"), {"disks": [("scsi", True)]}),
    "hint-wwn-and-long-model": (
        *hint("{wwn: '0x5000c500a0b1c2d3', model: SAMSUNG MZ7KM480HAHP}"), {"disks": [("sata", True)]},
    ),
    "hint-size-and-vendor": (
        *hint("{minSizeGigabytes: 120, vendor: ATA, rotational: true}"), {"disks": [("sata", True)]},
    ),
}  # fmt: skip


def facts(shape):
    """What a plan says, in short."""
    node = shape.nodes[0]
    summary = {name: getattr(shape, name) for name in ("addressing", "proxy", "load_balancer", "gateway")}
    networks = [(" ".join(map(str, one.subnets)), one.vlan, one.gateway_of(4), one.mtu) for one in shape.all_networks]
    answers = [text.partition("/")[0] for one in shape.all_networks for text in shape.lab_addresses(one)]
    return summary | {
        "ip": node.ip,
        "roles": "".join(one.role[0] for one in shape.nodes),
        "macs": [nic.mac for nic in node.all_nics],
        "addresses": list(node.addresses),
        "last": shape.nodes[-1].ip,
        "bonds": [(one.mode, " ".join(one.nics), " ".join(one.trunk)) for one in node.bonds],
        "nets": networks,
        "disks": [(one.bus, one.root) for one in node.all_disks],
        "answers": answers,
    }


@pytest.mark.parametrize("name", CASES)
def test_it_is_planned_without_an_edit(name, tmp_path, capsys):
    *texts, wanted = CASES[name]
    files = dict(zip(("install-config.yaml", "agent-config.yaml"), texts, strict=True))
    for file, text in files.items():
        (tmp_path / file).write_text(text)
    code = cli.main(["deploy", str(tmp_path), "--plan"])
    captured = capsys.readouterr()
    assert (code, captured.err) == (0, "")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == files
    summary = facts(topology.load_text(captured.out))
    summary["answers"] = [text for text in wanted.get("answers", []) if text in summary["answers"]]
    assert {key: summary[key] for key in wanted} == wanted


CARDS = host(["eno1"], STATIC)
#: Directories that contradict themselves, and all that is said of them.
WRONG = {
    "an address twice": (
        install(3, 0, VIPS), agent(CARDS, CARDS.replace("168.122.@", "168.122.2"), CARDS),
        ["agent-config.yaml: hosts[1].networkConfig.interfaces[0].ipv4.address[0].ip: 192.168.122.2 is that of "
         "hosts[0].networkConfig.interfaces[0].ipv4.address[0].ip too"],
    ),
    "everything at once": (
        install(3, 0, VIPS.replace("122.11", "9.11")).replace("amd64", "arm64", 1),
        agent(CARDS.replace("e6:a@", "e6:a3"), CARDS, CARDS, rendezvous="192.168.122.99x"),
        [
            "install-config.yaml: controlPlane.architecture: the lab's machines are amd64, not arm64",
            "agent-config.yaml: rendezvousIP: '192.168.122.99x' is not an IP address",
            "install-config.yaml: platform.baremetal.ingressVIPs[0]: 192.168.9.11 is in none of the machine networks, "
            "192.168.122.0/24",
            "agent-config.yaml: hosts[1].interfaces[0].macAddress: 00:ef:44:20:e6:a3 is that of "
            "hosts[0].interfaces[0].macAddress too; cards have one of their own",
        ],
    ),
    "a rendezvous address that is nobody's": (
        install(), agent(CARDS, rendezvous="192.168.122.77"),
        ["agent-config.yaml: rendezvousIP: 192.168.122.77 is no host's: they have 192.168.122.2, and no master asks "
         "for one"],
    ),
    "a worker's": (
        install(3, 1, VIPS), agent(CARDS, CARDS, CARDS, host(["eno1"], STATIC, "    role: worker\n"),
                                   rendezvous="192.168.122.5"),
        ["agent-config.yaml: rendezvousIP: 192.168.122.5 is the address of hosts[3], whose role is worker; it has to "
         "be a master's"],
    ),
    "a virtual IP that is a host's": (
        install(3, 0, VIPS.replace("122.10", "122.3")), agent(CARDS, CARDS, CARDS),
        ["install-config.yaml: platform.baremetal.apiVIPs[0]: 192.168.122.3 is an address of "
         "hosts[1].networkConfig.interfaces[0].ipv4.address[0].ip too"],
    ),
    "the same virtual IP twice": (
        install(3, 0, VIPS.replace("122.11", "122.10")), agent(CARDS, CARDS, CARDS),
        ["install-config.yaml: platform.baremetal.ingressVIPs[0]: address 192.168.122.10 is used more than once, by "
         "apiVIPs[0] too"],
    ),
    "a gateway that is the host": (
        install(), agent(CARDS.replace("address: '192.168.122.1'", "address: '192.168.122.2'")),
        ["agent-config.yaml: hosts[0].networkConfig.interfaces[0].ipv4.address[0].ip: 192.168.122.2 is the next hop of "
         "the host's own default route, which leads nowhere then"],
    ),
    "a broadcast address": (
        install(), agent(CARDS.replace("'192.168.122.@'", "'192.168.122.255'"), rendezvous="192.168.122.255"),
        ["agent-config.yaml: hosts[0].networkConfig.interfaces[0].ipv4.address[0].ip: 192.168.122.255 is the broadcast "
         "address of 192.168.122.0/24: no host can have it"],
    ),
    "tags and sizes": (
        install(1),
        agent(host(ETHERNETS, TWO + bond("802.3ad", "mtu: 65520") + vlan("bond0", 5000, MINE) + tail("bond0.5000"))),
        [
            "agent-config.yaml: hosts[0].networkConfig.interfaces[2].mtu: 65520 is not within 1280 to 9216, which is "
            "what labs carry",
            "agent-config.yaml: hosts[0].networkConfig.interfaces[3].vlan.id: 5000 is not within 1 to 4094",
        ],
    ),
    "an address on a bond's port": (
        install(),
        agent(host(ETHERNETS, TWO.replace("ipv4: {enabled: false}", MINE, 1) + bond("802.3ad") + tail("eno1"))),
        ["agent-config.yaml: hosts[0].networkConfig.interfaces[0].ipv4: eno1 has addresses and is a port of bond0, "
         "which has to have them"],
    ),
    "hints that no disk satisfies": (
        *hint("{deviceName: /dev/nvme0n1, rotational: true, hctl: '1:0:0:0'}"),
        [
            "agent-config.yaml: hosts[0].rootDeviceHints.rotational: deviceName means bus nvme, whose disks tell "
            "none in a lab; name one under /dev/sd",
            "agent-config.yaml: hosts[0].rootDeviceHints.hctl: deviceName means bus nvme, whose disks tell "
            "none in a lab; name one under /dev/sd",
            "agent-config.yaml: hosts[0].rootDeviceHints.hctl: '1:0:0:0': a lab's first SCSI disk is 0:0:0:0; there is "
            "no other address",
        ],
    ),
    "a hostname that is none": (
        install(), agent(CARDS.replace("node-@", "node_1")),
        ["agent-config.yaml: hosts[0].hostname: 'node_1' is not a DNS label"],
    ),
    "what stands in places of little interest": (
        install(machines="[{cidr: 0.0.0.0/0}]").replace("{name: ocp}", "{name: [ocp]}"),
        agent(CARDS.replace("00:ef:44:20:e6:a@", "001122334455"), more="additionalNTPSources: 5\n"),
        [
            "agent-config.yaml: hosts[0].interfaces[0].macAddress: '155826477' is a number to YAML: put it in quotes, "
            "six hex pairs joined by colons",
            "install-config.yaml: networking.machineNetwork[0].cidr: 0.0.0.0/0 is all addresses, which is no network",
            "install-config.yaml: metadata.name: must be text, is list",
            "agent-config.yaml: additionalNTPSources: must be a list, is int",
        ],
    ),
    "a tag of two networks": (
        install(),
        agent(host(ETHERNETS, TWO + vlan("eno1", 9, MINE) + vlan("eno2", 9, static("172.16.0.@")) + tail("eno1.9"))),
        ["agent-config.yaml: hosts[0].networkConfig: VLAN 9 is used more than once, by another network too"],
    ),
    "machine networks that overlap": (
        install(3, 0, VIPS, machines="[{cidr: 192.168.122.0/24}, {cidr: 10.0.0.0/16}, {cidr: 192.168.122.128/25}]"),
        agent(CARDS, CARDS, CARDS),
        ["install-config.yaml: networking.machineNetwork[2].cidr: 192.168.122.128/25 overlaps with 192.168.122.0/24 of "
         "networking.machineNetwork[0].cidr: networks have no address in common"],
    ),
    "a host whose interfaces are all disabled": (
        install(3, 0, VIPS), agent(CARDS, host(ETHERNETS, TWO + bond("802.3ad")), CARDS),
        ["agent-config.yaml: hosts[1].networkConfig.interfaces: none has an address or asks for one, and no card is "
         "left that would: the host would reach nobody"],
    ),
    "virtual functions": (
        install(), agent(host(["eno1"], STATIC.replace("dns-resolver", ethernet("'sriov:eno1:0'")+ "dns-resolver", 1))),
        ["agent-config.yaml: hosts[0].networkConfig.interfaces[1].name: sriov:eno1:0: cards of labs have no virtual "
         "functions; use the card itself"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_contradictions_are_told_all_at_once(name, tmp_path, capsys):
    *texts, wanted = WRONG[name]
    for file, text in zip(("install-config.yaml", "agent-config.yaml"), texts, strict=True):
        (tmp_path / file).write_text(text)
    assert cli.main(["deploy", str(tmp_path), "--plan"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [f"node0-lab: {line}" for line in wanted]

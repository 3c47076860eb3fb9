"""A stranger's files: each oddity is reported by file and field, soon, and nothing is planned of it."""

import pytest

from lab.derive.fields import MOST
from lab.testing.directories import (
    ETHERNETS,
    FOUR,
    MINE,
    SIX,
    STATIC,
    TWO,
    VIPS,
    agent,
    bond,
    ethernet,
    host,
    install,
    planned,
    several,
    static,
    tail,
    vlan,
)

ONE = "interfaces:\n" + ethernet("eno1")
DHCP = "ipv4: {enabled: true, dhcp: true}"
OFF = "ipv4: {enabled: false}"
COUNTS = "of which the service counts no addresses: the host would be held up (belongs-to-machine-cidr)"


def bridge(port: str, families: str, name: str = "br0") -> str:
    """A Linux bridge of one port."""
    return f"  - {{name: {name}, type: linux-bridge, state: up, bridge: {{port: [{{name: {port}}}]}}, {families}}}\n"


def ovs(name: str, *ports: str) -> str:
    """An OVS bridge with ports of these names."""
    listed = ", ".join(f"{{name: {port}}}" for port in ports)
    return f"  - {{name: {name}, type: ovs-bridge, state: up, bridge: {{port: [{listed}]}}}}\n"


def cable(name: str, peer: str) -> str:
    """One end of a patch cable between OVS bridges."""
    return f"  - {{name: {name}, type: ovs-interface, state: up, patch: {{peer: {peer}}}}}\n"


def machines(cidr: str) -> tuple[str, str]:
    """One node in this network."""
    return install(machines=f"[{{cidr: '{cidr}'}}]"), agent(host(["eno1"]), rendezvous="192.168.122.2")


def one(network: str, cards: list[str] | None = None) -> tuple[str, str]:
    """One node with this network document."""
    return install(), several(1, network, cards or ["eno1"])


def behind(network: str, cards: list[str] | None = None) -> tuple[str, str]:
    """Three nodes of platform none, of which the service asks an address in the machine network of the first alone."""
    first = host(["eno1"], STATIC)
    return install(3), agent(first, *[host(cards or ["eno1"], network)] * 2)


RING = (
    ONE + ovs("a", "a", "ab", "ac") + ovs("b", "ba", "bc") + ovs("c", "ca", "cb")
    + "".join(cable(x + y, y + x) for x in "abc" for y in "abc" if x != y)
    + f"  - {{name: a, type: ovs-interface, state: up, {MINE}}}\n" + tail("a")
)  # fmt: skip
#: Bridges each of which has all the others as ports, and no card.
MESH = ONE + "".join(
    f"  - {{name: b{n}, type: linux-bridge, bridge: {{port: "
    f"[{', '.join(f'{{name: b{other}}}' for other in range(24) if other != n)}]}}, {OFF}}}\n"
    for n in range(24)
) + bridge("b0", MINE, "top") + tail("top")  # fmt: skip

REFUSED = {
    "netmask": (*machines("192.168.122.0/255.255.255.0"), "cidr: '192.168.122.0/255.255.255.0' is not an address and"),
    "no length": (*machines("192.168.122.0"), "cidr: '192.168.122.0' is not an address and the length"),
    "zone": (*machines("fe80::%eno1/64"), "cidr: 'fe80::%eno1/64' is not an address and the length"),
    "host bits": (*machines("192.168.122.5/24"), "192.168.122.5/24 has host bits set"),
    "mapped": (*machines("::ffff:192.168.122.0/120"), "IPv4 within IPv6, which no host has; write 192.168.122.0"),
    "all of IPv6": (*machines("::/0"), "::/0 is all addresses"),
    "one address": (*machines("2001:db8::2/128"), "2001:db8::2/128 is one address, which is no network"),
    "multicast": (*machines("224.0.0.0/24"), "224.0.0.0/24: multicast addresses are none"),
    "loopback": (*machines("127.0.0.0/8"), "127.0.0.0/8: loopback addresses are none"),
    "link-local": (*machines("169.254.0.0/16"), "169.254.0.0/16: link-local addresses are none"),
    "an address of multicast": (
        *one("interfaces:\n" + ethernet("eno1", static("224.0.0.5")) + tail("eno1")),
        "ipv4.address[0].ip: 224.0.0.5: multicast addresses are none",
    ),
    "a mapped address": (
        *one("interfaces:\n" + ethernet("eno1", static("::ffff:192.168.122.2", 120, 6)) + tail("eno1")),
        "ipv6.address[0].ip: ::ffff:c0a8:7a02: IPv4 within IPv6, which no host has; write 192.168.122.2",
    ),
    "no bridge": (
        *one(f"{ONE}  - {{name: x, type: ovs-interface, {MINE}}}\n" + tail("x")),
        "interfaces[1]: x has 192.168.122.2, and lies over no card",
    ),
    "a ring": (*one(RING), "a has 192.168.122.2, and lies over no card"),
    "a mesh": (*one(MESH), "interfaces[25]: top has 192.168.122.2, and lies over no card"),
    "a bridge of itself": (*one(ONE + bridge("br0", MINE) + tail("br0")), "br0 has 192.168.122.2, and lies over no"),
    "a VLAN of itself": (
        *one(f"{ONE}  - {{name: v, type: vlan, vlan: {{base-iface: v, id: 5}}, {MINE}}}\n" + tail("v")),
        "v has 192.168.122.2, and lies over no card",
    ),
    "adrift beside a card that asks": (
        *one("interfaces:\n" + ethernet("eno1", DHCP) + bridge("br0", MINE)),
        "interfaces[1]: br0 has 192.168.122.2, and lies over no card",
    ),
    "a bond of a bond": (
        *one(TWO + bond("1", name="bond0") + bond("1", MINE, "bond1", "[bond0]") + tail("bond1"), ETHERNETS),
        "bond1 has the port bond0, a bond: labs have bonds of cards",
    ),
    "a bond of VLANs": (
        *one(TWO + vlan("eno1", 7, OFF) + bond("1", MINE, "bond0", "[eno1.7]") + tail("bond0"), ETHERNETS),
        "bond0 has the port eno1.7, a vlan: labs have bonds of cards",
    ),
    "a mode of other digits": (*one(TWO + bond("'١'", MINE) + tail("bond0"), ETHERNETS), "mode: '١' is not one of"),
    "a mode of many digits": (*one(TWO + bond(f"'{'9' * 5000}'", MINE) + tail("bond0"), ETHERNETS), "is not one of"),
    "a bridge's port": (
        *one("interfaces:\n" + ethernet("eno1", MINE) + bridge("eno1", OFF) + tail("eno1")),
        "interfaces[0].ipv4: eno1 has addresses and is a port of br0, which has to have them",
    ),
    "an OVS bridge's port": (
        *one("interfaces:\n" + ethernet("eno1", MINE) + ovs("br-ex", "eno1") + tail("eno1")),
        "interfaces[0].ipv4: eno1 has addresses and is a port of br-ex, which has to have them",
    ),
    "a VLAN twice": (
        *one(ONE + vlan("eno1", 5, MINE) + vlan("eno1", 5, static("10.1.1.2")).replace("eno1.5", "w") + tail("eno1.5")),
        "interfaces[2].vlan: w has the tag 5 over eno1, as eno1.5 has",
    ),
    "a VLAN over a VLAN": (
        *one("interfaces:\n" + ethernet("eno1", MINE) + vlan("eno1", 7, OFF) + vlan("eno1.7", 5, OFF) + tail("eno1")),
        "interfaces[2].vlan: a VLAN over a VLAN: labs carry one tag",
    ),
    "two tags": (
        install(2),
        agent(*(host(["eno1"], ONE + vlan("eno1", tag, MINE) + tail(f"eno1.{tag}")) for tag in (5, 6))),
        "hosts[1].networkConfig: 192.168.122.0/24 has the tag 6 here and 5 at hosts[0]",
    ),
    "no name": (*one(STATIC.replace("name: eno1, ", "", 1)), "interfaces[0].name: an interface has to have a name"),
    "nothing as an interface": (*one("interfaces: [null]\n"), "interfaces[0].name: an interface has to have a name"),
    "two cards of a name": (
        install(),
        agent(host(["eno1", "eno1"])),
        "hosts[0].interfaces[1].name: eno1 is the name of hosts[0].interfaces[0] too",
    ),
    "interfaces": (
        *one("interfaces:\n" + "".join(ethernet(f"ens{n}") for n in range(400))),
        f"networkConfig.interfaces: 400 are listed, labs have at most {MOST}",
    ),
    "bridges in a row": (
        *one(ONE + bridge("eno1", OFF, "b0") + "".join(bridge(f"b{n}", OFF, f"b{n + 1}") for n in range(300))),
        f"networkConfig.interfaces: 302 are listed, labs have at most {MOST}",
    ),
    "ports": (
        *one(ONE + bond("1", MINE, "bond0", str([f"e{n}" for n in range(999)])) + tail("bond0")),
        f"link-aggregation.port: 999 are listed, labs have at most {MOST}",
    ),
    "hosts": (install(3), agent(*[host(["eno1"])] * 300), f"hosts: 300 are listed, labs have at most {MOST}"),
    "a Linux bridge": (
        *one(ONE + bridge("eno1", MINE) + tail("br0")), f"interfaces[1]: br0 is of type linux-bridge, {COUNTS}",
    ),
    "a Linux bridge that asks": (
        *one(ONE + bridge("eno1", DHCP)), f"interfaces[1]: br0 is of type linux-bridge, {COUNTS}",
    ),
    "a Linux bridge beside another network": (
        *one("interfaces:\n" + ethernet("eno1") + ethernet("eno2", DHCP) + bridge("eno1", MINE), ETHERNETS),
        f"interfaces[2]: br0 is of type linux-bridge, {COUNTS}",
    ),
    "Linux bridges behind virtual IPs": (
        install(3, 0, VIPS),
        several(3, ONE + bridge("eno1", MINE) + tail("br0")),
        f"hosts[2].networkConfig.interfaces[1]: br0 is of type linux-bridge, {COUNTS}",
    ),
    "mac-vlan": (
        *one(f"{ONE}  - {{name: m0, type: mac-vlan, mac-vlan: {{base-iface: eno1}}, {MINE}}}\n" + tail("m0")),
        f"interfaces[1]: m0 is of type mac-vlan, {COUNTS}",
    ),
    "br-ex": (
        install(3, 0, VIPS),
        several(3, ONE + ovs("br-ex", "eno1", "br-ex") + f"  - {{name: br-ex, type: ovs-interface, {MINE}}}\n"
                + tail("br-ex")),
        f"hosts[2].networkConfig.interfaces[2]: br-ex is of type ovs-interface, {COUNTS}",
    ),
    "a Linux bridge that asks beside a card of which nothing is said": (
        *one(ONE + bridge("eno1", DHCP), ETHERNETS), f"interfaces[1]: br0 is of type linux-bridge, {COUNTS}",
    ),
    "a Linux bridge of platform none's rendezvous host": (
        install(3), several(3, ONE + bridge("eno1", MINE) + tail("br0")),
        f"hosts[0].networkConfig.interfaces[1]: br0 is of type linux-bridge, {COUNTS}",
    ),
    "racks behind virtual IPs": (
        install(3, 0, VIPS, machines="[{cidr: 192.168.122.0/24}, {cidr: 192.168.123.0/24}]"),
        agent(*[host(["eno1"], STATIC)] * 2, host(["eno1"], STATIC.replace("168.122", "168.123"))),
        "hosts[2].networkConfig: no address in 192.168.122.0/24: the service wants one in every machine network",
    ),
    "one family of two": (
        install(machines=f"{FOUR[:-1]}, {SIX[1:]}"), several(1),
        "hosts[0].networkConfig: no address in 2620:52:0:1302::/64: the service wants one in every machine network",
    ),
    "hosts that are only counted": (
        install(3, 0, VIPS, machines="[{cidr: 192.168.122.0/24}, {cidr: 192.168.123.0/24}]"), agent(),
        "networking.machineNetwork: 192.168.123.0/24: a host that is not listed has one card",
    ),
    "a DNS server of its own": (
        *one(STATIC.replace("server: [192.168.122.1]", "server: [127.0.0.1, '::1', 0.0.0.0]")),
        "it reaches none of the DNS servers 127.0.0.1, ::1, 0.0.0.0",
    ),
    "nobody's name": (
        install(), agent("  - hostname: LocalHost4.localdomain4\n    interfaces: [{macAddress: 00:ef:44:20:e6:a2}]\n"),
        "hosts[0].hostname: LocalHost4.localdomain4 is no host's name to the service, which would hold it up (hostname",
    ),
    "a family that asks and is not on": (
        *one("interfaces:\n" + ethernet("eno1", "ipv4: {dhcp: true}")),
        "interfaces[0].ipv4.enabled: missing, and without enabled: true dhcp counts for nothing",
    ),
    "an address of a family that is not on": (
        *one(STATIC.replace("enabled: true, dhcp: false, ", "")),
        "interfaces[0].ipv4.enabled: missing, and without enabled: true address counts for nothing",
    ),
    "virtual IPs in the second network": (
        install(3, 0, VIPS, machines="[{cidr: 192.168.123.0/24}, {cidr: 192.168.122.0/24}]"),
        several(
            3, "interfaces:\n" + ethernet("eno1", static("192.168.123.@")) + ethernet("eno2", MINE) + tail("eno2"),
            ETHERNETS,
        ),
        "apiVIPs[0]: 192.168.122.10 is in 192.168.122.0/24: labs have virtual IPs in the first machine network",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_told(name, tmp_path, capsys):
    *texts, rule = REFUSED[name]
    code, out, err = planned(texts, tmp_path, capsys)
    assert (code, out) == (1, "")
    assert rule in err
    assert all(line.startswith("node0-lab: ") for line in err.splitlines())


ONE_FAULT = {
    "an address with its length": one(STATIC.replace("192.168.122.@'", "192.168.122.@/24'")),
    "a network that is text": (install(machines="[192.168.122.0/24]"), several(1)),
    "a document that is text": (
        install(), agent("  - interfaces: [{name: eno1, macAddress: 00:ef:44:20:e6:a2}]\n    networkConfig: dhcp\n"),
    ),
    "cards that are text": (install(), agent("  - hostname: a\n    interfaces: eno1\n")),
    "a host that is text": (install(2), agent("  - a\n", host(["eno1"]))),
    "an address of a family that is not on": one(STATIC.replace("enabled: true, dhcp: false, ", "")),
    "a type of its own": one("interfaces:\n  - {name: eno1, type: ethernat, state: up}\n"),
}  # fmt: skip


@pytest.mark.parametrize("name", ONE_FAULT)
def test_one_fault_is_one_line(name, tmp_path, capsys):
    code, out, err = planned(ONE_FAULT[name], tmp_path, capsys)
    assert (code, out) == (1, "")
    assert err.count("\n") == 1, err


PLANNED = {
    "a VLAN over a bridge": one(ONE + bridge("eno1", OFF) + vlan("br0", 40, MINE) + tail("br0.40")),
    "a bridge in another network": one(
        ONE + bridge("eno1", static("10.9.9.@")) + vlan("eno1", 9, MINE) + tail("eno1.9")
    ),
    "a bridge's port that asks": behind(
        "interfaces:\n" + ethernet("eno1", DHCP) + bridge("eno1", MINE) + tail("br0")
    ),
    "Linux bridges of platform none": behind(ONE + bridge("eno1", MINE) + tail("br0")),
    "hosts of platform none elsewhere": behind(STATIC.replace("168.122", "168.123")),
    "a ring with a card": behind(RING.replace("{name: cb}]", "{name: cb}, {name: eno1}]")),
    "two cards without names": (
        install(),
        agent("  - interfaces: [{macAddress: 00:ef:44:20:e6:a2}, {macAddress: 00:ef:44:20:e6:a3}]\n"),
    ),
    "60 VLANs": one(
        "interfaces:\n" + ethernet("eno1", MINE)
        + "".join(vlan("eno1", n, static(f"10.1.{n}.5")) for n in range(1, 61)) + tail("eno1")
    ),
    "100 bridges in a row": behind(
        ONE + bridge("eno1", OFF, "b0") + "".join(bridge(f"b{n}", OFF, f"b{n + 1}") for n in range(100))
        + bridge("b100", MINE) + tail("br0")
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANNED)
def test_it_is_planned(name, tmp_path, capsys):
    code, out, err = planned(PLANNED[name], tmp_path, capsys)
    assert (code, err) == (0, "")
    assert "192.168.122.2\n" in out
    assert "00:ef:44:20:e6:a2" in out

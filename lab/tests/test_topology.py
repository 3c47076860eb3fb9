import ipaddress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab import topology
from lab.errors import TopologyError
from lab.testing.topologies import WIDE
from lab.topology import NodeSpec, Topology

GOOD = topology.sno().dump()


@pytest.mark.parametrize("name", sorted(topology.PRESETS))
def test_presets_survive_yaml(name):
    preset = topology.load(name)
    assert topology.load_text(preset.dump()) == preset
    assert preset.addressing == ("dhcp" if "dhcp" in name else "static")
    assert {n.firmware for n in preset.nodes} == {"bios" if "bios" in name else "uefi"}


def test_preset_shapes():
    def shape(name):
        loaded = topology.load(name)
        return len(loaded.masters), len(loaded.workers), loaded.platform

    assert [shape(n) for n in ("sno", "compact", "ha")] == [(1, 0, "none"), (3, 0, "baremetal"), (3, 2, "baremetal")]
    assert [shape(n) for n in ("arbiter", "four", "five")] == [(n, 0, "baremetal") for n in (2, 4, 5)]
    assert [n.role for n in topology.load("arbiter-dual-dhcp").nodes] == ["master", "master", "arbiter"]
    assert topology.sno().nodes[0].ip == "192.168.111.80"
    assert topology.sno("dhcp").nodes[0].ip == "192.168.111.20"
    assert topology.sno().gateway == "192.168.111.1"


@pytest.mark.parametrize(("stack", "versions"), [("", {4}), ("-ipv6", {6}), ("-dual", {4, 6})])
@pytest.mark.parametrize("addressing", ["", "-dhcp"])
def test_presets_have_their_families_everywhere(stack, versions, addressing):
    loaded = topology.load(f"ha{stack}{addressing}")

    def families(texts):
        return {ipaddress.ip_address(text).version for text in texts}

    assert {subnet.version for subnet in loaded.machine_subnets} == versions
    assert all(families(loaded.known_addresses(node)) == versions for node in loaded.nodes)
    assert (
        families(loaded.vips("api")) == families(loaded.vips("ingress")) == families(loaded.api_addresses) == versions
    )
    [network] = loaded.all_networks
    assert (network.dhcp, network.dhcpv6) == (bool(addressing) and 4 in versions, bool(addressing) and 6 in versions)
    # Hosts with static addresses know their router; those with leases are told it by its advertisements alone.
    assert network.router_advertisements == (bool(addressing) and 6 in versions)


def test_nobody_makes_an_address_of_a_prefix_that_is_not_64_long():
    network = {"name": "n", "ipv6": "2001:db8::/120", "router_advertisements": True}
    with pytest.raises(topology.FieldsError, match=r"nobody makes an address of 2001:db8::/120; use a /64, or dhcpv6"):
        topology.Network(**network)
    topology.Network(**network, dhcpv6=True)
    topology.Network(**network | {"ipv6": "2001:db8::/64"})


@st.composite
def topologies(draw):
    hosts = draw(st.lists(st.integers(20, 200), min_size=1, max_size=6, unique=True))
    nodes = tuple(
        NodeSpec(
            name=f"n{i}",
            role=draw(st.sampled_from(["master", "worker", "arbiter"])),
            mac=f"52:54:00:00:00:{i:02x}",
            ip=f"10.1.2.{host}",
            vcpu=draw(st.integers(1, 64)),
            memory_mib=draw(st.integers(256, 1 << 20)),
            firmware=draw(st.sampled_from(["uefi", "bios"])),
        )
        for i, host in enumerate(hosts)
    )
    return Topology(name="drawn", nodes=nodes, machine_network="10.1.2.0/24")


@given(topologies())
def test_any_topology_survives_yaml(drawn):
    assert topology.load_text(drawn.dump()) == drawn
    assert all(ipaddress.ip_address(n.ip) in drawn.network for n in drawn.nodes)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("name: sno", "nome: sno", r"nome: there is no field"),
        ("role: master", "role: king", r"nodes\[0\].role: 'king' is not one of master, worker, arbiter"),
        ("vcpu: 2", "vcpu: two", r"nodes\[0\].vcpu: 'two' is not a whole number"),
        ("vcpu: 2", "vcpu: 0", r"nodes\[0\].vcpu: 0 is not within 1 to 64"),
        ("memory_mib: 4096", "memory_mib: 16", r"nodes\[0\].memory_mib: 16 is less than 256"),
        ("52:54:00:6e:30:00", "53:54:00:6e:30:00", r"multicast"),
        ("52:54:00:6e:30:00", "52:54:00:6E:30:00", r"lower-case"),
        ("192.168.111.80", "192.168.112.80", r"192.168.112.80 is outside machine_network 192.168.111.0/24"),
        ("192.168.111.80", "192.168.111.1", r"address 192.168.111.1 is used more than once"),
        ("192.168.111.0/24", "192.168.111.80/31", r"machine_network: 192.168.111.80/31 has no room for a lab"),
        ("name: sno", f"name: {'a' * 5000}", r"^my.yaml: name: 'a{80}...' is not a DNS label$"),
        (
            "networks: []",
            "networks: [{name: b, ipv4: 192.168.111.0/24, bmc: on}]",
            r"nodes\[0\]: b is the network of the BMCs",
        ),
        ("52:54:00:6e:30:00", "00:00:00:00:00:00", r"mac: '00:00:00:00:00:00' is no NIC's"),
        ("platform: none", "platform: none\nplatform: none", r'key "platform" already set in map'),
        ("platform: none", "platform: baremetal", r"needs api_vip"),
        ("api_vip: null", "api_vip: 192.168.111.5", r"platform none has no api_vip"),
        ("cluster_name: ostest", "cluster_name: -x", r"not a DNS label"),
        ("192.168.111.80", "192.168.111.0", r"ip: 192.168.111.0 is the network's own address of 192.168.111.0/24: no"),
        ("192.168.111.80", "192.168.111.255", r"ip: 192.168.111.255 is the broadcast address of 192.168.111.0/24"),
        ("192.168.111.0/24", "0.0.0.0/0", r"machine_network: 0.0.0.0/0 is all addresses, which is no network"),
        ("192.168.111.0/24", "224.0.0.0/4", r"machine_network: 224.0.0.0/4: multicast addresses are none by which"),
        ("bmc: null", "bmc: dell", r"nodes\[0\].bmc: 'dell' is not one of lab, idrac, idrac10, "),
        ("aliases: []", "aliases: [192.168.111.80]", r"nodes\[0\].ip: address 192.168.111.80 .* by aliases\[0\] too"),
    ],
)
def test_errors_name_file_and_field(old, new, message):
    assert old in GOOD
    with pytest.raises(TopologyError, match=message) as caught:
        topology.load_text(GOOD.replace(old, new), source="my.yaml")
    assert str(caught.value).startswith("my.yaml: ")


def test_two_nodes_cannot_share_a_mac():
    node = topology.sno().nodes[0]
    other = msgspec.structs.replace(node, name="master-1", ip="192.168.111.81")
    with pytest.raises(ValueError, match="mac 52:54:00:6e:30:00 is used more than once"):
        Topology(name="x", nodes=(node, other))


def test_what_is_no_topology_is_named():
    with pytest.raises(TopologyError, match=r"absent\.yaml: neither a readable file .* nor a preset"):
        topology.load("absent.yaml")


def test_a_file_with_networks_bonds_and_disks_is_read():
    wide = topology.load_text(WIDE)
    assert topology.load_text(wide.dump()) == wide
    node, worker = wide.nodes
    assert (node.ip, node.mac, wide.rendezvous_ip) == ("192.168.111.80", "52:54:00:00:01:01", "192.168.111.80")
    assert [nic.name for nic in node.all_nics] == ["enp1s0", "enp2s0", "enp9s0"]
    nic, bond = wide.links(node)
    assert (nic.name, nic.network.name, nic.trunk, nic.addresses[0][0]) == ("enp1s0", "mgmt", (), "10.9.0.10")
    assert (bond.name, bond.network, [n.vlan for n in bond.trunk]) == ("bond0", None, [111])
    assert [(text, net.name) for text, net in bond.addresses] == [
        ("192.168.111.80", "machine"), ("fd2e:6f44:5dd8::80", "machine")
    ]  # fmt: skip
    assert [wide.networks[i].gateway_of(4) for i in (0, 1)] == ["", "192.168.111.254"]
    assert wide.networks[1].lab_addresses == (
        "192.168.111.1/24", "fd2e:6f44:5dd8::1/64", "192.168.111.254/32", "8.8.8.8/32",
    )  # fmt: skip
    assert (wide.networks[0].dns_servers, wide.networks[0].ntp_servers) == ((), ("10.9.0.7",))
    assert (wide.home.name, wide.bmc_network.name, wide.gateway) == ("machine", "oob", "192.168.111.1")
    assert wide.api_vip == "192.168.111.5"
    assert wide.api_addresses == ("192.168.111.5", "fd2e:6f44:5dd8::5")
    assert [node.device(i) for i in range(3)] == ["sda", "nvme0n1", "sdb"]
    assert (node.root_device, node.disk_gib) == ("/dev/nvme0n1", 20)
    assert wide.links(worker)[0].network.name == "mgmt"


def test_all_that_is_wrong_with_a_file_is_told_at_once():
    bad = (
        WIDE.replace("mtu: 9000", "mtu: 90000")
        .replace("model: e1000e", "model: ne2000")
        .replace("52:54:00:00:01:00", "53:54:00:00:01:00")
        .replace("role: worker", "role: janitor")
        .replace("bus: scsi", "bus: scsi, colour: red")
        .replace("dns: none", "dns: 5")
        .replace("nics: [enp2s0, enp9s0]", "nics: [enp2s0, 7]")
    )
    with pytest.raises(TopologyError) as caught:
        topology.load_text(bad, source="bad.yaml")
    paths = [str(line).partition(": ")[0] for line in caught.value.lines]
    assert sorted(paths) == [
        "networks[0].dns", "networks[1].mtu", "nodes[0].bonds[0].nics[1]", "nodes[0].disks[2].colour",
        "nodes[0].nics[0].mac", "nodes[0].nics[1].model", "nodes[1].role",
    ]  # fmt: skip
    assert len(str(caught.value).splitlines()) == 7
    assert all(line.startswith("bad.yaml: ") for line in str(caught.value).splitlines())


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("trunk: [machine]", "trunk: [mgmt]", "nodes[0].bonds[0].trunk[0]: mgmt has no vlan, so no trunk can carry it"),
        ("trunk: [machine]", "trunk: [x]", "nodes[0].bonds[0].trunk[0]: there is no network 'x'; there are mgmt, "),
        ("trunk: [machine]", "network: oob", "nodes[0].bonds[0].network: oob is the network of the BMCs"),
        ("[10.9.0.10]", "[10.1.0.10]", "nodes[0].nics[0].addresses[0]: 10.1.0.10 is outside 10.9.0.0/24"),
        ("[enp2s0, enp9s0]", "[enp2s0, eth9]", "nodes[0].bonds[0].nics[1]: there is no NIC 'eth9'; the machine has"),
        ("model: e1000e", "addresses: [10.9.0.12]", "nodes[0].nics[1]: enp2s0 is in a bond: the bond has the network"),
        ("pci: 9", "pci: 2", "nodes[0].nics[2].pci: PCI bus 2 is used more than once, by nics[1].pci too"),
        ("52:54:00:00:02:00", "52:54:00:00:01:02", "nodes[1].mac: mac 52:54:00:00:01:02 is used more than once"),
        ("10.9.0.11}", "10.9.0.10}", "nodes[1].ip: address 10.9.0.10 is used more than once, by nodes[0].nics[0]."),
        ("ip: 192.168.111.80", "ip: 192.168.111.81", "nodes[0].ip: 192.168.111.81 is none of the machine's addresses"),
        ("10.8.0.0/24", "10.9.0.5/16", "networks[2].ipv4: '10.9.0.5/16' is not"),
        ("10.8.0.0/24", "10.0.0.0/8", "networks[2].ipv4: 10.0.0.0/8 overlaps networks[0].ipv4, 10.9.0.0/24"),
        ("dns: [8.8.8.8]", "dns: 8.8.8.8", "networks[1].dns: '8.8.8.8' is neither lab, none nor a list of addresses"),
        ("gateway: 192.168.111.254", "gateway: 1.2.3.4", "networks[1].gateway: 1.2.3.4 is outside 192.168.111.0/24"),
        ("bus: nvme", "bus: nvme, wwn: '0x5000c50015ea71ac'", "nodes[0].disks[1].wwn: a nvme disk has none; use bus "),
        (
            "bus: nvme",
            "bus: nvme, vendor: DELL",
            "nodes[0].disks[1].vendor: a nvme disk has none of its own; use bus scsi or iscsi",
        ),
        ("bus: nvme", "bus: virtio, vendor: DELL", "nodes[0].disks[1].vendor: a virtio disk has none of its own; use "),
        ("bus: nvme", "bus: sata, vendor: ATA", "nodes[0].disks[1].vendor: a sata disk has none of its own; use bus "),
        ("bus: nvme", "bus: scsi, vendor: SanDisk 3", "nodes[0].disks[1].vendor: 'SanDisk 3' is not of up to 8 print"),
        ("bus: nvme", "bus: scsi, vendor: DÉLL", "nodes[0].disks[1].vendor: 'DÉLL' is not of up to 8 printable char"),
        ("bus: nvme", "bus: scsi, vendor: ' DELL'", "nodes[0].disks[1].vendor: ' DELL' is not of up to 8 printable"),
        ("bus: nvme", "bus: scsi, vendor: 1", "nodes[0].disks[1].vendor: 1 is a number to YAML; put it in quotes"),
        (
            "bus: nvme",
            "bus: iscsi, portals: [mgmt], vendor: 'A,B'",
            "nodes[0].disks[1].vendor: 'A,B': the lab's iSCSI target takes none with a comma",
        ),
        (
            "bus: nvme",
            "bus: iscsi, portals: [mgmt], model: 'A,B'",
            "nodes[0].disks[1].model: 'A,B': the lab's iSCSI target takes none with a comma",
        ),
        ("bus: nvme", "bus: nvme, portals: [mgmt]", "nodes[0].disks[1].portals: a nvme disk has none; use bus iscsi"),
        ("bus: nvme", "bus: iscsi", "nodes[0].disks[1].portals: an iSCSI disk needs the networks that its target is"),
        (
            "bus: nvme",
            "bus: iscsi, portals: [x]",
            "nodes[0].disks[1].portals[0]: there is no network 'x'; there are mgmt, machine, oob",
        ),
        (
            "bus: nvme",
            "bus: iscsi, portals: [mgmt, mgmt]",
            "nodes[0].disks[1].portals[1]: network mgmt is used more than once",
        ),
        (
            "bus: nvme",
            "bus: iscsi, portals: [machine]",
            "nodes[0].disks[1].portals[0]: no NIC of the machine is in machine by itself and without a tag",
        ),
        ("bus: scsi}", "bus: iscsi, portals: [mgmt]}", "nodes[0].disks[2].bus: the firmware attaches one iSCSI disk"),
        (
            "bus: nvme",
            "bus: iscsi, portals: [mgmt], wwn: '0x5000c50015ea71aa'",
            "nodes[0].disks[1].wwn: a iscsi disk has none",
        ),
        (
            "bus: nvme",
            "bus: iscsi, portals: [mgmt], can_fail: true",
            "nodes[0].disks[1].can_fail: an iSCSI disk is the target's; use another bus",
        ),
        ("role: worker", "role: worker, secure_boot: on, firmware: bios", "nodes[1].secure_boot: only machines with"),
        ('"fd2e:6f44:5dd8::5"', "192.168.111.6", "api_vips: a service has one virtual IP of IPv4, one of IPv6, or bo"),
        ("machine: vm", "machine_network: 10.8.0.0/24", "machine_network: 10.8.0.0/24 is none of the machines' networ"),
        ("machine: vm", "address: 10.8.0.9", "address: with networks, address is a field of the network"),
        ("machine: vm", "boot: floppy", "boot: 'floppy'"),
        ("api_vips: [192.168.111.5", "api_vips: [192.168.111.255", "api_vips[0]: 192.168.111.255 is the broadcast"),
        ("gateway: 192.168.111.254", "gateway: 192.168.111.255", "networks[1].gateway: 192.168.111.255 is the broadca"),
        ("gateway: 192.168.111.254", "address: 192.168.111.0", "networks[1].address: 192.168.111.0 is the network's o"),
        ("dns: [8.8.8.8]", "dns: [8.8.8.8, 192.168.111.255]", "networks[1].dns[1]: 192.168.111.255 is the broadcast"),
        (
            "gateway: 192.168.111.254",
            "gateway: 192.168.111.80",
            "networks[1].gateway: the lab answers at 192.168.111.80, which is that of nodes[0].bonds[0].addresses[0] t",
        ),
        ("dns: [8.8.8.8]", "dns: [10.9.0.11]", "networks[1].dns[0]: the lab answers at 10.9.0.11, which is that of no"),
        ("dns: [8.8.8.8]", "dns: [127.0.0.1]", "networks[1].dns[0]: 127.0.0.1 is a loopback address: nobody answers"),
        ("ntp: [10.9.0.7]", "ntp: [224.0.1.1]", "networks[0].ntp[0]: 224.0.1.1 is a multicast address: nobody answe"),
        ("ntp: [10.9.0.7]", "ntp: ['::']", "networks[0].ntp[0]: :: is no address: nobody answers hosts there"),
        ("ntp: [10.9.0.7]", "ntp: [192.168.111.4]", "networks[0].ntp[0]: the lab answers at 192.168.111.4, which is "),
        ("10.8.0.0/24", "169.254.0.0/16", "networks[2].ipv4: 169.254.0.0/16: link-local addresses are none by which"),
        ("dhcp: on", "dhcpv6: on", "networks[0].dhcpv6: there are no IPv6 addresses in this network"),
    ],
)  # fmt: skip
def test_a_contradiction_names_its_field(old, new, line):
    assert old in WIDE
    with pytest.raises(TopologyError) as caught:
        topology.load_text(WIDE.replace(old, new, 1), source="w.yaml")
    assert [text for text in str(caught.value).splitlines() if text.startswith(f"w.yaml: {line}")], caught.value


def test_a_number_that_is_none_hides_nothing_else():
    bad = WIDE.replace(
        "tpm: true", "tpm: maybe, firmware: bios, secure_boot: on, vcpu: 0, memory_mib: 4G".replace(", ", "\n    ")
    )
    with pytest.raises(TopologyError) as caught:
        topology.load_text(bad)
    paths = [line.partition(": ")[0] for line in caught.value.lines]
    assert sorted(paths) == ["nodes[0].memory_mib", "nodes[0].secure_boot", "nodes[0].tpm", "nodes[0].vcpu"]


def test_what_follows_from_another_fault_is_not_told():
    many = WIDE.replace("{size_gib: 30, bus: scsi}", ", ".join(["{bus: scsi}"] * 25).replace("}, {", "}\n      - {"))
    with pytest.raises(TopologyError) as caught:
        topology.load_text(many)
    assert caught.value.lines == ("nodes[0].disks: 27 are more than 26",)
    with pytest.raises(TopologyError) as caught:
        topology.load_text(WIDE.replace("ipv4: 10.9.0.0/24", "ipv4: 10.9.0.0/33"))
    assert [line.partition(":")[0] for line in caught.value.lines] == ["networks[0].ipv4"]


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("nics: [enp2s0, enp9s0]", "nics: [enp2s0, enp2s0]", "nodes[0].bonds[0].nics[1]: NIC enp2s0 is used more"),
        ("mtu: 9000", "mtu: 9000\n    aliases: [192.168.111.1]", "networks[1].aliases[0]: address 192.168.111.1 is us"),
        ("mtu: 9000", "mtu: 9000\n    aliases: [10.7.0.1, 10.7.0.1]", "networks[1].aliases[1]: address 10.7.0.1 is us"),
    ],
)  # fmt: skip
def test_what_a_part_says_twice_is_told_once(old, new, line):
    with pytest.raises(TopologyError) as caught:
        topology.load_text(WIDE.replace(old, new, 1))
    assert [text.partition(",")[0][: len(line)] for text in caught.value.lines] == [line]


def test_a_balancer_may_answer_dns_and_hold_the_virtual_ips():
    balanced = WIDE.replace("machine: vm", "load_balancer: true").replace("dns: [8.8.8.8]", "dns: [192.168.111.5]")
    assert topology.load_text(balanced).networks[1].dns_servers == ("192.168.111.5",)
    with pytest.raises(TopologyError, match=r"address 10.99.0.5 is outside machine_network"):
        topology.load_text(balanced.replace("192.168.111.5", "10.99.0.5", 1))


def test_each_nic_is_alone_on_a_bus():
    nics = ", ".join(f'{{mac: "52:54:00:00:03:{n:02x}"}}' for n in range(30))
    more = WIDE.replace(
        '      - {mac: "52:54:00:00:01:01"',
        f'      - {nics.replace(", {", chr(10) + "      - {")}\n      - {{mac: "52:54:00:00:01:01"',
    )
    with pytest.raises(
        TopologyError, match=r"nodes\[0\].nics: 33 are more than 30, each of which is alone on a PCI bus"
    ):
        topology.load_text(more)


def test_what_firmware_cannot_boot_by_is_told():
    bios = topology.sno(firmware="bios")
    with pytest.raises(ValueError, match=r"nodes\[0\].firmware: bios has no http-boot; use uefi, or boot: pxe"):
        msgspec.structs.replace(bios, boot="http-boot").__post_init__()
    trunk = """
name: trunk
boot: pxe
networks: [{name: a, ipv4: 10.1.0.0/24, vlan: 7}]
nodes: [{name: m, role: master, nics: [{mac: "52:54:00:00:00:01", trunk: [a], addresses: [10.1.0.9]}]}]
"""
    with pytest.raises(TopologyError, match=r"nodes\[0\]: boot: pxe needs a NIC without tags in a network with IPv4"):
        topology.load_text(trunk)
    assert topology.load_text(trunk.replace("pxe", "usb")).boot == "usb"


def test_numbers_that_are_names_are_told_to_be_quoted():
    bad = WIDE.replace('wwn: "0x5000c50015ea71aa"', "wwn: 0x5000c50015ea71aa, serial: 12")
    with pytest.raises(TopologyError) as caught:
        topology.load_text(bad)
    assert [line.partition(" is a number to YAML; put it in quotes")[0] for line in caught.value.lines] == [
        "nodes[0].disks[0].serial: 12",
        f"nodes[0].disks[0].wwn: {0x5000C50015EA71AA}",
    ]


def test_structs_made_in_python_say_all_that_is_wrong_with_them():
    with pytest.raises(ValueError, match=r"name: 'X' is not a DNS label; .*vcpu: 0 is not within") as caught:
        NodeSpec(name="X", role="master", mac="52:54:00:00:00:01", ip="10.0.0.1", vcpu=0)
    assert [path for path, _ in caught.value.problems] == ["name", "vcpu"]


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["", "x", "none", "10.0.0.0/24", "fd00::/64"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "mac", "nics"]), inner),
    max_leaves=5,
)


@given(st.data())
def test_whatever_stands_in_a_field_is_a_topology_or_a_told_error(data):
    document = msgspec.yaml.decode(WIDE)
    place = document
    while isinstance(place, dict | list) and place:
        keys = sorted(place) if isinstance(place, dict) else range(len(place))
        key = data.draw(st.sampled_from(list(keys)))
        if not isinstance(place[key], dict | list) or data.draw(st.booleans()):
            place[key] = data.draw(JUNK)
            break
        place = place[key]
    lines: tuple[str, ...] = ()
    loaded = None
    try:
        loaded = topology.read(document, "junk")
    except TopologyError as error:
        lines = error.lines
    assert (loaded is None) == bool(lines)
    assert all(line.strip() for line in lines)
    assert loaded is None or topology.load_text(loaded.dump()) == loaded


def test_what_is_nearly_a_preset_is_named_and_all_are_by_their_pattern():
    with pytest.raises(TopologyError, match=r"nor a preset \(\{sno,compact,.*\[-bios\]\); compact-ipv6 perhaps\?"):
        topology.load("compact-ip6")

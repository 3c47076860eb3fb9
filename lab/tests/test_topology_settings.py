"""--set changes one field of a topology and says what is wrong with it."""

import pytest

from lab import topology
from lab.errors import TopologyError
from lab.topology import changed


def test_fields_are_changed_in_order():
    edited = changed(
        topology.compact(), ["nodes[1].memory_mib=8192", "nodes[1].vcpu=3", "name=other", "nodes[1].vcpu=4"]
    )
    assert [(n.memory_mib, n.vcpu) for n in edited.nodes] == [(4096, 2), (8192, 4), (4096, 1)]
    assert edited.name == "other"
    disks = changed(topology.sno(), ["nodes[0].disks=[{size_gib: 30, root: true, bus: nvme}]", "nodes[0].disk_gib=30"])
    assert disks.nodes[0].root_device == "/dev/nvme0n1"


@pytest.mark.parametrize(
    ("setting", "rule"),
    [
        ("nodes[0].memory_mib", "want FIELD=VALUE"),
        ("nodes[9].vcpu=1", "nodes has 3 entries; set all of nodes$"),
        ("nodes[0].vcpu=many", r"nodes\[0\].vcpu: 'many' is not a whole number"),
        ("nodes[0].tpm=5", r"nodes\[0\].tpm: 5 is not true or false"),
        ("nodes[0].name=5", r"nodes\[0\].name: 5 is a number to YAML; put it in quotes"),
        ("aliases=[10.0.0.1, {a: b}]", r"aliases\[1\]: \{'a': 'b'\} is not text"),
        ("aliases=5", "aliases: 5 is not a list"),
        ("nodes[0].colour=red", r"nodes\[0\].colour: there is no field 'colour'; there are name, role"),
        (
            "nodes[0].disks[0].size_gib=9",
            r"nodes\[0\].disks has 0 entries; set nodes\[0\].disk_gib or all of nodes\[0\].disks$",
        ),
        (
            "networks[0].mtu=9000",
            "networks has 0 entries; set machine_network or address or aliases or addressing or all of networks$",
        ),
        ("nodes[0].nics=[{mac: a, mac: b}]", 'key "mac" already set in map'),
        ("nodes.x=1", "nodes has no field x"),
        ("nodes[0].ip=1.2.3.4", "outside machine_network"),
        ("name=[", "line 1: did not find expected node content"),
    ],
)
def test_what_cannot_be_set_is_one_line(setting, rule):
    with pytest.raises(TopologyError, match=rule) as caught:
        changed(topology.compact(), [setting])
    assert str(caught.value).startswith(f"--set {setting}: ")
    assert "\n" not in str(caught.value)


def test_what_follows_from_a_field_changes_with_it():
    nic = '{mac: "52:54:00:00:00:01", addresses: [192.168.111.80]}'
    disk = "[{size_gib: 30, root: true}]"
    shape = changed(topology.sno(), [f"nodes[0].nics=[{nic}]", f"nodes[0].disks={disk}"])
    node = changed(
        shape,
        [
            "nodes[0].disks[0].size_gib=40",
            'nodes[0].nics[0].mac="52:54:00:00:00:02"',
            "nodes[0].nics[0].addresses=[192.168.111.81]",
        ],
    ).nodes[0]
    assert (node.disk_gib, node.mac, node.ip) == (40, "52:54:00:00:00:02", "192.168.111.81")
    networks = changed(
        topology.sno(),
        ["networks=[{name: a, ipv4: 192.168.111.0/24, dhcp: true}]", "networks[0].ipv4=192.168.110.0/23"],
    )
    assert (networks.machine_network, networks.addressing) == ("192.168.110.0/23", "dhcp")

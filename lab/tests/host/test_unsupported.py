"""A host's limits are reported by the topology's field, before anything starts."""

import msgspec
import pytest

from lab import topology
from lab.host import preflight
from lab.host.unsupported import host_has, unsupported

TEXT = """
name: x
networks: [{name: a, ipv4: 10.1.0.0/24}, {name: b, ipv4: 10.2.0.0/24, vlan: 7}]
nodes:
  - name: m
    role: master
    tpm: on
    secure_boot: on
    clock_offset: 5
    nics:
      - {mac: "52:54:00:00:00:01", name: eth5, trunk: [b], addresses: [10.2.0.9]}
      - {mac: "52:54:00:00:00:02", name: enp7s0}
      - {mac: "52:54:00:00:00:03", name: eno1}
    bonds: [{nics: [enp7s0]}]
"""
SHAPE = topology.load_text(TEXT)


def paths(lines):
    return [line.partition(":")[0] for line in lines]


def test_virtual_machines():
    lines = unsupported(SHAPE, has=lambda kind: False)
    assert paths(lines) == ["nodes[0].nics[0].name", "nodes[0].nics[1].name"]
    assert "on bus 2 it is enp2s0; set pci instead" in lines[1]


def test_an_address_that_libvirt_keeps_for_itself_is_told():
    shape = topology.load_text(TEXT.replace("52:54:00:00:00:03", "fe:54:00:00:00:03"))
    lines = unsupported(shape, has=lambda kind: False)
    assert [line for line in lines if line.startswith("nodes[0].nics[2].mac: fe:54:00:00:00:03, but libvirt keeps")]
    assert not [
        line for line in unsupported(shape.with_machines("container"), has=lambda kind: True) if ".mac:" in line
    ]


def test_container_machines():
    lines = unsupported(SHAPE.with_machines("container"), has=lambda kind: False)
    assert paths(lines) == [
        "nodes[0].secure_boot", "nodes[0].tpm", "nodes[0].clock_offset", "nodes[0].bonds[0]", "nodes[0].nics[0].trunk",
    ]  # fmt: skip
    assert all("use machine: vm" in line or "leave it out" in line for line in lines)
    assert paths(unsupported(SHAPE.with_machines("container"), has=lambda kind: True))[3:] == []


@pytest.mark.parametrize("name", sorted(topology.PRESETS))
def test_presets_can_be_made_of_both_kinds(name):
    for kind in ("vm", "container"):
        assert unsupported(topology.load(name).with_machines(kind), has=lambda kind: False) == []


def test_an_iscsi_disk_wants_a_kernel_of_the_machines_own():
    disk = topology.Disk(bus="iscsi", portals=("lab",), root=True)
    shape = msgspec.structs.replace(
        topology.sno(), nodes=(msgspec.structs.replace(topology.sno().nodes[0], disks=(disk,)),)
    )
    assert unsupported(shape, has=lambda kind: True) == []
    assert paths(unsupported(shape.with_machines("container"), has=lambda kind: True)) == ["nodes[0].disks[0].bus"]


def test_the_host_is_asked():
    assert host_has("veth")
    assert not host_has("no-such-kind")


def test_it_is_part_of_the_preflight(tmp_path):
    node = msgspec.structs.replace(topology.sno().nodes[0], secure_boot=True)
    shape = msgspec.structs.replace(topology.sno(), nodes=(node,), machine="container")
    assert [line for line in preflight.problems(shape, tmp_path, "x") if line.startswith("nodes[0].secure_boot:")]

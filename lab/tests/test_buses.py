"""A bus of disks is added in one place: whatever else differs by it looks there, or these tests fail."""

import ast
import re
from pathlib import Path
from typing import get_args

import pytest

from lab import topology
from lab.buses import BUSES, Bus
from lab.host.unsupported import unsupported
from lab.layout import Layout
from lab.machines import containers, domain
from lab.machines.container.hardware.disks import describe_disk

ROOT = Path(__file__).parents[2]
#: Names of buses that mean nothing else; `virtio` is a NIC as well, and `usb` what a machine boots from.
TELLING = {"sata", "scsi", "nvme", "iscsi"}
#: kernel's name, udev's name, WWN, rotation, characters of a model and a vendor, who attaches it to a VM, whether
#: containers have it
TABLE = {
    "virtio": ("vda", "by-id/virtio-S-1", False, False, (0, 0), "libvirt", True),
    "sata": ("sda", "by-id/ata-QEMU_HARDDISK_S-1", True, True, (40, 0), "libvirt", True),
    "scsi": ("sda", "by-id/scsi-0QEMU_QEMU_HARDDISK_S-1", True, True, (16, 8), "libvirt", True),
    "nvme": ("nvme0n1", "by-id/nvme-QEMU_NVMe_Ctrl_S-1", False, False, (0, 0), "command line", True),
    "usb": ("sda", "by-id/usb-QEMU_QEMU_HARDDISK_S-1-0:0", False, False, (0, 0), "libvirt", True),
    "iscsi": ("sda", "", False, False, (16, 8), "firmware", False),
}


def lab_with(bus: Bus) -> topology.Topology:
    portals = ", portals: [san]" if BUSES[bus].remote else ""
    return topology.load_text(f"""
name: one
networks: [{{name: san, ipv4: 10.1.0.0/24}}]
nodes:
  - name: m
    role: master
    nics: [{{mac: "52:54:00:00:00:01", addresses: [10.1.0.9]}}]
    disks: [{{bus: {bus}, serial: S-1, root: true{portals}}}]
""")


def tables(source: str) -> list[set[str]]:
    """Return the buses that are named together in each tuple, list, set, table or Literal of a module, two or more of
    them."""
    named: list[set[str]] = []
    if sum(name in source for name in TELLING) < 2:
        return named  # without parsing it, which is most of the time
    for item in ast.walk(ast.parse(source)):
        if isinstance(item, ast.Tuple | ast.List | ast.Set):
            parts: list[ast.expr | None] = list(item.elts)
        elif isinstance(item, ast.Dict):
            parts = [*item.keys, *item.values]
        else:
            continue
        names = {part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)}
        if len(names & TELLING) > 1:
            named.append(names)
    return named


def test_every_bus_has_a_row():
    assert list(BUSES) == list(get_args(Bus)) == list(TABLE)


def test_no_other_module_has_a_table_of_buses():
    modules = [path for room in ("lab", "scenarios", "ci") for path in (ROOT / room).rglob("*.py")]
    by_module = {
        str(path.relative_to(ROOT)): buses
        for path in modules
        if "tests" not in path.parts and (buses := tables(path.read_text()))
    }
    assert list(by_module) == ["lab/buses.py"]


@pytest.mark.parametrize(
    "source",
    [
        'a = ("sata", "scsi")',
        'a: Literal["scsi", "usb", "nvme"]',
        'a = {"nvme": 1, "sata": 2}',
        'a in {"scsi", "iscsi"}',
    ],
)
def test_a_table_of_buses_is_seen(source):
    assert len(tables(source)) == 1
    assert tables('a = ["sata", "usb"]; b = {"virtio": "vd"}') == []


def test_the_page_names_all_of_them():
    [row] = re.findall(
        r"^\| `disks\[\]` \| `size_gib`, `bus` \(([^)]*)\)", (ROOT / "docs/topology.md").read_text(), re.M
    )
    assert re.findall(r"`(\w+)`", row) == list(BUSES)


@pytest.mark.parametrize("bus", BUSES)
def test_a_disk_of_it_is_what_the_table_says(bus, tmp_path):
    kernel, link, wwn, rotation, lengths, attached_by, in_containers = TABLE[bus]
    item = BUSES[bus]
    assert (item.wwn, item.rotation, item.attached_by) == (wwn, rotation, attached_by)
    assert (item.model_length, item.vendor_length) == lengths
    shape = lab_with(bus)
    [node] = shape.nodes
    layout = Layout(tmp_path, shape)
    assert node.root_device == f"/dev/{kernel}"
    xml = domain.domain_xml(node, layout, kvm=False)
    image = f"{tmp_path}/disks/"
    assert (f'file="{image}' in xml, f"file={image}" in xml) == (
        attached_by == "libvirt",
        attached_by == "command line",
    )
    assert len(shape.iscsi_links(node)) == (attached_by == "firmware")
    assert bool(unsupported(shape.with_machines("container"), has=lambda kind: True)) is not in_containers
    if in_containers:
        [disk] = containers.machine_spec(node, layout, 0).disks
        device = describe_disk(disk, (7, 0), disk.size)
        assert (device.name, device.links[-1]) == (kernel, link)

"""A machine's description for libvirt."""

from xml.etree import ElementTree

import msgspec
import pytest

from lab import topology
from lab.layout import Layout
from lab.machines import domain
from lab.testing.topologies import SAN
from lab.topology import Disk


@pytest.fixture(autouse=True)
def own_places(tmp_path, monkeypatch):
    monkeypatch.setenv("NODE0_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("NODE0_CACHE", str(tmp_path / "cache"))


def machine(shape, tmp_path, **kw):
    return ElementTree.fromstring(domain.domain_xml(shape.nodes[0], Layout(tmp_path, shape), **kw))


def test_a_domain_boots_its_disk_first_and_says_who_it_is(tmp_path):
    tree = machine(topology.sno(), tmp_path, kvm=False)
    assert tree.find("devices/disk/boot").get("order") == "2"
    assert len(tree.findall(".//boot")) == 1
    assert tree.find("sysinfo/system/entry[@name='uuid']").text == tree.findtext("uuid")
    assert tree.get("type") == "qemu"
    assert tree.find("cpu").get("mode") == "maximum"
    assert tree.find("os/loader") is not None
    assert tree.findtext("uuid") != machine(topology.sno(), tmp_path, kvm=False).findtext("uuid")


def test_bios_and_kvm_are_honoured(tmp_path):
    tree = machine(topology.sno(firmware="bios"), tmp_path, kvm=True)
    assert tree.find("os/loader") is None
    assert tree.get("type") == "kvm"


def orders(shape, tmp_path):
    """List the devices in boot order."""
    by_order = {}
    for parent in machine(shape, tmp_path, kvm=False).find("devices"):
        for boot in parent.findall("boot"):
            by_order[int(boot.get("order"))] = parent.findtext("serial") or parent.find("target").get("dev")
    return [by_order[order] for order in sorted(by_order)]


@pytest.mark.parametrize(
    ("way", "after"),
    [("iso", []), ("usb", ["STICK"]), ("config-image", ["STICK"]), ("pxe", ["nv5254006e3000"]),
     ("http-boot", ["nv5254006e3000"])],
)  # fmt: skip
def test_what_is_booted_comes_after_the_disk_to_install_on(tmp_path, way, after):
    shape = msgspec.structs.replace(topology.sno(), boot=way)
    assert orders(shape, tmp_path) == ["master-0-vda", *after]


@pytest.mark.parametrize(
    ("way", "firmware", "bus", "places"),
    [("usb", "bios", "virtio", ["2", "3"]), ("config-image", "bios", "nvme", ["3"]),
     ("usb", "uefi", "virtio", ["2", "3"]), ("iso", "bios", "virtio", ["2"]), ("iso", "uefi", "nvme", [])],
)  # fmt: skip
def test_the_first_place_is_left_for_what_is_chosen_for_one_boot(tmp_path, way, firmware, bus, places):
    node = msgspec.structs.replace(topology.sno(firmware=firmware).nodes[0], disks=(Disk(bus=bus, root=True),))
    tree = machine(msgspec.structs.replace(topology.sno(), nodes=(node,), boot=way), tmp_path, kvm=False)
    assert [boot.get("order") for boot in tree.iter("boot")] == places
    words = [word.get("value") for word in tree.iter(f"{QEMU}arg") if "bootindex" in word.get("value")]
    assert [word.rpartition(",")[2] for word in words] == ["bootindex=2"] * (bus == "nvme")


def test_an_iscsi_disk_is_booted_by_the_nic_that_reaches_it(tmp_path):
    assert orders(topology.load_text(SAN), tmp_path) == ["nv5254006e3100"]
    serials = machine(topology.load_text(SAN), tmp_path, kvm=False).findall("devices/disk/serial")
    assert [serial.text for serial in serials] == ["master-0-sda"]


def test_secure_boot_is_the_firmware_with_microsofts_keys(tmp_path):
    node = msgspec.structs.replace(topology.sno().nodes[0], secure_boot=True)
    tree = machine(msgspec.structs.replace(topology.sno(), nodes=(node,)), tmp_path, kvm=False)
    loader, variables = tree.find("os/loader"), tree.find("os/nvram")
    assert (loader.get("secure"), loader.text) == ("yes", "/usr/share/OVMF/OVMF_CODE_4M.secboot.fd")
    assert variables.get("template") == "/usr/share/OVMF/OVMF_VARS_4M.ms.fd"
    assert tree.find("features/smm").get("state") == "on"
    plain = machine(topology.sno(), tmp_path, kvm=False)
    assert plain.find("features/smm") is None
    assert plain.find("os/loader").get("secure") is None


def test_a_stick_is_one_more_usb_disk(tmp_path):
    tree = machine(msgspec.structs.replace(topology.sno(), boot="usb"), tmp_path, kvm=False)
    stick = tree.findall("devices/disk")[-1]
    assert stick.find("source").get("file") == str(tmp_path / "disks/master-0-stick.raw")
    assert stick.find("target").get("removable") == "on"
    assert tree.find("devices/controller[@type='usb']") is not None


def test_a_disk_that_can_fail_is_a_device_whose_errors_the_machine_gets(tmp_path):
    disks = (Disk(root=True), Disk(can_fail=True), Disk(bus="nvme", can_fail=True))
    node = msgspec.structs.replace(topology.sno().nodes[0], disk_gib=20, disks=disks)
    tree = machine(msgspec.structs.replace(topology.sno(), nodes=(node,)), tmp_path, kvm=False)
    plain, able = tree.findall("devices/disk")
    driver = able.find("driver").attrib
    assert (plain.get("type"), plain.find("driver").get("cache")) == ("file", "unsafe")
    assert plain.find("driver").get("error_policy") is None
    assert (able.get("type"), able.find("source").attrib) == (
        "block", {"dev": str(tmp_path / "disks/master-0-vdb.device")},
    )  # fmt: skip
    assert (driver["cache"], driver["error_policy"], driver["rerror_policy"]) == ("none", "report", "report")
    drive = next(word.get("value") for word in tree.iter(f"{QEMU}arg") if word.get("value").startswith("file="))
    assert drive.startswith(f"file={tmp_path}/disks/master-0-nvme0n1.device,")
    assert {"werror=report", "rerror=report", "cache=none"} <= set(drive.split(","))


QEMU = "{http://libvirt.org/schemas/domain/qemu/1.0}"
WIDE = """
name: wide
networks: [{name: a, ipv4: 10.1.0.0/24}, {name: b, ipv4: 10.2.0.0/24, vlan: 7, mtu: 9000}]
nodes:
  - name: m
    role: master
    tpm: on
    clock_offset: -60
    nics:
      - {mac: "52:54:00:00:00:01", pci: 4, model: e1000e, addresses: [10.1.0.9]}
      - {mac: "52:54:00:00:00:02", name: eno3, trunk: [b]}
    disks:
      - {bus: sata, wwn: "0x5000c50015ea71aa", model: X, rotational: true}
      - {bus: scsi, wwn: "0x5000c50015ea71ab", vendor: DELL, model: PERC H740P, rotational: false}
      - {bus: nvme, root: true, serial: "S-1"}
      - {bus: usb}
"""


def test_nics_disks_tpm_and_clock_are_those_of_the_topology(tmp_path):
    tree = machine(topology.load_text(WIDE), tmp_path, kvm=False)
    plain, trunk = tree.findall("devices/interface")
    assert (plain.get("type"), plain.find("source").get("network"), plain.find("mtu")) == ("network", "lab0", None)
    assert (plain.find("model").get("type"), plain.find("address").get("bus")) == ("e1000e", "0x04")
    assert (trunk.get("type"), trunk.find("source"), trunk.find("mtu").get("size")) == ("ethernet", None, "9000")
    assert (trunk.find("address").get("bus"), trunk.find("acpi").get("index")) == ("0x02", "3")
    ports = [int(c.get("index")) for c in tree.findall("devices/controller[@model='pcie-root-port']")]
    assert ports == [1, 2, 3, 4]
    assert tree.find("clock").get("adjustment") == "-60"
    assert tree.find("devices/tpm/backend").get("type") == "emulator"
    targets = [disk.find("target") for disk in tree.findall("devices/disk")]
    assert [(t.get("dev"), t.get("bus"), t.get("rotation_rate")) for t in targets] == [
        ("sda", "sata", "7200"), ("sdb", "scsi", "1"), ("sdc", "usb", None),
    ]  # fmt: skip
    assert [disk.findtext("wwn") for disk in tree.findall("devices/disk")] == [None, "5000c50015ea71ab", None]
    assert [disk.findtext("vendor") for disk in tree.findall("devices/disk")] == [None, "DELL", None]
    assert [disk.findtext("product") for disk in tree.findall("devices/disk")] == [None, "PERC H740P", None]
    words = [word.get("value") for word in tree.iter(f"{QEMU}arg")]
    assert words[0::2] == ["-drive", "-device"]
    assert words[3].startswith("nvme,serial=S-1,")
    assert words[3].endswith(",bootindex=2")
    changed = {p.get("name"): p.get("value") for p in tree.iter(f"{QEMU}property")}
    assert changed == {"wwn": str(0x5000C50015EA71AA), "model": "X", "speed": "10000", "duplex": "full"}

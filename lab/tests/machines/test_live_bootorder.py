"""Virtual machines whose boot order surprises: entries of what is gone, and a CD before a disk that boots."""

from uuid import UUID

import msgspec
import pytest

from drivers.protocols import BootDevice, BootOnce
from lab import topology
from lab.lab import Lab
from lab.machines.domain import OVMF_VARS
from lab.testing import bootmedia, uefivariables
from lab.testing.live import ipmitool
from lab.tests.machines import kit

SHAPE = """
name: order
machine: vm
bmc: BMC
nodes:
  - name: master-0
    role: master
    mac: "52:54:00:6e:64:00"
    ip: 192.168.111.80
    memory_mib: 256
    vcpu: 1
    firmware: FIRMWARE
    disks:
      - {size_gib: 1, root: true, bus: BUS}
"""


def shape(firmware="uefi", bus="sata", bmc="lab"):
    return topology.load_text(SHAPE.replace("FIRMWARE", firmware).replace("BUS", bus).replace("BMC", bmc))


pytestmark = [
    pytest.mark.lab,
    kit.needs_lab(shape()),
    pytest.mark.skipif(not bootmedia.GRUB.exists(), reason="grub-efi-amd64-bin is not installed"),
]
# Emulated, on a busy host.
SECONDS = 120
#: Of the disk that was in the machine before this one.
GONE = UUID("7a1f3f8e-52c9-4f0d-8a55-0d15c0000001")
LOADER = r"\EFI\debian\shimx64.efi"


def booted(machine):
    """Wait for the name of the device that the machine starts from."""
    return machine.console.wait_for(r"FROM THE (CD|DISK)", SECONDS).group(1)


def restart(machine):
    """Have the machine restart by itself."""
    machine.console.send("\r")


def test_live_entries_of_what_is_gone_are_passed_over(tmp_path, beside_labs):
    image = bootmedia.uefi_cd(beside_labs, "FROM THE CD")
    partition = uefivariables.path_of_partition(GONE, bootmedia.FIRST_SECTOR, bootmedia.SECTORS)
    here = uefivariables.path_of_partition(bootmedia.PARTITION, bootmedia.FIRST_SECTOR, bootmedia.SECTORS)
    disk, loader = uefivariables.path_of_sata_disk(0), uefivariables.path_of_file(LOADER)
    entries = {
        "Boot0020": uefivariables.entry("partition gone", disk + partition + loader),
        "Boot0021": uefivariables.entry("loader gone", disk + here + loader),
        # As systems write them, without the disk: the firmware looks for the partition on all that there are.
        "Boot0022": uefivariables.entry("disk gone", partition + loader),
    }
    # There is no entry 0x30 at all.
    variables = entries | {"BootOrder": uefivariables.order(0x30, 0x20, 0x21, 0x22)}
    with Lab(shape(), artifacts=tmp_path / "lab") as lab:
        machine = lab.nodes["master-0"]
        flash = lab.layout.nvram(machine.spec)
        uefivariables.write(flash, OVMF_VARS, variables)
        # The disk is empty, as one that has been replaced is.
        machine.boot_image(image)
        for name in ("partition gone", "loader gone"):
            machine.console.wait_for(f'failed to load Boot00.. "{name}" from .*Not Found', SECONDS)
        assert booted(machine) == "CD"
        machine.power.off()
        left = uefivariables.read(flash)
        assert left["BootOrder"].startswith(uefivariables.order(0x20, 0x21))
        # What QEMU's own order does not cover is taken away by OVMF, not tried.
        assert "Boot0022" not in left
        (tmp_path / "disk").mkdir()
        bootmedia.uefi_disk(lab.layout.disk(machine.spec), tmp_path / "disk", "FROM THE DISK")
        machine.power.on()
        for _ in range(2):
            for name in ("partition gone", "loader gone"):
                machine.console.wait_for(f'failed to load Boot00.. "{name}" from .*Not Found', SECONDS)
            assert booted(machine) == "DISK"
            restart(machine)


@pytest.mark.parametrize(
    ("firmware", "bus", "bmc"), [("bios", "virtio", "ipmi"), ("uefi", "nvme", "lab"), ("uefi", "sata", "xcc")]
)
def test_live_a_cd_asked_for_once_comes_before_a_disk_that_boots_and_then_behind_it(
    tmp_path, beside_labs, firmware, bus, bmc
):
    (tmp_path / "disk").mkdir()
    image = (bootmedia.bios_cd if firmware == "bios" else bootmedia.uefi_cd)(beside_labs, "FROM THE CD")
    topology_of_test = shape(firmware, bus, "lab" if bmc == "ipmi" else bmc)
    with Lab(msgspec.structs.replace(topology_of_test, ipmi=bmc == "ipmi"), artifacts=tmp_path / "lab") as lab:
        machine = lab.nodes["master-0"]
        # Nothing is on the disk: on to the CD, which comes after it.
        machine.media.insert(image)
        machine.power.on()
        assert booted(machine) == "CD"
        machine.power.off()
        machine.media.eject()
        if firmware == "bios":
            bootmedia.bios_disk(lab.layout.disk(machine.spec), "FROM THE DISK")
        else:
            bootmedia.uefi_disk(lab.layout.disk(machine.spec), tmp_path / "disk", "FROM THE DISK")
        if bmc == "ipmi":
            ipmitool(lab, machine.spec, "chassis", "bootdev", "cdrom")
            machine.media.insert(image)
            ipmitool(lab, machine.spec, "power", "on")
        else:
            assert isinstance(machine.boot, BootOnce)
            assert machine.boot.boot_once(BootDevice.CD)
            machine.media.insert(image)
            machine.power.on()
            assert not machine.boot.booted()
        assert booted(machine) == "CD"
        # By itself, and switched on by others: the CD, which is still inserted, comes after the disk.
        restart(machine)
        assert booted(machine) == "DISK"
        machine.power.cycle()
        assert booted(machine) == "DISK"
        assert machine.media.inserted()


@pytest.mark.parametrize(("firmware", "bus"), [("bios", "virtio"), ("uefi", "nvme")])
def test_live_a_disk_asked_for_once_comes_before_a_cd_that_is_first(tmp_path, beside_labs, firmware, bus):
    (tmp_path / "disk").mkdir()
    image = (bootmedia.bios_cd if firmware == "bios" else bootmedia.uefi_cd)(beside_labs, "FROM THE CD")
    with Lab(shape(firmware, bus), artifacts=tmp_path / "lab") as lab:
        machine = lab.nodes["master-0"]
        if firmware == "bios":
            bootmedia.bios_disk(lab.layout.disk(machine.spec), "FROM THE DISK")
        else:
            bootmedia.uefi_disk(lab.layout.disk(machine.spec), tmp_path / "disk", "FROM THE DISK")
        machine.media.insert(image)
        machine.boot.set_first(BootDevice.CD)
        assert machine.boot.boot_once(BootDevice.DISK)
        machine.power.on()
        assert booted(machine) == "DISK"
        restart(machine)
        assert booted(machine) == "CD"
        machine.power.cycle()
        assert booted(machine) == "CD"

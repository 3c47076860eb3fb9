"""A virtual machine with a BIOS and a USB stick: whoever chooses the stick has it for one boot only."""

import pytest

from lab import topology
from lab.lab import Lab
from lab.machines import disks
from lab.testing import bootmedia
from lab.tests.machines import kit

SHAPE = """
name: stick
machine: vm
boot: usb
nodes:
  - name: master-0
    role: master
    mac: "52:54:00:6e:63:00"
    ip: 192.168.111.80
    memory_mib: 256
    vcpu: 1
    firmware: bios
    disks:
      - {size_gib: 1, root: true, bus: BUS}
"""
pytestmark = [pytest.mark.lab, kit.needs_lab(topology.load_text(SHAPE.replace("BUS", "virtio")))]
# Emulated, on a busy host.
SECONDS = 120


@pytest.mark.parametrize("bus", ["virtio", "nvme"])
def test_live_a_bios_starts_from_its_stick_once_and_from_its_disk_ever_after(tmp_path, bus):
    image = tmp_path / "stick.iso"
    image.write_bytes(bootmedia.boot_code("FROM THE STICK"))
    with Lab(topology.load_text(SHAPE.replace("BUS", bus)), artifacts=tmp_path / "lab") as lab:
        machine = lab.nodes["master-0"]
        bootmedia.bios_disk(lab.layout.disk(machine.spec), "FROM THE DISK")
        disks.write_stick(lab.layout, machine.spec, image)
        for _ in range(2):
            machine.start(from_stick=True)
            machine.console.wait_for("FROM THE STICK", SECONDS)
            # The machine restarts by itself, twice, and then others switch it off and on.
            for _ in range(2):
                machine.console.send("x")
                machine.console.wait_for("FROM THE DISK", SECONDS)
            machine.power.cycle()
            machine.console.wait_for("FROM THE DISK", SECONDS)
            machine.power.off()
        assert machine.console.text().count("FROM THE STICK") == 2

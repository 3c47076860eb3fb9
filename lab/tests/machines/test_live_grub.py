"""GRUB itself counts the boots of a deployment on trial, on its environment block, and goes back to the one before."""

from pathlib import Path

import msgspec
import pytest

from lab import topology
from lab.lab import Lab
from lab.testing.installed import copy
from lab.tests.machines import kit
from lab.tests.machines.container.firmware.test_live_deployments import Node

SHAPE = topology.load_text("""
name: grub
machine: vm
nodes:
  - {name: master-0, role: master, memory_mib: 3072, vcpu: 2, disk_gib: 8, mac: "52:54:00:6e:65:00",
     ip: 192.168.111.80}
""")
pytestmark = [pytest.mark.lab, pytest.mark.long, kit.needs_lab(SHAPE)]
#: Four boots, emulated, on a busy host.
SECONDS = 1800
PANICS = "Kernel panic - not syncing: VFS: Unable to mount root fs"
#: A kernel that finds no program in its initramfs panics, and reboots after a while.
_BREAK = """mount "$(sed 's/.* boot=\\([^ ]*\\).*/\\1/' /proc/cmdline)" /run/b
dd if=/dev/zero of="$(echo /run/b/ostree/node0-*/initrd.img)" bs=1M count=1
umount /run/b
"""


@pytest.mark.parametrize("firmware", ["uefi", "bios"])
def test_live_a_kernel_that_panics_is_booted_three_times_and_then_left(
    tmp_path: Path, folder: Path, firmware: str
) -> None:
    """It is staged in a container, which is quick, by the node's own rpm-ostree."""
    Node(folder, before=_BREAK)
    [node] = SHAPE.nodes
    shape = msgspec.structs.replace(SHAPE, nodes=(msgspec.structs.replace(node, firmware=firmware),))
    with Lab(shape, artifacts=tmp_path) as lab:
        machine = lab.nodes["master-0"]
        copy(folder / "disk.img", lab.layout.disk(machine.spec))
        machine.power.on()
        machine.console.wait_for("FALLBACK BOOT DETECTED! it did not come up", SECONDS)
        assert machine.console.text().count(PANICS) == 3

"""Virtual machines' disks that fail: what their kernel gets to see, bus by bus."""

import pytest

from lab import topology
from lab.faults import DiskErrors
from lab.lab import Lab
from lab.testing.containers.kit import tree
from lab.tests.machines import kit

pytestmark = [pytest.mark.lab, kit.needs_lab(topology.sno()), *kit.NEEDS_KERNEL]
# Emulated, on a busy host.
SECONDS = 400
SHAPE = """
name: failing
machine: vm
nodes:
  - name: master-0
    role: master
    mac: "52:54:00:6e:62:00"
    ip: 192.168.111.80
    memory_mib: 512
    vcpu: 1
    firmware: bios
    disks:
      - {size_gib: 1, can_fail: true, root: true}
      - {size_gib: 1, can_fail: true, bus: sata}
      - {size_gib: 1, can_fail: true, bus: nvme}
"""
SCRIPT = """
while :; do
    said=
    for disk in vda sda nvme0n1; do
        dd if=/dev/zero of=/dev/$disk bs=4096 seek=9 count=1 oflag=direct 2>/dev/null && w=written || w=refused
        dd if=/dev/$disk of=/dev/null bs=4096 skip=99 count=1 iflag=direct 2>/dev/null && r=read || r=unread
        said="$said $disk:$w:$r"
    done
    echo "NOW$said"
    sleep 1
done
"""
ALL = ("vda", "sda", "nvme0n1")


def line(state):
    return "NOW " + " ".join(f"{disk}:{state}" for disk in ALL)


def test_a_kernel_gets_errors_and_its_machine_goes_on(tmp_path, folder):
    image = kit.build(tree(), folder, SCRIPT)
    with Lab(topology.load_text(SHAPE), artifacts=tmp_path) as lab:
        node = lab.nodes["master-0"]
        node.boot_image(image)
        node.console.wait_for(line("written:read"), SECONDS)
        for fails, state in (("writes", "refused:read"), ("all", "refused:unread")):
            faults = [DiskErrors("master-0", disk, fails) for disk in ALL]
            for fault in faults:
                fault.begin(lab)
            node.console.wait_for(line(state), SECONDS)
            for fault in faults:
                fault.end(lab)
            node.console.wait_for(line("written:read"), SECONDS)

"""A root on an iSCSI disk: the NIC's iPXE boots it, the initramfs finds it again, by one path or by two."""

import json
import shutil
from functools import partial
from pathlib import Path

import msgspec
import pytest

from lab import topology
from lab.lab import Lab
from lab.testing.installed import boot_twice, copy, telling
from lab.tests.machines import kit
from lab.tests.machines.container.firmware import kit as live

SHAPE = topology.load_text("""
name: paths
networks:
  - {name: machine, ipv4: 192.168.111.0/24}
  - {name: left, ipv4: 10.9.0.0/24, gateway: none, dns: none, ntp: none, dhcp: on}
  - {name: right, ipv4: 10.9.1.0/24, gateway: none, dns: none, ntp: none, dhcp: on}
nodes:
  - name: master-0
    role: master
    firmware: bios
    memory_mib: 2560
    nics:
      - {mac: "52:54:00:6e:30:00", network: machine, addresses: [192.168.111.80]}
      - {mac: "52:54:00:6e:31:00", network: left, addresses: [10.9.0.80]}
      - {mac: "52:54:00:6e:32:00", network: right, addresses: [10.9.1.80]}
    disks:
      - {size_gib: 8, bus: iscsi, portals: [left, right], root: true}
""")
pytestmark = [
    pytest.mark.lab,
    pytest.mark.long,
    kit.needs_lab(SHAPE),
    pytest.mark.skipif(shutil.which("tgtd") is None, reason="tgt is not installed"),
]
# Emulated, on a busy host.
SECONDS = 600
# As the service has them (installer/rendezvous/steps/installerargs.py), and what the booted system says.
ONE = ("rd.iscsi.firmware=1", "ip=52-54-00-6e-31-00:dhcp")
TWO = ("rw", "rd.multipath=default", *ONE, "ip=52-54-00-6e-32-00:dhcp")
SAYS = (
    'systemctl --failed --no-legend --plain | cut -d" " -f1 |'
    " xargs -rn1 journalctl --no-pager --boot --output=cat -u;"
    ' ls -l /dev/disk/by-partuuid; echo "root: $(findmnt -no SOURCE,FSTYPE /)'
    ' paths: $(multipath -ll | grep -c "active ready running")'
    ' failed: $(systemctl --failed --no-legend --plain)."'
)


@pytest.fixture
def san_os(monkeypatch):
    """Provide the machine OS is one that knows iSCSI disks."""
    monkeypatch.setattr(live, "machine_os", partial(Path, live.machine_os("92node0-iscsi")))


@pytest.mark.parametrize(
    ("portals", "kargs", "root", "paths"),
    [(("left",), ONE, "/dev/sda4", 0), (("left", "right"), TWO, "/dev/mapper/mpatha-part4", 2)],
    ids=["one path", "two paths"],
)
def test_live_the_installed_system_finds_its_root_again(tmp_path, folder, san_os, portals, kargs, root, paths):
    config = json.loads(json.dumps(live.CONFIG))
    config["systemd"]["units"].append(telling(SAYS))
    installed = live.installed(folder, config, kargs=kargs)
    [node] = SHAPE.nodes
    disk = msgspec.structs.replace(node.disks[0], portals=portals)
    with Lab(
        msgspec.structs.replace(SHAPE, nodes=(msgspec.structs.replace(node, disks=(disk,)),)), artifacts=tmp_path
    ) as lab:
        machine = lab.nodes["master-0"]
        copy(installed, lab.layout.disk(machine.spec))
        boot_twice(machine, f"root: {root} ext4 paths: {paths} failed: .", SECONDS)

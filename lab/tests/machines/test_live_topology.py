"""Virtual machines as a topology has them, seen by a kernel of their own: names, bonds, tags, disks, TPM, clock."""

import re
import shutil
import subprocess
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from lab import topology
from lab.host.paths import state_dir
from lab.lab import Lab
from lab.testing.containers.kit import tree
from lab.tests.machines import kit

pytestmark = [pytest.mark.lab, kit.needs_lab(topology.sno()), *kit.NEEDS_KERNEL]
# Emulated, on a busy host.
SECONDS = 400
TPM = shutil.which("swtpm") is not None

SHAPE = """
name: vm
networks:
  - {name: plain, ipv4: 10.9.0.0/24}
  - {name: tagged, ipv4: 192.168.111.0/24, ipv6: "fd2e:6f44:5dd8:111::/64", vlan: 111, mtu: 9000}
nodes:
  - name: master-0
    role: master
    memory_mib: 512
    vcpu: 1
    firmware: bios
    clock_offset: 864000
    nics:
      - {mac: "52:54:00:6e:61:00", addresses: [10.9.0.80], pci: 4, model: e1000e}
      - {mac: "52:54:00:6e:61:01"}
      - {mac: "52:54:00:6e:61:02", name: eno7}
    bonds:
      - {mode: 802.3ad, nics: [enp2s0, eno7], trunk: [tagged], addresses: [192.168.111.80]}
    disks:
      - {size_gib: 1, bus: sata, serial: SATA-1, wwn: "0x5000c50015ea71aa", model: WDC WD10, rotational: true}
      - size_gib: 2
        bus: scsi
        serial: SCSI-1
        wwn: "0x5000c50015ea71ab"
        vendor: DELL
        model: FAST
        rotational: false
        root: true
      - {size_gib: 1, bus: nvme, serial: NVME-1}
      - {size_gib: 1, serial: VIRTIO-1}
      - {size_gib: 1, bus: usb, serial: USB-1}
"""
SCRIPT = """
date +"clock %s"
ls /sys/class/net
ls /sys/class/tpm
lsblk -d -n -b -P -o NAME,SERIAL,WWN,MODEL,ROTA,SIZE,TRAN,VENDOR
ip link del bond0
ip link add bond0 mtu 9000 type bond mode 802.3ad miimon 100 lacp_rate fast
for nic in enp2s0 eno7; do ip link set $nic down; ip link set $nic master bond0; done
ip link set bond0 up
ip link add link bond0 name bond0.111 type vlan id 111
ip address add 192.168.111.80/24 dev bond0.111
ip link set bond0.111 up
ip address add 10.9.0.80/24 dev enp4s0
ip link set enp4s0 up
sleep 5
cat /proc/net/bonding/bond0
for try in 1 2 3 4 5 6 7 8; do ping -c1 -W2 192.168.111.1 && break; sleep 1; done
ping -c1 -W5 -M do -s 8900 192.168.111.1
ping -c1 -W5 10.9.0.1
ip link add link bond0 name bond0.112 type vlan id 112
ip link set bond0.112 up
ping -c1 -W2 -I bond0.112 192.168.111.1 > /dev/null && echo "another tag passes" || echo "another tag is dropped"
ip link set eno7 down
sleep 4
ping -c1 -W5 192.168.111.1
"""


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    """Provide the script's output on the serial line."""
    text = SHAPE.replace("clock_offset: 864000", f"clock_offset: 864000\n    tpm: {str(TPM).lower()}")
    with TemporaryDirectory(prefix="test-", dir=state_dir()) as beside:
        image = kit.build(tree(), Path(beside), SCRIPT)
        with Lab(topology.load_text(text), artifacts=tmp_path_factory.mktemp("lab")) as lab:
            lab.nodes["master-0"].boot_image(image)
            lab.nodes["master-0"].console.wait_for("SCRIPT ENDED", SECONDS)
            yield lab.nodes["master-0"].console.text().replace("\r", "")


def test_live_nics_have_their_names_and_the_clock_its_offset(output):
    nics = next(line for line in output.splitlines() if "enp2s0" in line)
    assert {"enp2s0", "eno7", "enp4s0"} <= set(nics.split()), output
    assert bool(re.search("^tpm0$", output, re.M)) is TPM, output
    clock = int(re.search(r"^clock (\d+)", output, re.M)[1])
    assert abs(clock - time.time() - 864_000) < 2 * SECONDS


def test_live_linux_bonding_finds_a_partner_and_tagged_frames_pass(output):
    assert re.search(r"Number of ports: 2$", output, re.M), output
    assert "Partner Mac Address: 02:6e:30:00:00:00" in output
    # Tagged, the same with 8900 bytes, the other network, and tagged by the NIC that is left.
    assert output.count("1 received") == 4, output
    assert "another tag is dropped" in output


@pytest.mark.skipif(
    tree() is not None and not list(tree().glob("lib/modules/*/kernel/block/t10-pi.ko")),
    reason="the release that was built here has no t10-pi.ko, which sd_mod and nvme need: build it anew",
)
def test_live_disks_of_all_buses_say_who_they_are(output):
    disks = re.findall(r'^NAME="\w+" (.*)$', output, re.M)
    by_serial = {re.search('SERIAL="(.*?)"', line)[1]: line for line in disks}
    assert set(by_serial) >= {"SATA-1", "SCSI-1", "NVME-1", "VIRTIO-1", "USB-1"}, output
    assert 'WWN="0x5000c50015ea71aa" MODEL="WDC WD10" ROTA="1"' in by_serial["SATA-1"], output
    assert 'WWN="0x5000c50015ea71ab" MODEL="FAST" ROTA="0"' in by_serial["SCSI-1"], output
    # The kernel shows what fills the field up.
    assert re.search('VENDOR="DELL *"', by_serial["SCSI-1"]), output
    assert re.search('VENDOR="ATA *"', by_serial["SATA-1"]), output
    assert 'TRAN="nvme"' in by_serial["NVME-1"], output
    assert 'TRAN="usb"' in by_serial["USB-1"], output


def test_live_every_model_of_nic_is_one_of_libvirts(tmp_path):
    models = ("virtio", "e1000", "e1000e", "rtl8139", "vmxnet3")
    nics = "".join(f"\n      - {{mac: '52:54:00:6e:62:0{i}', model: {m}}}" for i, m in enumerate(models))
    node = f"  - name: m\n    role: master\n    memory_mib: 256\n    firmware: bios\n    nics:{nics}"
    text = f"name: nics\nnodes:\n{node}".replace("model: virtio", "addresses: [192.168.111.80]")
    with Lab(topology.load_text(text), artifacts=tmp_path) as lab:
        lab.nodes["m"].power.on()
        show = ["virsh", "qemu-monitor-command", "--hmp", "m", "info pci"]
        shown = lab.inside(subprocess.run, show, capture_output=True, text=True, check=True).stdout
        buses = re.findall(r"Bus +(\d+), device +\d+, function 0:\n +Ethernet", shown)
        assert buses == ["1", "2", "3", "4", "5"]

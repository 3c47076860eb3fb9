"""The lab's iSCSI target: a real tgtd, and what firmware is told of it."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from lab import topology
from lab.daemons import dns, iscsi, services
from lab.inputs import configs
from lab.layout import ISCSI_PORT, Layout
from lab.testing.topologies import SAN, TWO_PATHS
from lab.topology.disks import kernel_names

NAME = "iqn.2026-01.example.node0:master-0"
TGTD = shutil.which("tgtd", path="/usr/sbin:/usr/bin")


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "lab", topology.load_text(SAN))


def test_the_disk_is_served_to_its_machine_alone(layout: Layout) -> None:
    served = iscsi.config(layout)
    assert served is not None
    assert served.portals == ("10.9.0.1",)
    image = str(layout.root / "disks/master-0-sdb.raw")
    assert served.targets == (
        iscsi.Target(name=NAME, image=image, serial="SAN-1", model="LUN", vendor="DGC", initiators=("10.9.0.80",)),
    )
    assert iscsi.config(Layout(layout.root, topology.sno())) is None


def test_the_service_is_there_for_who_has_such_a_disk(layout: Layout) -> None:
    plan = services.prepare(layout, "san-1", None, None).plan
    [service] = [service for service in plan.services if service.name == "iscsi"]
    assert service.ready is not None
    assert (service.ready.address, service.ready.port) == ("10.9.0.1", ISCSI_PORT)
    plan = services.prepare(Layout(layout.root / "sno", topology.sno()), "sno-1", None, None).plan
    assert "iscsi" not in {service.name for service in plan.services}


def test_its_nic_is_told_what_to_attach_and_to_keep_it(layout: Layout, tmp_path: Path) -> None:
    lines = dns.dnsmasq_config(layout, leases=tmp_path / "leases", log=tmp_path / "log").splitlines()
    assert "dhcp-host=52:54:00:6e:31:00,set:san-master-0,10.9.0.80,master-0" in lines
    assert f"dhcp-option=tag:san-master-0,option:root-path,iscsi:10.9.0.1:::1:{NAME}" in lines
    assert "dhcp-option=tag:san-master-0,encap:175,8,1b" in lines
    # Nobody asked for DHCP in the machine network.
    assert [line for line in lines if line.startswith("dhcp-range=")] == [
        "dhcp-range=set:lab1,10.9.0.128,10.9.0.253,255.255.255.0,1h"
    ]


def test_by_two_portals_it_is_one_disk_with_two_paths(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "lab", topology.load_text(TWO_PATHS))
    [node] = layout.topology.nodes
    services.prepare(layout, "two-1", None, None)
    lines = (layout.root / "dnsmasq.conf").read_text().splitlines()
    assert {"dhcp-boot=tag:san-master-0,master-0.ipxe", "enable-tftp"} <= set(lines)
    assert not [line for line in lines if "root-path" in line]
    script = (layout.tftp / "master-0.ipxe").read_text().splitlines()
    assert script[0] == "#!ipxe"
    assert "iseq ${net2/mac} 52:54:00:6e:32:00 && dhcp net2 ||" in script
    assert script[-1] == f"sanboot --keep iscsi:10.9.1.1:::1:{NAME} iscsi:10.9.2.1:::1:{NAME} || exit 1"
    served = iscsi.config(layout)
    assert served is not None
    assert (served.portals, served.targets[0].initiators) == (("10.9.1.1", "10.9.2.1"), ("10.9.1.80", "10.9.2.80"))
    assert configs.root_device_hints(node) == {}
    assert node.root_device == "/dev/mapper/mpatha"


def test_what_boots_by_network_boots_no_disk(layout: Layout) -> None:
    with pytest.raises(topology.FieldsError) as caught:
        msgspec.structs.replace(layout.topology, boot="pxe")
    assert caught.value.problems == (
        ("boot", "pxe, but the NICs of nodes[0] boot its iSCSI disk; use iso, minimal-iso or usb"),
    )


def shown(root: Path) -> None:
    """Run in a network namespace with the lab's address: print what tgtd says that it serves, once it is ready."""
    served = msgspec.json.decode((root / "iscsi.json").read_bytes(), type=iscsi.Config)
    daemon = subprocess.Popen([sys.executable, "-m", "lab.daemons.iscsi", str(root / "iscsi.json")])
    try:
        iscsi.wait_until(
            lambda: socket.create_connection(("10.9.0.1", ISCSI_PORT), 1).close() is None, 30, "the portal", poll=0.05
        )
        print(iscsi.administer(served, ["--op", "show", "--mode", "target"]).stdout)
        print(iscsi.administer(served, ["--op", "show", "--mode", "portal"]).stdout)
    finally:
        daemon.kill()
        print("ended by", daemon.wait())


@pytest.mark.skipif(TGTD is None, reason="tgt is not installed")
def test_who_reaches_a_portal_finds_the_disk_and_killing_the_service_kills_tgtd(layout: Layout) -> None:
    services.prepare(layout, "san-1", None, None)
    with layout.disk(layout.topology.nodes[0]).open("xb") as image:
        image.truncate(20 << 30)
    script = 'ip link set lo up && ip address add 10.9.0.1/24 dev lo && exec "$@"'
    code = (
        "import sys; from pathlib import Path; from lab.tests.daemons.test_iscsi import shown; shown(Path(sys.argv[1]))"
    )
    completed = subprocess.run(
        ["unshare", "--net", "sh", "-c", script, "sh", sys.executable, "-c", code, str(layout.root)],
        capture_output=True, text=True, timeout=120, check=False, cwd=Path(__file__).parents[3],
    )  # fmt: skip
    words = " ".join(completed.stdout.split())
    assert f"Target 1: {NAME}" in words, completed.stderr
    assert "SCSI SN: SAN-1" in words
    assert "Size: 21475 MB" in words
    assert f"Backing store path: {layout.disk(layout.topology.nodes[0])}" in words
    assert "ACL information: 10.9.0.80" in words
    assert "Portal: 10.9.0.1:3260" in words
    assert words.endswith("ended by -9")


def test_an_iscsi_disk_comes_behind_all_others_whatever_its_place() -> None:
    san = topology.Disk(bus="iscsi", portals=("storage",))
    disks = (san, topology.Disk(bus="sata"), topology.Disk(bus="virtio"), topology.Disk(bus="usb"))
    assert kernel_names(disks) == ["sdc", "sda", "vda", "sdb"]

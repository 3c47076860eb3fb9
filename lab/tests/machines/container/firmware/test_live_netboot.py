"""Machines that boot from the network, with dnsmasq as the lab configures it and the installer's script."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from installer.common import cpio
from installer.common.iso9660 import Iso
from lab.host.preflight import container_problems
from lab.layout import Layout
from lab.machines.container.firmware.netboot.dhcp import decode, encode
from lab.machines.container.spec import Nic
from lab.subject.installer import default_installer
from lab.tests.machines.container.firmware import kit, only
from lab.topology import BootWay, Network, NodeSpec, Topology
from lab.topology import Nic as LabNic

MAC = "52:54:00:00:00:01"
NIC = Nic(name="eth0", mac=MAC, network=only.NETWORK)
LOOK = "cat /etc/proof; cat /proc/cmdline; ip -brief address show eth0; ls /sys/class/net"

pytestmark = pytest.mark.skipif(bool(os.geteuid()), reason="network namespaces need root")


def dnsmasq_configuration(folder: Path, boot: BootWay, url: str | None = None) -> None:
    """Write the lab's configuration of dnsmasq, for the one network of these tests."""
    from lab.daemons import dns

    network = Network(name="lab", ipv4="192.168.7.0/24", address=only.ADDRESS)
    node = NodeSpec(name="n", role="master", nics=(LabNic(mac=MAC, addresses=("192.168.7.2",)),))
    shape = Topology(name="t", networks=(network,), nodes=(node,), boot=boot)
    layout = Layout(folder, shape)
    (folder / "tftp").mkdir(exist_ok=True)
    text = dns.dnsmasq_config(layout, leases=folder / "leases", log=folder / "dnsmasq.log")
    text = text.replace(f"interface={layout.bridge(shape.all_networks[0])}\n", f"interface={only.NETWORK}\n")
    assert f"interface={only.NETWORK}\n" in text
    if url is not None:
        text = "".join(
            f"{line.rpartition(',')[0]},{url}\n" if "http://" in line else f"{line}\n" for line in text.splitlines()
        )
    (folder / only.DNSMASQ).write_text(text)


@pytest.fixture
def served(tmp_path: Path) -> Path:
    if problems := container_problems():
        pytest.skip("; ".join(problems))
    if shutil.which("dnsmasq", path=f"{os.environ.get('PATH', '')}:/usr/sbin") is None:
        pytest.skip("dnsmasq is not installed")
    folder = tmp_path / "served"
    folder.mkdir()
    return folder


def test_a_server_that_names_nothing_to_boot_is_passed_over(tmp_path: Path, served: Path) -> None:
    dnsmasq_configuration(served, "http-boot", "")
    machine = kit.spec(tmp_path, nics=(NIC,), boot=("network",))
    console, _ = kit.booted(tmp_path / "m", machine, serve=served)
    assert ">>Start PXE over IPv4." in console
    assert ">>Start HTTP Boot over IPv4." in console
    assert "PXE: No valid offer received: it names nothing to boot; HTTP: No valid offer received" in console
    bios = kit.spec(tmp_path, nics=(NIC,), boot=("network",), firmware="bios")
    console, _ = kit.booted(tmp_path / "b", bios, serve=served)
    assert "HTTP Boot" not in console
    assert "NotBootable: network: eth0: No valid offer received" in console


def test_without_a_server_the_next_device_is_tried(tmp_path: Path, served: Path) -> None:
    machine = kit.spec(tmp_path, nics=(NIC,), boot=("network", "cdrom"), firmware="bios")
    console, _ = kit.booted(tmp_path / "m", machine, serve=served)
    assert "NotBootable: network: eth0: Server response timeout\ncdrom: Could not read" in console


def test_a_script_that_is_not_there_is_named(tmp_path: Path, served: Path) -> None:
    dnsmasq_configuration(served, "pxe")
    machine = kit.spec(tmp_path, nics=(NIC,), boot=("network",), firmware="bios")
    console, _ = kit.booted(tmp_path / "m", machine, serve=served)
    assert "Station IP address is 192.168.7.2" in console
    assert "http://192.168.7.1:8080/boot/agent.x86_64.ipxe: 404" in console
    leases = (served / "leases").read_text()
    assert f"{MAC} 192.168.7.2 n" in leases


def _pxe_files(folder: Path) -> None:
    """Lay files out as `agent create pxe-files` does: the config is one more archive after the initrd."""
    folder.mkdir()
    archive = cpio.pack({"config.ign": json.dumps(kit.CONFIG).encode()}, 0o600)
    url, live = "http://192.168.7.1:8080/boot", "ignition.firstboot ignition.platform.id=metal console=ttyS0,115200n8"
    with kit.machine_os().open("rb") as image:
        for name in ("vmlinuz", "initrd.img", "rootfs.img"):
            extent = Iso(image, "").tree()[f"images/pxeboot/{name}"]
            content = os.pread(image.fileno(), extent.length, extent.offset)
            more = bytes(-len(content) % 4) + gzip.compress(archive) if name == "initrd.img" else b""
            (folder / f"agent.x86_64-{name}").write_bytes(content + more)
    (folder / "agent.x86_64.ipxe").write_text(
        f"#!ipxe\ninitrd --name initrd {url}/agent.x86_64-initrd.img\n"
        f"kernel {url}/agent.x86_64-vmlinuz initrd=initrd coreos.live.rootfs_url={url}/agent.x86_64-rootfs.img {live}\n"
        "boot\n"
    )


@pytest.mark.lab
@pytest.mark.parametrize("firmware", ["uefi", "bios"])
def test_pxe_files_come_up_with_their_config(tmp_path: Path, served: Path, firmware: str) -> None:
    _pxe_files(served / "boot")
    dnsmasq_configuration(served, "pxe")
    machine = kit.spec(tmp_path, nics=(NIC,), firmware=firmware)
    console, seen = kit.booted(tmp_path / "m", machine, LOOK, served)
    assert "NBP filename is http://192.168.7.1:8080/boot/agent.x86_64.ipxe" in console
    assert console.index("agent.x86_64-initrd.img... ok") < console.index("Finished Live root on /sysroot.")
    assert "init: /sbin/init initrd=initrd coreos.live.rootfs_url=http://192.168.7.1:8080/boot/" in console
    assert kit.PROOF in seen
    # What firmware and initramfs set up is taken down for the machine's own NetworkManager.
    assert "192.168.7.2" not in seen


@pytest.mark.lab
def test_uefi_boots_a_minimal_iso_by_http(tmp_path: Path, served: Path) -> None:
    folder = served / "boot"
    folder.mkdir()
    rootfs = "http://192.168.7.1:8080/boot/agent.x86_64-rootfs.img"
    full = kit.iso_with(tmp_path, kit.CONFIG)
    image = folder / "agent.x86_64.iso"
    words = ["minimal", str(full), "--rootfs-url", rootfs, "--rootfs", str(folder / "agent.x86_64-rootfs.img")]
    command = [*default_installer(), "iso", *words, "--output", str(image), "--dir", str(tmp_path)]
    subprocess.run(command, check=True, timeout=120)
    dnsmasq_configuration(served, "http-boot")
    console, seen = kit.booted(tmp_path / "m", kit.spec(tmp_path, nics=(NIC,)), LOOK, served)
    assert "URI: http://192.168.7.1:8080/boot/agent.x86_64.iso" in console
    assert "init: /sbin/init BOOT_IMAGE=/images/pxeboot/vmlinuz" in console
    assert kit.PROOF in seen
    assert "coreos.liveiso" not in seen


def test_a_message_is_what_dnsmasq_and_we_agree_on() -> None:
    """Options in the fields for names count; what is cut off, or a client's, is none."""
    request = encode([(53, b"\x01")], MAC, 0x01020304)
    assert request[4:8] == b"\x01\x02\x03\x04"
    assert decode(request) is None
    answer = bytearray(request)
    answer[0] = 2
    answer[108:236] = b"\x43\x03a.b\xff".ljust(128, b"\0")
    overloaded = bytes(answer[:240]) + b"\x35\x01\x02\x34\x01\x01\xff"
    message = decode(overloaded)
    assert message is not None
    assert (message.kind, message.options[67], message.file) == (2, b"a.b", b"")
    for cut in range(240):
        assert decode(overloaded[:cut]) is None
    for cut in range(240, len(overloaded)):
        decode(overloaded[:cut])


def test_only_the_nics_namespace_is_entered(tmp_path: Path) -> None:
    """An action in another namespace happens there only."""
    from lab.machines.container.firmware.netboot import nic

    holder = subprocess.Popen(["unshare", "--net", "sleep", "60"], stdin=subprocess.DEVNULL)
    try:
        from lab.waiting import wait_until

        own = os.readlink("/proc/self/ns/net")
        there = Path(f"/proc/{holder.pid}/ns/net")
        wait_until(lambda: os.readlink(there) != own, 10, "a network namespace")
        descriptor = os.open(there, os.O_RDONLY)
        assert nic.within(descriptor, lambda: os.readlink("/proc/thread-self/ns/net")) == os.readlink(there)
        os.close(descriptor)
        assert os.readlink("/proc/thread-self/ns/net") == own
    finally:
        holder.kill()
        holder.wait(10)

"""A node as libvirt's domain XML, and the lab's network and storage pool."""

from __future__ import annotations

import uuid
from pathlib import Path
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from lab.host.kvm import OVMF_CODE
from lab.layout import BRIDGE, NETWORK, POOL, Layout
from lab.topology import NodeSpec

OVMF_VARS = Path("/usr/share/OVMF/OVMF_VARS_4M.fd")
# Unless told otherwise, QEMU reserves 1 GiB per guest for translated code.
TCG_CACHE_MIB = 512
# CPU features that guests prefer and that QEMU emulates slowly. Measured in a guest: filling memory byte by byte (erms)
# runs at 0.4 GB/s, by quad words at 4.9; AES-GCM at 25 MB/s, ChaCha20, which TLS uses when there is no aes, at 175.
SLOW_WHEN_EMULATED = ("erms", "fsrm", "aes", "pclmuldq")


def _text(root: Element) -> str:
    indent(root)
    return tostring(root, encoding="unicode")


def network_xml() -> str:
    """A libvirt network for the lab's bridge; DNS and DHCP are the lab's own."""
    root = Element("network")
    SubElement(root, "name").text = NETWORK
    SubElement(root, "forward", mode="bridge")
    SubElement(root, "bridge", name=BRIDGE)
    return _text(root)


def pool_xml(folder: Path) -> str:
    """A libvirt directory pool for virtual media."""
    root = Element("pool", type="dir")
    SubElement(root, "name").text = POOL
    SubElement(SubElement(root, "target"), "path").text = str(folder)
    return _text(root)


def domain_xml(node: NodeSpec, layout: Layout, *, kvm: bool) -> str:
    """The domain of a node, with a new UUID.

    The disk to install on comes first in the boot order, whatever its place among the disks; firmware boots from no
    other disk. A CD inserted by the BMC comes after it (lab.daemons.bmc): an empty disk falls through to the CD, an
    installed disk wins (reference/lab.md §3.4).
    """
    identity = str(uuid.uuid4())
    root = Element("domain", type="kvm" if kvm else "qemu")
    SubElement(root, "name").text = node.name
    SubElement(root, "uuid").text = identity
    SubElement(root, "memory", unit="MiB").text = str(node.memory_mib)
    SubElement(root, "vcpu").text = str(node.vcpu)
    _smbios(root, node, identity)
    _os(root, node, layout)
    features = SubElement(root, "features")
    SubElement(features, "acpi")
    SubElement(features, "apic")
    if kvm:
        SubElement(root, "cpu", mode="host-passthrough")
    else:
        tcg = SubElement(features, "tcg")
        SubElement(tcg, "tb-cache", unit="MiB").text = str(TCG_CACHE_MIB)
        cpu = SubElement(root, "cpu", mode="maximum")
        for flag in SLOW_WHEN_EMULATED:
            SubElement(cpu, "feature", policy="disable", name=flag)
    SubElement(root, "clock", offset="utc")
    SubElement(root, "on_poweroff").text = "destroy"
    SubElement(root, "on_reboot").text = "restart"
    SubElement(root, "on_crash").text = "destroy"
    _devices(SubElement(root, "devices"), node, layout)
    return _text(root)


def _smbios(root: Element, node: NodeSpec, identity: str) -> None:
    system = SubElement(SubElement(root, "sysinfo", type="smbios"), "system")
    entries = {"manufacturer": "node0", "product": "virtual bare metal", "serial": f"N0-{identity[:8].upper()}"}
    for name, value in {**entries, "uuid": identity, "family": node.role}.items():
        SubElement(system, "entry", name=name).text = value


def _os(root: Element, node: NodeSpec, layout: Layout) -> None:
    system = SubElement(root, "os")
    SubElement(system, "type", arch="x86_64", machine="q35").text = "hvm"
    if node.firmware == "uefi":
        SubElement(system, "loader", readonly="yes", type="pflash").text = str(OVMF_CODE)
        SubElement(system, "nvram", template=str(OVMF_VARS)).text = str(layout.nvram(node))
    else:
        # SeaBIOS uses the serial line as well.
        SubElement(system, "bios", useserial="yes")
    SubElement(system, "smbios", mode="sysinfo")


def _devices(devices: Element, node: NodeSpec, layout: Layout) -> None:
    for index, spec in enumerate(node.all_disks):
        disk = SubElement(devices, "disk", type="file", device="disk")
        # The disk lives no longer than the lab, so flushes need not reach the physical disk; that makes etcd fast.
        SubElement(disk, "driver", name="qemu", type="raw", cache="unsafe", discard="unmap", io="threads")
        SubElement(disk, "source", file=str(layout.disk(node, index)))
        SubElement(disk, "target", dev=node.device(index), bus="virtio")
        SubElement(disk, "serial").text = node.serial(index)
        if spec.root:
            SubElement(disk, "boot", order="1")
    SubElement(devices, "controller", type="sata", index="0")
    nic = SubElement(devices, "interface", type="network")
    SubElement(nic, "mac", address=node.mac)
    SubElement(nic, "source", network=NETWORK)
    SubElement(nic, "model", type="virtio")
    serial = SubElement(devices, "serial", type="unix")
    SubElement(serial, "source", mode="bind", path=str(layout.console_socket(node)))
    SubElement(serial, "log", file=str(layout.console_log(node)), append="on")
    SubElement(serial, "target", port="0")
    rng = SubElement(devices, "rng", model="virtio")
    SubElement(rng, "backend", model="random").text = "/dev/urandom"
    SubElement(SubElement(devices, "video"), "model", type="vga")
    SubElement(devices, "memballoon", model="none")

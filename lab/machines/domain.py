"""A node as libvirt's domain XML, and the lab's networks and storage pool."""

from __future__ import annotations

import uuid
from pathlib import Path
from xml.etree.ElementTree import Element, SubElement, indent, register_namespace, tostring

from lab.buses import BUSES, Bus
from lab.host.kvm import OVMF_CODE, OVMF_SECURE_CODE
from lab.layout import POOL, Layout
from lab.machines.attach import Cable, cables_of
from lab.machines.disks import STICK_SERIAL
from lab.topology import FROM_NETWORK, FROM_STICK, Disk, NodeSpec, Topology

OVMF_VARS = Path("/usr/share/OVMF/OVMF_VARS_4M.fd")
# Variables with Microsoft's keys enrolled, by which Debian's shim is signed, and secure boot on.
OVMF_ENROLLED_VARS = Path("/usr/share/OVMF/OVMF_VARS_4M.ms.fd")
# Unless told otherwise, QEMU reserves 1 GiB per guest for translated code.
TCG_CACHE_MIB = 512
# CPU features that guests prefer and that QEMU emulates slowly. Measured in a guest: filling memory byte by byte (erms)
# runs at 0.4 GB/s, by quad words at 4.9; AES-GCM at 25 MB/s, ChaCha20, which TLS uses when there is no aes, at 175.
SLOW_WHEN_EMULATED = ("erms", "fsrm", "aes", "pclmuldq")
# What libvirt has no words for goes to QEMU as it is.
_QEMU = "http://libvirt.org/schemas/domain/qemu/1.0"
register_namespace("qemu", _QEMU)
# NVMe disks are devices of the root bus, from this slot on, which libvirt gives to nobody by itself.
_NVME_SLOT = 0x10
# The disk to install on has this place in the boot order, and what comes after it the next ones: the first is left for
# what is chosen for one boot (drivers.libvirt, `chosen`).
_DISK_ORDER = 2
# Rotations per minute of a disk that turns, and SCSI's and ATA's word for one that does not.
_TURNS, _SOLID = "7200", "1"
# The speed of a virtio NIC, in Mbit/s.
_MBIT = "10000"
# The machine gets a disk's errors; libvirt would have it stand still.
_REPORTED = {"error_policy": "report", "rerror_policy": "report"}


def _text(root: Element) -> str:
    indent(root)
    return tostring(root, encoding="unicode")


def network_xml(bridge: str) -> str:
    """Define a libvirt network for a bridge of the lab's, named as the bridge; DNS and DHCP are the lab's own."""
    root = Element("network")
    SubElement(root, "name").text = bridge
    SubElement(root, "forward", mode="bridge")
    SubElement(root, "bridge", name=bridge)
    return _text(root)


def pool_xml(folder: Path) -> str:
    """Define a libvirt directory pool for virtual media."""
    root = Element("pool", type="dir")
    SubElement(root, "name").text = POOL
    SubElement(SubElement(root, "target"), "path").text = str(folder)
    return _text(root)


def domain_xml(node: NodeSpec, layout: Layout, *, kvm: bool) -> str:
    """Define the domain of a node, with a new UUID.

    The disk to install on comes first in the boot order, whatever its place among the disks; firmware boots from no
    other disk. A CD inserted by the BMC comes after it (lab.daemons.bmc): an empty disk falls through to the CD, an
    installed disk wins (reference/lab.md §3.4). So it is with an iSCSI disk, which the NIC's iPXE attaches and boots
    (lab.daemons.iscsi).
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
    if node.secure_boot:
        # Only code in system management mode may write the variables with the keys.
        SubElement(features, "smm", state="on")
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
    if node.clock_offset:
        SubElement(root, "clock", offset="variable", adjustment=str(node.clock_offset), basis="utc")
    else:
        SubElement(root, "clock", offset="utc")
    SubElement(root, "on_poweroff").text = "destroy"
    SubElement(root, "on_reboot").text = "restart"
    SubElement(root, "on_crash").text = "destroy"
    devices = SubElement(root, "devices")
    _disks(devices, node, layout)
    cables = cables_of(node, layout)
    _nics(devices, cables, orders=_boot_orders(node, layout, cables))
    _others(devices, node, layout)
    _beyond_libvirt(root, node, layout, cables)
    return _text(root)


def chosen_by_hand(node: NodeSpec, topology: Topology) -> bool:
    """Look whether a machine starts from its stick only when that is chosen in the firmware's one-time boot menu:
    SeaBIOS boots from the first hard disk alone, and where that is empty it goes on to CD and network (reference/lab.md
    §3.8)."""
    return node.firmware == "bios" and topology.boot in FROM_STICK


def _smbios(root: Element, node: NodeSpec, identity: str) -> None:
    system = SubElement(SubElement(root, "sysinfo", type="smbios"), "system")
    entries = {"manufacturer": "node0", "product": "virtual bare metal", "serial": f"N0-{identity[:8].upper()}"}
    for name, value in {**entries, "uuid": identity, "family": node.role}.items():
        SubElement(system, "entry", name=name).text = value


def _os(root: Element, node: NodeSpec, layout: Layout) -> None:
    system = SubElement(root, "os")
    SubElement(system, "type", arch="x86_64", machine="q35").text = "hvm"
    if node.secure_boot:
        SubElement(system, "loader", readonly="yes", secure="yes", type="pflash").text = str(OVMF_SECURE_CODE)
        SubElement(system, "nvram", template=str(OVMF_ENROLLED_VARS)).text = str(layout.nvram(node))
    elif node.firmware == "uefi":
        SubElement(system, "loader", readonly="yes", type="pflash").text = str(OVMF_CODE)
        SubElement(system, "nvram", template=str(OVMF_VARS)).text = str(layout.nvram(node))
    else:
        # SeaBIOS uses the serial line as well.
        SubElement(system, "bios", useserial="yes")
    SubElement(system, "smbios", mode="sysinfo")


def _targets(disks: tuple[Disk, ...]) -> list[str]:
    """Name disks for libvirt, by their buses: the names choose the place on the bus, not the guest's name."""
    counts: dict[str, int] = {}
    names = []
    for disk in disks:
        kind = BUSES[disk.bus].kernel
        counts[kind] = counts.get(kind, 0) + 1
        names.append(f"{kind}{chr(ord('a') + counts[kind] - 1)}")
    return names


def _disks(devices: Element, node: NodeSpec, layout: Layout) -> None:
    disks = node.all_disks
    for index, (spec, target) in enumerate(zip(disks, _targets(disks), strict=True)):
        bus = BUSES[spec.bus]
        if bus.attached_by != "libvirt":
            continue
        disk = SubElement(devices, "disk", type="block" if spec.can_fail else "file", device="disk")
        words = {"name": "qemu", "type": "raw", "discard": "unmap", "io": "threads", "cache": _cache(spec)}
        SubElement(disk, "driver", words | (_REPORTED if spec.can_fail else {}))
        SubElement(disk, "source", {"dev" if spec.can_fail else "file": str(layout.device(node, index))})
        turns: dict[str, str] = (
            {} if spec.rotational is None else {"rotation_rate": _TURNS if spec.rotational else _SOLID}
        )
        SubElement(disk, "target", {"dev": target, "bus": spec.bus} | turns)
        SubElement(disk, "serial").text = node.serial(index)
        if bus.told_by == "elements":
            # libvirt writes WWNs without 0x.
            elements = {"wwn": spec.wwn.removeprefix("0x"), "vendor": spec.vendor, "product": spec.model}
            for name, text in elements.items():
                if text:
                    SubElement(disk, name).text = text
        if spec.root:
            SubElement(disk, "boot", order=str(_DISK_ORDER))
        if bus.told_by == "overrides":
            SubElement(disk, "alias", name=_alias(index))
    SubElement(devices, "controller", type="sata", index="0")
    buses: set[Bus] = {disk.bus for disk in disks}
    if layout.topology.boot in FROM_STICK:
        _stick(devices, node, layout)
        buses.add("usb")
    for name, bus in BUSES.items():
        if name in buses and bus.controller:
            SubElement(devices, "controller", type=name, index="0", model=bus.controller)


def _stick(devices: Element, node: NodeSpec, layout: Layout) -> None:
    """Add a USB stick, which comes after the disk to install on."""
    stick = SubElement(devices, "disk", type="file", device="disk")
    SubElement(stick, "driver", name="qemu", type="raw", cache="unsafe")
    SubElement(stick, "source", file=str(layout.stick(node)))
    SubElement(stick, "target", dev=_targets((*node.all_disks, Disk(bus="usb")))[-1], bus="usb", removable="on")
    SubElement(stick, "serial").text = STICK_SERIAL
    SubElement(stick, "boot", order=str(_DISK_ORDER + 1))


def _cache(disk: Disk) -> str:
    """Choose the disk's cache. It lives no longer than the lab, so flushes need not reach the physical disk, which
    makes etcd fast. A disk that can fail reports errors at once, not to the page cache later."""
    return "none" if disk.can_fail else "unsafe"


def _alias(index: int, kind: str = "disk") -> str:
    # libvirt keeps user aliases, which begin so.
    return f"ua-{kind}{index}"


def _beyond_libvirt(root: Element, node: NodeSpec, layout: Layout, cables: tuple[Cable, ...]) -> None:
    """Add the parts that libvirt has no words for: NVMe disks, the WWN and model of SATA disks, a virtio NIC's speed.

    LACP is for NICs of one known speed (802.1AX, clause 6.3.1): without, Linux's bonding leaves it off.
    """
    words: list[str] = []
    overrides: list[tuple[str, str, str, str]] = []
    for number, cable in enumerate(cables):
        if cable.nic.model == "virtio" and not cable.bridge:
            alias = _alias(number, "nic")
            overrides += [(alias, "speed", "signed", _MBIT), (alias, "duplex", "string", "full")]
    slot = _NVME_SLOT
    for index, disk in enumerate(node.all_disks):
        bus = BUSES[disk.bus]
        if bus.attached_by == "command line":
            drive = f"file={str(layout.device(node, index)).replace(',', ',,')},format=raw,if=none,id={disk.bus}{index}"
            drive += ",werror=report,rerror=report" * disk.can_fail
            words += ["-drive", f"{drive},cache={_cache(disk)},discard=unmap,aio=threads"]
            device = f"{disk.bus},serial={node.serial(index)},drive={disk.bus}{index},bus=pcie.0,addr={slot:#x}"
            words += ["-device", device + f",bootindex={_DISK_ORDER}" * disk.root]
            slot += 1
        if bus.told_by == "overrides":
            overrides += [(_alias(index), "wwn", "unsigned", str(int(disk.wwn, 16)))] if disk.wwn else []
            overrides += [(_alias(index), "model", "string", disk.model)] if disk.model else []
    if words:
        command = SubElement(root, f"{{{_QEMU}}}commandline")
        for word in words:
            SubElement(command, f"{{{_QEMU}}}arg", value=word)
    if overrides:
        override = SubElement(root, f"{{{_QEMU}}}override")
        for alias in dict.fromkeys(alias for alias, *_ in overrides):
            device_element = SubElement(override, f"{{{_QEMU}}}device", alias=alias)
            frontend = SubElement(device_element, f"{{{_QEMU}}}frontend")
            for owner, name, kind, value in overrides:
                if owner == alias:
                    SubElement(frontend, f"{{{_QEMU}}}property", name=name, type=kind, value=value)


def _boot_orders(node: NodeSpec, layout: Layout, cables: tuple[Cable, ...]) -> dict[str, int]:
    """Place NICs in the boot order, by their MAC addresses: after the disk to install on, or, in its place, the NIC by
    which the machine reaches it."""
    if layout.topology.boot in FROM_NETWORK:
        return {cable.nic.mac: _DISK_ORDER + number for number, cable in enumerate(cables, 1)}
    return {link.mac: _DISK_ORDER for link in layout.topology.iscsi_links(node)[:1]}


def _nics(devices: Element, cables: tuple[Cable, ...], *, orders: dict[str, int]) -> None:
    """Add the NICs; `orders` are their places in the boot order, by their MAC addresses."""
    SubElement(devices, "controller", type="pci", index="0", model="pcie-root")
    # The firmware numbers buses in the order of their ports.
    for bus in range(1, max(cable.nic.pci for cable in cables) + 1):
        SubElement(devices, "controller", type="pci", index=str(bus), model="pcie-root-port")
    for number, cable in enumerate(cables):
        nic = SubElement(devices, "interface", type="network" if cable.bridge else "ethernet")
        SubElement(nic, "mac", address=cable.nic.mac)
        if cable.bridge:
            SubElement(nic, "source", network=cable.bridge)
        SubElement(nic, "target", dev=cable.port)
        SubElement(nic, "model", type=cable.nic.model)
        SubElement(nic, "alias", name=_alias(number, "nic"))
        if cable.mtu != 1500:
            SubElement(nic, "mtu", size=str(cable.mtu))
        if cable.nic.mac in orders:
            SubElement(nic, "boot", order=str(orders[cable.nic.mac]))
        if cable.onboard:
            SubElement(nic, "acpi", index=str(cable.onboard))
        SubElement(
            nic, "address", type="pci", domain="0x0000", bus=f"{cable.nic.pci:#04x}", slot="0x00", function="0x0"
        )


def _others(devices: Element, node: NodeSpec, layout: Layout) -> None:
    serial = SubElement(devices, "serial", type="unix")
    SubElement(serial, "source", mode="bind", path=str(layout.console_socket(node)))
    SubElement(serial, "log", file=str(layout.console_log(node)), append="on")
    SubElement(serial, "target", port="0")
    if node.tpm:
        tpm = SubElement(devices, "tpm", model="tpm-crb")
        SubElement(tpm, "backend", type="emulator", version="2.0")
    rng = SubElement(devices, "rng", model="virtio")
    SubElement(rng, "backend", model="random").text = "/dev/urandom"
    SubElement(SubElement(devices, "video"), "model", type="vga")
    SubElement(devices, "memballoon", model="none")

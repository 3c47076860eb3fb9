"""The buses that a machine's disks are on, and all in which their disks differ: the only table of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Bus = Literal["virtio", "sata", "scsi", "nvme", "usb", "iscsi"]


@dataclass(frozen=True, kw_only=True)
class ContainerDisk:
    """A container machine's disk as it shows itself, in QEMU's words, so that all machines say the same: `vendor` and
    `model`, unless the topology has others.

    What udev makes of it (60-persistent-storage.rules of systemd 252): `id_serial` is the form of ID_SERIAL, in which
    white space becomes one `_`, `id_bus` ID_BUS; `id_vendor` and `id_scsi_serial` tell whether there is an ID_VENDOR
    and an ID_SCSI_SERIAL; of some disks (`only_serial`) it finds out nothing but ID_SERIAL.
    """

    model: str
    vendor: str
    id_serial: str = "{model}_{serial}"
    id_bus: str = ""
    id_vendor: bool = False
    id_scsi_serial: bool = False
    only_serial: bool = False


@dataclass(frozen=True, kw_only=True)
class DiskBus:
    """One bus.

    `kernel` is how Linux's names of its disks begin, `by_id` how udev's links in /dev/disk/by-id do; `protocol` is
    Redfish's name of it ("": it has none). Besides a serial
    number its disks may have a WWN (`wwn`), say whether they rotate (`rotation`), and have a model and a
    vendor of up to `model_length` and `vendor_length` characters (0: none of their own).

    `attached_by` is who attaches them to a VM: libvirt, QEMU's command line, or the machine's own firmware, which
    reaches them through the NICs' cables. libvirt has a `controller` of this model for them (SATA's is always there,
    for the CD drive), and is told WWN, model and vendor by `told_by`.

    `containers` is what such disks are in container machines, or why these have none.
    """

    kernel: Literal["vd", "sd", "nvme"]
    by_id: str = ""
    protocol: Literal["", "SATA", "SAS", "NVMe", "USB"] = ""
    wwn: bool = False
    rotation: bool = False
    model_length: int = 0
    vendor_length: int = 0
    attached_by: Literal["libvirt", "command line", "firmware"] = "libvirt"
    controller: str = ""
    told_by: Literal["elements", "overrides", "nothing"] = "nothing"
    containers: ContainerDisk | str

    @property
    def remote(self) -> bool:
        """Return whether a disk is at the far end of cables: it has portals, and the kernel finds it last."""
        return self.attached_by == "firmware"


BUSES: Mapping[Bus, DiskBus] = {
    "virtio": DiskBus(
        kernel="vd",
        by_id="virtio",
        containers=ContainerDisk(model="node0 disk", vendor="0x1af4", only_serial=True),
    ),
    "sata": DiskBus(
        kernel="sd",
        by_id="ata",
        protocol="SATA",
        wwn=True,
        rotation=True,
        model_length=40,
        told_by="overrides",
        containers=ContainerDisk(model="QEMU HARDDISK", vendor="ATA", id_bus="ata"),
    ),
    "scsi": DiskBus(
        kernel="sd",
        by_id="scsi",
        protocol="SAS",
        wwn=True,
        rotation=True,
        model_length=16,
        vendor_length=8,
        controller="virtio-scsi",
        told_by="elements",
        containers=ContainerDisk(
            model="QEMU HARDDISK",
            vendor="QEMU",
            id_bus="scsi",
            # scsi_id puts the fields one behind the other, as the disk fills them up with spaces.
            id_serial="0{vendor:8}{model:16}{serial}",
            id_vendor=True,
            id_scsi_serial=True,
        ),
    ),
    "nvme": DiskBus(
        kernel="nvme",
        by_id="nvme",
        protocol="NVMe",
        attached_by="command line",
        containers=ContainerDisk(model="QEMU NVMe Ctrl", vendor=""),
    ),
    "usb": DiskBus(
        kernel="sd",
        by_id="usb",
        protocol="USB",
        controller="qemu-xhci",
        containers=ContainerDisk(
            model="QEMU HARDDISK", vendor="QEMU", id_bus="usb", id_serial="QEMU_{model}_{serial}-0:0", id_vendor=True
        ),
    ),
    "iscsi": DiskBus(
        kernel="sd",
        model_length=16,
        vendor_length=8,
        attached_by="firmware",
        containers="the initiator is the kernel, which container machines have of the host",
    ),
}

"""The boot order in a libvirt domain's XML, NVMe disks included, which are there as arguments of QEMU's only."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from drivers.protocols import BootDevice

# An argument of QEMU's command line: lab.machines.domain adds NVMe disks so.
_ARG = "{http://libvirt.org/schemas/domain/qemu/1.0}arg"
_INDEX = re.compile(r"(?<=,bootindex=)\d+")


@dataclass(frozen=True)
class Place:
    """A disk, CD or NIC: its element, or the argument of QEMU's that adds it."""

    element: ElementTree.Element
    kind: BootDevice

    @property
    def order(self) -> int:
        """Its place in the boot order, from 1; 0 if it is not in there."""
        if self.is_argument:
            index = _INDEX.search(self.element.get("value", ""))
            return int(index[0]) if index else 0
        boot = self.element.find("boot")
        return int(boot.get("order", "0")) if boot is not None else 0

    def put(self, order: int) -> None:
        """Set its place in the boot order."""
        if self.is_argument:
            self.element.set("value", _INDEX.sub(str(order), self.element.get("value", "")))
            return
        boot = self.element.find("boot")
        (ElementTree.SubElement(self.element, "boot") if boot is None else boot).set("order", str(order))

    @property
    def is_argument(self) -> bool:
        """Tell whether libvirt knows nothing of it: QEMU has no name for it then, by which it could be moved."""
        return self.element.tag == _ARG

    @property
    def serial(self) -> str:
        """The serial number that libvirt gives it."""
        return self.element.findtext("serial", "")

    @property
    def alias(self) -> str:
        """QEMU's name of it, once the domain runs."""
        alias = self.element.find("alias")
        return alias.get("name", "") if alias is not None else ""


def places(domain: ElementTree.Element) -> list[Place]:
    """Return all devices that can be in the boot order."""
    found = [Place(element, kind) for element in domain.findall("devices/*") if (kind := _kind(element)) is not None]
    return found + [Place(arg, BootDevice.DISK) for arg in domain.iter(_ARG) if _INDEX.search(arg.get("value", ""))]


def in_order(found: Iterable[Place]) -> list[Place]:
    """Return the devices that are in the boot order, in the order in which they are tried."""
    return sorted((place for place in found if place.order), key=lambda place: place.order)


def next_order(found: Iterable[Place]) -> int:
    """Return the place after the last of these devices."""
    return max((place.order for place in found), default=0) + 1


def of_kind(found: Sequence[Place], device: BootDevice) -> list[Place]:
    """Return the devices of a kind that are in the boot order, else all of the kind. A machine of whose disks none is
    in the order boots a disk over the network (iSCSI): its disk is then its NICs."""
    kind = [place for place in found if place.kind is device]
    nics = [place for place in found if place.kind is BootDevice.NETWORK and device is BootDevice.DISK]
    return in_order(kind) or in_order(nics) or kind


def put_first(found: Sequence[Place], firsts: Sequence[Place]) -> None:
    """Put these devices first in the boot order; the others that are in it follow in their order."""
    others = [place for place in in_order(found) if place not in firsts]
    for order, place in enumerate([*firsts, *others], start=1):
        place.put(order)


def settle(domain: ElementTree.Element) -> None:
    """Remove the `boot` elements of `os` where devices have places of their own: libvirt refuses both together, and
    adds the former where it sees none of the latter."""
    if domain.find("devices/*/boot") is not None:
        for system in domain.findall("os"):
            for boot in system.findall("boot"):
                system.remove(boot)


def _kind(element: ElementTree.Element) -> BootDevice | None:
    if element.tag == "interface":
        return BootDevice.NETWORK
    if element.tag == "disk":
        return BootDevice.CD if element.get("device") == "cdrom" else BootDevice.DISK
    return None

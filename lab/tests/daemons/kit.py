"""libvirt with one domain that runs nothing: it is asked what a start would try, in order.

It refuses what libvirt and QEMU do: a place that two devices have, and libvirt's own order beside places of devices.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch
from xml.etree import ElementTree

import libvirt

from drivers.bootorder import Place, in_order, next_order, places
from drivers.protocols import BootDevice


@dataclass
class Domain:
    """The domain, and the connection to it too. `starts` are what it tried at each start, by its own restarts too:
    `disk`, `cd`, `nic 1` and so on; `pool` is the folder of virtual media."""

    xml: str
    pool: Path
    starts: list[list[str]] = field(default_factory=list)
    _running: ElementTree.Element | None = None

    # -- the machine -----------------------------------------------------------------------------------------------

    def restart(self) -> None:
        """Start again by itself, as the firmware of a running machine does."""
        assert self._running is not None
        names: dict[ElementTree.Element, str] = {}
        counts = dict.fromkeys(BootDevice, 0)
        for place in places(self._running):
            counts[place.kind] += 1
            nic = f"nic {counts[place.kind]}"
            names[place.element] = nic if place.kind is BootDevice.NETWORK else place.kind.value
        self.starts.append([names[place.element] for place in in_order(places(self._running))])

    def monitor(self, _domain: object, text: str, _flags: int) -> str:
        """QEMU's answer."""
        assert self._running is not None
        order = json.loads(text)
        alias = order["arguments"]["path"].rpartition("/")[2]
        [place] = [place for place in places(self._running) if place.alias == alias]
        # QEMU: "The bootindex has already been used".
        assert order["arguments"]["value"] not in [place.order for place in places(self._running)]
        place.put(order["arguments"]["value"])
        return "{}"

    # -- libvirt's domain ------------------------------------------------------------------------------------------

    def XMLDesc(self, flags: int = 0) -> str:
        """Return the definition, or the description of the running domain."""
        live = self._running is not None and not flags & libvirt.VIR_DOMAIN_XML_INACTIVE
        return ElementTree.tostring(self._running, encoding="unicode") if live and self._running else self.xml

    def isActive(self) -> bool:
        """Tell whether it runs."""
        return self._running is not None

    def create(self) -> None:
        """Start it."""
        tree = ElementTree.fromstring(self.xml)
        orders = [place.order for place in in_order(places(tree))]
        if len(orders) != len(set(orders)):
            raise libvirt.libvirtError(f"The bootindex of {orders} has already been used")
        for number, place in enumerate(places(tree)):
            if not place.alias and not place.is_argument:
                ElementTree.SubElement(place.element, "alias", name=f"device{number}")
        self._running = tree
        self.restart()

    def destroy(self) -> None:
        """End it."""
        self._running = None

    def shutdownFlags(self, flags: int) -> None:
        """End it, as a system does that is asked to by its power button."""
        assert flags == libvirt.VIR_DOMAIN_SHUTDOWN_ACPI_POWER_BTN
        self.destroy()

    def name(self) -> str:
        """Its name."""
        return ElementTree.fromstring(self.xml).findtext("name", "")

    def UUIDString(self) -> str:
        """Its UUID."""
        return ElementTree.fromstring(self.xml).findtext("uuid", "")

    def maxMemory(self) -> int:
        """In KiB."""
        return 1 << 22

    def maxVcpus(self) -> int:
        """Of a machine that runs."""
        return 2

    # -- libvirt's connection --------------------------------------------------------------------------------------

    def lookupByName(self, name: str) -> Domain:
        """Return the domain."""
        if name != self.name():
            raise libvirt.libvirtError(f"no domain {name}")
        return self

    def listAllDomains(self) -> list[Domain]:
        """Return the domain."""
        return [self]

    def lookupByUUID(self, _identity: bytes) -> Domain:
        """Return the domain."""
        return self

    def defineXML(self, xml: str) -> Domain:
        """Define it anew."""
        tree = ElementTree.fromstring(xml)
        [system] = tree.findall("os")
        orders = [boot.get("order") for boot in tree.findall("devices/*/boot")]
        if len(orders) != len(set(orders)):
            raise libvirt.libvirtError(f"boot order {orders} used for more than one device")
        if orders and system.find("boot") is not None:
            raise libvirt.libvirtError("per-device boot elements cannot be used together with os/boot elements")
        if not orders and system.find("boot") is None:
            ElementTree.SubElement(system, "boot", dev="hd")
        self.xml = ElementTree.tostring(tree, encoding="unicode")
        return self

    def storagePoolLookupByName(self, _name: str) -> _Pool:
        """Return the folder of virtual media."""
        return _Pool(self.pool)

    def close(self) -> None:
        """Close the connection."""


@dataclass(frozen=True)
class _Pool:
    folder: Path

    def XMLDesc(self) -> str:
        return f"<pool><target><path>{self.folder}</path></target></pool>"

    def refresh(self) -> None:
        return


def with_cd(domain: Domain) -> None:
    """Put a CD into the drive, behind all else."""
    tree = ElementTree.fromstring(domain.xml)
    devices = tree.find("devices")
    assert devices is not None
    Place(ElementTree.SubElement(devices, "disk", device="cdrom"), BootDevice.CD).put(next_order(places(tree)))
    for boot in tree.findall("os/boot"):
        [system] = tree.findall("os")
        system.remove(boot)
    domain.defineXML(ElementTree.tostring(tree, encoding="unicode"))


@contextmanager
def libvirt_of(domain: Domain) -> Iterator[Domain]:
    """Have libvirt within the block answer for this domain."""

    def opened(_uri: str) -> Any:
        return domain

    with (
        patch("libvirt.open", opened),
        patch("libvirt.openReadOnly", opened),
        patch("libvirt_qemu.qemuMonitorCommand", domain.monitor),
    ):
        yield domain

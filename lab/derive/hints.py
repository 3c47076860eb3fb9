"""Disks that satisfy a host's rootDeviceHints, in such an order that the hints find the right one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from lab.buses import BUSES, Bus, ContainerDisk
from lab.derive.inputs import ListedHost
from lab.topology import DISK_GIB, Disk
from lab.topology.disks import MOST, MOST_GIB, VENDORS_CHARACTERS, is_vendor

_NAME = re.compile(r"/dev/(?:(?P<kind>vd|sd)(?P<letter>[a-z])|nvme(?P<number>\d{1,2})n1)")
_WWN = re.compile(r"(0x)?[0-9a-f]{16}")
_SERIAL = re.compile(r"[A-Za-z0-9_.-]{1,20}")
#: Buses whose disks are called /dev/sdX, and where they can tell what hints ask for; SCSI is chosen first.
_SD: tuple[Bus, ...] = tuple(name for name, bus in BUSES.items() if bus.wwn)[::-1]
#: Hints that only disks of some buses can satisfy.
_TELLING: dict[str, tuple[Bus, ...]] = {"wwn": _SD, "model": _SD, "rotational": _SD, "hctl": ("scsi",)}
#: Vendors that disks report unless they have another, in VMs and containers alike.
_VENDORS: dict[str, str] = {
    name: kind.vendor for name in _SD if isinstance(kind := BUSES[name].containers, ContainerDisk)
}
# The greatest length of a vendor's name.
_VENDOR = max(BUSES[name].vendor_length for name in _SD)
_MODEL: dict[str, int] = {name: BUSES[name].model_length for name in _SD}
#: GiB of a disk that only comes before the one that a name means.
_OTHER_GIB = 10


class _Hints:
    """The hints of a host, and what is wrong with them."""

    def __init__(self, host: ListedHost) -> None:
        self.host = host
        self.values: Mapping[str, Any] = host.root_device_hints
        self.wrong: list[tuple[str, str]] = []

    def text(self, name: str) -> str:
        """Return a hint that is a text, empty without it."""
        return str(self.values.get(name, ""))

    def refuse(self, name: str, rule: str) -> None:
        """Note that no disk of a lab satisfies a hint."""
        self.wrong.append((self.host.file, f"{self.host.path}.rootDeviceHints.{name}: {rule}"))


def disks(host: ListedHost, problems: list[tuple[str, str]]) -> tuple[Disk, ...]:
    """Return a machine's disks, the one to install on marked; empty for one disk of the usual kind. Hints that no disk
    of a lab satisfies are added to the problems."""
    hints = _Hints(host)
    if not hints.values:
        return ()
    if (least := hints.values.get("minSizeGigabytes", 0)) >= MOST_GIB:
        hints.refuse("minSizeGigabytes", f"{least}: disks of labs have up to {MOST_GIB} GiB")
    disk: dict[str, object] = {"root": True, "size_gib": max(DISK_GIB, least + 1)}
    named, before = _by_name(hints)
    bus = _bus(hints, named)
    if serial := hints.text("serialNumber"):
        disk["serial"] = serial
        if not _SERIAL.fullmatch(serial):
            hints.refuse("serialNumber", f"{serial!r}: disks of labs have up to 20 letters, digits, dots and dashes")
    if wwn := hints.text("wwn").lower():
        disk["wwn"] = f"0x{wwn.removeprefix('0x')}"
        if not _WWN.fullmatch(wwn):
            hints.refuse("wwn", f"{wwn!r}: disks of labs have one of 16 hex digits")
    if model := hints.text("model"):
        disk["model"] = model
        most = _MODEL.get(bus, _MODEL["sata"])
        if len(model) > most or not model.isprintable():
            hints.refuse("model", f"{model!r}: {bus} disks of labs have up to {most} printable characters")
    if (rotational := hints.values.get("rotational")) is not None and BUSES[bus].rotation:
        disk["rotational"] = rotational
    if (vendor := hints.text("vendor")) not in _VENDORS.get(bus, ""):
        disk["vendor"] = vendor
        if not is_vendor(vendor, _VENDOR):
            hints.refuse("vendor", f"{vendor!r}: disks of labs have up to {_VENDOR} {VENDORS_CHARACTERS}")
    if (place := hints.text("hctl")) and place != "0:0:0:0":
        hints.refuse("hctl", f"{place!r}: a lab's first SCSI disk is 0:0:0:0; there is no other address")
    problems += hints.wrong
    usual = set(disk) == {"root", "size_gib"} and bus == "virtio" and not before and disk["size_gib"] == DISK_GIB
    if usual or hints.wrong:
        return ()
    return (*(Disk(size_gib=_OTHER_GIB, bus=bus) for _ in range(before)), Disk(bus=bus, **disk))  # type: ignore[arg-type]


def _bus(hints: _Hints, named: tuple[Bus, ...]) -> Bus:
    """Return the bus of a disk that the hints can find: one that its name has, on which disks tell what is asked
    for."""
    asked = {name: buses for name, buses in _TELLING.items() if name in hints.values}
    vendor = hints.text("vendor")
    if vendor:
        asked["vendor"] = tuple(bus for bus in _SD if vendor in _VENDORS[bus] or BUSES[bus].vendor_length)
    if hints.values.get("rotational") is False:
        asked["rotational"] = (*_SD, "nvme")  # no such disk turns
    if not asked:
        return named[0] if named else "virtio"
    fits = [bus for bus in named or _SD if all(bus in buses for buses in asked.values())]
    length = len(hints.text("model"))
    fits = [bus for bus in fits if length <= _MODEL.get(bus, 0)] or fits
    # The service looks for the hint in the vendor's name (reference/installer.md §1.3).
    fits = [bus for bus in fits if vendor in _VENDORS.get(bus, "")] or fits
    if fits:
        # A WWN is SCSI's first; SATA's disks have room for longer names.
        return "scsi" if "scsi" in fits and (named or "wwn" in asked or "hctl" in asked) else fits[-1]
    for name, buses in asked.items():
        if not set(buses) & set(named or _SD):
            tell = f"tell {_VENDORS[named[0]]}" if name == "vendor" and named[0] in _VENDORS else "tell none"
            hints.refuse(name, f"deviceName means bus {named[0]}, whose disks {tell} in a lab; name one under /dev/sd")
    return (named or _SD)[0]


def _by_name(hints: _Hints) -> tuple[tuple[Bus, ...], int]:
    """Return the buses of a disk of the name in the hints (none: any), and the number of its kind before it."""
    name = hints.text("deviceName")
    if not name:
        return (), 0
    match = _NAME.fullmatch(name)
    if match is None:
        hints.refuse("deviceName", f"{name}: labs have no such disk; use /dev/vd, /dev/sd, /dev/nvme, a serial or wwn")
        return (), 0
    before = int(match["number"]) if match["number"] else ord(match["letter"]) - ord("a")
    if before >= MOST:
        hints.refuse("deviceName", f"{name}: machines of a lab have up to {MOST} disks")
        return (), 0
    if match["number"]:
        return ("nvme",), before
    return (_SD if match["kind"] == "sd" else ("virtio",)), before

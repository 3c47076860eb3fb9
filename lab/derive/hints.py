"""Disks that satisfy a host's rootDeviceHints, in such an order that the hints find the right one."""

from __future__ import annotations

import re

from lab.buses import BUSES, Bus, ContainerDisk
from lab.derive.fields import Field
from lab.topology import DISK_GIB, Disk
from lab.topology.disks import MOST, MOST_GIB, VENDORS_CHARACTERS, is_vendor

_NAME = re.compile(r"/dev/(?:(?P<kind>vd|sd|xvd|hd)(?P<letter>[a-z])|nvme(?P<number>\d{1,2})n1)")
_WWN = re.compile(r"(0x)?[0-9a-f]{16}")
# How udev names a SCSI disk after its WWN (scsi_id: 3 is NAA).
_NAA = re.compile(r"3([0-9a-f]{16})")
_SERIAL = re.compile(r"[A-Za-z0-9_.-]{1,20}")
_SERIAL_BUS: dict[str, Bus] = {bus.by_id: name for name, bus in BUSES.items() if bus.by_id}
_BY_ID = re.compile(rf"/dev/disk/by-id/(?P<kind>wwn|{'|'.join(_SERIAL_BUS)})-(?P<value>[\w.-]+)")
#: Buses whose disks are called /dev/sdX, and where they can tell what hints ask for; SCSI is chosen first.
_SD: tuple[Bus, ...] = tuple(name for name, bus in BUSES.items() if bus.wwn)[::-1]
#: Hints that only disks of some buses can satisfy.
_TELLING: dict[str, tuple[Bus, ...]] = {"wwn": _SD, "model": _SD, "rotational": _SD, "hctl": ("scsi",)}
#: Vendors that disks report unless they have another, in VMs and containers alike.
_VENDORS: dict[str, str] = {
    name: kind.vendor for name in _SD if isinstance(kind := BUSES[name].containers, ContainerDisk)
}
# How long the name of another may be.
_VENDOR = max(BUSES[name].vendor_length for name in _SD)
# How long a model's name may be.
_MODEL: dict[str, int] = {name: BUSES[name].model_length for name in _SD}
#: GiB of a disk that only comes before the one that a name means.
_OTHER_GIB = 10
_NEITHER = ("wwnVendorExtension", "wwnWithExtension")
_ALL = ("deviceName", "hctl", "minSizeGigabytes", "model", "rotational", "serialNumber", "vendor", "wwn", *_NEITHER)


def disks(hints: Field) -> tuple[Disk, ...]:
    """The machine's disks, the one to install on marked; empty for one disk of the usual kind."""
    if not hints:
        return ()
    for name in hints.map():
        if str(name).lower() not in map(str.lower, _ALL):
            hints.get(str(name)).wrong(f"there is no such hint; there are {', '.join(_ALL)}")
    if (least := hints.get("minSizeGigabytes").number(0)) >= MOST_GIB:
        hints.get("minSizeGigabytes").wrong(f"{least}: disks of labs have up to {MOST_GIB} GiB")
    disk: dict[str, object] = {"root": True, "size_gib": max(DISK_GIB, least + 1)}
    named, before = _by_name(hints.get("deviceName"), disk)
    bus = _bus(hints, named)
    if serial := hints.get("serialNumber").text():
        if _SERIAL.fullmatch(serial):
            disk["serial"] = serial
        else:
            hints.get("serialNumber").wrong(f"{serial!r}: disks of labs have up to 20 letters, digits, dots and dashes")
    if isinstance(hints.get("wwn").value, int):
        hints.get("wwn").wrong(f"{hints.get('wwn').value} is a number to YAML: put it in quotes")
    elif wwn := hints.get("wwn").text().lower():
        if _WWN.fullmatch(wwn):
            disk["wwn"] = f"0x{wwn.removeprefix('0x')}"
        else:
            hints.get("wwn").wrong(f"{wwn!r}: disks of labs have one of 16 hex digits")
    for name in _NEITHER:
        if hints.get(name):
            hints.get(name).wrong("disks of labs have no vendor extension; use wwn")
    if model := hints.get("model").text():
        if len(model) > _MODEL["sata"] or not model.isprintable():
            hints.get("model").wrong(f"{model!r}: disks of labs have up to {_MODEL['sata']} printable characters")
        elif len(model) > (most := _MODEL.get(bus, len(model))):
            rule = f"{model!r}: a {bus} disk, which the other hints ask for, has up to {most} characters"
            hints.get("model").wrong(rule)
        else:
            disk["model"] = model
    if (rotational := hints.get("rotational").flag()) is not None and BUSES[bus].rotation:
        disk["rotational"] = rotational
    if (vendor := hints.get("vendor").text()) not in _VENDORS.get(bus, ""):
        if is_vendor(vendor, _VENDOR):
            disk["vendor"] = vendor
        else:
            hints.get("vendor").wrong(f"{vendor!r}: disks of labs have up to {_VENDOR} {VENDORS_CHARACTERS}")
    if (place := hints.get("hctl").text()) and place != "0:0:0:0":
        hints.get("hctl").wrong(f"{place!r}: a lab's first SCSI disk is 0:0:0:0; there is no other address")
    usual = set(disk) == {"root", "size_gib"} and bus == "virtio" and not before and disk["size_gib"] == DISK_GIB
    if usual or hints.problems.lines:
        # Wrong hints may contradict each other: no lab is made.
        return ()
    return (*(Disk(size_gib=_OTHER_GIB, bus=bus) for _ in range(before)), Disk(bus=bus, **disk))  # type: ignore[arg-type]


def _bus(hints: Field, named: tuple[Bus, ...]) -> Bus:
    """The bus of a disk that the hints can find: one that its name has, on which disks tell what is asked for."""
    asked = {name: buses for name, buses in _TELLING.items() if hints.get(name)}
    if vendor := hints.get("vendor").text():
        asked["vendor"] = tuple(bus for bus in _SD if vendor in _VENDORS[bus] or BUSES[bus].vendor_length)
    if hints.get("rotational").value is False:
        asked["rotational"] = (*_SD, "nvme")  # no such disk turns
    if not asked:
        return named[0] if named else "virtio"
    fits = [bus for bus in named or _SD if all(bus in buses for buses in asked.values())]
    long = len(hints.get("model").text())
    fits = [bus for bus in fits if long <= _MODEL.get(bus, 0)] or fits
    # The service looks for the hint in the vendor's name (reference/installer.md §1.3).
    fits = [bus for bus in fits if vendor in _VENDORS.get(bus, "")] or fits
    if fits:
        # A WWN is SCSI's first; SATA's disks have room for longer names.
        return "scsi" if "scsi" in fits and (named or "wwn" in asked or "hctl" in asked) else fits[-1]
    for name, buses in asked.items():
        if not set(buses) & set(named or _SD):
            tell = f"tell {_VENDORS[named[0]]}" if name == "vendor" and named[0] in _VENDORS else "tell none"
            hints.get(name).wrong(
                f"deviceName means bus {named[0]}, whose disks {tell} in a lab; name one under /dev/sd"
            )
    return (named or _SD)[0]


def _by_name(device: Field, traits: dict[str, object]) -> tuple[tuple[Bus, ...], int]:
    """What a device's name says of the disk: buses that it may have (none: any), how many of its kind come before."""
    name = device.text()
    if not name:
        return (), 0
    if match := _NAME.fullmatch(name):
        before = int(match["number"]) if match["number"] else ord(match["letter"]) - ord("a")
        if before >= MOST:
            device.wrong(f"{name}: machines of a lab have up to {MOST} disks")
            return (), 0
        if match["number"] is not None:
            return ("nvme",), before
        if match["kind"] in ("xvd", "hd"):
            device.wrong(f"{name}: no disk of a lab is called so; use /dev/vd, /dev/sd or /dev/nvme")
            return (), 0
        return (_SD if match["kind"] == "sd" else ("virtio",)), before
    if (match := _BY_ID.fullmatch(name)) and (buses := _by_id(match["kind"], match["value"], traits)):
        return buses, 0
    device.wrong(f"{name}: labs cannot put a disk there; use a kernel's name, serialNumber or wwn")
    return (), 0


def _by_id(kind: str, value: str, traits: dict[str, object]) -> tuple[Bus, ...]:
    """The buses of a disk that udev names so, whose WWN, model or serial number it adds; none where labs have none."""
    naa = _NAA.fullmatch(value) if kind == "scsi" else None
    if kind == "wwn" or naa:
        wwn = naa[1] if naa else value.removeprefix("0x")
        if not _WWN.fullmatch(wwn):
            return ()
        traits["wwn"] = f"0x{wwn}"
        return _SD
    model, _, serial = ("", "", value) if kind == "virtio" else value.rpartition("_")
    if not _SERIAL.fullmatch(serial):
        return ()
    traits["serial"] = serial
    if kind == "ata" and model:
        traits["model"] = model[: _MODEL["sata"]]
    return (_SERIAL_BUS[kind],)

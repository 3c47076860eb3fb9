"""Disks that satisfy a host's rootDeviceHints, in such an order that the hints find the right one."""

from __future__ import annotations

import re

from lab.derive.fields import Field
from lab.topology import DISK_GIB, Bus, Disk

_NAME = re.compile(r"/dev/(?:(?P<kind>vd|sd|xvd|hd)(?P<letter>[a-z])|nvme(?P<number>\d{1,2})n1)")
_BY_ID = re.compile(r"/dev/disk/by-id/(?P<kind>wwn|ata|scsi|virtio|nvme|usb)-(?P<value>[\w.-]+)")
_WWN = re.compile(r"(0x)?[0-9a-f]{16}")
_SERIAL_BUS: dict[str, Bus] = {"ata": "sata", "scsi": "scsi", "virtio": "virtio", "nvme": "nvme", "usb": "usb"}
#: A disk that comes before the one that a name means.
_OTHER_GIB = 10
_NEITHER = ("wwnVendorExtension", "wwnWithExtension")


def disks(hints: Field) -> tuple[Disk, ...]:
    """The machine's disks, the one to install on marked; empty for one disk of the usual kind."""
    if not hints:
        return ()
    found: dict[str, object] = {"root": True, "size_gib": max(DISK_GIB, hints.get("minSizeGigabytes").number(0) + 1)}
    before = _by_name(hints.get("deviceName"), found)
    serial, wwn, model = hints.get("serialNumber").text(), hints.get("wwn").text().lower(), hints.get("model").text()
    if serial:
        found["serial"] = serial
        if len(serial) > 20 or not re.fullmatch(r"[A-Za-z0-9_.-]+", serial):
            hints.get("serialNumber").wrong(f"{serial!r}: disks of labs have up to 20 letters, digits, dots and dashes")
            del found["serial"]
    if wwn:
        if _WWN.fullmatch(wwn):
            found["wwn"] = f"0x{wwn.removeprefix('0x')}"
            found.setdefault("bus", "scsi")
        else:
            hints.get("wwn").wrong(f"{wwn!r}: disks of labs have one of 16 hex digits")
    for name in _NEITHER:
        if hints.get(name):
            hints.get(name).wrong("disks of labs have no vendor extension; use wwn")
    if model:
        found["model"] = model
        found.setdefault("bus", "sata")
    rotational = hints.get("rotational").flag()
    if rotational is not None and found.get("bus", "sata") in ("sata", "scsi"):
        found |= {"rotational": rotational, "bus": found.get("bus", "sata")}
    elif rotational:
        hints.get("rotational").wrong(f"a {found['bus']} disk does not rotate; name one under /dev/sd")
    if (vendor := hints.get("vendor").text()) and vendor.upper() != "ATA":
        hints.get("vendor").wrong(f"{vendor!r}: the vendor of a lab's SATA disks is ATA, others cannot be had")
    elif vendor:
        found.setdefault("bus", "sata")
    if (place := hints.get("hctl").text()) and place != "0:0:0:0":
        hints.get("hctl").wrong(f"{place!r}: a lab's first SCSI disk is 0:0:0:0, no other place can be had")
    elif place:
        found.setdefault("bus", "scsi")
    if set(found) == {"root", "size_gib"} and not before and found["size_gib"] == DISK_GIB:
        return ()
    bus: Bus = found.get("bus", "virtio")  # type: ignore[assignment]
    return (*(Disk(size_gib=_OTHER_GIB, bus=bus) for _ in range(before)), Disk(**found))  # type: ignore[arg-type]


def _by_name(device: Field, found: dict[str, object]) -> int:
    """What a device's name says of the disk; how many disks of its kind come before it."""
    name = device.text()
    if not name:
        return 0
    if match := _NAME.fullmatch(name):
        if match["number"] is not None:
            found["bus"] = "nvme"
            return int(match["number"])
        if match["kind"] in ("xvd", "hd"):
            device.wrong(f"{name}: no disk of a lab is called so; use /dev/vd, /dev/sd or /dev/nvme")
            return 0
        if match["kind"] == "sd":
            found["bus"] = "scsi"
        return ord(match["letter"]) - ord("a")
    if match := _BY_ID.fullmatch(name):
        if match["kind"] == "wwn" and _WWN.fullmatch(match["value"]):
            found |= {"wwn": match["value"], "bus": "scsi"}
            return 0
        if match["kind"] != "wwn":
            found |= {"bus": _SERIAL_BUS[match["kind"]], "serial": match["value"].rpartition("_")[2][-20:]}
            return 0
    device.wrong(f"{name}: labs cannot put a disk there; use a kernel's name, /dev/disk/by-id, serialNumber or wwn")
    return 0

"""The disks of a machine, as its BMC lists them (Storage and Drives)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any
from xml.etree import ElementTree

from lab.bmcs.state import ROOT
from lab.buses import BUSES

# Bus -> Redfish's name.
_PROTOCOLS: Mapping[str, str] = {name: bus.protocol for name, bus in BUSES.items() if bus.protocol}
# Arguments of QEMU's command line: lab.machines.domain adds NVMe disks so.
_ARG = "{http://libvirt.org/schemas/domain/qemu/1.0}arg"
_OPTION = re.compile(r"(?:^|,)(\w+)=((?:[^,]|,,)*)")
VOLUMES = "Volumes"
_OK = {"State": "Enabled", "Health": "OK"}


@dataclass(frozen=True)
class Disk:
    """A disk: `name` on its bus, `size` in bytes; None and "" for what nobody has said."""

    name: str
    bus: str
    size: int | None
    _: KW_ONLY
    serial: str = ""
    maker: str = ""
    model: str = ""
    rotational: bool | None = None


def disks_of(domain: ElementTree.Element) -> list[Disk]:
    """Return the disks of a libvirt domain of this host's."""
    return [*_by_libvirt(domain), *_by_arguments(domain)]


def _by_libvirt(domain: ElementTree.Element) -> Iterator[Disk]:
    for disk in domain.findall("devices/disk[@device='disk']"):
        source, target = disk.find("source"), disk.find("target")
        if source is None or target is None:
            continue
        rate = target.get("rotation_rate")
        yield Disk(
            target.get("dev", ""), target.get("bus", ""), _size(source.get("file") or source.get("dev") or ""),
            serial=disk.findtext("serial", ""), maker=disk.findtext("vendor", ""), model=disk.findtext("product", ""),
            rotational=rate != "1" if rate else None,
        )  # fmt: skip


def _by_arguments(domain: ElementTree.Element) -> Iterator[Disk]:
    options = [dict(_OPTION.findall(arg.get("value", ""))) for arg in domain.iter(_ARG)]
    files = {option["id"]: option["file"].replace(",,", ",") for option in options if {"id", "file"} <= option.keys()}
    for device in options:
        if (drive := device.get("drive", "")) in files:
            yield Disk(drive, "nvme", _size(files[drive]), serial=device.get("serial", ""), rotational=False)


def _size(path: str) -> int | None:
    """Return the size of an image or a block device."""
    try:
        with open(path, "rb") as image:
            return image.seek(0, 2)
    except OSError:
        return None


def simple(disks: Iterable[Disk]) -> dict[str, dict[str, Any]]:
    """Return the disks by their buses, as sushy-tools' SimpleStorage has them."""
    buses: dict[str, dict[str, Any]] = {}
    for disk in disks:
        bus = buses.setdefault(disk.bus, {"Id": disk.bus, "Name": disk.bus, "DeviceList": []})
        bus["DeviceList"].append({"Name": disk.name, "CapacityBytes": disk.size or 0})
    return buses


def document(system: str, disks: Iterable[Disk], path: tuple[str, ...]) -> dict[str, Any] | None:
    """Make the document at Storage (an empty path), at a bus, at its volumes or at a drive of a machine; None where
    there is nothing."""
    base = f"{ROOT}/Systems/{system}/Storage"
    buses: dict[str, dict[str, Disk]] = {}
    for disk in disks:
        buses.setdefault(disk.bus, {})[disk.name] = disk
    if not path:
        return _collection("Storage", base, [f"{base}/{bus}" for bus in buses])
    bus, *drive = path
    found = buses.get(bus, {})
    if drive == [VOLUMES]:
        # No RAID: none can be made.
        return _collection("Volume", f"{base}/{bus}/{VOLUMES}", []) if found else None
    if drive:
        return _drive(f"{base}/{bus}/Drives/{drive[0]}", found[drive[0]]) if drive[0] in found else None
    return _controller(f"{base}/{bus}", bus, list(found)) if found else None


def _collection(kind: str, path: str, links: list[str]) -> dict[str, Any]:
    return {
        "@odata.type": f"#{kind}Collection.{kind}Collection", "@odata.id": path, "Name": f"{kind} collection",
        "Members": [{"@odata.id": link} for link in links], "Members@odata.count": len(links),
    }  # fmt: skip


def _controller(path: str, bus: str, drives: list[str]) -> dict[str, Any]:
    protocols = {"SupportedDeviceProtocols": [_PROTOCOLS[bus]]} if bus in _PROTOCOLS else {}
    controller = {
        "@odata.id": f"{path}#/StorageControllers/0", "MemberId": "0", "Name": f"{bus} controller", "Status": _OK,
        **protocols,
    }  # fmt: skip
    return {
        "@odata.type": "#Storage.v1_9_0.Storage", "@odata.id": path, "Id": bus, "Name": f"{bus} disks", "Status": _OK,
        "StorageControllers": [controller], "StorageControllers@odata.count": 1,
        "Drives": [{"@odata.id": f"{path}/Drives/{name}"} for name in drives], "Drives@odata.count": len(drives),
        VOLUMES: {"@odata.id": f"{path}/{VOLUMES}"},
    }  # fmt: skip


def _drive(path: str, disk: Disk) -> dict[str, Any]:
    media = None if disk.rotational is None else "HDD" if disk.rotational else "SSD"
    stated = {
        "CapacityBytes": disk.size, "Protocol": _PROTOCOLS.get(disk.bus), "MediaType": media,
        "SerialNumber": disk.serial, "Manufacturer": disk.maker, "Model": disk.model,
    }  # fmt: skip
    return {
        "@odata.type": "#Drive.v1_4_0.Drive", "@odata.id": path, "Id": disk.name, "Name": disk.name, "Status": _OK,
        **{name: value for name, value in stated.items() if value not in (None, "")},
    }  # fmt: skip

"""`status.hardware` of a BareMetalHost, from its BMC and from the inventory of an Agent."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import sushy

from installer.common.redfish.causes import is_transient
from installer.config.values.check import canonical_mac

Json = dict[str, Any]

_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
_LONGEST = 256
_ARCHITECTURES = {
    sushy.PROCESSOR_ARCH_x86: "x86_64",
    sushy.PROCESSOR_ARCH_ARM: "aarch64",
}


def from_redfish(system: Any) -> Json:
    """Read the hardware that a BMC shows of a system of sushy's; parts that it does not show are left out.

    Raises sushy's errors where the BMC as a whole does not answer.
    """
    memory = _shown(lambda: system.memory_summary)
    processors = _shown(lambda: system.processors)
    summary = _shown(lambda: processors.summary) if processors else None
    disks = _shown(lambda: [_disk(drive) for storage in system.storage.get_members() for drive in storage.drives])
    return _without_empty(
        {
            "systemVendor": {
                "manufacturer": _text(system.manufacturer),
                "productName": _text(system.json.get("Model")),
                "serialNumber": _text(system.serial_number),
            },
            "firmware": {"bios": {"version": _text(system.bios_version)}},
            "ramMebibytes": int(memory.size_gib * 1024) if memory and memory.size_gib else None,
            "cpu": {
                "arch": _ARCHITECTURES.get(summary.architecture) if summary else None,
                "count": _whole(summary.count) if summary else None,
            },
            "nics": nics_of(system),
            "storage": disks,
        }
    )


def nics_of(system: Any) -> list[Json]:
    """Return the NICs that a BMC shows of a system, often not all; raises as `from_redfish`."""
    macs = [canonical_mac(mac) for mac in _shown(lambda: system.ethernet_interfaces.summary) or {}]
    # The API takes no others.
    return [{"mac": mac} for mac in macs if _MAC.fullmatch(mac)]


def from_inventory(inventory: Mapping[str, Any], hostname: str = "") -> Json:
    """Return the hardware of an Agent's inventory; a NIC once for each of its IP addresses, as Metal3 has it."""
    cpu, vendor = inventory.get("cpu") or {}, inventory.get("systemVendor") or {}
    return _without_empty(
        {
            "systemVendor": {name: vendor.get(name) for name in ("manufacturer", "productName", "serialNumber")},
            "ramMebibytes": (inventory.get("memory") or {}).get("physicalBytes", 0) >> 20,
            "cpu": {
                "arch": cpu.get("architecture"), "count": cpu.get("count"), "model": cpu.get("modelName"),
                "flags": cpu.get("flags"), "clockMegahertz": cpu.get("clockMegahertz"),
            },
            "nics": [nic for interface in inventory.get("interfaces") or () for nic in _nics(interface)],
            "storage": [
                {
                    "name": disk.get("byPath") or disk.get("path"), "hctl": disk.get("hctl"),
                    "model": disk.get("model"), "vendor": disk.get("vendor"), "sizeBytes": disk.get("sizeBytes"),
                    "serialNumber": disk.get("serial"), "wwn": disk.get("wwn"),
                    "rotational": str(disk.get("driveType", "")).upper() == "HDD",
                }
                for disk in inventory.get("disks") or ()
            ],
            "hostname": hostname or inventory.get("hostname"),
        }
    )  # fmt: skip


def _nics(interface: Mapping[str, Any]) -> Iterable[Json]:
    nic = {
        "name": interface.get("name"),
        "mac": interface.get("macAddress"),
        "model": interface.get("vendor"),
        "speedGbps": (interface.get("speedMbps") or 0) // 1000,
    }
    addresses = [*(interface.get("ipV6Addresses") or ()), *(interface.get("ipV4Addresses") or ())]
    return [{**nic, "ip": address.split("/")[0]} for address in addresses] or [nic]


def _disk(drive: Any) -> Json:
    media_type = drive.json.get("MediaType")
    return {
        "name": _text(drive.name), "model": _text(drive.model), "vendor": _text(drive.manufacturer),
        "serialNumber": _text(drive.serial_number), "sizeBytes": _whole(drive.capacity_bytes),
        "rotational": media_type == "HDD", "type": media_type if media_type in ("HDD", "SSD") else None,
    }  # fmt: skip


def _text(value: Any) -> str | None:
    """Return a value of a BMC as text, the only type that the API accepts."""
    return str(value)[:_LONGEST] if isinstance(value, str | int) else None


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and 0 <= value < 1 << 63 else None


def _shown(read: Any) -> Any:
    """Read an optional part of a BMC; some BMCs answer 500 for parts that they lack."""
    try:
        return read()
    except sushy.exceptions.MissingAttributeError:
        return None
    except sushy.exceptions.HTTPError as error:
        if isinstance(error, sushy.exceptions.AccessError) or is_transient(error):
            raise
        return None


def _without_empty(members: Json) -> Json:
    kept = {name: _trimmed(value) for name, value in members.items()}
    return {name: value for name, value in kept.items() if value not in (None, "", 0, {}, [])}


def _trimmed(value: Any) -> Any:
    if isinstance(value, dict):
        return _without_empty(value)
    return [_trimmed(inner) for inner in value] if isinstance(value, list) else value

"""SMBIOS as a machine's firmware tells it (DSP0134): the files of /sys/class/dmi/id, and tables for dmidecode."""

from __future__ import annotations

import struct

from lab.machines.container.spec import MachineSpec

VENDOR = "node0"
PRODUCT = "Container machine"
_ENTRY = struct.Struct("<5sBBBBBBBIQ")
_MIB_PER_MODULE = 0x7FFE


def identity(spec: MachineSpec) -> dict[str, str]:
    """The files of /sys/class/dmi/id."""
    return {
        "sys_vendor": VENDOR,
        "product_name": PRODUCT,
        "product_serial": spec.serial or spec.uuid,
        "product_uuid": spec.uuid,
        "board_serial": spec.serial or spec.uuid,
        "board_vendor": VENDOR,
        "chassis_serial": spec.serial or spec.uuid,
        "chassis_asset_tag": spec.name,
        "bios_vendor": VENDOR,
    }


def _structure(kind: int, handle: int, body: bytes, *strings: str) -> bytes:
    head = struct.pack("<BBH", kind, 4 + len(body), handle)
    return head + body + b"".join(text.encode() + b"\0" for text in strings) + (b"\0" if strings else b"\0\0")


def tables(spec: MachineSpec) -> tuple[bytes, bytes]:
    """The entry point and the structures: system (type 1), memory modules (type 17), end (type 127)."""
    from uuid import UUID

    system = struct.pack("<4B16sBBB", 1, 2, 0, 3, UUID(spec.uuid).bytes_le, 6, 0, 0)
    structures = _structure(1, 1, system, VENDOR, PRODUCT, spec.serial or spec.uuid)
    left, number = spec.memory_mib, 0
    while left > 0:
        size = min(left, _MIB_PER_MODULE)
        # Form factor DIMM (9), type RAM (7); what is not known is 0 or, for widths, 64 bits.
        module = struct.pack("<HHHHHBBBBBHHBBBBBI", 0, 0xFFFE, 64, 64, size, 9, 0, 1, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0)
        structures += _structure(17, 0x11 + number, module, f"DIMM {number}")
        left, number = left - size, number + 1
    structures += _structure(127, 0xFE, b"")
    entry = _ENTRY.pack(b"_SM3_", 0, _ENTRY.size, 3, 0, 0, 1, 0, len(structures), 0)
    checked = bytearray(entry)
    checked[5] = -sum(entry) & 0xFF
    return bytes(checked), structures

"""UEFI variables in a machine's flash, as EDK II keeps them, and the boot entries among them.

UEFI specification 2.10, sections 3.1.3 (load options) and 10.3 (device paths); the store's form is of edk2's
MdeModulePkg/Include/Guid/VariableFormat.h: headers and data one after another, in the form with authentication.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from uuid import UUID

_GLOBAL = UUID("8be4df61-93ca-11d2-aa0d-00e098032b8c").bytes_le
# Behind the headers of the volume (72 bytes) and of the store (28).
_BEGIN = 0x64
# Its mark, state, attributes, what is for authentication (counter, time, key), sizes of name and data, owner.
_HEADER = struct.Struct("<HBxI28xII16s")
_MARK, _ADDED = 0x55AA, 0x3F
# Non-volatile, and there for loaders and systems.
_ATTRIBUTES = 0x7
_ACTIVE = 0x1
END = bytes.fromhex("7fff0400")


def path_of_sata_disk(port: int) -> bytes:
    """Return the device path of a disk at the SATA controller of QEMU's q35."""
    root, controller = bytes.fromhex("02010c00d041030a00000000"), bytes.fromhex("01010600021f")
    return root + controller + struct.pack("<BBHHHH", 3, 18, 10, port, 0xFFFF, 0)


def path_of_partition(identity: UUID, first: int, sectors: int) -> bytes:
    """Return the node of a first partition, of a GPT."""
    return struct.pack("<BBHIQQ16sBB", 4, 1, 42, 1, first, sectors, identity.bytes_le, 2, 2)


def path_of_file(name: str) -> bytes:
    r"""Return the node of a file (`\EFI\debian\shimx64.efi`)."""
    text = f"{name}\0".encode("utf-16-le")
    return struct.pack("<BBH", 4, 4, 4 + len(text)) + text


def entry(name: str, path: bytes) -> bytes:
    """Return a boot entry, with its device path to the last node."""
    return struct.pack("<IH", _ACTIVE, len(path + END)) + f"{name}\0".encode("utf-16-le") + path + END


def order(*entries: int) -> bytes:
    """Return the content of BootOrder."""
    return struct.pack(f"<{len(entries)}H", *entries)


def write(flash: Path, template: Path, variables: Mapping[str, bytes]) -> None:
    """Make a machine's flash of a template, with these of the specification's own variables besides."""
    content = bytearray(template.read_bytes())
    end = max([_BEGIN, *(after for _, _, after in _stored(content))])
    for name, data in variables.items():
        text = f"{name}\0".encode("utf-16-le")
        record = _HEADER.pack(_MARK, _ADDED, _ATTRIBUTES, len(text), len(data), _GLOBAL) + text + data
        record += b"\xff" * (-len(record) % 4)
        content[end : end + len(record)] = record
        end += len(record)
    flash.write_bytes(content)


def read(flash: Path) -> dict[str, bytes]:
    """Return the specification's own variables in the flash of a machine that is off."""
    return {name: data for name, data, _ in _stored(flash.read_bytes()) if name}


def _stored(content: bytes | bytearray) -> Iterator[tuple[str, bytes, int]]:
    """Names (empty for what is deleted or has another owner), data, and where the next one begins."""
    at = _BEGIN
    while True:
        mark, state, _, name_size, size, owner = _HEADER.unpack_from(content, at)
        if mark != _MARK:
            return
        data_at = at + _HEADER.size + name_size
        is_there = state == _ADDED and owner == _GLOBAL
        name = content[at + _HEADER.size : data_at].decode("utf-16-le").rstrip("\0") if is_there else ""
        at = -(-(data_at + size) // 4) * 4
        yield name, bytes(content[data_at : data_at + size]), at

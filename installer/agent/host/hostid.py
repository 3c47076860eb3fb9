"""Who this host is: the same id at every boot (installer.md §6.1)."""

from __future__ import annotations

import hashlib
from uuid import UUID

from installer.hostsys.system import HostSystem

PLACEHOLDERS = frozenset(
    {
        *("", "none", "unspecified base board serial number", "unspecified", "0", "default string", "n/a"),
        *("to be filled by o.e.m.", "not specified", "system serial number", "base board serial number", "123456789"),
    }
)
ZERO = UUID(int=0)
KNOWN_BAD = UUID("03000200-0400-0500-0006-000700080009")
FALLBACK = "deaddead-dead-dead-dead-deaddeaddead"


def md5_uuid(text: str) -> str:
    """The MD5 of a text in UUID form: a name, not a secret."""
    return str(UUID(hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()))


def host_id(host: HostSystem) -> str:
    """Motherboard serial, else system UUID, else the lowest MAC, else a constant."""
    serial = host.read("/sys/class/dmi/id/board_serial")
    if serial.lower() not in PLACEHOLDERS and not serial.lower().startswith("unspecified"):
        return md5_uuid(serial)
    try:
        identity = UUID(host.read("/sys/class/dmi/id/product_uuid"))
        if identity not in (ZERO, KNOWN_BAD):
            return str(identity)
    except ValueError:
        pass
    macs = sorted(
        mac
        for device in host.path("/sys/class/net").glob("*")
        if (device / "device").exists() and (mac := host.read(f"/sys/class/net/{device.name}/address"))
    )
    return md5_uuid(macs[0]) if macs else FALLBACK

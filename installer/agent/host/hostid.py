"""Who this host is: the same id at every boot (installer.md §6.1)."""

from __future__ import annotations

import hashlib
import re
from uuid import UUID

from installer.hostsys.system import HostSystem

# What makers leave in the place of a board's serial number, without case and punctuation.
PLACEHOLDERS = frozenset(
    {
        *("none", "n a", "na", "null", "nil", "empty", "blank", "invalid", "unknown", "undefined", "oem", "o e m"),
        *("default", "default string", "serial", "serial number", "system serial number", "board serial number"),
        *("base board serial number", "baseboard serial number", "chassis serial number", "pca number acc", "sernum"),
        *("mb serial", "serialnumber", "sn", "s n", "standard", "tbd", "test", "xx xx"),
    }
)
PLACEHOLDER = re.compile(r"(unspecified|unavailable|to be filled|not |no |default string|0?12345\b).*|.*123456789.*")
KNOWN_BAD = UUID("03000200-0400-0500-0006-000700080009")
# The same, by firmware that has the other order of bytes; and one of boards that were never given their own.
SHARED = frozenset(
    {KNOWN_BAD, UUID("00020003-0004-0005-0006-000700080009"), UUID("12345678-1234-5678-90ab-cddeefaabbcc")}
)
FALLBACK = "deaddead-dead-dead-dead-deaddeaddead"


def md5_uuid(text: str) -> str:
    """The MD5 of a text in UUID form: a name, not a secret."""
    return str(UUID(hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()))


def identifies(serial: str) -> bool:
    """Is this a number of one machine, and not what its maker left in its place? One character, repeated, is none."""
    words = " ".join(re.findall(r"[^\W_]+", serial.lower()))
    return len(set(words) - {" "}) > 1 and words not in PLACEHOLDERS and not PLACEHOLDER.fullmatch(words)


def host_id(host: HostSystem) -> str:
    """Motherboard serial, else system UUID, else the lowest MAC, else a constant."""
    serial = host.read("/sys/class/dmi/id/board_serial")
    if identifies(serial):
        return md5_uuid(serial)
    try:
        identity = UUID(host.read("/sys/class/dmi/id/product_uuid"))
        if identity not in SHARED and len(set(identity.bytes)) > 1:
            return str(identity)
    except ValueError:
        pass
    macs = sorted(
        mac
        for device in host.path("/sys/class/net").glob("*")
        if (device / "device").exists() and (mac := host.read(f"/sys/class/net/{device.name}/address"))
    )
    return md5_uuid(macs[0]) if macs else FALLBACK

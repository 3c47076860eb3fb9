"""The host's id, the same at every boot (installer.md §6.1)."""

from __future__ import annotations

import hashlib
import re
from uuid import UUID

from installer.hostsys.system import HostSystem

# What makers leave in the place of a board's serial number, without case and punctuation.
PLACEHOLDERS = frozenset(
    {
        *("none", "none none", "n a", "na", "null", "nil", "empty", "blank", "invalid", "unknow", "unknown"),
        *("undefined", "oem", "o e m", "default", "pca number acc", "sernum", "standard", "tbd", "test", "xx xx"),
    }
)
PLACEHOLDER = re.compile(
    r"(unspecified|unavailable|(to be )?filled by|to be filled|not |no |default string).*|.*123456789.*"
    r"|(type ?\d ?)?(((base|mother)? ?board|chassis|product|system|mb|empty|invalid) ?)?(serial( ?number)?|s ?n)"
    r"|0?12345(6|678)?|01234567|(sn|bsn|0x) ?0+"
)
KNOWN_BAD = UUID("03000200-0400-0500-0006-000700080009")
# The same, by firmware that has the other order of bytes; those of boards that were never given their own, and of
# Dell's without a service tag.
SHARED = frozenset(
    {
        *(KNOWN_BAD, UUID("00020003-0004-0005-0006-000700080009"), UUID("12345678-1234-5678-90ab-cddeefaabbcc")),
        UUID("4c4c4544-0000-2010-8020-80c04f202020"),
    }
)
FALLBACK = "deaddead-dead-dead-dead-deaddeaddead"


def md5_uuid(text: str) -> str:
    """Return the MD5 of a text in UUID form: a name, not a secret."""
    return str(UUID(hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()))


def identifies(serial: str) -> bool:
    """Return whether this is a number of one machine, and not its maker's placeholder. A repeated character is none."""
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
        if (device / "device").exists() and set(mac := host.read(f"/sys/class/net/{device.name}/address")) - set("0:")
    )
    return md5_uuid(macs[0]) if macs else FALLBACK

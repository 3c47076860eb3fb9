"""Values that faults take: numbers within limits, which `node0-lab fault` and the rows hold alike, and addresses."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Literal

from msgspec import Meta

#: A percentage: with 0 nothing would fail.
Percent = Annotated[float, Meta(ge=0.1, le=100)]
#: To a machine, or from it.
Way = Literal["to", "from"]
Milliseconds = Annotated[int, Meta(ge=1, le=600_000)]
Jitter = Annotated[int, Meta(ge=0, le=600_000)]
#: Of one processor; the kernel schedules no less than a millisecond in 100.
CpuPercent = Annotated[int, Meta(ge=1, le=100)]
#: IPv4 asks for no less than 68 (RFC 791 §3.2).
Mtu = Annotated[int, Meta(ge=68, le=65_535)]
Kbit = Annotated[int, Meta(ge=1, le=100_000_000)]
Kib = Annotated[int, Meta(ge=1, le=100_000_000)]
Mib = Annotated[int, Meta(ge=0, le=1 << 24)]
#: The most seconds that a clock jumps, forward or back: ten years.
Jump = Annotated[int, Meta(ge=-315_576_000, le=315_576_000)]
Seconds = Annotated[int, Meta(ge=0, le=86_400)]


def check_nic(node: str, nic: str) -> None:
    """Raise ValueError, which names the field, when there is a NIC of no machine."""
    if nic and not node:
        raise ValueError(f"nic: {nic} is a NIC of which machine? node names it")


def check_address(field: str, text: str, *versions: int) -> None:
    """Raise ValueError, which names the field, when it is no IP address, or none of these versions."""
    try:
        version = ipaddress.ip_address(text.replace("%", "/")).version
    except ValueError:
        # A zone means something on one host only.
        raise ValueError(f"{field}: {text!r} is no IP address") from None
    if versions and version not in versions:
        raise ValueError(f"{field}: {text!r} is no IPv{versions[0]} address")

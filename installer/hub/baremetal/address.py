"""`spec.bmc.address` of a BareMetalHost (hub.md §8)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

# Metal3 boots the first three over the network; a live ISO comes as a virtual CD to each of them here.
_TYPES = frozenset(
    {"redfish", "ilo5-redfish", "idrac-redfish", "redfish-virtualmedia", "ilo5-virtualmedia", "idrac-virtualmedia"}
)
_REFUSED = {
    "ipmi": "IPMI has no virtual media",
    "libvirt": "it is IPMI to a virtual machine, which has no virtual media",
    "redfish-uefihttp": "UEFI HTTP boot is not supported",
}
_HOST = re.compile(r"([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)*[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")


class AddressError(ValueError):
    """An address that no BMC can be reached by; one line without the login that it may hold."""


@dataclass(frozen=True)
class Address:
    """A BMC's Redfish service, and its system there (a path, empty: the only one that it has)."""

    kind: str
    url: str
    system: str


def parse(address: str) -> Address:
    """Read an address. Raises AddressError."""
    scheme, colon, rest = address.partition(":")
    if not colon or (rest.isdigit() and not scheme.startswith("redfish")):
        raise AddressError(f"an address without a scheme is IPMI's: {_REFUSED['ipmi']}; use redfish-virtualmedia://…")
    kind, _, transport = scheme.lower().partition("+")
    if kind in _REFUSED:
        raise AddressError(f"{kind}: {_REFUSED[kind]}; use redfish-virtualmedia://…")
    if kind not in _TYPES or transport not in ("", "http", "https"):
        raise AddressError(
            f"unknown BMC type {scheme!r}, known are {', '.join(sorted(_TYPES))}, each also +http, +https"
        )
    try:
        parts = urlsplit(rest if rest.startswith("//") else f"//{rest}")
        host, port, path = parts.hostname or "", parts.port, parts.path.rstrip("/")
    except ValueError as error:
        raise AddressError(f"no address of a BMC: {error}") from None
    if parts.username is not None:
        raise AddressError(
            "it holds a login, which belongs into bmc.username and bmc.password, or the Secret of credentialsName"
        )
    if not _is_host(host):
        raise AddressError(f"{host!r} is no host name or IP address")
    shown = f"[{host}]" if ":" in host else host
    url = f"{transport or 'https'}://{shown}" + (f":{port}" if port else "")
    return Address(kind, url, "" if path in ("", "/redfish/v1") else path)


def _is_host(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return len(host) <= 253 and _HOST.fullmatch(host) is not None
    return True

"""Addresses of BMCs as metal3 reads them: which driver, and whether that boots hosts over the network only."""

from __future__ import annotations

import re
from dataclasses import dataclass

from installer.common.redact import without_login
from installer.config.values import check, urls

_NAME = re.compile(
    r"(?:(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]{0,61}[a-zA-Z0-9])\.)*"
    r"(?:[A-Za-z0-9]|[A-Za-z0-9][A-Za-z0-9-]{0,61}[A-Za-z0-9])"
)
# What Go's net.SplitHostPort can take apart.
_HOST_AND_PORT = re.compile(r"(?:\[[^\[\]]*\]|[^:\[\]]*):[^:\[\]]*", re.DOTALL)
_WEB = ("http", "https")


@dataclass(frozen=True)
class Driver:
    """`name` as Ironic has it; `network`: hosts must be on a provisioning network to be booted by it."""

    name: str
    network: bool


# (scheme, what may follow it after a plus sign, driver)
_KINDS: tuple[tuple[str, tuple[str, ...], Driver], ...] = (
    ("ipmi", (), Driver("ipmi", True)),
    ("libvirt", (), Driver("ipmi", True)),
    ("irmc", (), Driver("irmc", True)),
    ("ibmc", _WEB, Driver("ibmc", True)),
    ("idrac", _WEB, Driver("idrac", True)),
    ("idrac-redfish", _WEB, Driver("idrac", True)),
    ("idrac-virtualmedia", _WEB, Driver("idrac", False)),
    ("ilo4", ("https",), Driver("ilo", True)),
    ("ilo4-virtualmedia", ("https",), Driver("ilo", False)),
    ("ilo5", ("https",), Driver("ilo5", True)),
    ("ilo5-redfish", _WEB, Driver("redfish", True)),
    ("ilo5-virtualmedia", _WEB, Driver("redfish", False)),
    ("redfish", _WEB, Driver("redfish", True)),
    ("redfish-virtualmedia", _WEB, Driver("redfish", False)),
)
_DRIVERS = {name: driver for scheme, more, driver in _KINDS for name in (scheme, *(f"{scheme}+{web}" for web in more))}


def driver(address: str) -> Driver:
    """Return the driver of an address, which may be a bare host, of IPMI then. ValueError says what is wrong."""
    if not address:
        raise ValueError("missing BMC address")
    scheme, host = _parts(address)
    if host and check.address(host) is None and not _NAME.fullmatch(host):
        raise ValueError(f"failed to parse BMC address information: BMC address hostname/IP : [{host}] is invalid")
    kind = _DRIVERS.get(scheme)
    if kind is None:
        raise ValueError(f"Unknown BMC type '{scheme}' for address {without_login(address)}")
    return kind


def _parts(address: str) -> tuple[str, str]:
    """(scheme, host)"""
    try:
        url = urls.parse(address)
    except ValueError as error:
        if ":" in address and not _HOST_AND_PORT.fullmatch(address):
            problem = f'failed to parse BMC address information: parse "{without_login(address)}": {error}'
            raise ValueError(problem) from None
        host = re.sub(":[0-9]*$", "", address)
        return "ipmi", host[1:-1] if host.startswith("[") else host
    try:
        if url.opaque:
            url = urls.parse(address.replace(":", "://", 1))
        if not url.scheme and not url.host:
            url = urls.parse(f"ipmi://{address}")
    except ValueError as error:
        raise ValueError(f"failed to parse BMC address information: {error}") from None
    return url.scheme, url.host

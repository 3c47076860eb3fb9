"""A document after reading: frozen data, addresses in canonical form, nothing placed or rendered yet."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field

Sections = Mapping[str, Mapping[str, str]]
MAIN_TABLE = 254
LOOPBACK = "lo"


@dataclass(frozen=True, kw_only=True)
class IpConfig:
    """One family of one interface. `addresses` are ADDRESS/LENGTH; `dynamic` are the keys of DHCP and autoconf."""

    path: str
    family: int
    enabled: bool
    dhcp: bool
    autoconf: bool
    addresses: tuple[str, ...]
    auto_dns: bool
    auto_table: int
    addr_gen_mode: str
    dynamic: Mapping[str, str]

    @property
    def auto(self) -> bool:
        """Return whether the network gives this family its addresses."""
        return self.enabled and (self.dhcp or self.autoconf)

    @property
    def static(self) -> bool:
        """Return whether this family has only addresses from the document."""
        return self.enabled and not self.auto and bool(self.addresses)


@dataclass(frozen=True)
class Port:
    """An interface that a controller takes as its port, and what the port's profile gets for it."""

    name: str
    path: str
    sections: Sections = field(default_factory=dict)
    # Only of an OVS bridge: the interfaces behind this port (itself, or the members of its bond).
    members: tuple[str, ...] = ()


@dataclass(frozen=True)
class Shape:
    """The section of an interface's type: its own keyfile sections, ports, parent, and peer."""

    sections: Sections = field(default_factory=dict)
    ports: tuple[Port, ...] | None = None
    parent: str | None = None
    peer: str | None = None


@dataclass(frozen=True)
class Interface:
    """One interface of the document. `kind` is nmstate's type, `shape` its type section."""

    path: str
    name: str
    kind: str
    state: str
    _: KW_ONLY
    shape: Shape
    profile_name: str | None = None
    description: str | None = None
    by_mac: bool = False
    mac: str | None = None
    copy_mac_from: str | None = None
    mtu: int | None = None
    accept_all_mac: bool | None = None
    lldp: bool | None = None
    controller: str | None = None
    wait_ip: str | None = None
    ipv4: IpConfig | None = None
    ipv6: IpConfig | None = None
    extra: Sections = field(default_factory=dict, repr=False)  # passwords of 802.1x among it

    def ip(self, family: int) -> IpConfig | None:
        """Return the configuration of IPv4 (4) or IPv6 (6)."""
        return self.ipv4 if family == 4 else self.ipv6

    def enabled(self, family: int) -> bool:
        """Return whether the family is on."""
        config = self.ip(family)
        return config is not None and config.enabled

    @property
    def present(self) -> bool:
        """Return whether the interface gets a profile."""
        return self.state in ("up", "down")


@dataclass(frozen=True, kw_only=True)
class Route:
    """A static route; `interface` is None for the special types, which have no next hop."""

    path: str
    destination: ipaddress.IPv4Network | ipaddress.IPv6Network
    interface: str | None
    next_hop: str | None
    metric: int
    table: int
    weight: int | None
    kind: str | None
    cwnd: int | None
    source: str | None

    @property
    def family(self) -> int:
        """4 or 6."""
        return self.destination.version


@dataclass(frozen=True)
class Rule:
    """A policy rule of the whole host; some profile has to hold it."""

    path: str
    family: int
    priority: int
    _: KW_ONLY
    source: str | None
    destination: str | None
    iif: str | None
    suppress: int | None
    action: str | None
    table: int
    mark: str | None


@dataclass(frozen=True)
class Dns:
    """Static resolver settings of the whole host; `servers` are (address, zone or None)."""

    path: str
    servers: tuple[tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, str | None], ...] = ()
    search: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Document:
    """The whole desired state, interfaces in document order."""

    interfaces: tuple[Interface, ...]
    routes: tuple[Route, ...]
    rules: tuple[Rule, ...]
    dns: Dns | None

"""Rules for the addresses that hosts are to have, as `agent create` warns of them and labs refuse them.

The functions yield the place in the user's files and the rule that it breaks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network, ip_address
from typing import Generic, Protocol, TypeVar

Address = IPv4Address | IPv6Address
Interface = IPv4Interface | IPv6Interface
Subnet = IPv4Network | IPv6Network

#: The names that a host has until it is given another (installer.md §5.4, hostname-valid).
DEFAULT_HOSTNAMES = {
    f"localhost{number}{domain}" for number in ("", "4", "6") for domain in ("", f".localdomain{number}")
}
# A DNS subdomain (RFC 1123), as a node's name must be; upstream's pattern lets labels begin or end with a hyphen.
HOSTNAME = re.compile(r"^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:[.][a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*$")
MAX_HOSTNAME = 63
NO_ROUTE = "no default route, and the host does not ask for one: it would never be ready (has-default-route)"
NO_SERVER = "no DNS server, and the host does not ask for one: it would find no registry"


class Place(Protocol):
    """A field of the user's files."""

    @property
    def path(self) -> str:
        """Its path in the file."""


P = TypeVar("P", bound=Place)


@dataclass(frozen=True)
class HostAddresses(Generic[P]):
    """A host's static addresses with the fields that they stand in; `routers` are the next hops of its default routes.

    With `asks` it gets further addresses by DHCP or autoconfiguration. Of an `Interface` that is None no network is
    known.
    """

    place: P
    addresses: tuple[tuple[str, Interface | None, P], ...] = ()
    _: KW_ONLY
    routers: tuple[str, ...] = ()
    asks: bool = False


def never_within(network: Subnet, address: Address) -> str:
    """Say why no host of this network has this address of it; empty where one can."""
    if network.version == 6 or network.prefixlen > 30:
        return ""
    kinds: dict[Address, str] = {network.network_address: "network's own", network.broadcast_address: "broadcast"}
    kind = kinds.get(address)
    return f"{address} is the {kind} address of {network}: no host can have it" if kind else ""


def hostname(name: str) -> str:
    """Say why the service refuses this name; empty where it does not."""
    if name.lower() in DEFAULT_HOSTNAMES:
        return f"{name} is no host's name to the service, which would hold it up (hostname-valid)"
    if len(name) > MAX_HOSTNAME or not HOSTNAME.fullmatch(name):
        rule = f"small letters, digits and hyphens in labels between dots, {MAX_HOSTNAME} characters at most"
        return f"{name} would be held up by the service, which wants {rule} (hostname-valid)"
    return ""


def holders(hosts: Sequence[HostAddresses[P]]) -> dict[str, P]:
    """Return the first field that has each static address."""
    found: dict[str, P] = {}
    for host in hosts:
        for text, _, place in host.addresses:
            found.setdefault(text, place)
    return found


def static_addresses(hosts: Sequence[HostAddresses[P]]) -> Iterator[tuple[P, str]]:
    """Find addresses that two hosts have, that no host can have, and that are a host's own next hop."""
    seen: dict[str, P] = {}
    for host in hosts:
        own = {str(interface.ip) for _, interface, _ in host.addresses if interface is not None}
        for text, interface, place in host.addresses:
            if text in seen:
                yield place, f"{text} is that of {seen[text].path} too"
            elif interface is not None and (rule := never_within(interface.network, interface.ip)):
                yield place, rule
            seen.setdefault(text, place)
        for text in host.routers:
            if text in own:
                yield seen[text], f"{text} is the next hop of the host's own default route, which leads nowhere then"


def virtual_addresses(virtual: Sequence[tuple[str, P]], taken: Mapping[str, P]) -> Iterator[tuple[P, str]]:
    """Find virtual IPs that a host has."""
    for text, place in virtual:
        if text in taken:
            yield place, f"{text} is an address of {taken[text].path} too"


def no_router(text: str, taken: Mapping[str, Place]) -> str:
    """Say why the next hop of a default route cannot be a router; empty where it can. `taken`: machines' addresses."""
    return f"{text} is that of {taken[text].path} too, and no router's" if text in taken else ""


def unreachable(text: str, networks: Sequence[str]) -> str:
    """Say why a next hop cannot be reached from a host in these networks."""
    return f"{text} is in none of the host's networks, {', '.join(networks)}: it cannot be reached"


def overlapping(mine: Interface, theirs: Interface) -> str:
    """Say why a host cannot have both on two interfaces; empty where it can."""
    if mine.version == theirs.version and mine.network.overlaps(theirs.network):
        rule = f"{mine} and {theirs} are of two interfaces, and their networks overlap"
        return f"{rule}: the host is held up (non-overlapping-subnets)"
    return ""


def outside(hosts: Sequence[HostAddresses[P]], subnets: Sequence[Subnet]) -> Iterator[tuple[P, str]]:
    """Find hosts whose addresses are all static and in none of the machine networks."""
    for host in hosts if subnets else ():
        held = [str(interface.ip) for _, interface, _ in host.addresses if interface is not None]
        if held and not host.asks and not any(ip_address(text) in subnet for text in held for subnet in subnets):
            yield host.place, f"{', '.join(held)}: none is in machineNetwork, {', '.join(map(str, subnets))}"


def rendezvous(address: str, taken: Sequence[str], subnets: Sequence[Subnet], *, asked: bool) -> str:
    """Say why the rendezvous IP can be no host's; empty where it can. `asked`: a host may get it by DHCP."""
    if address in taken:
        return ""
    if not any(ip_address(address) in subnet for subnet in subnets):
        return f"{address} is in none of the machine networks, {', '.join(map(str, subnets))}"
    for subnet in subnets:
        if ip_address(address) in subnet and (rule := never_within(subnet, ip_address(address))):
            return rule
    return "" if asked else f"{address} is no host's: they have {', '.join(taken)}, and no master asks for one"

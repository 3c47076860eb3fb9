"""Small questions about addresses and networks, shared by validations."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
    ip_address,
    ip_interface,
    ip_network,
)

from installer.assisted.inventory import Inventory, Route
from installer.rendezvous.store.model import Cluster

Address = IPv4Address | IPv6Address
AF_INET, AF_INET6 = 2, 10


@lru_cache(1024)
def network_of(cidr: str) -> IPv4Network | IPv6Network:
    """The network of a CIDR, host bits ignored. Raises ValueError."""
    return ip_network(cidr, strict=False)


def machine_cidrs(cluster: Cluster) -> list[str]:
    """The cluster's machine networks as text."""
    return [str(network.get("cidr", "")) for network in cluster.machine_networks if network.get("cidr")]


def in_any(address: Address, cidrs: Iterable[str]) -> bool:
    """Is the address in one of the networks?"""
    return any(address in network for network in map(network_of, cidrs) if network.version == address.version)


def interfaces_of(inventory: Inventory) -> tuple[IPv4Interface | IPv6Interface, ...]:
    """All addresses of a host with their prefix length; what does not parse is left out."""
    return _interfaces(
        tuple(text for nic in inventory.interfaces for text in (*nic.ipv4_addresses, *nic.ipv6_addresses))
    )


# Asked many times over for each host and each judgement; an address is parsed in some 20 us.
@lru_cache(8192)
def _interfaces(texts: tuple[str, ...]) -> tuple[IPv4Interface | IPv6Interface, ...]:
    found: list[IPv4Interface | IPv6Interface] = []
    for text in texts:
        try:
            found.append(ip_interface(text))
        except ValueError:
            continue
    return tuple(found)


def macs_of(inventory: Inventory) -> set[str]:
    """All MAC addresses of a host, lower case."""
    return {nic.mac_address.lower() for nic in inventory.interfaces if nic.mac_address}


def belongs(inventory: Inventory, cidr: str) -> bool:
    """Has the host an address in this network?"""
    return any(in_any(item.ip, [cidr]) for item in interfaces_of(inventory))


def address_in(inventory: Inventory, cidrs: Iterable[str]) -> str:
    """The host's first address in one of the networks, else its first global one, else empty."""
    wanted = list(cidrs)
    addresses = [item.ip for item in interfaces_of(inventory)]
    for address in addresses:
        if in_any(address, wanted):
            return str(address)
    return next((str(item) for item in addresses if not item.is_link_local and not item.is_loopback), "")


def default_routes(inventory: Inventory) -> list[Route]:
    """Routes to everywhere that name a gateway."""
    found = []
    for route in inventory.routes:
        if route.destination not in ("", "0.0.0.0", "::", "0.0.0.0/0", "::/0", "default"):
            continue
        try:
            gateway = ip_address(route.gateway)
        except ValueError:
            continue
        if not gateway.is_unspecified:
            found.append(route)
    return found


def overlapping(cidrs: Iterable[str]) -> tuple[str, str] | None:
    """Two of the networks that overlap, or None."""
    known: list[str] = []
    for cidr in cidrs:
        network = ip_network(cidr, strict=False)
        for other in known:
            second = ip_network(other, strict=False)
            if network.version == second.version and network.overlaps(second):
                return other, cidr
        known.append(cidr)
    return None


def overlapping_host_subnets(inventory: Inventory) -> tuple[str, str] | None:
    """Two different networks of one host that overlap without being equal, or None."""
    networks = sorted({str(item.network) for item in interfaces_of(inventory) if not item.ip.is_link_local})
    return overlapping(networks)

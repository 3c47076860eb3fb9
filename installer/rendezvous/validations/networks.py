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
from typing import NamedTuple

from installer.assisted.inventory import Inventory, Route
from installer.rendezvous.store.model import Cluster, InfraEnv

Address = IPv4Address | IPv6Address
AF_INET, AF_INET6 = 2, 10


@lru_cache(1024)
def network_of(cidr: str) -> IPv4Network | IPv6Network:
    """Return the network of a CIDR, host bits ignored. Raises ValueError."""
    return ip_network(cidr, strict=False)


@lru_cache(1024)
def address_of(text: str) -> Address:
    """Return the address that a text is. Raises ValueError."""
    return ip_address(text)


def machine_cidrs(cluster: Cluster) -> list[str]:
    """Return the cluster's machine networks as text."""
    return [str(network.get("cidr", "")) for network in cluster.machine_networks if network.get("cidr")]


def user_managed(cluster: Cluster) -> bool:
    """Return whether DNS and load balancers are the user's own, so that there are no VIPs: always on a single node."""
    return cluster.user_managed_networking or cluster.is_sno


def machine_network_needed(cluster: Cluster) -> bool:
    """Only many nodes whose networking the user manages need none."""
    return not cluster.user_managed_networking or cluster.is_sno


def own_load_balancer(cluster: Cluster) -> bool:
    """Return the user's own load balancer holds the VIPs."""
    return (cluster.load_balancer or {}).get("type") == "user-managed"


def time_sources(cluster: Cluster | None, *infra_envs: InfraEnv | None) -> list[str]:
    """Return the time sources that the user gave a host: those that are to be its only ones, else all."""
    only = [item.ntp_sources for item in (cluster, *infra_envs) if item and item.ntp_sources][:1]
    additional = [cluster.additional_ntp_source] if cluster else []
    additional += [infra_env.additional_ntp_sources for infra_env in infra_envs if infra_env]
    names = (name.strip() for text in only or additional for name in text.split(","))
    return list(dict.fromkeys(filter(None, names)))


def has_vips(cluster: Cluster) -> bool:
    """Return whether the cluster's own hosts hold its virtual IPs."""
    return not (user_managed(cluster) or own_load_balancer(cluster))


def families(cidrs: Iterable[str]) -> list[int]:
    """Address families in the order of the networks, consecutive repeats left out."""
    versions = [network_of(cidr).version for cidr in cidrs]
    return [version for index, version in enumerate(versions) if index == 0 or versions[index - 1] != version]


def in_any(address: Address, cidrs: Iterable[str]) -> bool:
    """Return whether the address is in one of the networks."""
    return any(address in network for network in map(network_of, cidrs) if network.version == address.version)


def interfaces_of(inventory: Inventory) -> tuple[IPv4Interface | IPv6Interface, ...]:
    """All addresses of a host with their prefix length; what does not parse is left out."""
    return addresses(text for nic in inventory.interfaces for text in (*nic.ipv4_addresses, *nic.ipv6_addresses))


def addresses(texts: Iterable[str]) -> tuple[IPv4Interface | IPv6Interface, ...]:
    """Return the addresses with their prefix length; what does not parse is left out."""
    return _interfaces(tuple(texts))


# Asked many times over for each host and each judgement; an address is parsed in some 20 us.
@lru_cache(8192)
def _interfaces(texts: tuple[str, ...]) -> tuple[IPv4Interface | IPv6Interface, ...]:
    interfaces: list[IPv4Interface | IPv6Interface] = []
    for text in texts:
        try:
            interfaces.append(ip_interface(text))
        except ValueError:
            continue
    return tuple(interfaces)


def macs_of(inventory: Inventory) -> set[str]:
    """All MAC addresses of a host, lower case."""
    return {nic.mac_address.lower() for nic in inventory.interfaces if nic.mac_address}


def belongs(inventory: Inventory, cidr: str) -> bool:
    """Return whether the host has an address in this network."""
    return any(in_any(item.ip, [cidr]) for item in interfaces_of(inventory))


def address_in(inventory: Inventory, cidrs: Iterable[str]) -> str:
    """Return the host's first address in one of the networks, else its first global one, else empty."""
    wanted = list(cidrs)
    addresses = [item.ip for item in interfaces_of(inventory)]
    for address in addresses:
        if in_any(address, wanted):
            return str(address)
    return next((str(item) for item in addresses if not item.is_link_local and not item.is_loopback), "")


def default_routes(inventory: Inventory) -> list[Route]:
    """Routes to everywhere that name a gateway. A destination of no address is none (upstream's IsDefaultRoute)."""
    routes = []
    for route in inventory.routes:
        try:
            gateway, destination = address_of(route.gateway), address_of(route.destination)
        except ValueError:
            continue
        if destination.is_unspecified and not gateway.is_unspecified:
            routes.append(route)
    return routes


def best_default_route(inventory: Inventory, version: int) -> Route | None:
    """Return the default route of one family with the lowest metric; of equals the last."""
    family = AF_INET if version == 4 else AF_INET6
    routes = [route for route in default_routes(inventory) if route.family == family]
    return min(reversed(routes), key=lambda route: route.metric, default=None)


def overlap(first: str, second: str) -> bool:
    """Return whether two CIDRs have an address in common."""
    network, other = network_of(first), network_of(second)
    return network.version == other.version and network.overlaps(other)


def vip_refusal(vip: str, name: str, cidr: str) -> str:
    """Return why a virtual address cannot be one of this machine network (`verifyVip`), empty if it can."""
    if not cidr:
        return f"{name} <{vip}> cannot be set if Machine Network CIDR is empty"
    network, address = network_of(cidr), address_of(vip) if vip else None
    if address is None or address not in network:
        return f"{name} <{vip}> does not belong to machine-network-cidr <{cidr}>"
    if network.version == 4 and network.prefixlen < 31 and address == network.broadcast_address:
        return f"{name} <{vip}> is the broadcast address of machine-network-cidr <{cidr}>"
    return ""


def is_own_address(vip: str, cidr: str) -> bool:
    """Return whether the address is that of the network itself. In IPv6 every router of it answers there (RFC 4291)."""
    network = network_of(cidr)
    return network.prefixlen < network.max_prefixlen - 1 and address_of(vip) == network.network_address


class HostNetwork(NamedTuple):
    """A network that one of a host's interfaces is in."""

    network: IPv4Network | IPv6Network
    interface: str


def clashing_host_networks(inventory: Inventory, versions: Iterable[int]) -> tuple[HostNetwork, HostNetwork] | None:
    """Two networks of a host that are the same on two interfaces, or overlap; None when all are apart.

    Only of these address families, and no link-local ones, which every interface has.
    """
    seen: list[HostNetwork] = []
    for version in versions:
        for nic in inventory.interfaces:
            items = addresses(nic.ipv4_addresses if version == 4 else nic.ipv6_addresses)
            for network in sorted({item.network for item in items if not item.ip.is_link_local}, key=str):
                for other in seen:
                    if other.network.version == version and network.overlaps(other.network):
                        return other, HostNetwork(network, nic.name)
                seen.append(HostNetwork(network, nic.name))
    return None

"""The network of a host as users write it for the installer: NMState documents of a topology's machines.

Names of NICs are logical there: the installer maps them by MAC address to the kernel's.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

from lab.topology import Link, Network, NodeSpec, Topology

# The only NIC of a machine.
NIC = "eth0"
_DEFAULT = {4: "0.0.0.0/0", 6: "::/0"}
_MAIN_TABLE = 254


def _name(node: NodeSpec, name: str) -> str:
    return name if node.nics else NIC


def interfaces(node: NodeSpec) -> list[dict[str, str]]:
    """Return a host's NICs in agent-config.yaml."""
    return [{"name": _name(node, nic.name), "macAddress": nic.mac} for nic in node.all_nics]


def needs_document(topology: Topology, node: NodeSpec) -> bool:
    """Return whether a host needs a document; it does not where DHCP configures each of its NICs."""
    links = topology.links(node)
    if topology.addressing == "static" or any(link.bond or link.trunk for link in links):
        return True
    by_dhcp = (bool(net.dhcp or net.dhcpv6 or net.router_advertisements) for link in links for net in link.networks)
    return not all(by_dhcp)


def nmstate(topology: Topology, node: NodeSpec) -> dict[str, Any]:
    """Return the host's document: NICs, bonds, VLANs and addresses, and routes and DNS servers that DHCP does not
    bring."""
    interfaces: list[dict[str, Any]] = []
    routes: list[dict[str, Any]] = []
    for link in topology.links(node):
        interfaces += _plain(node, link)
        for network in link.trunk:
            name = f"{_name(node, link.name)}.{network.vlan}"
            interfaces.append(
                {
                    "name": name,
                    "type": "vlan",
                    "state": "up",
                    "vlan": {"base-iface": _name(node, link.name), "id": network.vlan},
                    **_mtu(network),
                    **_families(link, network),
                }
            )
        for network in link.networks:
            tagged = f".{network.vlan}" if network in link.trunk else ""
            routes += _routes(link, network, f"{_name(node, link.name)}{tagged}")
    return {
        "interfaces": interfaces,
        "dns-resolver": {"config": {"server": _servers(topology, node)}},
        "routes": {"config": _first_of_each(routes, topology, node)},
    }


def _plain(node: NodeSpec, link: Link) -> list[dict[str, Any]]:
    """Return the NICs of a link, and its bond."""
    nics: list[dict[str, Any]] = [
        {"name": _name(node, nic.name), "type": "ethernet", "state": "up", "mac-address": nic.mac} for nic in link.nics
    ]
    widest = max(link.networks, key=lambda network: network.mtu)
    if link.bond is None:
        return [nics[0] | _mtu(widest) | _families(link, link.network)]
    off = {"ipv4": {"enabled": False}, "ipv6": {"enabled": False}}
    aggregation = {"mode": link.bond.mode, "port": [nic.name for nic in link.nics], "options": {"miimon": 100}}
    bond = {"name": link.name, "type": "bond", "state": "up", "link-aggregation": aggregation}
    return [*(nic | _mtu(widest) | off for nic in nics), bond | _mtu(widest) | _families(link, link.network)]


def _mtu(network: Network) -> dict[str, int]:
    return {} if network.mtu == 1500 else {"mtu": network.mtu}


def _families(link: Link, network: Network | None) -> dict[str, Any]:
    """Return ipv4 and ipv6 of an interface in a network; both off without one."""
    held = {4: list[dict[str, Any]](), 6: list[dict[str, Any]]()}
    for text, where in link.addresses:
        if network is not None and where == network and (subnet := network.subnet_of(text)) is not None:
            held[subnet.version].append({"ip": text, "prefix-length": subnet.prefixlen})
    return {f"ipv{version}": _family(version, addresses, network) for version, addresses in held.items()}


def _family(version: int, addresses: list[dict[str, Any]], network: Network | None) -> dict[str, Any]:
    is_ipv6 = version == 6
    leased = network is not None and (network.dhcpv6 if is_ipv6 else network.dhcp)
    advertised = network is not None and is_ipv6 and network.router_advertisements
    if leased or (advertised and not addresses):
        # NetworkManager has one switch for both: the router says whether there is DHCPv6 (nmstate.md §2.3).
        return {"enabled": True, "dhcp": True, **({"autoconf": True} if is_ipv6 else {})}
    if not addresses:
        return {"enabled": False}
    return {"enabled": True, "dhcp": False, **({"autoconf": False} if is_ipv6 else {}), "address": addresses}


def _routes(link: Link, network: Network, interface: str) -> list[dict[str, Any]]:
    """Default routes by a network, for families in which the host has a static address there."""
    routes = []
    for subnet in network.subnets:
        version = subnet.version
        leased = network.dhcpv6 if version == 6 else network.dhcp
        gateway = network.gateway_of(version)
        if gateway and not leased and any(ip_address(text) in subnet for text, _ in link.addresses):
            routes.append(
                {
                    "destination": _DEFAULT[version],
                    "next-hop-address": gateway,
                    "next-hop-interface": interface,
                    "table-id": _MAIN_TABLE,
                }
            )
    return routes


def _first_of_each(routes: list[dict[str, Any]], topology: Topology, node: NodeSpec) -> list[dict[str, Any]]:
    """Return one default route a family: by the network that the host is known in, if it has a gateway."""
    home = next((net for net in topology.all_networks if net.holds(node.ip)), topology.home)
    routes = sorted(routes, key=lambda route: not home.holds(route["next-hop-address"]))
    firsts: dict[str, dict[str, Any]] = {}
    for route in routes:
        firsts.setdefault(route["destination"], route)
    return list(firsts.values())


def _servers(topology: Topology, node: NodeSpec) -> list[str]:
    """Return DNS servers of the host's networks that it can ask, those of the network that it is known in first."""
    links = topology.links(node)
    networks = sorted((net for link in links for net in link.networks), key=lambda net: not net.holds(node.ip))
    six = {":" in text for text in node.addresses}
    servers = [text for net in networks for text in net.dns_servers if (":" in text) in six]
    return list(dict.fromkeys(servers))

"""Majority groups: the largest set of hosts in which each reaches each (installer.md §5.8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from ipaddress import ip_address
from itertools import combinations
from typing import Any

from installer.rendezvous.hostview import load_json
from installer.rendezvous.model import Cluster, Host
from installer.rendezvous.networks import in_any, machine_cidrs

MINIMUM = 3


def _reached(host: Host, layer: str, fits: Any) -> set[str]:
    """Ids of the peers of which one address that ``fits`` was reached on a layer."""
    report = load_json(host.connectivity) or {}
    found = set()
    for peer in report.get("remote_hosts") or []:
        for link in peer.get(layer) or []:
            if link.get("successful") and fits(str(link.get("remote_ip_address", ""))):
                found.add(str(peer.get("host_id")))
    return found


def largest_mesh(reach: Mapping[str, Set[str]]) -> list[str]:
    """Largest set of at least MINIMUM ids in which all reach all both ways; empty when there is none."""
    names = sorted(reach)
    links = {name: {other for other in reach[name] if name in reach.get(other, set())} for name in names}
    for size in range(len(names), MINIMUM - 1, -1):
        candidates = [name for name in names if len(links[name]) >= size - 1]
        for group in combinations(candidates, size):
            if all(second in links[first] for first, second in combinations(group, 2)):
                return list(group)
    return []


def majority_groups(cluster: Cluster, hosts: Sequence[Host]) -> dict[str, list[str]]:
    """Groups by machine network (L2), or by address family (L3) where the user manages the network."""
    groups = {}
    if cluster.user_managed_networking or not machine_cidrs(cluster):
        for family, version in (("IPv4", 4), ("IPv6", 6)):

            def fits(text: str, version: int = version) -> bool:
                return bool(text) and ip_address(text).version == version

            reach = {host.id: _reached(host, "l3_connectivity", fits) for host in hosts}
            if any(reach.values()) or version == 4:
                groups[family] = largest_mesh(reach)
        return groups
    for cidr in machine_cidrs(cluster):

        def inside(text: str, cidr: str = cidr) -> bool:
            return bool(text) and in_any(ip_address(text), [cidr])

        groups[cidr] = largest_mesh({host.id: _reached(host, "l2_connectivity", inside) for host in hosts})
    return groups

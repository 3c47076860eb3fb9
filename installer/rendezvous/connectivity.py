"""Majority groups: the largest set of hosts in which each reaches each (installer.md §5.8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from functools import lru_cache
from ipaddress import ip_address
from typing import Any

from installer.rendezvous.hostview import load_json
from installer.rendezvous.model import Cluster, Host
from installer.rendezvous.networks import in_any, machine_cidrs

MINIMUM = 3
# Steps of the search for the largest group. Meshes with few broken links take a handful; a hostile one is cut short,
# and the largest group found so far counts.
SEARCH_STEPS = 20_000


@lru_cache(4096)
def _reached(report_text: str, layer: str, network: str) -> frozenset[str]:
    """Ids of the peers of which an address in ``network`` (a CIDR, IPv4 or IPv6) was reached on a layer."""

    def fits(text: str) -> bool:
        if not text:
            return False
        address = ip_address(text)
        return in_any(address, [network]) if "/" in network else network == f"IPv{address.version}"

    report: Any = load_json(report_text) or {}
    return frozenset(
        str(peer.get("host_id"))
        for peer in report.get("remote_hosts") or []
        if any(
            link.get("successful") and fits(str(link.get("remote_ip_address", ""))) for link in peer.get(layer) or []
        )
    )


def largest_mesh(reach: Mapping[str, Set[str]]) -> list[str]:
    """Largest set of at least MINIMUM ids in which all reach all both ways, sorted; empty when there is none."""
    names = sorted(reach)
    links = {name: {other for other in reach[name] if name in reach.get(other, ())} - {name} for name in names}
    best: list[str] = []
    steps = SEARCH_STEPS

    def colours(candidates: list[str]) -> list[tuple[str, int]]:
        """Candidates with the size that a group of them and their forerunners can reach at most (greedy colouring)."""
        classes: list[list[str]] = []
        for name in candidates:
            home = next((group for group in classes if not links[name].intersection(group)), None)
            if home is None:
                classes.append([name])
            else:
                home.append(name)
        return [(name, bound) for bound, group in enumerate(classes, 1) for name in group]

    def search(group: list[str], candidates: list[str]) -> None:
        nonlocal best, steps
        if len(group) > len(best):
            best = list(group)
        rest = colours(candidates)
        while rest and steps:
            steps -= 1
            name, bound = rest.pop()
            if len(group) + bound <= len(best):
                return
            search([*group, name], [other for other, _ in rest if other in links[name]])

    search([], sorted(names, key=lambda name: (-len(links[name]), name)))
    return sorted(best) if len(best) >= MINIMUM else []


def majority_groups(cluster: Cluster, hosts: Sequence[Host]) -> dict[str, list[str]]:
    """Groups by machine network (L2), or by address family (L3) where the user manages the network."""
    cidrs = machine_cidrs(cluster)
    if cluster.user_managed_networking or not cidrs:
        layer, networks = "l3_connectivity", ["IPv4", "IPv6"]
    else:
        layer, networks = "l2_connectivity", cidrs
    groups = {}
    for network in networks:
        reach = {host.id: _reached(host.connectivity, layer, network) for host in hosts}
        if network != "IPv6" or any(reach.values()):
            groups[network] = largest_mesh(reach)
    return groups

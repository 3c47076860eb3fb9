"""Connectivity between hosts, and the largest groups in which each reaches each (installer.md §5.8)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set

from installer.assisted.enums import Role
from installer.rendezvous.store.model import Cluster, Host
from installer.rendezvous.validations.networks import families, has_vips, machine_cidrs

MINIMUM = 3
FENCED = 2
# Steps of the search for the largest group, and for the first of those that are as large. Meshes with few broken links
# take a handful; a hostile one is cut short, and the largest group found so far counts.
SEARCH_STEPS = 20_000


def largest_mesh(reach: Mapping[str, Set[str]], least: int = MINIMUM) -> list[str]:
    """Largest set of at least ``least`` ids in which all reach all both ways, sorted; empty when there is none.

    Of several that are as large the first in the order of their ids, as upstream.
    """
    links = {name: {other for other in reach[name] if name in reach.get(other, ())} - {name} for name in reach}
    names = sorted(reach, key=lambda name: (-len(links[name]), name))
    number = {name: index for index, name in enumerate(names)}
    masks = [sum(1 << number[other] for other in links[name]) for name in names]
    left = sum(1 << index for index, mask in enumerate(masks) if mask)
    group = 0
    # A host that reaches all that are left is in every largest group, and one that reaches none is in no such group.
    # Mostly no host is left to search for then.
    while left:
        sure = sum(1 << at for at in _bits(left) if left & ~masks[at] == 1 << at)
        group, rest = group | sure, left & ~sure
        linked = sum(1 << at for at in _bits(rest) if masks[at] & rest)
        rest = linked or sum(1 << at for at in sorted(_bits(rest), key=names.__getitem__)[:1])
        if rest == left:
            break
        left = rest
    best = group | _first_largest(masks, left, sorted(_bits(left), key=names.__getitem__))
    return sorted(names[at] for at in _bits(best)) if best.bit_count() >= least else []


def _bits(mask: int) -> list[int]:
    bits = []
    while mask:
        low = mask & -mask
        bits.append(low.bit_length() - 1)
        mask ^= low
    return bits


def coloured(masks: Sequence[int], candidates: int) -> list[tuple[int, int]]:
    """Candidates with the size that a group of them and their forerunners can reach at most (greedy colouring)."""
    order, colour = [], 0
    while candidates:
        colour += 1
        free = candidates
        while free:
            bit = free & -free
            index = bit.bit_length() - 1
            free &= ~(bit | masks[index])
            candidates ^= bit
            order.append((index, colour))
    return order


def _first_largest(masks: Sequence[int], candidates: int, order: Sequence[int]) -> int:
    """Return the largest group among the candidates; among several the one whose first host comes first in this order,
    then the second, and so on."""
    best, steps = _largest(masks, candidates, SEARCH_STEPS)
    size, group = best.bit_count(), 0
    for at in order:
        if not candidates >> at & 1:
            continue
        if not best >> at & 1:
            others, steps = _largest(masks, candidates & masks[at], steps)
            if group.bit_count() + 1 + others.bit_count() < size:
                candidates ^= 1 << at
                continue
            best = group | 1 << at | others
        group |= 1 << at
        candidates &= masks[at]
    return best


def _largest(masks: Sequence[int], candidates: int, steps: int) -> tuple[int, int]:
    """Return the largest group among the candidates, by branch and bound within so many steps; and how many are
    left."""
    if not steps:
        return 0, 0
    best, steps = 0, steps - 1
    # (group so far, candidates for more, those of them not yet tried with their bounds)
    stack = [(0, candidates, coloured(masks, candidates))]
    while stack and steps:
        group, candidates, rest = stack[-1]
        if group.bit_count() > best.bit_count():
            best = group
        if not rest or group.bit_count() + rest[-1][1] <= best.bit_count():
            stack.pop()
            continue
        steps -= 1
        index, _ = rest.pop()
        stack[-1] = (group, candidates & ~(1 << index), rest)
        further = candidates & masks[index]
        stack.append((group | 1 << index, further, coloured(masks, further)))
    return best, steps


def with_fencing(cluster: Cluster, hosts: Sequence[Host]) -> bool:
    """Two control-plane nodes that fence each other: a group of two is all there is."""
    masters = [host for host in hosts if Role.MASTER in (host.role, host.suggested_role)]
    arbiters = any(Role.ARBITER in (host.role, host.suggested_role) for host in hosts)
    return (
        cluster.control_plane_count == FENCED == len(masters)
        and not arbiters
        and all(host.fencing_credentials for host in masters)
    )


def least(cluster: Cluster, hosts: Sequence[Host]) -> int:
    """Return the least size of a majority group."""
    return FENCED if with_fencing(cluster, hosts) else MINIMUM


def _reached_by_all(hosts: Sequence[Host], network: str) -> list[str]:
    """Ids of the hosts of which all others reach one and the same address of a family (``IPv4``, ``IPv6``)."""
    counts: Counter[tuple[str, str]] = Counter()
    for host in hosts:
        counts.update(pair for pair in host.connectivity.findings.addresses(network) if pair[0] != host.id)
    return sorted({host_id for (host_id, _), count in counts.items() if count == len(hosts) - 1})


def by_layer3(cluster: Cluster) -> bool:
    """Nothing but routing ties the hosts together where the user manages networking or the load balancer."""
    return not has_vips(cluster)


def majority_groups(cluster: Cluster, hosts: Sequence[Host]) -> dict[str, list[str]]:
    """Return groups by machine network (L2); by address family, who is reached by all (L3), see `by_layer3`."""
    if by_layer3(cluster):
        networks = [f"IPv{version}" for version in families(_all_cidrs(cluster))]
        return {network: _reached_by_all(hosts, network) for network in networks}
    groups = {}
    for network in machine_cidrs(cluster):
        reach = {host.id: host.connectivity.findings.reached("l2_connectivity", network) for host in hosts}
        if ":" in network:
            # Nobody answers ARP there.
            reach = {
                host.id: reach[host.id] | host.connectivity.findings.reached("l3_connectivity", network)
                for host in hosts
            }
        groups[network] = largest_mesh(reach, least(cluster, hosts))
    return groups


def _all_cidrs(cluster: Cluster) -> list[str]:
    items = [*cluster.cluster_networks, *cluster.service_networks, *cluster.machine_networks]
    return sorted((str(item["cidr"]) for item in items if item.get("cidr")), key=lambda cidr: ":" in cidr)

"""What hosts reached of each other, and the largest groups in which each reaches each (installer.md §5.8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from installer.rendezvous.store.model import Cluster, Host
from installer.rendezvous.validations.networks import machine_cidrs

MINIMUM = 3
# Steps of the search for the largest group. Meshes with few broken links take a handful; a hostile one is cut short,
# and the largest group found so far counts.
SEARCH_STEPS = 20_000


def largest_mesh(reach: Mapping[str, Set[str]]) -> list[str]:
    """Largest set of at least MINIMUM ids in which all reach all both ways, sorted; empty when there is none."""
    links = {name: {other for other in reach[name] if name in reach.get(other, ())} - {name} for name in reach}
    names = sorted(reach, key=lambda name: (-len(links[name]), name))
    number = {name: index for index, name in enumerate(names)}
    masks = [sum(1 << number[other] for other in links[name]) for name in names]
    left = sum(1 << index for index, mask in enumerate(masks) if mask)
    group = 0
    # Who reaches all that are left is in every largest group of them, and who reaches none of them is in none. Mostly
    # nobody is left then to search among.
    while left:
        sure = sum(1 << at for at in _bits(left) if left & ~masks[at] == 1 << at)
        group, rest = group | sure, left & ~sure
        rest = sum(1 << at for at in _bits(rest) if masks[at] & rest) or rest & -rest
        if rest == left:
            break
        left = rest
    best = group | _largest(masks, left)
    return sorted(names[at] for at in _bits(best)) if best.bit_count() >= MINIMUM else []


def _bits(mask: int) -> list[int]:
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found


def _coloured(masks: Sequence[int], candidates: int) -> list[tuple[int, int]]:
    """Candidates with the size that a group of them and their forerunners can reach at most (greedy colouring)."""
    found, colour = [], 0
    while candidates:
        colour += 1
        free = candidates
        while free:
            bit = free & -free
            index = bit.bit_length() - 1
            free &= ~(bit | masks[index])
            candidates ^= bit
            found.append((index, colour))
    return found


def _largest(masks: Sequence[int], candidates: int) -> int:
    """The largest group among the candidates, by branch and bound within SEARCH_STEPS."""
    best, steps = 0, SEARCH_STEPS
    # (group so far, candidates for more, those of them not yet tried with their bounds)
    stack = [(0, candidates, _coloured(masks, candidates))]
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
        stack.append((group | 1 << index, further, _coloured(masks, further)))
    return best


def majority_groups(cluster: Cluster, hosts: Sequence[Host]) -> dict[str, list[str]]:
    """Groups by machine network (L2), or by address family (L3) where the user manages the network."""
    cidrs = machine_cidrs(cluster)
    if cluster.user_managed_networking or not cidrs:
        layer, networks = "l3_connectivity", ["IPv4", "IPv6"]
    else:
        layer, networks = "l2_connectivity", cidrs
    groups = {}
    for network in networks:
        reach = {host.id: host.connectivity.findings.reached(layer, network) for host in hosts}
        if network != "IPv6" or any(reach.values()):
            groups[network] = largest_mesh(reach)
    return groups

"""What hosts reached of each other, and the largest groups in which each reaches each (installer.md §5.8)."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence, Set
from ipaddress import ip_address

import msgspec

from installer.assisted import plainjson
from installer.rendezvous.store.model import Cluster, Host
from installer.rendezvous.validations.hostview import Slots
from installer.rendezvous.validations.networks import in_any, machine_cidrs

MINIMUM = 3
# Steps of the search for the largest group. Meshes with few broken links take a handful; a hostile one is cut short,
# and the largest group found so far counts.
SEARCH_STEPS = 20_000


class Link(msgspec.Struct, frozen=True, gc=False):
    """One address of a peer as it was tried; round trip in ms, loss in percent."""

    remote_ip_address: str = ""
    successful: bool = False
    average_rtt_ms: float | None = None
    packet_loss_percentage: float | None = None


class MtuReport(msgspec.Struct, frozen=True, gc=False):
    """Did packets of full size get to an address?"""

    remote_ip_address: str = ""
    mtu_successful: bool = True


class Peer(msgspec.Struct, frozen=True, gc=False):
    """What one host found out about another."""

    host_id: str = ""
    l2_connectivity: list[Link] | None = None
    l3_connectivity: list[Link] | None = None
    mtu_report: list[MtuReport] | None = None


class Report(msgspec.Struct, frozen=True, gc=False):
    """Output of connectivity-check (installer.md §6.3)."""

    remote_hosts: list[Peer] | None = None


class Findings:
    """What counts of a report: kept instead of it, as each of n hosts reports on n - 1 others."""

    def __init__(self, report: Report) -> None:
        peers = report.remote_hosts or []
        self.count = len(peers)
        # By layer and address that was reached: ids of the peers.
        self._reached: dict[str, dict[str, list[str]]] = {"l2_connectivity": {}, "l3_connectivity": {}}
        # By peer: the worst round trip (ms) and loss (%) of the links that work, where there is any at all.
        self.rtt: dict[str, float] = {}
        self.loss: dict[str, float] = {}
        self.broken_mtu: list[str] = []
        for peer in peers:
            host_id = sys.intern(peer.host_id)
            for layer, links in (("l2_connectivity", peer.l2_connectivity), ("l3_connectivity", peer.l3_connectivity)):
                for link in links or ():
                    if link.successful and link.remote_ip_address:
                        self._reached[layer].setdefault(sys.intern(link.remote_ip_address), []).append(host_id)
            good = [link for link in peer.l3_connectivity or () if link.successful]
            self.rtt[host_id] = max((link.average_rtt_ms or 0.0 for link in good), default=0.0)
            self.loss[host_id] = max((link.packet_loss_percentage or 0.0 for link in good), default=0.0)
            self.broken_mtu += [item.remote_ip_address for item in peer.mtu_report or () if not item.mtu_successful]
        self.worst_rtt = max(self.rtt.values(), default=0.0)
        self.worst_loss = max(self.loss.values(), default=0.0)
        self._in: dict[tuple[str, str], frozenset[str]] = {}

    def reached(self, layer: str, network: str) -> frozenset[str]:
        """Ids of the peers of which an address in ``network`` (a CIDR, IPv4 or IPv6) was reached on a layer."""
        known = self._in.get((layer, network))
        if known is None:
            known = frozenset(
                host_id for text, ids in self._reached[layer].items() if _fits(text, network) for host_id in ids
            )
            self._in[(layer, network)] = known
        return known


def _fits(text: str, network: str) -> bool:
    try:
        address = ip_address(text)
    except ValueError:
        return False
    return in_any(address, [network]) if "/" in network else network == f"IPv{address.version}"


def read(text: str) -> Findings:
    """Findings of a report. Raises msgspec.MsgspecError."""
    return Findings(plainjson.typed(text, Report) if text else Report())


def _read_stored(text: str) -> Findings:
    try:
        return read(text)
    except msgspec.MsgspecError:
        return Findings(Report())


_FINDINGS = Slots(_read_stored)


def receive(host: Host, text: str) -> None:
    """Read a report that this host has sent, each when it comes: a cluster's all at once would take long.

    Raises msgspec.MsgspecError.
    """
    _FINDINGS.put(host, text, read(text))


def findings(host: Host) -> Findings:
    """What a host last reported; nothing when it has not, or when that cannot be read."""
    return _FINDINGS.get(host, host.connectivity)


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
        reach = {host.id: findings(host).reached(layer, network) for host in hosts}
        if network != "IPv6" or any(reach.values()):
            groups[network] = largest_mesh(reach)
    return groups

"""A host's links to the others, as they are stored: its report, and the findings in it."""

from __future__ import annotations

import sys
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import NamedTuple

import msgspec

from installer.common.formats import jsontext
from installer.rendezvous.store.documents import Document


class Link(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One address of a peer as it was tried; round trip in ms, loss in percent."""

    remote_ip_address: str = ""
    outgoing_nic: str = ""
    remote_mac: str = ""
    successful: bool = False
    average_rtt_ms: float | None = None
    packet_loss_percentage: float | None = None


class MtuReport(msgspec.Struct, frozen=True, gc=False):
    """Did packets of full size get to an address?"""

    remote_ip_address: str = ""
    outgoing_nic: str = ""
    mtu_successful: bool = False


class Peer(msgspec.Struct, frozen=True, gc=False):
    """One host's report on another."""

    host_id: str = ""
    l2_connectivity: list[Link] | None = None
    l3_connectivity: list[Link] | None = None
    mtu_report: list[MtuReport] | None = None


class PeersReport(msgspec.Struct, frozen=True, gc=False):
    """Output of connectivity-check (installer.md §6.3)."""

    remote_hosts: list[Peer] | None = None


class BrokenMtu(NamedTuple):
    """Packets of full size do not get from an interface to an address."""

    interface: str
    address: str


class Findings:
    """The findings in a report: kept instead of it, as each of n hosts reports on n - 1 others."""

    def __init__(self, report: PeersReport) -> None:
        peers = report.remote_hosts or []
        self.count = len(peers)
        # By layer and address that was reached: ids of the peers.
        self._reached: dict[str, dict[str, list[str]]] = {"l2_connectivity": {}, "l3_connectivity": {}}
        # By peer: the worst round trip (ms) and loss (%) of the links that work, where there is any at all.
        self.rtt: dict[str, float] = {}
        self.loss: dict[str, float] = {}
        self.broken_mtu: list[BrokenMtu] = []
        # MACs by address that more than one machine answered for.
        self.collisions: dict[str, tuple[str, str]] = {}
        answered: dict[tuple[str, str], str] = {}
        for peer in peers:
            host_id = sys.intern(peer.host_id)
            for layer, links in (("l2_connectivity", peer.l2_connectivity), ("l3_connectivity", peer.l3_connectivity)):
                for link in links or ():
                    if link.successful and link.remote_ip_address:
                        self._reached[layer].setdefault(sys.intern(link.remote_ip_address), []).append(host_id)
            good = [link for link in peer.l3_connectivity or () if link.successful]
            self.rtt[host_id] = max((link.average_rtt_ms or 0.0 for link in good), default=0.0)
            self.loss[host_id] = max((link.packet_loss_percentage or 0.0 for link in good), default=0.0)
            self.broken_mtu += [
                BrokenMtu(item.outgoing_nic, item.remote_ip_address)
                for item in peer.mtu_report or ()
                if not item.mtu_successful
            ]
            for link in peer.l2_connectivity or ():
                before = answered.get((link.outgoing_nic, link.remote_ip_address), "")
                if before and before != link.remote_mac:
                    low, high = sorted((before, link.remote_mac))
                    self.collisions[link.remote_ip_address] = (low, high)
                answered[(link.outgoing_nic, link.remote_ip_address)] = link.remote_mac
        self.worst_rtt = max(self.rtt.values(), default=0.0)
        self.worst_loss = max(self.loss.values(), default=0.0)
        self._in: dict[tuple[str, str], frozenset[str]] = {}
        self._pairs: dict[str, list[tuple[str, str]]] = {}

    def reached(self, layer: str, network: str) -> frozenset[str]:
        """Ids of the peers of which an address in ``network`` (a CIDR, IPv4 or IPv6) was reached on a layer."""
        cached = self._in.get((layer, network))
        if cached is None:
            cached = frozenset(
                host_id for text, ids in self._reached[layer].items() if _fits(text, network) for host_id in ids
            )
            self._in[(layer, network)] = cached
        return cached

    def addresses(self, family: str) -> list[tuple[str, str]]:
        """(peer's id, address) of all that was reached by routing, of one family (IPv4 or IPv6), each once."""
        cached = self._pairs.get(family)
        if cached is None:
            cached = [
                (host_id, text)
                for text, ids in self._reached["l3_connectivity"].items()
                if _fits(text, family)
                for host_id in dict.fromkeys(ids)
            ]
            self._pairs[family] = cached
        return cached


def _fits(text: str, network: str) -> bool:
    try:
        address = ip_address(text)
    except ValueError:
        return False
    return address in _network(network) if "/" in network else network == f"IPv{address.version}"


@lru_cache(1024)
def _network(cidr: str) -> IPv4Network | IPv6Network:
    return ip_network(cidr, strict=False)


class Connectivity(Document[Findings]):
    """A host's last report of its links."""

    __slots__ = ()

    @classmethod
    def decode(cls, text: str) -> Findings:
        """Return the links in an agent's report (JSON); none where it was asked about no peer."""
        return Findings(jsontext.typed(text, PeersReport)) if text else NOTHING

    @property
    def findings(self) -> Findings:
        """The findings; none when nothing was reported, or when the report cannot be read."""
        return self.value or NOTHING


NOTHING = Findings(PeersReport())

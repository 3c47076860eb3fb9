"""Judgements and the basis of each: a host is judged anew only after something of its basis has changed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from installer.rendezvous.settings import Settings
from installer.rendezvous.store.database import Store
from installer.rendezvous.store.documents import MajorityGroups, Validations
from installer.rendezvous.store.model import Cluster, ClusterProgress, Host
from installer.rendezvous.validations import connectivity
from installer.rendezvous.validations.hostview import Members
from installer.rendezvous.validations.networks import machine_cidrs
from installer.rendezvous.validations.requirements import Requirements

# The longest limit (s), since an infinite one makes no date: being judged once a day more costs nothing.
DAY = 86400.0
replace = msgspec.structs.replace
Key = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class Peers:
    """The basis that a cluster's hosts share in one round."""

    cluster: Cluster
    members: Members
    # Grows when something of the cluster changes that hosts are judged by, but for the groups.
    revision: int
    groups: Mapping[str, Set[str]] | None
    settings: Settings


class _Judgement(NamedTuple):
    basis: tuple[object, ...]
    until: datetime


class Judgements:
    """The judgements of hosts, and the basis of each. Whatever a check reads must be part of its host's basis.

    That is the host's own version, the cluster's revision, its place in the groups, settings, and how many peers there
    are as far as checks tell small numbers apart. Which peers they are counts only for hosts that share a name or an
    address, or have slow links (Members.clashing, Findings.worst_*): their verdicts name them.
    """

    def __init__(self, store: Store, requirements: Mapping[str, Requirements]) -> None:
        self._store = store
        # Links that are good enough for every role need not be looked at one by one.
        self._rtt = min((x.latency_ms for x in requirements.values() if x.latency_ms is not None), default=None)
        losses = (x.packet_loss_percent for x in requirements.values())
        self._loss = min((loss for loss in losses if loss is not None), default=None)
        self._judged: dict[Key, _Judgement] = {}
        self._revisions: dict[str, tuple[Cluster, int]] = {}
        self._members: dict[str, tuple[int, Members]] = {}
        self._groups: dict[str, tuple[tuple[object, ...], MajorityGroups]] = {}

    def forget(self) -> None:
        """Judge everything anew."""
        self._judged.clear()
        self._members.clear()
        self._groups.clear()

    def members(self, cluster_id: str) -> Members:
        """Return the cluster's hosts, as of its last change: later check-ins are not among what peers look at."""
        version = self._store.version(cluster_id)
        members = self._members.get(cluster_id)
        if members is None or members[0] != version:
            members = (version, Members(self._store.hosts(cluster_id=cluster_id)))
            self._members[cluster_id] = members
        return members[1]

    def groups(self, cluster: Cluster, hosts: Sequence[Host]) -> MajorityGroups:
        """Return the majority groups; searched for only when a report, a host or the networks have changed."""
        basis = (cluster.user_managed_networking, *machine_cidrs(cluster), *((h.id, h.connectivity) for h in hosts))
        cached = self._groups.get(cluster.id)
        if cached is None or cached[0] != basis:
            groups = connectivity.majority_groups(cluster, hosts)
            cached = (basis, MajorityGroups(json.dumps(groups, sort_keys=True), groups))
            self._groups[cluster.id] = cached
        return cached[1]

    def peers(self, cluster: Cluster, settings: Settings) -> Peers:
        """Return the shared basis of this round's judgements."""
        # The results of judging are no part of its basis.
        plain = replace(
            cluster,
            validations_info=Validations(),
            status_info="",
            connectivity_majority_groups=MajorityGroups(),
            progress=ClusterProgress(),
            updated_at="",
        )
        revisions = self._revisions.get(cluster.id)
        if revisions is None or revisions[0] != plain:
            revisions = (plain, revisions[1] + 1 if revisions else 0)
            self._revisions[cluster.id] = revisions
        groups = cluster.connectivity_majority_groups.value
        sets = None if groups is None else {name: frozenset(ids) for name, ids in groups.items()}
        return Peers(
            cluster=cluster, members=self.members(cluster.id), revision=revisions[1], groups=sets, settings=settings
        )

    def _basis(self, host: Host, peers: Peers) -> tuple[object, ...]:
        count = len(peers.members)
        place = None if peers.groups is None else [host.id in ids for ids in peers.groups.values()]
        return (
            *(self._store.host_version(host), peers.cluster.id, peers.revision, peers.settings, place),
            count if place is None else min(count, connectivity.MINIMUM),
            peers.members if host.id in peers.members.clashing or self._slow(host) else None,
        )

    def _slow(self, host: Host) -> bool:
        if not host.connectivity:
            return False
        findings = host.connectivity.findings
        slow = self._rtt is not None and findings.worst_rtt > self._rtt
        return slow or (self._loss is not None and findings.worst_loss > self._loss)

    def hold(self, host: Host, peers: Peers, at: datetime) -> bool:
        """Would judging this host again give what is stored?"""
        judged = self._judged.get((host.infra_env_id, host.id))
        return judged is not None and at < judged.until and judged.basis == self._basis(host, peers)

    def note(self, host: Host, peers: Peers, at: datetime, limit: float) -> None:
        """Note that the host was judged without a change of state; time alone can change that in ``limit`` seconds."""
        # A millisecond more: the tables ask for "longer than".
        until = at + timedelta(seconds=min(limit, DAY) + 0.001)
        self._judged[(host.infra_env_id, host.id)] = _Judgement(self._basis(host, peers), until)

    def until(self, host: Host) -> datetime | None:
        """Return the time at which this host may change by itself; None when it was not judged."""
        judged = self._judged.get((host.infra_env_id, host.id))
        return judged.until if judged else None

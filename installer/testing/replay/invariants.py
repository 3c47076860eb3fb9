"""Invariants of an installation, checked after each change that the service keeps and for each request it answers.

They are written in the words of the specification (installer.md §5), not read from the service's tables: a table that
is wrong must not excuse itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from aiohttp import web

from installer.assisted.auth import ATTEMPT_HEADER, HEADERS, Scheme
from installer.assisted.endpoint import BASE
from installer.assisted.enums import ClusterStatus, HostStatus, Stage
from installer.assisted.stages import STAGES
from installer.rendezvous.store.database import Store
from installer.rendezvous.store.model import Cluster, Host
from installer.testing.replay.machines import Machine

C, H = ClusterStatus, HostStatus
BEFORE = (C.PENDING_FOR_INPUT, C.INSUFFICIENT, C.READY)
#: How far a cluster is. Back from preparing is a preparation that failed; further back goes only who resets it.
RANKS: Mapping[ClusterStatus, int] = {
    **dict.fromkeys(BEFORE, 0),
    C.PREPARING: 1,
    C.INSTALLING: 2,
    C.INSTALLING_PENDING_USER_ACTION: 3,
    C.FINALIZING: 3,
    C.INSTALLED: 4,
    C.ADDING_HOSTS: 5,
    C.ERROR: 6,
    C.CANCELLED: 7,
}
INSTALLING_HOST = (H.INSTALLING, H.INSTALLING_IN_PROGRESS, H.INSTALLING_PENDING_USER_ACTION)
BEFORE_HOST = (
    *(H.DISCOVERING, H.KNOWN, H.DISCONNECTED, H.INSUFFICIENT, H.PENDING_FOR_INPUT),
    *(H.PREPARING, H.PREPARING_SUCCESSFUL, H.PREPARING_FAILED),
)
ENDED_HOST = (H.INSTALLED, H.ERROR, H.CANCELLED)


@dataclass(frozen=True)
class Seen:
    """The last state of a cluster or host that a store showed."""

    status: str
    attempt: str = ""
    stage: Stage | None = None


@dataclass
class Refusal:
    """An attempt of which a machine's orchestrator was refused a report; then it asks whether it is still wanted, and
    is answered that it is not."""

    attempt: str
    has_asked: bool = False
    is_over: bool = False


@dataclass
class Invariants:
    """``wall``: the service's wall clock, s; ``broken`` is called with the first thing that does not hold."""

    machines: list[Machine]
    wall: Callable[[], float]
    moment: Callable[[], float]
    broken: Callable[[str], None]
    note: Callable[[str, str], None]
    #: Disks that the user has chosen, by host id, as they were acknowledged.
    chosen: dict[str, str] = field(default_factory=dict)
    #: Attempts of which the service has once said that they install.
    begun: set[str] = field(default_factory=set)
    #: The end (s since the epoch) of each token that has one.
    ends: dict[str, float] = field(default_factory=dict)
    #: Machines that are ready nodes of an attempt.
    nodes: set[tuple[str, str]] = field(default_factory=set)
    #: The cluster that the user wants: an answer that was lost leaves another, of which nobody knows.
    wanted: str = ""
    #: Is the service's disk full?
    full: bool = False
    _seen: dict[str, Seen] = field(default_factory=dict)
    #: Preparations that failed, by cluster.
    _failures: dict[str, int] = field(default_factory=dict)
    _refused: dict[str, Refusal] = field(default_factory=dict)
    _starts: set[tuple[str, int, str]] = field(default_factory=set)

    # The store

    def look(self, store: Store) -> None:
        """Compare what is kept now with what was kept before."""
        for cluster in store.clusters():
            self._cluster(store, cluster, store.hosts(cluster_id=cluster.id))
            for host in store.hosts(cluster_id=cluster.id):
                self._host(host, cluster)

    def restarted(self, store: Store) -> None:
        """Compare what a service finds at its start with what the one before it had kept."""
        found = {cluster.id: cluster.status.value for cluster in store.clusters()}
        found |= {host.id: host.status.value for host in store.hosts()}
        for identity, seen in self._seen.items():
            if found.get(identity) != seen.status:
                self.broken(f"{identity} was {seen.status} before the restart and is {found.get(identity)} after it")
        for host in store.hosts():
            before = self._seen[host.id].stage if host.id in self._seen else None
            if before is not host.progress.current_stage:
                self.broken(f"host {host.id} was at stage {before}, after the restart {host.progress.current_stage}")

    def _cluster(self, store: Store, cluster: Cluster, hosts: list[Host]) -> None:
        seen, status = self._seen.get(cluster.id), cluster.status
        if seen is not None and seen.status != status:
            self.note("cluster", f"{seen.status} -> {status}: {cluster.status_info}")
            before = C(seen.status)
            back = RANKS[status] < RANKS[before]
            anew = before is C.PREPARING and status in BEFORE and bool(cluster.attempt)
            action = before is C.INSTALLING_PENDING_USER_ACTION and status is C.INSTALLING
            if anew:
                self._check_reason(store, cluster)
            if back and not (anew or action or self._may_reset(seen, cluster, status)):
                self.broken(f"the cluster went back from {before} to {status}")
        if status is C.INSTALLING:
            self.begun.add(cluster.attempt)
        if status is C.INSTALLED and (seen is None or seen.status != status):
            masters = [host for host in hosts if host.effective_role.value == "master"]
            missing = [host.id for host in masters if host.status is not H.INSTALLED]
            if missing:
                self.broken(f"the cluster is installed, its hosts {', '.join(missing)} are not")
        self._seen[cluster.id] = Seen(status.value, cluster.attempt)

    def _check_reason(self, store: Store, cluster: Cluster) -> None:
        """Check that a preparation which failed has left the reason."""
        self._failures[cluster.id] = self._failures.get(cluster.id, 0) + 1
        names = [event.name for event in store.events() if event.cluster_id == cluster.id]
        if names.count("prepare_installation_failed") < self._failures[cluster.id]:
            self.broken(f"the cluster is {cluster.status} again, and no event says why")

    @staticmethod
    def _may_reset(seen: Seen, cluster: Cluster, status: ClusterStatus) -> bool:
        # A reset ends the attempt, which nothing else does.
        return status in BEFORE and bool(seen.attempt) and cluster.attempt == ""

    def _host(self, host: Host, cluster: Cluster) -> None:
        seen = self._seen.get(host.id)
        status, stage = host.status, host.progress.current_stage
        if seen is not None and (seen.status != status or seen.stage is not stage):
            self.note(host.requested_hostname or host.id[:8], f"{status}, stage {stage}: {host.status_info}")
        if seen is not None and seen.attempt == cluster.attempt and seen.attempt:
            before = H(seen.status)
            # Whoever boots a host again that was cancelled begins anew with it (installer.md §5.2).
            anew = before is H.CANCELLED and status is H.DISCOVERING
            if before in ENDED_HOST and not anew and (status in INSTALLING_HOST or status in BEFORE_HOST):
                self.broken(f"host {host.id} went back from {before} to {status}")
            if before in INSTALLING_HOST and status in BEFORE_HOST:
                self.broken(f"host {host.id} went back from {before} to {status}")
            if seen.stage is not None and stage is not seen.stage and stage is not None:
                self._forward(host, seen.stage, stage, cluster)
        if status is H.INSTALLED and (seen is None or seen.status != status):
            name = host.requested_hostname
            if (name, cluster.attempt) not in self.nodes:
                self.broken(f"host {name} is called installed and is no ready node")
        self._seen[host.id] = Seen(status.value, cluster.attempt, stage)

    def _forward(self, host: Host, before: Stage, after: Stage, cluster: Cluster) -> None:
        role = "sno" if cluster.is_sno else "bootstrap" if host.bootstrap else host.effective_role.value
        order = STAGES[role]
        if after in order and before in order and order.index(after) < order.index(before):
            self.broken(f"host {host.id} went back from stage {before} to {after}")

    # Requests

    def before(self, store: Store, request: web.Request) -> str:
        """Say why this request must not be taken; empty when it may be."""
        for scheme in Scheme:
            end = self.ends.get(request.headers.get(HEADERS[scheme], ""))
            if end is not None and self.wall() >= end:
                return "its token has ended"
        attempt = request.headers.get(ATTEMPT_HEADER)
        if attempt and all(cluster.attempt != attempt for cluster in store.clusters()):
            return f"attempt {attempt} is over"
        return ""

    def after(self, request: web.Request, reason: str, answer: web.StreamResponse) -> None:
        """Compare an answer with what was to be said."""
        path, status = request.path.removeprefix(BASE), answer.status
        if reason and status < 400:
            self.broken(f"{request.method} {path} was answered with {status}, though {reason}")
        if status == 500 and not self.full:
            self.broken(f"{request.method} {path} was answered with 500")

    # Machines

    def hears(self, machine: Machine, attempt: str, status: int | None, *, is_report: bool) -> None:
        """Note what an orchestrator hears (a status, None for no answer) of a report, or of its cluster's hosts."""
        known = self._refused.get(machine.name)
        if is_report and status == 409:
            self._refused.setdefault(machine.name, Refusal(attempt))
        elif not is_report and known is not None:
            known.has_asked = True
            known.is_over = known.is_over or status in (404, 409)

    def written(self, machine: Machine, disk: str, attempt: str, how: str) -> None:
        """Check a disk whose content is destroyed."""
        where = f"{disk} of {machine.name} is {how}"
        if attempt not in self.begun:
            self.broken(f"{where} in attempt {attempt!r}, which never began to install")
        chosen = self.chosen.get(machine.id, disk)
        if chosen != disk:
            self.broken(f"{where}, {chosen} was chosen")
        known = self._refused.get(machine.name)
        if known is None or known.attempt != attempt or how == "wiped":
            return
        if known.is_over or not known.has_asked:
            self.broken(f"{where}, though a report in attempt {attempt} was refused")

    def begins(self, machine: Machine, attempt: str) -> None:
        """Check an orchestrator that is started: once in an attempt, unless its machine was booted again."""
        self._refused.pop(machine.name, None)
        start = (machine.name, machine.boots, attempt)
        if start in self._starts:
            self.broken(f"{machine.name} is installed twice in attempt {attempt}")
        self._starts.add(start)

    def reads(self, machine: Machine, made_for: str) -> None:
        """Check the attempt that the files were made for which an orchestrator has got."""
        attempt = machine.container.attempt if machine.container else ""
        if made_for and attempt and made_for != attempt:
            self.broken(f"{machine.name} has files of attempt {made_for} in attempt {attempt}")

    # The end

    def ended(self, store: Store, is_mild: bool) -> None:
        """Check that everything has come to an end, and everybody knows which."""
        for cluster in store.clusters():
            hosts = store.hosts(cluster_id=cluster.id)
            words = f"{cluster.status}: {cluster.status_info}"
            if cluster.status in (C.PREPARING, C.INSTALLING, C.FINALIZING):
                self.broken(f"the cluster is still {words}")
            if not cluster.status_info:
                self.broken(f"the cluster is {cluster.status} and does not say why")
            if is_mild and cluster.id == self.wanted and cluster.status is not C.INSTALLED:
                self.broken(f"the cluster had to be installed and is {words}")
            if cluster.status in (C.ERROR, C.CANCELLED, *BEFORE):
                stuck = [host.id for host in hosts if host.status in INSTALLING_HOST]
                if stuck:
                    self.broken(f"the cluster is {cluster.status}, but hosts {', '.join(stuck)} still install")

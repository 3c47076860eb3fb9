"""Applies the tables: refreshes hosts and clusters, records what changed. All within the caller's store change."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from installer.assisted import stages as stage_rules
from installer.assisted.enums import (
    GOOD,
    ClusterStatus,
    HostStatus,
    LogsState,
    PreparationStatus,
    Result,
    Role,
    Severity,
    Stage,
)
from installer.assisted.errors import LONGEST, StoreError
from installer.common.redact import shortened
from installer.rendezvous import events
from installer.rendezvous.catalogue import Catalogue
from installer.rendezvous.clock import SteadyClock, to_text
from installer.rendezvous.reconcile import facts
from installer.rendezvous.reconcile import roles as role_rules
from installer.rendezvous.reconcile.judging import DAY, Judgements, Peers
from installer.rendezvous.reconcile.pace import MAX_ROUNDS, Pace
from installer.rendezvous.reconcile.timekeeping import Timekeeper
from installer.rendezvous.settings import Settings
from installer.rendezvous.states import cluster as cluster_states
from installer.rendezvous.states import host as host_states
from installer.rendezvous.states.host import Effect
from installer.rendezvous.store.database import Store
from installer.rendezvous.store.documents import HostInventory, ImagesStatus, Validations
from installer.rendezvous.store.links import Connectivity
from installer.rendezvous.store.model import Cluster, Host, HostProgress, Preparation
from installer.rendezvous.validations import host as host_validations
from installer.rendezvous.validations import machinenetworks
from installer.rendezvous.validations.cluster import table as cluster_validations
from installer.rendezvous.validations.cluster.networks import ClusterView
from installer.rendezvous.validations.hostview import HostView, Members, inventory_of
from installer.rendezvous.validations.networks import machine_cidrs
from installer.rendezvous.validations.requirements import Requirements
from installer.rendezvous.validations.verdict import Verdicts

# A service whose monitor is so late (s) was stopped together with its machine, and heard nobody.
STALL = 30.0
log = logging.getLogger("assisted-service")
replace = msgspec.structs.replace


@dataclass(frozen=True)
class Triggered:
    """The result of a trigger: the host as it is stored now, and what else follows."""

    host: Host
    effects: tuple[Effect, ...]


class Reconciled(NamedTuple):
    """The version of a cluster that was reconciled last, and until when nothing can change by itself."""

    version: int
    until: datetime


class Scratch:
    """Never stored: it is lost with the process, which costs one round of judging and asking.

    What must outlive the process is a field of the store's model.
    """

    def __init__(self) -> None:
        # By (infra-env, host): the version, of its cluster or else its own, for which it was asked everything
        # (steps.Plan.up_to_date).
        self.asked: dict[tuple[str, str], int] = {}
        # Refused registrations that have an event: its name, the caller's address, the reason.
        self.refused: set[tuple[str, str, str]] = set()
        # By cluster.
        self.reconciled: dict[str, Reconciled] = {}

    def forget(self) -> None:
        """Judge and ask everything anew."""
        self.asked.clear()
        self.reconciled.clear()


class Engine:
    """Owner of all state changes. Methods that write must be called within ``store.change()``."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        requirements: Mapping[str, Requirements],
        clock: SteadyClock | None = None,
    ) -> None:
        self.store = store
        self.settings = settings
        self.catalogue = Catalogue(settings)
        self.requirements = requirements
        self.clock = clock or SteadyClock()
        self.timekeeper = Timekeeper(store, self.clock)
        self.timekeeper.resume()
        # Nobody could call in before this.
        self.since = self.clock()
        self._looked = self.clock.monotonic()
        # Standstill (s) that no time-out may count: how long nothing was done, and how much of it the clock waited.
        self._asleep, self._waited = 0.0, 0.0
        self.judgements = Judgements(store, requirements)
        self.pace = Pace()
        self.scratch = Scratch()

    def adopt(self, settings: Settings) -> None:
        """Continue with other settings; everything is judged and asked anew by them."""
        self.settings = settings
        self.catalogue.adopt(settings)
        self.scratch.forget()

    def keep_time(self) -> None:
        """To be called every Settings.monitor_seconds, before anything is judged by time."""
        before, self._looked = self._looked, self.clock.monotonic()
        # Until the next look, everything is judged by a clock that waits for it.
        self._waited += self.clock.tick(self.settings.monitor_seconds + STALL)
        asleep = self._looked - before - self.settings.monitor_seconds
        if asleep > STALL:
            log.warning("the service stood still for %.0f s, which no time-out counts", asleep)
            self._asleep += asleep
        try:
            if self._asleep:
                self.timekeeper.forgive(self._asleep, self._waited)
                self._asleep = self._waited = 0.0
                # Nobody could call in before this.
                self.since = self.clock()
            jump = self.timekeeper.look()
        except StoreError as error:
            # Counted on as before until it can be.
            log.error("the time cannot be noted: %s", error)
            return
        if jump:
            # All that depends on time has changed with it, and is judged anew.
            self.since += timedelta(seconds=jump)

    # views

    def view(self, host: Host, peers: Members | None = None) -> HostView:
        """Return the host among its peers, as of now; ``peers`` where the caller has them already."""
        cluster = self.store.cluster(host.cluster_id) if host.cluster_id else None
        infra_env = self.store.infra_env(host.infra_env_id)
        return HostView(
            host=host,
            inventory=inventory_of(host),
            joined=cluster,
            infra_env=infra_env,
            peers=peers or (self.judgements.members(cluster.id) if cluster else Members([host])),
            requirements=self.requirements,
            settings=self.catalogue.of(cluster, infra_env),
            at=self.clock(),
            service_since=self.since,
        )

    def stages(self, host: Host, cluster: Cluster) -> tuple[Stage, ...]:
        """Return the ordered stages of this host's installation."""
        return stage_rules.stages_of(host.effective_role, host.bootstrap, cluster.is_sno and not host.added)

    # one host

    def apply(self, host: Host, outcome: host_states.Outcome, info: str | None = None) -> Host:
        """Return the host in its new status, stored, with the event; effects on its data included."""
        text = outcome.info if info is None else info
        text = shortened(text, LONGEST) if text is not None else None
        stamp = to_text(self.clock())
        if Effect.CLEAR_INVENTORY in outcome.effects:
            host = replace(
                host,
                inventory=HostInventory(),
                connectivity=Connectivity(),
                progress=HostProgress(),
                images_status=ImagesStatus(),
                logs_info=LogsState.NONE,
            )
        if outcome.changed:
            self.store.add_event(
                events.make(
                    "host_status_updated",
                    host=host,
                    severity=events.HOST_SEVERITY.get(outcome.status, Severity.INFO),
                    source=host.status.value,
                    target=outcome.status.value,
                    info=text,
                )
            )
            host = replace(host, status=outcome.status, status_updated_at=stamp, sent_steps={}, sent_args={})
            if outcome.status is HostStatus.PREPARING:
                host = replace(host, images_status=ImagesStatus())
        if text is not None and text != host.status_info:
            host = replace(host, status_info=text)
        host = replace(host, updated_at=stamp)
        self.store.put_host(host)
        return host

    def trigger(self, host: Host, trigger: host_states.Trigger, **texts: str) -> Triggered:
        """Apply a trigger other than refresh. Raises Conflict or Forbidden when the table does not allow it."""
        view = self.view(host)
        inputs = facts.host_facts(view, host_validations.evaluate(view))
        outcome = host_states.decide(trigger, host.status, facts.with_texts(inputs, texts))
        return Triggered(self.apply(host, outcome), outcome.effects)

    def refresh_host(self, host: Host, peers: Peers | None = None) -> Host:
        """Judge the host anew and follow its table by one row; nothing to do when all it was judged by is the same."""
        at = self.clock()
        if peers is not None and self.judgements.hold(host, peers, at):
            return host
        view = self.view(host, peers.members if peers else None)
        verdicts = host_validations.evaluate(view)
        host = self._judged(host, verdicts)
        inputs = facts.host_facts(view, verdicts)
        if inputs.stage_timed_out and not host.progress.stage_timed_out and host.status in host_states.RUNNING:
            host = replace(host, progress=replace(host.progress, stage_timed_out=True))
            timeout = inputs.texts["stage_timeout"]
            self.store.add_event(events.make("host_stage_timed_out", host=host, stage=inputs.stage, seconds=timeout))
            self.store.put_host(host)
        outcome = host_states.decide(host_states.Trigger.REFRESH, host.status, inputs)
        if outcome.changed or (outcome.info is not None and outcome.info != host.status_info):
            host = self.apply(host, outcome)
        if peers is not None and not outcome.changed:
            limit = facts.host_deadline(host, peers.cluster, self.settings, at, service_since=self.since)
            self.judgements.note(host, peers, at, limit)
        return host

    def _judged(self, host: Host, verdicts: Verdicts) -> Host:
        """Return the host with new verdicts, stored; those that flipped become events."""
        info = Validations.of(host_validations.info_of(verdicts))
        if info == host.validations_info:
            return host
        self._note_turns("host", host.validations_info, verdicts, host=host)
        host = replace(host, validations_info=info)
        self.store.put_host(host)
        return host

    def _note_turns(self, kind: str, before: Validations, verdicts: Verdicts, **subject: Any) -> None:
        """Add an event for each validation that fails now and did not, or the other way round."""
        results = before.results()
        for name, verdict in verdicts.items():
            turn = _turn(results.get(name), verdict.result)
            if turn:
                event = f"{kind}_validation_{turn}"
                self.store.add_event(events.make(event, validation=name, props={"message": verdict.message}, **subject))

    # roles

    def assign_roles(self, cluster: Cluster) -> None:
        """Suggest roles for hosts that may still change theirs, and mark the bootstrap host."""
        if cluster.status not in cluster_states.PRE:
            return
        members = [(host, inventory_of(host)) for host in self.store.hosts(cluster_id=cluster.id)]
        inventoried = [(host, inventory) for host, inventory in members if inventory is not None]
        for host, inventory in inventoried:
            if role_rules.is_bootstrap(inventory, self.settings.bootstrap_mac) and not host.bootstrap:
                # A role that the user chose stays; sufficient-masters-count tells what is wrong with another.
                role: Role = Role.MASTER if host.role is Role.AUTO else host.role
                self.store.put_host(replace(host, bootstrap=True, role=role, suggested_role=role))
                self.store.add_event(events.make("host_bootstrap_set", host=host))
        inventoried = [(self.store.host(host.infra_env_id, host.id), inventory) for host, inventory in inventoried]
        suggested = role_rules.suggest(cluster, inventoried, self.requirements)
        for host, _ in inventoried:
            role = suggested.get(host.id, host.role)
            if role is not host.suggested_role:
                self.store.put_host(replace(host, suggested_role=role))
                self.store.add_event(events.make("host_role_updated", host=host, role=role.value))

    # the cluster

    def refresh_cluster(self, cluster: Cluster) -> Cluster:
        """Judge the cluster anew and follow its table by one row."""
        hosts = self.store.hosts(cluster_id=cluster.id)
        members = [(host, inventory_of(host)) for host in hosts]
        view = ClusterView(cluster, members, self.settings, len(self.store.manifests(cluster.id)))
        verdicts = cluster_validations.evaluate(view)
        info = Validations.of(cluster_validations.info_of(verdicts))
        judged = replace(cluster, validations_info=info, progress=facts.progress(cluster, hosts))
        if judged != cluster:
            self._note_turns("cluster", cluster.validations_info, verdicts, cluster=cluster)
            cluster = judged
            self.store.put_cluster(cluster)
        failing = "; ".join(verdict.message for verdict in verdicts.values() if not verdict.is_good)
        results = {name: verdict.result for name, verdict in verdicts.items()}
        return self.trigger_cluster(cluster, cluster_states.Trigger.REFRESH, results, failing)

    def trigger_cluster(
        self,
        cluster: Cluster,
        trigger: cluster_states.Trigger,
        results: Mapping[str, Result] | None = None,
        failing: str = "",
        *,
        reason: str | None = None,
    ) -> Cluster:
        """Apply a trigger to the cluster. Raises Conflict when the table does not allow it."""
        hosts = self.store.hosts(cluster_id=cluster.id)
        inputs = facts.cluster_facts(cluster, hosts, results or {}, failing, settings=self.settings, at=self.clock())
        if reason is not None:
            inputs = facts.with_texts(inputs, {"reason": reason})
        outcome = cluster_states.decide(trigger, cluster.status, inputs)
        stamp = to_text(self.clock())
        if outcome.info is None or (not outcome.changed and outcome.info == cluster.status_info):
            return cluster
        if outcome.changed:
            detail = f" ({outcome.info})" if outcome.status is ClusterStatus.ERROR else ""
            self.store.add_event(
                events.make(
                    "cluster_status_updated",
                    cluster=cluster,
                    target=outcome.status.value,
                    info=detail,
                    severity=events.CLUSTER_SEVERITY.get(outcome.status, Severity.INFO),
                )
            )
            failed = trigger is cluster_states.Trigger.REFRESH and outcome.status in cluster_states.PRE
            if cluster.status is ClusterStatus.PREPARING and failed:
                self.store.add_event(events.make("prepare_installation_failed", cluster=cluster, reason=outcome.info))
                if cluster.last_preparation.status is not PreparationStatus.FAILED:
                    # The status says again soon that the cluster is ready.
                    failure = Preparation(status=PreparationStatus.FAILED, reason=outcome.info)
                    cluster = replace(cluster, last_preparation=failure)
            cluster = replace(cluster, status_updated_at=stamp)
            if outcome.status is ClusterStatus.PREPARING:
                cluster = replace(
                    cluster,
                    last_preparation=Preparation(),
                    attempt=secrets.token_hex(8),
                    install_started_at=stamp,
                )
        cluster = replace(cluster, status=outcome.status, status_info=outcome.info, updated_at=stamp)
        self.store.put_cluster(cluster)
        return cluster

    # together

    def is_reconciled(self, cluster_id: str) -> bool:
        """Return whether nothing has been stored, and no time run out, since the cluster was last reconciled."""
        rest = self.scratch.reconciled.get(cluster_id)
        return rest is not None and rest.version == self.store.version(cluster_id) and self.clock() < rest.until

    def refresh_groups(self, cluster_id: str) -> Cluster:
        """Bring in line what all hosts are judged by: networks, their roles and the majority groups."""
        cluster = self._with_machine_networks(self.store.cluster(cluster_id))
        self.assign_roles(cluster)
        groups = self.judgements.groups(cluster, self.store.hosts(cluster_id=cluster_id))
        if groups != cluster.connectivity_majority_groups:
            cluster = replace(cluster, connectivity_majority_groups=groups)
            self.store.put_cluster(cluster)
        return cluster

    def _with_machine_networks(self, cluster: Cluster) -> Cluster:
        """Return the cluster with the machine networks that its VIPs or its single node tell, stored."""
        hosts = self.store.hosts(cluster_id=cluster.id)
        inventories = [inventory for host in hosts if (inventory := inventory_of(host)) is not None]
        cidrs = machinenetworks.computed(cluster, inventories)
        if cidrs == machine_cidrs(cluster):
            return cluster
        items = [{"cidr": cidr, "cluster_id": cluster.id} for cidr in cidrs]
        cluster = replace(cluster, machine_networks=items)
        self.store.put_cluster(cluster)
        listed = ", ".join(cidrs) or "none"
        self.store.add_event(events.make("cluster_machine_network_set", cluster=cluster, cidr=listed))
        return cluster

    def reconcile(self, cluster_id: str) -> Cluster:
        """Refresh the hosts and the cluster until nothing moves any more; at once when nothing can have moved."""
        cluster = self.store.cluster(cluster_id)
        if self.is_reconciled(cluster_id):
            self.pace.drop(cluster_id)
            return cluster
        begin = time.monotonic()
        for _ in range(MAX_ROUNDS):
            cluster = self.refresh_groups(cluster_id)
            hosts = self.store.hosts(cluster_id=cluster_id)
            before = (cluster.status, [host.status for host in hosts])
            peers = self.judgements.peers(cluster, self.settings)
            after = [self.refresh_host(host, peers).status for host in hosts]
            cluster = self.refresh_cluster(cluster)
            if (cluster.status, after) == before:
                break
        self._note_reconciled(cluster)
        self.pace.judged(cluster_id, len(hosts), time.monotonic() - begin)
        return cluster

    def reconcile_host(self, host: Host) -> None:
        """Reconcile the host's cluster, or the host alone when it belongs to none."""
        if host.cluster_id is not None:
            self.reconcile(host.cluster_id)
            return
        for _ in range(MAX_ROUNDS):
            before, host = host.status, self.refresh_host(host)
            if host.status is before:
                return

    def reconcile_host_soon(self, host: Host) -> None:
        """Reconcile after what a host has reported: at once, but for big clusters when there is time (pace.py)."""
        if host.cluster_id is None:
            self.reconcile_host(host)
        else:
            self.reconcile_soon(host.cluster_id)

    def reconcile_soon(self, cluster_id: str) -> None:
        """Reconcile the cluster now or, if it is big and much is going on, later."""
        if self.pace.may(cluster_id, len(self.store.hosts(cluster_id=cluster_id))):
            self.reconcile(cluster_id)

    def _note_reconciled(self, cluster: Cluster) -> None:
        at = self.clock()
        ends = [self.judgements.until(host) or at for host in self.store.hosts(cluster_id=cluster.id)]
        # A millisecond more: the tables ask for "longer than".
        left = min(facts.cluster_deadline(cluster, self.settings, at), DAY) + 0.001
        until = min([*ends, at + timedelta(seconds=left)])
        self.scratch.reconciled[cluster.id] = Reconciled(self.store.version(cluster.id), until)


def _turn(before: Result | None, after: Result) -> str | None:
    """``failed`` or ``fixed`` when a result flipped, else None."""
    if before in GOOD and after in (Result.FAILURE, Result.ERROR):
        return "failed"
    if before in (Result.FAILURE, Result.ERROR) and after in GOOD:
        return "fixed"
    return None

"""Applies the tables: refreshes hosts and clusters, records what changed. All within the caller's store change."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from installer.rendezvous import (
    cluster_states,
    cluster_validations,
    connectivity,
    events,
    host_states,
    host_validations,
)
from installer.rendezvous import roles as role_rules
from installer.rendezvous import stages as stage_rules
from installer.rendezvous.clock import age, now, to_text
from installer.rendezvous.enums import GOOD, ClusterStatus, HostStatus, Result, Role, Stage
from installer.rendezvous.host_states import Effect, HostFacts
from installer.rendezvous.hostview import HostView, hostname_of, inventory_of, load_json
from installer.rendezvous.hwreqs import Requirements
from installer.rendezvous.model import Cluster, ClusterProgress, Host, HostProgress, Preparation
from installer.rendezvous.settings import Settings
from installer.rendezvous.store import Store

# A round lets one status change lead to the next; real chains are at most five long.
MAX_ROUNDS = 8
replace = msgspec.structs.replace


class Engine:
    """Owner of all state changes. Methods that write must be called within ``store.change()``."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        requirements: Mapping[str, Requirements],
        clock: Callable[[], datetime] = now,
    ) -> None:
        self.store = store
        self.settings = settings
        self.requirements = requirements
        self.clock = clock
        self.since = clock()

    # views and facts

    def view(self, host: Host) -> HostView:
        """The host among its peers, as of now."""
        cluster = self.store.cluster(host.cluster_id or "")
        peers = [(peer, inventory_of(peer)) for peer in self.store.hosts(cluster_id=cluster.id)]
        return HostView(
            host=host,
            inventory=inventory_of(host),
            cluster=cluster,
            infra_env=self.store.infra_env(host.infra_env_id),
            peers=peers,
            requirements=self.requirements,
            settings=self.settings,
            at=self.clock(),
            service_since=self.since,
        )

    def stages(self, host: Host, cluster: Cluster) -> tuple[Stage, ...]:
        """The ordered stages of this host's installation."""
        role = host.suggested_role if host.role is Role.AUTO else host.role
        return stage_rules.stages_of(role, host.bootstrap, cluster.is_sno)

    def facts(self, view: HostView, verdicts: Mapping[str, tuple[str, Result, str]]) -> HostFacts:
        """What the host's table needs to know."""
        host, at, settings = view.host, view.at, self.settings
        results = {name: result for name, (_, result, _) in verdicts.items()}
        watched = (*host_states.MIN_HARDWARE, "machine-cidr-defined", *host_states.SUFFICIENT)
        failing = "; ".join(
            verdicts[name][2]
            for name in watched
            if name in verdicts and results[name] not in GOOD and results[name] is not Result.PENDING
        ) or "; ".join(verdicts[name][2] for name in watched if name in verdicts and results[name] not in GOOD)
        stage = host.progress.current_stage
        limit = stage_rules.timeout_of(stage, view.cluster.is_sno, settings.stage_timeouts) if stage else 0.0
        images, disk_speed = self._preparation_results(view, results)
        disk = view.inventory and next(
            (item for item in view.inventory.disks if item.id == host.installation_disk_id), None
        )
        disk_text = f"{disk.path} {disk.model} serial {disk.serial or 'unknown'} ({disk.id})" if disk else "unknown"
        open_checks = [name for name, got in (("disk speed", disk_speed), ("images", images)) if got is Result.PENDING]
        return HostFacts(
            connected=view.connected,
            media_connected=host.media_status != "disconnected",
            has_inventory=view.inventory is not None,
            validations=results,
            cluster_status=view.cluster.status,
            role=view.role,
            stage=stage,
            stage_timed_out=bool(stage) and age(host.progress.stage_started_at, at) > limit,
            status_age=age(host.status_updated_at, at),
            prepare_timeout=settings.prepare_host,
            installing_timeout=settings.host_installing,
            pending_timeout=settings.pending_user_action,
            images=images,
            disk_speed=disk_speed,
            expendable=view.role is Role.WORKER,
            texts={
                "failing": failing,
                "disk_speed": verdicts["sufficient-installation-disk-speed"][2] if verdicts else "",
                "images": verdicts["container-images-available"][2] if verdicts else "",
                "prepare_timeout": f"{settings.prepare_host:.0f}",
                "stage_timeout": f"{limit:.0f}",
                "open_checks": ", ".join(open_checks),
                "wrong_boot": "Expected the host to boot from disk, but it booted the installation image - "
                f"please reboot and fix boot order to boot from disk {disk_text}",
            },
        )

    def _preparation_results(self, view: HostView, results: Mapping[str, Result]) -> tuple[Result, Result]:
        from installer.rendezvous.steps import MAKERS, T

        images = results.get("container-images-available", Result.PENDING)
        speed = results.get("sufficient-installation-disk-speed", Result.PENDING)
        if images is Result.PENDING and MAKERS[T.IMAGES](view) is None:
            images = Result.SUCCESS
        if speed is Result.PENDING and MAKERS[T.DISK_SPEED](view) is None:
            speed = Result.SUCCESS
        disabled = self.settings.disabled_steps
        return (
            Result.SUCCESS if T.IMAGES.value in disabled else images,
            Result.SUCCESS if T.DISK_SPEED.value in disabled else speed,
        )

    # one host

    def apply(self, host: Host, outcome: host_states.Outcome, info: str | None = None) -> Host:
        """The host in its new status, stored, with the event; effects on its data included."""
        text = outcome.info if info is None else info
        stamp = to_text(self.clock())
        if Effect.CLEAR_INVENTORY in outcome.effects:
            host = replace(host, inventory="", connectivity="", progress=HostProgress(), images_status="", logs_info="")
        if outcome.changed:
            self.store.add_event(
                events.make(
                    "host_status_updated",
                    host=host,
                    severity=events.host_severity(outcome.status),
                    source=host.status.value,
                    target=outcome.status.value,
                    info=text,
                )
            )
            host = replace(host, status=outcome.status, status_updated_at=stamp, sent_steps={})
            if outcome.status is HostStatus.PREPARING:
                host = replace(host, images_status="")
        if text is not None and text != host.status_info:
            host = replace(host, status_info=text)
        host = replace(host, updated_at=stamp)
        self.store.put_host(host)
        return host

    def trigger(self, host: Host, what: host_states.Trigger, **texts: str) -> tuple[Host, host_states.Outcome]:
        """Apply a trigger other than refresh. Raises Conflict or Forbidden when the table does not allow it."""
        view = self.view(host)
        facts = self.facts(view, host_validations.evaluate(view))
        facts = with_texts(facts, {**facts.texts, **texts})
        outcome = host_states.decide(what, host.status, facts)
        return self.apply(host, outcome), outcome

    def refresh_host(self, host: Host) -> Host:
        """Judge the host anew and follow its table by one row."""
        view = self.view(host)
        verdicts = host_validations.evaluate(view)
        before = _flat(host.validations_info)
        info = json.dumps(host_validations.as_info(verdicts), separators=(",", ":"))
        if info != host.validations_info:
            for name, (_, result, message) in verdicts.items():
                kind = _turn(before.get(name), result)
                if kind:
                    self.store.add_event(
                        events.make(f"host_validation_{kind}", host=host, validation=name, props={"message": message})
                    )
            host = replace(host, validations_info=info)
            self.store.put_host(host)
            view = self.view(host)
        facts = self.facts(view, verdicts)
        if facts.stage_timed_out and not host.progress.stage_timed_out and host.status in host_states.RUNNING:
            host = replace(host, progress=replace(host.progress, stage_timed_out=True))
            self.store.add_event(
                events.make("host_stage_timed_out", host=host, stage=facts.stage, seconds=facts.texts["stage_timeout"])
            )
            self.store.put_host(host)
        outcome = host_states.decide(host_states.Trigger.REFRESH, host.status, facts)
        if outcome.changed or (outcome.info is not None and outcome.info != host.status_info):
            host = self.apply(host, outcome)
        return host

    # roles

    def assign_roles(self, cluster: Cluster) -> None:
        """Suggest roles for hosts that may still change theirs, and mark the bootstrap host."""
        if cluster.status not in cluster_states.PRE:
            return
        members = [(host, inventory_of(host)) for host in self.store.hosts(cluster_id=cluster.id)]
        known = [(host, inventory) for host, inventory in members if inventory is not None]
        for host, inventory in known:
            if role_rules.is_bootstrap(inventory, self.settings.bootstrap_mac) and not host.bootstrap:
                self.store.put_host(replace(host, bootstrap=True, role=Role.MASTER, suggested_role=Role.MASTER))
                self.store.add_event(events.make("host_bootstrap_set", host=host))
        known = [(self.store.host(host.infra_env_id, host.id), inventory) for host, inventory in known]
        suggested = role_rules.suggest(cluster, known, self.requirements)
        for host, _ in known:
            role = suggested.get(host.id, host.role)
            if role is not host.suggested_role:
                self.store.put_host(replace(host, suggested_role=role))
                self.store.add_event(events.make("host_role_updated", host=host, role=role.value))

    # the cluster

    def cluster_facts(
        self, cluster: Cluster, results: Mapping[str, Result], failing: str
    ) -> cluster_states.ClusterFacts:
        """What the cluster's table needs to know."""
        hosts = self.store.hosts(cluster_id=cluster.id)
        attention = [
            f"{hostname_of(host, None) or host.id}: {host.status_info}"
            for host in hosts
            if host.status
            in (
                HostStatus.ERROR,
                HostStatus.PREPARING_FAILED,
                HostStatus.INSTALLING_PENDING_USER_ACTION,
                HostStatus.INSUFFICIENT,
                HostStatus.DISCONNECTED,
            )
        ]
        return cluster_states.ClusterFacts(
            validations=results,
            hosts=[(host.status, host.suggested_role if host.role is Role.AUTO else host.role) for host in hosts],
            control_plane_count=cluster.control_plane_count,
            preparation=cluster.last_preparation.status,
            status_age=age(cluster.status_updated_at, self.clock()),
            prepare_timeout=self.settings.prepare_cluster,
            texts={"failing": failing, "hosts": "; ".join(attention), "reason": cluster.last_preparation.reason},
        )

    def refresh_cluster(self, cluster: Cluster) -> Cluster:
        """Judge the cluster anew and follow its table by one row."""
        members = [(host, inventory_of(host)) for host in self.store.hosts(cluster_id=cluster.id)]
        verdicts = cluster_validations.evaluate(cluster_validations.ClusterView(cluster, members))
        info = json.dumps(host_validations.as_info(verdicts), separators=(",", ":"))
        progress = self._progress(cluster)
        fresh = replace(cluster, validations_info=info, progress=progress)
        if fresh != cluster:
            before = _flat(cluster.validations_info)
            for name, (_, result, message) in verdicts.items():
                kind = _turn(before.get(name), result)
                if kind:
                    self.store.add_event(
                        events.make(
                            f"cluster_validation_{kind}", cluster=cluster, validation=name, props={"message": message}
                        )
                    )
            cluster = fresh
            self.store.put_cluster(cluster)
        failing = "; ".join(message for _, result, message in verdicts.values() if result not in GOOD)
        results = {name: result for name, (_, result, _) in verdicts.items()}
        return self.trigger_cluster(cluster, cluster_states.Trigger.REFRESH, results, failing)

    def trigger_cluster(
        self,
        cluster: Cluster,
        what: cluster_states.Trigger,
        results: Mapping[str, Result] | None = None,
        failing: str = "",
        reason: str | None = None,
    ) -> Cluster:
        """Apply a trigger to the cluster. Raises Conflict when the table does not allow it."""
        facts = self.cluster_facts(cluster, results or {}, failing)
        if reason is not None:
            facts = with_texts(facts, {**facts.texts, "reason": reason})
        outcome = cluster_states.decide(what, cluster.status, facts)
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
                    severity=events.cluster_severity(outcome.status),
                )
            )
            if cluster.status is ClusterStatus.PREPARING and outcome.status in cluster_states.PRE:
                self.store.add_event(events.make("prepare_installation_failed", cluster=cluster, reason=outcome.info))
            cluster = replace(cluster, status_updated_at=stamp)
            if outcome.status is ClusterStatus.PREPARING:
                cluster = replace(cluster, last_preparation=Preparation(), install_started_at=stamp)
        cluster = replace(cluster, status=outcome.status, status_info=outcome.info, updated_at=stamp)
        self.store.put_cluster(cluster)
        return cluster

    def _progress(self, cluster: Cluster) -> ClusterProgress:
        """Percentages: 10 for preparing, 80 for the hosts' mean, 10 for finalizing."""
        hosts = self.store.hosts(cluster_id=cluster.id)
        started = cluster.status not in cluster_states.PRE
        preparing = 100 if started and cluster.status is not ClusterStatus.PREPARING else 0
        done = [host.progress.installation_percentage for host in hosts]
        installing = sum(done) // len(done) if done and started else 0
        finalizing = 100 if cluster.status is ClusterStatus.INSTALLED else 0
        return replace(
            cluster.progress,
            preparing_for_installation_stage_percentage=preparing,
            installing_stage_percentage=installing,
            finalizing_stage_percentage=finalizing,
            total_percentage=preparing // 10 + installing * 8 // 10 + finalizing // 10,
        )

    # together

    def settle(self, cluster_id: str) -> Cluster:
        """Refresh the hosts and the cluster until nothing moves any more."""
        cluster = self.store.cluster(cluster_id)
        for _ in range(MAX_ROUNDS):
            self.assign_roles(cluster)
            hosts = self.store.hosts(cluster_id=cluster_id)
            # Before the hosts, whose validations read it.
            groups = json.dumps(connectivity.majority_groups(cluster, hosts), sort_keys=True)
            if groups != cluster.connectivity_majority_groups:
                self.store.put_cluster(replace(cluster, connectivity_majority_groups=groups))
            before = (cluster.status, [host.status for host in hosts])
            after = [self.refresh_host(host).status for host in hosts]
            cluster = self.refresh_cluster(self.store.cluster(cluster_id))
            if (cluster.status, after) == before:
                break
        return cluster


def with_texts(facts: Any, texts: Mapping[str, str]) -> Any:
    """A copy of a facts dataclass with other texts."""
    from dataclasses import replace as dataclass_replace

    return dataclass_replace(facts, texts=texts)


def _flat(validations_info: str) -> dict[str, str]:
    info = load_json(validations_info) or {}
    return {item["id"]: item["status"] for items in info.values() for item in items}


def _turn(before: str | None, after: Result) -> str | None:
    """``failed`` or ``fixed`` when a result turned over, else None."""
    if before in GOOD and after in (Result.FAILURE, Result.ERROR):
        return "failed"
    if before in (Result.FAILURE, Result.ERROR) and after in GOOD:
        return "fixed"
    return None

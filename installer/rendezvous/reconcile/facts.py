"""Facts for the state tables, gathered from hosts, cluster, verdicts and the clock. Pure functions."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

import msgspec

from installer.assisted import stages as stage_rules
from installer.assisted.enums import ClusterStatus, HostStatus, MediaStatus, Result, Role
from installer.assisted.validation_ids import HostValidation as V
from installer.rendezvous.clock import age
from installer.rendezvous.settings import Settings
from installer.rendezvous.states import cluster as cluster_states
from installer.rendezvous.states import host as host_states
from installer.rendezvous.states.host import HostFacts
from installer.rendezvous.steps.instructions import MAKERS, T
from installer.rendezvous.store.model import Cluster, ClusterProgress, Host
from installer.rendezvous.validations import disks
from installer.rendezvous.validations.hostview import HostView, hostname_of
from installer.rendezvous.validations.verdict import Verdicts

F = TypeVar("F", HostFacts, cluster_states.ClusterFacts)
NEEDS_ATTENTION = frozenset(
    {
        HostStatus.ERROR,
        HostStatus.PREPARING_FAILED,
        HostStatus.INSTALLING_PENDING_USER_ACTION,
        HostStatus.INSUFFICIENT,
        HostStatus.DISCONNECTED,
    }
)
WATCHED = (*host_states.MIN_HARDWARE, V.MACHINE_CIDR_DEFINED, *host_states.SUFFICIENT)


def _failing(verdicts: Verdicts) -> str:
    """Messages of the failing validations; of the pending ones when none fails."""
    bad = [verdicts[name] for name in WATCHED if name in verdicts and not verdicts[name].is_good]
    failed = [verdict.message for verdict in bad if verdict.result is not Result.PENDING]
    return "; ".join(failed or [verdict.message for verdict in bad])


def _message(verdicts: Verdicts, name: str) -> str:
    return verdicts[name].message if name in verdicts else ""


def _preparation(view: HostView, verdicts: Verdicts) -> tuple[Result, Result]:
    """Results of (images, disk speed); a check that cannot be made does not hold the host up."""
    reasons = []
    for kind, name in ((T.IMAGES, V.CONTAINER_IMAGES_AVAILABLE), (T.DISK_SPEED, V.SUFFICIENT_INSTALLATION_DISK_SPEED)):
        result = verdicts[name].result if name in verdicts else Result.PENDING
        if kind.value in view.settings.disabled_steps or (result is Result.PENDING and MAKERS[kind](view) is None):
            result = Result.SUCCESS
        reasons.append(result)
    return reasons[0], reasons[1]


def host_facts(view: HostView, verdicts: Verdicts) -> HostFacts:
    """Gather the facts for the host's table."""
    host, at, settings = view.host, view.at, view.settings
    stage = host.progress.current_stage
    is_sno = view.joined is not None and view.joined.is_sno and not host.added
    limit = stage_rules.timeout_of(stage, is_sno, settings.stage_timeouts) if stage else 0.0
    images, disk_speed = _preparation(view, verdicts)
    disk = view.inventory and disks.installation(host, view.inventory)
    disk_text = f"{disk.path} {disk.model} serial {disk.serial or 'unknown'} ({disk.id})" if disk else "unknown"
    open_checks = [
        name for name, result in (("disk speed", disk_speed), ("images", images)) if result is Result.PENDING
    ]
    return HostFacts(
        connected=view.connected,
        media_connected=host.media_status is not MediaStatus.DISCONNECTED,
        has_inventory=view.inventory is not None,
        validations={name: verdict.result for name, verdict in verdicts.items()},
        cluster_status=view.joined.status if view.joined else ClusterStatus.INSUFFICIENT,
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
        added=host.added,
        texts={
            "failing": _failing(verdicts),
            "disk_speed": _message(verdicts, V.SUFFICIENT_INSTALLATION_DISK_SPEED),
            "images": _message(verdicts, V.CONTAINER_IMAGES_AVAILABLE),
            "prepare_timeout": f"{settings.prepare_host:.0f}",
            "stage_timeout": f"{limit:.0f}",
            "stage_info": f"; the last that was heard: {stage_info}"
            if (stage_info := host.progress.progress_info)
            else "",
            "open_checks": ", ".join(open_checks),
            "wrong_boot": "Expected the host to boot from disk, but it booted the installation image - "
            f"please reboot and fix boot order to boot from disk {disk_text}",
        },
    )


def with_texts(facts: F, texts: Mapping[str, str]) -> F:
    """Facts with these texts added."""
    return dataclasses.replace(facts, texts={**facts.texts, **texts})


def cluster_facts(
    cluster: Cluster,
    hosts: Sequence[Host],
    results: Mapping[str, Result],
    failing: str,
    *,
    settings: Settings,
    at: datetime,
) -> cluster_states.ClusterFacts:
    """Gather the facts for the cluster's table."""
    attention = [
        f"{hostname_of(host, None) or host.id}: {host.status_info}" for host in hosts if host.status in NEEDS_ATTENTION
    ]
    return cluster_states.ClusterFacts(
        validations=results,
        hosts=[cluster_states.HostInCluster(host.status, host.effective_role) for host in hosts],
        control_plane_count=cluster.control_plane_count,
        preparation=cluster.last_preparation.status,
        status_age=age(cluster.status_updated_at, at),
        prepare_timeout=settings.prepare_cluster,
        texts={"failing": failing, "hosts": "; ".join(attention), "reason": cluster.last_preparation.reason},
    )


def progress(cluster: Cluster, hosts: Sequence[Host]) -> ClusterProgress:
    """Percentages: 10 for preparing, 80 for the hosts' mean, 10 for finalizing."""
    if cluster.status is ClusterStatus.ADDING_HOSTS:
        return cluster.progress
    started = cluster.status not in cluster_states.PRE
    preparing = 100 if started and cluster.status is not ClusterStatus.PREPARING else 0
    done = [host.progress.installation_percentage for host in hosts]
    installing = sum(done) // len(done) if done and started else 0
    finalizing = 100 if cluster.status is ClusterStatus.INSTALLED else 0
    return msgspec.structs.replace(
        cluster.progress,
        preparing_for_installation_stage_percentage=preparing,
        installing_stage_percentage=installing,
        finalizing_stage_percentage=finalizing,
        total_percentage=preparing // 10 + installing * 8 // 10 + finalizing // 10,
    )


def _host_limits(host: Host, cluster: Cluster, settings: Settings) -> Iterator[tuple[str | None, float]]:
    by_status = {
        HostStatus.PREPARING: settings.prepare_host,
        HostStatus.INSTALLING: settings.host_installing,
        HostStatus.INSTALLING_PENDING_USER_ACTION: settings.pending_user_action,
    }
    yield host.checked_in_at, settings.host_disconnect + (settings.bootstrap_grace if host.bootstrap else 0)
    if host.status in by_status:
        yield host.status_updated_at, by_status[host.status]
    stage = host.progress.current_stage
    if stage is not None and not host.progress.stage_timed_out:
        yield (
            host.progress.stage_started_at,
            stage_rules.timeout_of(stage, cluster.is_sno and not host.added, settings.stage_timeouts),
        )


def cluster_deadline(cluster: Cluster, settings: Settings, at: datetime) -> float:
    """Seconds from ``at`` until time alone may change the cluster's state; infinite when it cannot."""
    defaults = cluster_states.ClusterFacts()
    limits = {
        ClusterStatus.PREPARING: settings.prepare_cluster,
        ClusterStatus.INSTALLING: defaults.installing_timeout,
        ClusterStatus.FINALIZING: defaults.finalizing_timeout,
    }
    if cluster.status not in limits or not cluster.status_updated_at:
        return _next([])
    return _next([limits[cluster.status] - age(cluster.status_updated_at, at)])


def host_deadline(host: Host, cluster: Cluster, settings: Settings, at: datetime, *, service_since: datetime) -> float:
    """Seconds from ``at`` until time alone may change the host's state or verdicts; infinite when it cannot."""
    left = [limit - age(since, at) for since, limit in _host_limits(host, cluster, settings) if since]
    # Silence counts from the service's own start (HostView.connected).
    running = (at - service_since).total_seconds()
    left += [settings.host_disconnect - running, settings.host_disconnect + settings.bootstrap_grace - running]
    return _next(left)


def _next(left: Sequence[float]) -> float:
    return min((value for value in left if value >= 0), default=float("inf"))

"""Operations on hosts: register, poll, progress, bind, remove (installer.md §5)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from installer.assisted import stages
from installer.assisted.enums import ClusterStatus, HostStatus, MediaStatus, Stage, StepType
from installer.assisted.errors import BadRequest, Conflict, Forbidden, NotFound, ServiceError
from installer.assisted.validation_ids import HostValidation
from installer.rendezvous import events
from installer.rendezvous.clock import age, to_text
from installer.rendezvous.reconcile.engine import Engine
from installer.rendezvous.reconcile.roles import place_in
from installer.rendezvous.resources.requests.params import one_of
from installer.rendezvous.states import cluster as cluster_states
from installer.rendezvous.states import host as host_states
from installer.rendezvous.steps import instructions as steps
from installer.rendezvous.store.documents import DisksInfo, ImagesStatus
from installer.rendezvous.store.model import Cluster, Host, HostProgress
from installer.rendezvous.validations import disks

replace = msgspec.structs.replace
T = host_states.Trigger
EDITABLE = host_states.PRE_INSTALL | host_states.UNBOUND
# New hosts may register while their cluster is in one of these.
OPEN_CLUSTER = cluster_states.PRE | {ClusterStatus.ADDING_HOSTS}


def register(engine: Engine, infra_env_id: str, host_id: str, agent_version: str) -> Host:
    """RegisterHost. Raises Forbidden or Conflict when the host must not go on."""
    store = engine.store
    infra_env = store.infra_env(infra_env_id)
    stamp = to_text(engine.clock())
    refusal: ServiceError | None = None
    with store.change():
        existing = store.find_host(infra_env_id, host_id)
        if existing is None:
            cluster = store.cluster(infra_env.cluster_id) if infra_env.cluster_id else None
            if cluster and cluster.status not in OPEN_CLUSTER:
                raise Conflict(f"cluster is in status {cluster.status}: no new host can register")
            host = Host(
                id=host_id,
                infra_env_id=infra_env_id,
                cluster_id=infra_env.cluster_id,
                status=HostStatus.DISCOVERING if cluster else HostStatus.DISCOVERING_UNBOUND,
                status_info=host_states.INFO_DISCOVERING,
                status_updated_at=stamp,
                created_at=stamp,
                **place_in(cluster),
            )
        else:
            host = disks.registered_again(existing)
            if existing.status in host_states.UNBINDING:
                host = _without_cluster(host)
        host = replace(
            host,
            discovery_agent_version=agent_version,
            registered_at=stamp,
            checked_in_at=stamp,
            media_status=MediaStatus.CONNECTED,
            sent_steps={},
            machine=None,
            # An agent that has just called in: it was started anew, or this is another machine's.
            contested_at=stamp
            if existing and age(existing.checked_in_at, engine.clock()) < steps.CONTEST_SECONDS
            else host.contested_at,
        )
        store.put_host(host)
        if existing is not None:
            try:
                registered = engine.trigger(host, T.REGISTER)
            except ServiceError as error:
                refusal = error
            else:
                host = registered.host
                if host_states.Effect.STOP_AGENT in registered.effects:
                    refusal = Forbidden(f"host is in status {host.status} and must not register again")
        name = "host_registration_failed" if refusal else "host_registration_succeeded"
        store.add_event(events.make(name, host=host, reason=refusal or ""))
        engine.reconcile_host_soon(store.host(infra_env_id, host_id))
        if existing is not None and existing.cluster_id and existing.cluster_id != host.cluster_id:
            engine.reconcile(existing.cluster_id)
    if refusal is not None:
        raise refusal
    return store.host(infra_env_id, host_id)


def _without_cluster(host: Host) -> Host:
    return replace(host, cluster_id=None, user_disk=False, **place_in(None))


def release(engine: Engine, host: Host) -> None:
    """Take a host out of a cluster that is removed, within a change; a host that is busy with it goes as well.

    A host of the cluster's own infra-env goes too: it was booted for nothing else.
    """
    infra_env = engine.store.infra_env(host.infra_env_id)
    is_busy = host.status in host_states.PREPARE | host_states.INSTALLING and not host.added
    if infra_env.cluster_id == host.cluster_id or is_busy:
        engine.store.delete_host(host.infra_env_id, host.id)
        return
    if host.status not in host_states.UNBINDING:
        host = engine.trigger(host, T.UNBIND).host
    engine.store.put_host(_without_cluster(host))


def next_steps(
    engine: Engine, infra_env_id: str, host_id: str, agent_version: str, *, timestamp: int
) -> dict[str, Any]:
    """One poll: notes that the agent lives and gives the steps that are due. ``timestamp``: its clock, s, 0 unknown."""
    store = engine.store
    at = engine.clock()
    before = store.host(infra_env_id, host_id)
    gap = (
        # Hosts send whole seconds, truncated.
        _gap(before.clock_gap, math.ceil(timestamp - at.timestamp()), engine.settings.max_clock_gap)
        if timestamp
        else before.clock_gap
    )
    host = replace(
        before,
        checked_in_at=to_text(at),
        timestamp=timestamp,
        clock_gap=gap,
        # One of the two machines has fallen silent: the other one is asked for what it is.
        **({"machine": None, "rival": None} if before.rival and not steps.contested(before, at) else {}),
        discovery_agent_version=agent_version or before.discovery_agent_version,
    )
    if _may_change_verdicts(engine, before, host):
        with store.change():
            store.put_host(host)
            engine.reconcile_host_soon(host)
        host = store.host(infra_env_id, host_id)
    else:
        # Most polls tell only that the host is still there: nothing to write, nothing to judge.
        store.note_check_in(host)
    view = engine.view(host)
    # Up to date with the cluster as it is: until that changes, there is nothing new to ask the host.
    version = store.version(host.cluster_id) if host.cluster_id else store.host_version(host)
    key = (infra_env_id, host_id)
    plan = steps.plan(view, engine.scratch.asked.get(key) == version)
    if plan.up_to_date:
        engine.scratch.asked[key] = version
    if plan.steps:
        sent = {kind.value: to_text(at) for kind, _ in plan.steps}
        args = {kind.value: steps.fingerprint(view, kind, values) for kind, values in plan.steps}
        with store.change():
            store.note_steps(
                replace(host, sent_steps={**host.sent_steps, **sent}, sent_args={**host.sent_args, **args})
            )
    return steps.encode(plan, host, view.joined.attempt if view.joined else "")


def _may_change_verdicts(engine: Engine, before: Host, after: Host) -> bool:
    """Return whether this poll can change a verdict: the host was silent, or its clock or its agent is another's."""
    return (
        before.discovery_agent_version != after.discovery_agent_version
        or before.rival != after.rival
        or before.clock_gap != after.clock_gap
        or before.status in (HostStatus.DISCONNECTED, HostStatus.DISCONNECTED_UNBOUND)
        or not engine.view(before).connected
    )


def _gap(kept: float | None, measured: float, limit: float) -> float:
    """Return the host's clock ahead of the service's, s: what is known already, unless it differs by more than polls
    do.

    So what is kept is what was judged, and a fleet is not judged anew with every poll.
    """
    usual = limit / 40 if abs(measured) > limit / 4 else limit / 8
    return kept if kept is not None and abs(measured - kept) <= usual else measured


def progress(
    engine: Engine, infra_env_id: str, host_id: str, stage_name: str, *, info: str, named: bool = False
) -> None:
    """PUT progress. Raises Unparsable for an unknown stage, Conflict for one that is out of place.

    ``named``: the request names the attempt that is under way; otherwise the host must have been told to install.
    """
    one_of(stage_name, "current_stage", "body", [item.value for item in Stage])
    stage = Stage(stage_name)
    store = engine.store
    with store.change():
        host = store.host(infra_env_id, host_id)
        if host.status not in host_states.INSTALLING:
            raise Conflict(f"host is in status {host.status}: progress cannot be set")
        if not named and host.status is HostStatus.INSTALLING and StepType.INSTALL not in host.sent_steps:
            raise Conflict("the host was not told to install in this attempt: this is the progress of another")
        old = host.progress
        if stage is Stage.FAILED:
            failure = f"Failed - {info}" if info else "Failed"
            engine.reconcile_host_soon(engine.trigger(host, T.FAILED, failure=failure).host)
            return
        if stage is old.current_stage and info == old.progress_info:
            return
        cluster = store.cluster(host.cluster_id or "")
        if host.added and stage is Stage.REBOOTING and not cluster.request:
            # Nobody will tell of what follows, unless a hub does.
            stage = Stage.DONE
        ordered = engine.stages(host, cluster)
        if stage not in ordered:
            raise Conflict(f"stage {stage} is not one of this host's stages")
        if old.current_stage in ordered and ordered.index(stage) < ordered.index(old.current_stage):
            raise Conflict(f"stage {stage} comes before {old.current_stage}, which the host has reached")
        stamp = to_text(engine.clock())
        moved = stage is not old.current_stage
        host = replace(
            host,
            progress=HostProgress(
                installation_percentage=stages.percentage(ordered, stage),
                current_stage=stage,
                progress_info=info,
                stage_started_at=stamp if moved else old.stage_started_at,
                stage_updated_at=stamp,
                stage_timed_out=False if moved else old.stage_timed_out,
            ),
            updated_at=stamp,
            checked_in_at=stamp,
        )
        store.put_host(host)
        if moved or info:
            detail = f": {info}" if info else ""
            store.add_event(events.make("host_install_progress_updated", host=host, stage=stage.value, info=detail))
        engine.reconcile_host_soon(engine.trigger(host, T.PROGRESS).host)


def delete(engine: Engine, infra_env_id: str, host_id: str) -> None:
    """Remove a host that is not being installed, nor its cluster. Raises Conflict, NotFound."""
    with engine.store.change():
        host = engine.store.host(infra_env_id, host_id)
        cluster = engine.store.cluster(host.cluster_id) if host.cluster_id else None
        is_busy = host.status in host_states.PREPARE | host_states.INSTALLING
        if host.status not in EDITABLE and (is_busy or (cluster and cluster.status in cluster_states.UNDER_WAY)):
            raise Conflict(f"host is in status {host.status} and cannot be removed")
        engine.store.delete_host(infra_env_id, host_id)
        if host.cluster_id:
            engine.reconcile(host.cluster_id)


#: The step that measures for a validation, and what is kept of it.
RESETTABLE: Mapping[str, tuple[StepType, dict[str, Any]]] = {
    HostValidation.SUFFICIENT_INSTALLATION_DISK_SPEED: (StepType.DISK_SPEED, {"disks_info": DisksInfo()}),
    HostValidation.CONTAINER_IMAGES_AVAILABLE: (StepType.IMAGES, {"images_status": ImagesStatus()}),
}


def reset_validation(engine: Engine, infra_env_id: str, host_id: str, validation: str) -> Host:
    """Forget what was measured for a validation, so that it is measured again. Raises BadRequest, Conflict."""
    with engine.store.change():
        host = engine.store.host(infra_env_id, host_id)
        if validation not in RESETTABLE:
            raise BadRequest(f"validation {validation!r} cannot be reset, only {', '.join(RESETTABLE)} can")
        if host.status in host_states.INSTALLING:
            raise Conflict(f"host is in status {host.status}: nothing is measured any more")
        step, unmeasured = RESETTABLE[validation]
        sent = {key: value for key, value in host.sent_steps.items() if key != step}
        engine.store.put_host(replace(host, **unmeasured, sent_steps=sent))
        engine.reconcile_host(host)
    return engine.store.host(infra_env_id, host_id)


def bind(engine: Engine, infra_env_id: str, host_id: str, cluster_id: str) -> Host:
    """Bind a host that belongs to no cluster to one; its agent registers anew. Raises BadRequest, Conflict."""
    with engine.store.change():
        host = engine.store.host(infra_env_id, host_id)
        try:
            cluster = engine.store.cluster(cluster_id)
        except NotFound:
            raise BadRequest(f"Failed to find cluster {cluster_id}") from None
        if engine.store.infra_env(infra_env_id).cluster_id:
            raise BadRequest(f"infra-env {infra_env_id} is its cluster's: its hosts cannot be bound to another")
        if host.cluster_id:
            raise BadRequest(f"host {host_id} belongs to cluster {host.cluster_id} already")
        if cluster.status not in OPEN_CLUSTER:
            raise Conflict(f"cluster is in status {cluster.status}: no host can be bound to it")
        host = engine.trigger(host, T.BIND).host
        engine.store.put_host(replace(host, cluster_id=cluster.id, **place_in(cluster)))
        engine.reconcile(cluster.id)
    return engine.store.host(infra_env_id, host_id)


def unbind(engine: Engine, infra_env_id: str, host_id: str) -> Host:
    """Take a host out of its cluster; it leaves when its agent registers anew. Raises BadRequest, Conflict."""
    with engine.store.change():
        host = engine.store.host(infra_env_id, host_id)
        if not host.cluster_id:
            raise BadRequest(f"host {host_id} belongs to no cluster")
        if engine.store.infra_env(infra_env_id).cluster_id:
            raise Conflict(f"infra-env {infra_env_id} is its cluster's: its hosts cannot leave it")
        engine.trigger(host, T.UNBIND)
        engine.reconcile(host.cluster_id)
    return engine.store.host(infra_env_id, host_id)


#: Credentials may also be read while they are made anew, and when an earlier attempt has made them.
WITH_CREDENTIALS = cluster_states.WITH_FILES | {ClusterStatus.READY, ClusterStatus.PREPARING}


def check_files_made(cluster: Cluster, allowed: frozenset[ClusterStatus] = cluster_states.WITH_FILES) -> None:
    """Raise Conflict unless the cluster's files have been made."""
    if cluster.status not in allowed:
        states = ", ".join(sorted(allowed))
        raise Conflict(
            f"cluster {cluster.id} is in {cluster.status} state, files can be downloaded only when status is one of: "
            f"{states}"
        )


def ignition(engine: Engine, infra_env_id: str, host_id: str) -> bytes:
    """Return a host's Ignition config. Raises NotFound, or Conflict before it has been made."""
    host = engine.store.host(infra_env_id, host_id)
    if not host.cluster_id:
        raise Conflict(f"host {host_id} belongs to no cluster: it has no Ignition config")
    check_files_made(engine.store.cluster(host.cluster_id))
    return engine.store.file(host.cluster_id, host.ignition_file)


def reconcile(engine: Engine, host: Host) -> None:
    """Judge a host because of the time alone."""
    with engine.store.change():
        engine.reconcile_host(host)

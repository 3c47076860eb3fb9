"""What agents and users do to hosts: register, poll, report progress, change (installer.md §5.1, §5.2, §5.6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from installer.assisted import stages
from installer.assisted.enums import ClusterStatus, HostStatus, LogsState, MediaStatus, Role, Stage, StepType
from installer.assisted.errors import BadRequest, Conflict, DiskRefused, Forbidden, ServiceError
from installer.rendezvous import events
from installer.rendezvous.clock import now_text, to_text
from installer.rendezvous.reconcile.engine import Engine
from installer.rendezvous.resources.params import one_of
from installer.rendezvous.resources.requests import ChosenDisk, HostUpdate
from installer.rendezvous.states import cluster as cluster_states
from installer.rendezvous.states import host as host_states
from installer.rendezvous.steps import instructions as steps
from installer.rendezvous.store.documents import DisksInfo, FencingCredentials, ImagesStatus, NodeLabels
from installer.rendezvous.store.model import Host, HostProgress, JsonMap
from installer.rendezvous.validations import disks, hints
from installer.rendezvous.validations.hardware import HOSTNAME
from installer.rendezvous.validations.hostview import FORBIDDEN_HOSTNAMES, inventory_of

replace = msgspec.structs.replace
# In the order in which they are told to whoever sends another.
LOGS_STATES = (LogsState.REQUESTED, LogsState.COLLECTING, LogsState.COMPLETED, LogsState.TIMEOUT, LogsState.NONE)
T = host_states.Trigger
EDITABLE = host_states.PRE_INSTALL | host_states.UNBOUND
IN_INSTALLATION = host_states.INSTALLING
# New hosts may register while their cluster is in one of these.
OPEN_CLUSTER = cluster_states.PRE | {ClusterStatus.ADDING_HOSTS}


def register(engine: Engine, infra_env_id: str, host_id: str, agent_version: str) -> Host:
    """RegisterHost. Raises Forbidden or Conflict when the host must not go on."""
    store = engine.store
    infra_env = store.infra_env(infra_env_id)
    stamp = to_text(engine.clock())
    refusal: ServiceError | None = None
    with store.change():
        known = store.find_host(infra_env_id, host_id)
        if known is None:
            cluster = store.cluster(infra_env.cluster_id) if infra_env.cluster_id else None
            if cluster and cluster.status not in OPEN_CLUSTER:
                raise Conflict(f"cluster is in status {cluster.status}: no new host can register")
            sno = Role.MASTER if cluster and cluster.is_sno else Role.AUTO
            host = Host(
                id=host_id,
                infra_env_id=infra_env_id,
                cluster_id=infra_env.cluster_id,
                status=HostStatus.DISCOVERING if cluster else HostStatus.DISCOVERING_UNBOUND,
                status_info=host_states.INFO_DISCOVERING,
                status_updated_at=stamp,
                created_at=stamp,
                role=sno,
                suggested_role=sno,
                bootstrap=bool(cluster and cluster.is_sno),
            )
        else:
            host = disks.registered_again(known)
            if known.status in (HostStatus.UNBINDING, HostStatus.UNBINDING_PENDING_USER_ACTION):
                host = replace(
                    host, cluster_id=None, role=Role.AUTO, suggested_role=Role.AUTO, bootstrap=False, user_disk=False
                )
        host = replace(
            host,
            discovery_agent_version=agent_version,
            registered_at=stamp,
            checked_in_at=stamp,
            media_status=MediaStatus.CONNECTED,
            sent_steps={},
        )
        store.put_host(host)
        if known is not None:
            try:
                host, outcome = engine.trigger(host, T.REGISTER)
            except ServiceError as error:
                refusal = error
            else:
                if host_states.Effect.STOP_AGENT in outcome.effects:
                    refusal = Forbidden(f"host is in status {host.status} and must not register again")
        name = "host_registration_failed" if refusal else "host_registration_succeeded"
        store.add_event(events.make(name, host=host, reason=refusal or ""))
        engine.heard(store.host(infra_env_id, host_id))
        if known is not None and known.cluster_id and known.cluster_id != host.cluster_id:
            engine.reconcile(known.cluster_id)
    if refusal is not None:
        raise refusal
    return store.host(infra_env_id, host_id)


def next_steps(
    engine: Engine, infra_env_id: str, host_id: str, agent_version: str, *, timestamp: int
) -> dict[str, Any]:
    """One poll: notes that the agent lives and gives the steps that are due. ``timestamp``: its clock, s, 0 unknown."""
    store = engine.store
    at = engine.clock()
    before = store.host(infra_env_id, host_id)
    gap = (
        _gap(before.clock_gap, timestamp - at.timestamp(), engine.settings.max_clock_gap)
        if timestamp
        else before.clock_gap
    )
    host = replace(
        before,
        checked_in_at=to_text(at),
        timestamp=timestamp,
        clock_gap=gap,
        discovery_agent_version=agent_version or before.discovery_agent_version,
    )
    if _matters(engine, before, host):
        with store.change():
            store.put_host(host)
            engine.heard(host)
        host = store.host(infra_env_id, host_id)
    else:
        # Most polls tell only that the host is still there: nothing to write, nothing to judge.
        store.note_check_in(host)
    view = engine.view(host)
    # Until something of the cluster changes, all that a host may be asked about is the same.
    version = store.version(host.cluster_id) if host.cluster_id else store.host_version(host)
    key = (infra_env_id, host_id)
    plan = steps.plan(view, engine.scratch.asked.get(key) == version)
    if plan.up_to_date:
        engine.scratch.asked[key] = version
    if plan.steps:
        sent = {kind.value: to_text(at) for kind, _ in plan.steps}
        args = {kind.value: steps.mark(view, kind, values) for kind, values in plan.steps}
        with store.change():
            store.note_steps(
                replace(host, sent_steps={**host.sent_steps, **sent}, sent_args={**host.sent_args, **args})
            )
    return steps.encode(plan, host, view.cluster.attempt)


def _matters(engine: Engine, before: Host, after: Host) -> bool:
    """Can this poll change a verdict? It can when the host was silent, or its clock or its agent is another's."""
    if before.discovery_agent_version != after.discovery_agent_version:
        return True
    away = (HostStatus.DISCONNECTED, HostStatus.DISCONNECTED_UNBOUND)
    if before.status in away or not engine.view(before).connected:
        return True
    return before.clock_gap != after.clock_gap


def _gap(known: float | None, found: float, limit: float) -> float:
    """The host's clock ahead of the service's, s: what is known already, unless it differs by more than polls do.

    So what is kept is what was judged, and a fleet is not judged anew with every poll.
    """
    usual = limit / 40 if abs(found) > limit / 4 else limit / 8
    return known if known is not None and abs(found - known) <= usual else found


def progress(
    engine: Engine, infra_env_id: str, host_id: str, stage_name: str, *, info: str, named: bool = False
) -> None:
    """PUT progress. Raises Invalid for an unknown stage, Conflict for one that is out of place.

    ``named``: who tells it has named the attempt that is under way; of others it must at least have begun here.
    """
    one_of(stage_name, "current_stage", "body", [item.value for item in Stage])
    stage = Stage(stage_name)
    store = engine.store
    with store.change():
        host = store.host(infra_env_id, host_id)
        if host.status not in IN_INSTALLATION:
            raise Conflict(f"host is in status {host.status}: progress cannot be set")
        if not named and host.status is HostStatus.INSTALLING and StepType.INSTALL not in host.sent_steps:
            raise Conflict("the host was not told to install in this attempt: this is the progress of another")
        old = host.progress
        if stage is Stage.FAILED:
            engine.heard(engine.trigger(host, T.FAILED, failure=f"Failed - {info}" if info else "Failed")[0])
            return
        if stage is old.current_stage and info == old.progress_info:
            return
        cluster = store.cluster(host.cluster_id or "")
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
        engine.heard(engine.trigger(host, T.PROGRESS)[0])


def _select_disk(engine: Engine, host: Host, wanted: list[ChosenDisk]) -> Host:
    inventory = inventory_of(host)
    chosen = [item.id or "" for item in wanted if (item.role or "install") == "install"]
    if len(chosen) > 1:
        raise BadRequest(f"only one installation disk can be chosen, not {len(chosen)}")
    if not chosen:
        return host
    if inventory is None:
        raise Conflict(f"host {host.id} has no inventory yet: its disks are unknown")
    disk = disks.find(inventory, chosen[0])
    if disk is None:
        found = ", ".join(f"{item.path or item.id} ({disks.size_text(item.size_bytes)})" for item in inventory.disks)
        if chosen[0] == hints.NOT_FOUND:
            raise DiskRefused(f"no disk that can be installed on matches the root device hints: {found or 'no disks'}")
        raise DiskRefused(f"requested installation disk {chosen[0]} is not part of the host's disks: {found or 'none'}")
    if not disk.installation_eligibility.eligible:
        reasons = ", ".join(disk.installation_eligibility.not_eligible_reasons)
        raise Conflict(f"requested installation disk {disk.path} is not eligible: {reasons}")
    return replace(disks.select(host, disk, inventory), user_disk=True)


def _skip_formatting(host: Host, name: str, wanted: bool) -> Host:
    """One disk on or off the list of those that stay as they are, by whichever of its names it is called."""
    known = {item.id: item for item in host.skipped_disks}
    inventory = inventory_of(host)
    disk = disks.find(inventory, name) if inventory is not None else None
    same = {name} | {item.id for item in known.values() if item.called(name)}
    if inventory is not None and disk is not None:
        same |= {item for item, found in disks.skipped(host, inventory) if found == disk}
    names = [item for item in host.skip_formatting_disks.split(",") if item and item not in same]
    return disks.skip(host, [*names, name] if wanted else names, inventory)


def update(engine: Engine, infra_env_id: str, host_id: str, body: HostUpdate) -> Host:
    """PATCH of a host: role, name, disks, labels. Raises BadRequest or Conflict."""
    try:
        return _update(engine, infra_env_id, host_id, body)
    except DiskRefused as error:
        # Asked for again and again by the script that applies host configs: told once, where all can read it.
        with engine.store.change():
            host = engine.store.host(infra_env_id, host_id)
            if host.step_errors.get("disk") != error.reason:
                engine.store.add_event(events.make("host_disk_not_found", host=host, reason=error.reason))
                engine.store.put_host(replace(host, step_errors={**host.step_errors, "disk": error.reason}))
        raise


def _fencing(given: JsonMap) -> FencingCredentials:
    """fencing-credentials-params as they are kept. Raises BadRequest, which never shows them."""
    for key in ("address", "username", "password"):
        if not isinstance(given.get(key), str) or not given[key]:
            raise BadRequest(f"fencing_credentials.{key} is required")
    if given.get("certificate_verification", "Enabled") not in ("Enabled", "Disabled"):
        raise BadRequest("fencing_credentials.certificate_verification must be Enabled or Disabled")
    return FencingCredentials.of(given)


def _update(engine: Engine, infra_env_id: str, host_id: str, body: HostUpdate) -> Host:
    store = engine.store
    with store.change():
        host = store.host(infra_env_id, host_id)
        if host.status not in EDITABLE:
            raise Conflict(f"host is in status {host.status}: it can be changed only in {', '.join(sorted(EDITABLE))}")
        role = body.host_role
        if role is not None:
            if role not in (Role.AUTO, Role.MASTER, Role.ARBITER, Role.WORKER):
                raise BadRequest(f"host_role {role!r} is not one of auto-assign, master, arbiter, worker")
            if role != host.role:
                suggested = Role(role) if role != Role.AUTO else host.suggested_role
                host = replace(host, role=Role(role), suggested_role=suggested)
                store.add_event(events.make("host_role_updated", host=host, role=role))
        name = body.host_name
        if name is not None:
            if name in FORBIDDEN_HOSTNAMES or not HOSTNAME.fullmatch(name):
                raise BadRequest(f"host_name {name!r} is not allowed: it must match {HOSTNAME.pattern}")
            host = replace(host, user_hostname=name, requested_hostname=name)
        if body.disks_selected_config is not None:
            host = _select_disk(engine, host, body.disks_selected_config)
        for item in body.disks_skip_formatting or []:
            host = _skip_formatting(host, item.disk_id, item.skip_formatting)
        if body.node_labels is not None:
            labels = {item.key: item.value for item in body.node_labels}
            host = replace(host, node_labels=NodeLabels.of(labels))
        if body.fencing_credentials is not None:
            host = replace(host, fencing_credentials=_fencing(body.fencing_credentials))
        if body.machine_config_pool_name is not None:
            host = replace(host, machine_config_pool_name=body.machine_config_pool_name)
        store.put_host(replace(host, updated_at=now_text()))
        engine.reconcile_host(store.host(infra_env_id, host_id))
    return store.host(infra_env_id, host_id)


def logs_state(state: str | None) -> LogsState:
    """The state if it is one. Raises Invalid."""
    one_of(state, "logs_state", "body", LOGS_STATES)
    return LogsState(state or "")


def set_logs_state(engine: Engine, infra_env_id: str, host_id: str, state: str) -> None:
    """PUT logs-progress of a host. Raises Invalid for an unknown state."""
    known = logs_state(state)
    with engine.store.change():
        host = engine.store.host(infra_env_id, host_id)
        stamp = now_text()
        started = stamp if known in (LogsState.REQUESTED, LogsState.COLLECTING) else host.logs_started_at
        collected = stamp if known is LogsState.COMPLETED else host.logs_collected_at
        engine.store.put_host(
            replace(host, logs_info=known, logs_started_at=started, logs_collected_at=collected, updated_at=stamp)
        )


RESETTABLE: Mapping[str, Callable[[Host], Host]] = {
    "sufficient-installation-disk-speed": lambda host: replace(
        host,
        disks_info=DisksInfo(),
        sent_steps={key: value for key, value in host.sent_steps.items() if key != StepType.DISK_SPEED},
    ),
    "container-images-available": lambda host: replace(
        host,
        images_status=ImagesStatus(),
        sent_steps={key: value for key, value in host.sent_steps.items() if key != StepType.IMAGES},
    ),
}


def reset_validation(engine: Engine, infra_env_id: str, host_id: str, validation: str) -> Host:
    """Forget what was measured for a validation, so that it is measured again. Raises BadRequest, Conflict."""
    if validation not in RESETTABLE:
        raise BadRequest(f"validation {validation!r} cannot be reset, only {', '.join(RESETTABLE)} can")
    with engine.store.change():
        host = engine.store.host(infra_env_id, host_id)
        if host.status in host_states.INSTALLING:
            raise Conflict(f"host is in status {host.status}: nothing is measured any more")
        engine.store.put_host(RESETTABLE[validation](host))
        engine.reconcile_host(host)
    return engine.store.host(infra_env_id, host_id)


def bind(engine: Engine, infra_env_id: str, host_id: str, cluster_id: str) -> Host:
    """Give a host that belongs to no cluster to one; its agent registers anew. Raises BadRequest, Conflict."""
    with engine.store.change():
        host = engine.store.host(infra_env_id, host_id)
        cluster = engine.store.cluster(cluster_id)
        if engine.store.infra_env(infra_env_id).cluster_id:
            raise BadRequest(f"infra-env {infra_env_id} is its cluster's: its hosts cannot be bound to another")
        if host.cluster_id:
            raise BadRequest(f"host {host_id} belongs to cluster {host.cluster_id} already")
        host, _ = engine.trigger(host, T.BIND)
        role = Role.MASTER if cluster.is_sno else Role.AUTO
        host = replace(host, cluster_id=cluster.id, role=role, suggested_role=role, bootstrap=cluster.is_sno)
        engine.store.put_host(host)
        engine.reconcile(cluster.id)
    return engine.store.host(infra_env_id, host_id)


def unbind(engine: Engine, infra_env_id: str, host_id: str) -> Host:
    """Take a host out of its cluster; it leaves when its agent registers anew. Raises BadRequest, Conflict."""
    with engine.store.change():
        host = engine.store.host(infra_env_id, host_id)
        if not host.cluster_id:
            raise BadRequest(f"host {host_id} belongs to no cluster")
        if engine.store.infra_env(infra_env_id).cluster_id:
            raise BadRequest(f"infra-env {infra_env_id} is its cluster's: its hosts cannot leave it")
        engine.trigger(host, T.UNBIND)
        engine.reconcile(host.cluster_id)
    return engine.store.host(infra_env_id, host_id)


def reset(engine: Engine, host: Host) -> Host:
    """ResetHost within a change."""
    return engine.trigger(host, T.RESET)[0]


def cancel(engine: Engine, host: Host) -> Host:
    """CancelInstallation within a change."""
    return engine.trigger(host, T.CANCEL)[0]


def is_preinstall(status: HostStatus) -> bool:
    """May this host still be changed?"""
    return status in EDITABLE

"""Reports of a cluster's own programs on its installation: stages, operators, logs, certificates, events (§5.7)."""

from __future__ import annotations

from uuid import UUID

import msgspec

from installer.assisted.enums import ClusterStatus, LogsState, OperatorStatus, Severity
from installer.assisted.errors import BadRequest
from installer.rendezvous import events
from installer.rendezvous.clock import now_text, to_text
from installer.rendezvous.reconcile.engine import Engine
from installer.rendezvous.resources.requests.clusters import EventParams, OperatorReport
from installer.rendezvous.resources.requests.params import date_time, one_of, required
from installer.rendezvous.store.model import Event, Host

replace = msgspec.structs.replace
FINALIZING_STAGES = (
    *("Waiting for cluster operators", "Adding router ca", "Applying olm manifests"),
    *("Waiting for olm operators csv initialization", "Waiting for olm operators csv"),
    *("Waiting for OLM operator setup jobs", "Done"),
)
# A cluster's statuses in which it has a finalizing stage.
FINALIZING = (ClusterStatus.INSTALLING, ClusterStatus.FINALIZING, ClusterStatus.INSTALLING_PENDING_USER_ACTION)
# In the order in which the error lists them.
LOGS_STATES = (LogsState.REQUESTED, LogsState.COLLECTING, LogsState.COMPLETED, LogsState.TIMEOUT, LogsState.NONE)
SEVERITIES = tuple(Severity)


def finalizing(engine: Engine, cluster_id: str, stage: str | None) -> None:
    """Keep the stage of finalizing that a cluster has reached. Raises BadRequest, Unparsable, NotFound."""
    one_of(stage or "", "finalizing_stage", "body", FINALIZING_STAGES)
    with engine.store.change():
        cluster = engine.store.cluster(cluster_id)
        if cluster.status not in FINALIZING:
            states = ", ".join(FINALIZING)
            raise BadRequest(f"cluster is {cluster.status}, not in one of allowed statuses: {states}")
        progress = replace(cluster.progress, finalizing_stage=stage, finalizing_stage_started_at=now_text())
        engine.store.put_cluster(replace(cluster, progress=progress))
        engine.store.add_event(events.make("cluster_finalizing_stage_updated", cluster=cluster, stage=stage))


def operator(engine: Engine, cluster_id: str, report: OperatorReport) -> None:
    """Keep what the controller reports of one operator. Raises BadRequest, Unparsable, NotFound."""
    if report.status is not None:
        one_of(report.status, "status", "body", tuple(OperatorStatus))
    required(report.name or None, "name")
    with engine.store.change():
        cluster = engine.store.cluster(cluster_id)
        others = [item for item in cluster.monitored_operators if item.get("name") != report.name]
        operators = [*others, {**report.sent_fields(), "status_updated_at": now_text()}]
        engine.store.put_cluster(replace(cluster, monitored_operators=operators))


def _logs_state(state: str | None) -> LogsState:
    one_of(state, "logs_state", "body", LOGS_STATES)
    return LogsState(state or "")


def cluster_logs_state(engine: Engine, cluster_id: str, state: str | None) -> None:
    """Keep how far the controller's logs are. Raises Unparsable for an unknown state, NotFound."""
    logs_state = _logs_state(state)
    with engine.store.change():
        engine.store.put_cluster(replace(engine.store.cluster(cluster_id), logs_info=logs_state))


def host_logs_state(engine: Engine, infra_env_id: str, host_id: str, state: str | None) -> None:
    """Keep how far a host's logs are. Raises Unparsable for an unknown state, NotFound."""
    logs_state = _logs_state(state)
    with engine.store.change():
        host = engine.store.host(infra_env_id, host_id)
        stamp = now_text()
        started = stamp if logs_state in (LogsState.REQUESTED, LogsState.COLLECTING) else host.logs_started_at
        collected = stamp if logs_state is LogsState.COMPLETED else host.logs_collected_at
        engine.store.put_host(
            replace(host, logs_info=logs_state, logs_started_at=started, logs_collected_at=collected, updated_at=stamp)
        )


def logs_uploaded(engine: Engine, cluster_id: str, host: Host | None) -> None:
    """Note that a host's logs (None: the controller's) have been uploaded; the host may have been removed meanwhile."""
    stamp = now_text()
    store = engine.store
    with store.change():
        if host is None:
            cluster = replace(store.cluster(cluster_id), controller_logs_collected_at=stamp)
            store.put_cluster(cluster)
            store.add_event(events.make("cluster_logs_uploaded", cluster=cluster))
        elif (current := store.find_host(host.infra_env_id, host.id)) is not None:
            store.put_host(replace(current, logs_collected_at=stamp))
            store.add_event(events.make("host_logs_uploaded", host=current, where=f" cluster {cluster_id}"))


def kubeconfig(engine: Engine, cluster_id: str, content: bytes) -> None:
    """Keep the kubeconfig that trusts the cluster's ingress too."""
    with engine.store.change():
        engine.store.put_file(cluster_id, "kubeconfig", content)


def _id(text: str | None) -> str | None:
    """Return an id as the store has it: with dashes, in lower case."""
    return None if text is None else str(UUID(text))


def event(engine: Engine, body: EventParams) -> None:
    """Keep a program's own event. Raises Unparsable, NotFound."""
    severity, message = required(body.severity, "severity"), required(body.message, "message")
    at, cluster_id = date_time(required(body.event_time, "event_time"), "event_time"), _id(body.cluster_id)
    one_of(severity, "severity", "body", SEVERITIES)
    cluster = engine.store.cluster(required(cluster_id, "cluster_id"))
    reported = Event(
        name=body.name or "event",
        severity=Severity(severity),
        message=events.one_line(message),
        event_time=to_text(at),
        category=body.category or "user",
        cluster_id=cluster.id,
        host_id=_id(body.host_id),
        infra_env_id=_id(body.infra_env_id),
        props=body.props or "",
    )
    with engine.store.change():
        engine.store.add_event(reported)


#: How many refusals are kept; one that is repeated is kept once.
MOST_REFUSED = 64


def refused(engine: Engine, name: str, address: str, reason: str) -> None:
    """Keep that a registration was refused, as an event of that name, once for each asker and reason."""
    key, noted = (name, address, reason), engine.scratch.refused
    if key in noted or len(noted) >= MOST_REFUSED:
        return
    noted.add(key)
    # The infra-env that the request names may not exist; a service on a live host has one infra-env.
    infra_envs = list(engine.store.infra_envs())
    only = infra_envs[0] if len(infra_envs) == 1 else None
    with engine.store.change():
        engine.store.add_event(events.make(name, infra_env=only, address=address, reason=reason))

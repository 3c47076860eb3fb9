"""The cluster's state machine as a table, to be held against installer.md §5.3 row by row. ``decide`` is pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from installer.assisted.enums import GOOD, ClusterStatus, HostStatus, PreparationStatus, Result, Role
from installer.assisted.errors import Conflict
from installer.assisted.validation_ids import ClusterValidation as V
from installer.rendezvous.states.table import Guard, filled

C = ClusterStatus
H = HostStatus


class Trigger(StrEnum):
    """Events in the life of a cluster."""

    REFRESH = "RefreshStatus"
    INSTALL = "PrepareForInstallation"
    CANCEL = "CancelInstallation"
    RESET = "ResetCluster"
    COMPLETE = "CompleteInstallation"
    FAIL = "FailInstallation"
    ADD_HOSTS = "TransformClusterToAddingHosts"


class HostInCluster(NamedTuple):
    """A host as its cluster's table sees it; the role is the chosen one, else the suggested."""

    status: HostStatus
    role: Role


@dataclass(frozen=True, kw_only=True)
class ClusterFacts:
    """All that the guards look at. Ages in seconds."""

    validations: Mapping[str, Result] = field(default_factory=dict)
    hosts: Sequence[HostInCluster] = ()
    control_plane_count: int = 3
    preparation: PreparationStatus = PreparationStatus.NOT_STARTED
    status_age: float = 0.0
    prepare_timeout: float = 600.0
    installing_timeout: float = 24 * 3600.0
    finalizing_timeout: float = 5 * 3600.0
    texts: Mapping[str, str] = field(default_factory=dict)

    def count(self, role: Role, *statuses: HostStatus) -> int:
        """Hosts of a role in any of these statuses."""
        return sum(1 for host in self.hosts if host.role is role and host.status in statuses)


REQUIRED_INPUT = (
    V.MACHINE_CIDR_DEFINED,
    V.CLUSTER_CIDR_DEFINED,
    V.SERVICE_CIDR_DEFINED,
    V.DNS_DOMAIN_DEFINED,
    V.PULL_SECRET_SET,
    V.API_VIPS_DEFINED,
    V.INGRESS_VIPS_DEFINED,
)
REQUIRED_INSTALL = (
    V.MACHINE_CIDR_EQUALS_TO_CALCULATED_CIDR,
    V.API_VIPS_VALID,
    V.INGRESS_VIPS_VALID,
    V.ALL_HOSTS_ARE_READY_TO_INSTALL,
    V.SUFFICIENT_MASTERS_COUNT,
    V.NO_CIDRS_OVERLAPPING,
    V.NETWORKS_SAME_ADDRESS_FAMILIES,
    V.NETWORK_PREFIX_VALID,
    V.NETWORK_TYPE_VALID,
    V.NTP_SERVER_CONFIGURED,
    V.CUSTOM_MANIFESTS_REQUIREMENTS_SATISFIED,
    V.PLATFORM_REQUIREMENTS_SATISFIED,
)

#: Ignition and credentials have been made, or were before it ended (upstream's getDownloadFilesAllowedStatuses).
WITH_FILES = frozenset(
    {C.INSTALLING, C.FINALIZING, C.INSTALLED, C.ERROR, C.ADDING_HOSTS, C.CANCELLED, C.INSTALLING_PENDING_USER_ACTION}
)

PREPARED_HOST = (H.PREPARING_SUCCESSFUL, H.INSTALLING, H.INSTALLING_IN_PROGRESS)
PREPARING_HOST = (H.KNOWN, H.PREPARING, H.PREPARING_SUCCESSFUL, H.PREPARING_FAILED, H.INSTALLING)
PROMISING_HOST = (
    H.PREPARING_SUCCESSFUL,
    H.INSTALLING,
    H.INSTALLING_IN_PROGRESS,
    H.INSTALLED,
    H.INSTALLING_PENDING_USER_ACTION,
)


def _good(names: tuple[V, ...]) -> Callable[[ClusterFacts], bool]:
    return lambda facts: all(facts.validations.get(name, Result.PENDING) in GOOD for name in names)


def _enough_workers(facts: ClusterFacts, *statuses: HostStatus) -> bool:
    workers = sum(1 for host in facts.hosts if host.role is Role.WORKER)
    # Two workers carry the ingress; with fewer, all that were asked for must make it.
    return facts.count(Role.WORKER, *statuses) >= min(workers, 2)


ClusterGuard = Guard[ClusterFacts]
INPUT_OK = ClusterGuard(_good(REQUIRED_INPUT))
INSTALL_OK = ClusterGuard(_good(REQUIRED_INSTALL))
PREPARED = ClusterGuard(
    lambda f: (
        bool(f.hosts)
        and all(host.status in PREPARED_HOST for host in f.hosts)
        and f.preparation is PreparationStatus.SUCCESS
    )
)
HOST_LEFT = ClusterGuard(lambda f: not f.hosts or any(host.status not in PREPARING_HOST for host in f.hosts))
HOST_FAILED = ClusterGuard(lambda f: any(host.status is H.PREPARING_FAILED for host in f.hosts))
GENERATION_FAILED = ClusterGuard(lambda f: f.preparation is PreparationStatus.FAILED)
PREPARE_TIMEOUT = ClusterGuard(lambda f: f.status_age > f.prepare_timeout)
INSTALLED = ClusterGuard(
    lambda f: f.count(Role.MASTER, H.INSTALLED) >= f.control_plane_count and _enough_workers(f, H.INSTALLED)
)
CAN_SUCCEED = ClusterGuard(
    lambda f: f.count(Role.MASTER, *PROMISING_HOST) >= f.control_plane_count and _enough_workers(f, *PROMISING_HOST)
)
USER_ACTION = ClusterGuard(lambda f: any(host.status is H.INSTALLING_PENDING_USER_ACTION for host in f.hosts))
INSTALLING_TIMEOUT = ClusterGuard(lambda f: f.status_age > f.installing_timeout)
FINALIZING_TIMEOUT = ClusterGuard(lambda f: f.status_age > f.finalizing_timeout)


@dataclass(frozen=True)
class Row:
    """One line of the table. ``guards`` must all hold; ``to`` None: the status stays."""

    trigger: Trigger
    sources: frozenset[ClusterStatus]
    to: ClusterStatus | None
    info: str = ""
    guards: tuple[ClusterGuard, ...] = ()


def _set(*statuses: ClusterStatus) -> frozenset[ClusterStatus]:
    return frozenset(statuses)


PRE = _set(C.PENDING_FOR_INPUT, C.INSUFFICIENT, C.READY)
ACTIVE = _set(C.INSTALLING, C.FINALIZING, C.INSTALLING_PENDING_USER_ACTION)
UNDER_WAY = ACTIVE | _set(C.PREPARING)
_F = Trigger.REFRESH
INFO_ADDING = "Hosts can be added to the installed cluster"

TABLE: tuple[Row, ...] = (
    Row(_F, PRE, C.PENDING_FOR_INPUT, "User input required: {failing}", (~INPUT_OK,)),
    Row(_F, PRE, C.INSUFFICIENT, "Cluster is not ready for install: {failing}", (~INSTALL_OK,)),
    Row(_F, PRE, C.READY, "Cluster ready to be installed"),
    Row(Trigger.INSTALL, _set(C.READY), C.PREPARING, "Preparing cluster for installation"),
    Row(_F, _set(C.PREPARING), C.INSTALLING, "Installation in progress", (PREPARED,)),
    Row(_F, _set(C.PREPARING), C.READY, "Failed to prepare the installation: {hosts}", (HOST_FAILED,)),
    Row(_F, _set(C.PREPARING), C.READY, "Failed to prepare the installation: {reason}", (GENERATION_FAILED,)),
    Row(_F, _set(C.PREPARING), C.INSUFFICIENT, "A host stopped preparing: {hosts}", (HOST_LEFT,)),
    Row(
        _F,
        _set(C.PREPARING),
        C.READY,
        "Preparing the installation did not end within {prepare_timeout} s: {hosts}",
        (PREPARE_TIMEOUT,),
    ),
    Row(_F, _set(C.INSTALLING), C.FINALIZING, "Finalizing cluster installation", (INSTALLED,)),
    Row(_F, _set(C.INSTALLING), C.ERROR, "Cluster has hosts in error: {hosts}", (~CAN_SUCCEED,)),
    Row(_F, _set(C.INSTALLING, C.FINALIZING), C.INSTALLING_PENDING_USER_ACTION, "{hosts}", (USER_ACTION,)),
    Row(_F, _set(C.INSTALLING), C.ERROR, "Cluster installation timed out", (INSTALLING_TIMEOUT,)),
    Row(_F, _set(C.FINALIZING), C.ERROR, "Cluster finalizing timed out", (FINALIZING_TIMEOUT,)),
    Row(
        _F,
        _set(C.INSTALLING_PENDING_USER_ACTION),
        C.ERROR,
        "Cluster has hosts in error: {hosts}",
        (~CAN_SUCCEED,),
    ),
    Row(_F, _set(C.INSTALLING_PENDING_USER_ACTION), C.INSTALLING, "Installation in progress", (~USER_ACTION,)),
    Row(_F, frozenset(ClusterStatus), None),
    Row(Trigger.COMPLETE, _set(C.FINALIZING), C.INSTALLED, "Cluster is installed"),
    Row(Trigger.ADD_HOSTS, _set(C.INSTALLED), C.ADDING_HOSTS, INFO_ADDING),
    Row(Trigger.FAIL, ACTIVE, C.ERROR, "{reason}"),
    Row(Trigger.CANCEL, ACTIVE | _set(C.PREPARING, C.ERROR), C.CANCELLED, "Cancelled cluster installation"),
    Row(
        Trigger.RESET,
        ACTIVE | _set(C.PREPARING, C.ERROR, C.CANCELLED, C.INSTALLED),
        C.INSUFFICIENT,
        "Cluster was reset by user",
    ),
)


@dataclass(frozen=True)
class Outcome:
    """A cluster's next status; ``info`` None means that the old text stays."""

    status: ClusterStatus
    info: str | None
    changed: bool


def decide(trigger: Trigger, status: ClusterStatus, facts: ClusterFacts) -> Outcome:
    """Outcome of ``trigger``. Raises Conflict when no row takes the trigger from ``status``."""
    for row in TABLE:
        if row.trigger is trigger and status in row.sources and all(guard(facts) for guard in row.guards):
            if row.to is None:
                return Outcome(status, None, False)
            words = {"prepare_timeout": f"{facts.prepare_timeout:.0f}", **facts.texts}
            return Outcome(row.to, filled(row.info, words), row.to is not status)
    raise Conflict(f"cluster is in status {status}: {trigger} is not possible")

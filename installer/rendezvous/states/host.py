"""The host's state machine as a table, to be held against installer.md §5.2 row by row.

``decide`` is pure: (trigger, status, facts) -> the first row whose trigger, source and guards fit. A trigger that
no row takes from a status is refused with Conflict, so no sequence of inputs leads anywhere undefined.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from installer.assisted.enums import GOOD, ClusterStatus, HostStatus, Result, Role, Stage
from installer.assisted.errors import Conflict, Forbidden
from installer.assisted.validation_ids import OPERATORS, of_operator
from installer.assisted.validation_ids import HostValidation as V
from installer.rendezvous.states.table import Guard, filled

H = HostStatus
C = ClusterStatus


class Trigger(StrEnum):
    """Events in the life of a host."""

    REGISTER = "RegisterHost"
    REFRESH = "RefreshHost"
    PROGRESS = "HostProgress"
    FAILED = "HostInstallationFailed"
    CANCEL = "CancelInstallation"
    MEDIA = "MediaDisconnect"
    RESET = "ResetHost"
    BIND = "BindHost"
    UNBIND = "UnbindHost"
    INSTALL = "InstallHost"


@dataclass(frozen=True, kw_only=True)
class HostFacts:
    """All that the guards look at. Ages in seconds."""

    connected: bool = True
    media_connected: bool = True
    has_inventory: bool = False
    validations: Mapping[str, Result] = field(default_factory=dict)
    cluster_status: ClusterStatus = ClusterStatus.INSUFFICIENT
    role: Role = Role.AUTO
    stage: Stage | None = None
    stage_timed_out: bool = False
    status_age: float = 0.0
    prepare_timeout: float = 480.0
    installing_timeout: float = 1200.0
    pending_timeout: float = 3600.0
    images: Result = Result.PENDING
    disk_speed: Result = Result.PENDING
    expendable: bool = False
    added: bool = False
    texts: Mapping[str, str] = field(default_factory=dict)


MIN_HARDWARE = (
    V.HAS_INVENTORY,
    V.HAS_MIN_CPU_CORES,
    V.HAS_MIN_MEMORY,
    V.HAS_MIN_VALID_DISKS,
    V.COMPATIBLE_WITH_CLUSTER_PLATFORM,
    V.DISK_ENCRYPTION_REQUIREMENTS_SATISFIED,
    V.VSPHERE_DISK_UUID_ENABLED,
    V.INVENTORY_NOT_FULLY_TRUNCATED,
)
# What can be said of a host before it belongs to a cluster.
MIN_UNBOUND = (
    V.HAS_INVENTORY,
    V.HAS_MIN_CPU_CORES,
    V.HAS_MIN_MEMORY,
    V.HAS_MIN_VALID_DISKS,
    V.INVENTORY_NOT_FULLY_TRUNCATED,
)
SUFFICIENT = (
    V.HAS_MEMORY_FOR_ROLE,
    V.HAS_CPU_CORES_FOR_ROLE,
    V.BELONGS_TO_MACHINE_CIDR,
    V.HOSTNAME_UNIQUE,
    V.HOSTNAME_VALID,
    V.IGNITION_DOWNLOADABLE,
    V.BELONGS_TO_MAJORITY_GROUP,
    *map(of_operator, OPERATORS),
    V.SUFFICIENT_NETWORK_LATENCY_REQUIREMENT_FOR_ROLE,
    V.SUFFICIENT_PACKET_LOSS_REQUIREMENT_FOR_ROLE,
    V.HAS_DEFAULT_ROUTE,
    V.API_DOMAIN_NAME_RESOLVED_CORRECTLY,
    V.API_INT_DOMAIN_NAME_RESOLVED_CORRECTLY,
    V.APPS_DOMAIN_NAME_RESOLVED_CORRECTLY,
    V.DNS_WILDCARD_NOT_CONFIGURED,
    V.VALID_PLATFORM_NETWORK_SETTINGS,
    V.SUFFICIENT_INSTALLATION_DISK_SPEED,
    V.NON_OVERLAPPING_SUBNETS,
    V.COMPATIBLE_AGENT,
    V.TIME_SYNCED_BETWEEN_HOST_AND_SERVICE,
    V.NO_SKIP_INSTALLATION_DISK,
    V.NO_SKIP_MISSING_DISK,
    V.NO_IP_COLLISIONS_IN_NETWORK,
    V.NO_ISCSI_NIC_BELONGS_TO_MACHINE_CIDR,
)


def _all_good(names: tuple[str, ...]) -> Callable[[HostFacts], bool]:
    return lambda facts: all(facts.validations.get(name, Result.PENDING) in GOOD for name in names)


def _cluster(*statuses: ClusterStatus) -> Callable[[HostFacts], bool]:
    return lambda facts: facts.cluster_status in statuses


HostGuard = Guard[HostFacts]
CONNECTED = HostGuard(lambda f: f.connected and f.media_connected)
MEDIA_LOST = HostGuard(lambda f: not f.media_connected)
INVENTORY = HostGuard(lambda f: f.has_inventory)
INVENTORY_WHOLE = HostGuard(_all_good((V.INVENTORY_NOT_FULLY_TRUNCATED,)))
HARDWARE_OK = HostGuard(_all_good(MIN_HARDWARE))
INPUT_OK = HostGuard(_all_good((V.MACHINE_CIDR_DEFINED,)))
SUFFICIENT_OK = HostGuard(_all_good(SUFFICIENT))
UNBOUND_OK = HostGuard(_all_good(MIN_UNBOUND))
ROLE_VALID = HostGuard(lambda f: f.role is not Role.AUTO)
CLUSTER_PREPARING = HostGuard(_cluster(C.PREPARING))
CLUSTER_PREPARING_OR_INSTALLING = HostGuard(_cluster(C.PREPARING, C.INSTALLING))
CLUSTER_INSTALLING = HostGuard(_cluster(C.INSTALLING, C.INSTALLING_PENDING_USER_ACTION))
CLUSTER_ERROR = HostGuard(_cluster(C.ERROR))
DISK_SPEED_OK = HostGuard(lambda f: f.disk_speed in GOOD)
DISK_SPEED_BAD = HostGuard(lambda f: f.disk_speed is Result.FAILURE)
IMAGES_OK = HostGuard(lambda f: f.images in GOOD)
IMAGES_BAD = HostGuard(lambda f: f.images is Result.FAILURE)
PREPARE_TIMEOUT = HostGuard(lambda f: f.status_age > f.prepare_timeout)
INSTALLING_TIMEOUT = HostGuard(lambda f: f.status_age > f.installing_timeout)
PENDING_TIMEOUT = HostGuard(lambda f: f.status_age > f.pending_timeout)
EXPENDABLE = HostGuard(lambda f: f.expendable)
STAGE_TIMEOUT = HostGuard(lambda f: f.stage_timed_out)
STAGE_REBOOTING = HostGuard(lambda f: f.stage is Stage.REBOOTING)
ADDED = HostGuard(lambda f: f.added)
STAGE_DONE = HostGuard(lambda f: f.stage is Stage.DONE)


class Effect(StrEnum):
    """Actions of the service besides changing the status."""

    CLEAR_INVENTORY = "clear-inventory"
    STOP_AGENT = "tell the agent to go away"


@dataclass(frozen=True)
class Row:
    """One line of the table. ``guards`` must all hold; ``to`` None: the status stays."""

    trigger: Trigger
    sources: frozenset[HostStatus]
    to: HostStatus | None
    info: str = ""
    guards: tuple[HostGuard, ...] = ()
    effects: tuple[Effect, ...] = ()


def _set(*statuses: HostStatus) -> frozenset[HostStatus]:
    return frozenset(statuses)


PRE_INSTALL = _set(H.DISCOVERING, H.KNOWN, H.DISCONNECTED, H.INSUFFICIENT, H.PENDING_FOR_INPUT)
PREPARE = _set(H.PREPARING, H.PREPARING_SUCCESSFUL, H.PREPARING_FAILED)
INSTALLING = _set(H.INSTALLING, H.INSTALLING_IN_PROGRESS, H.INSTALLING_PENDING_USER_ACTION)
RUNNING = _set(H.INSTALLING, H.INSTALLING_IN_PROGRESS)
AFTER_REBOOT = _set(H.INSTALLING_IN_PROGRESS, H.INSTALLING_PENDING_USER_ACTION, H.ADDED_TO_EXISTING)
UNBOUND = _set(H.DISCOVERING_UNBOUND, H.DISCONNECTED_UNBOUND, H.INSUFFICIENT_UNBOUND, H.KNOWN_UNBOUND)
UNBINDING = _set(H.UNBINDING, H.UNBINDING_PENDING_USER_ACTION, H.RECLAIMING, H.RECLAIMING_REBOOTING)
# Bound to a cluster, or on the way out of it, whatever that does meanwhile.
LEAVING = UNBINDING | _set(H.BINDING)
EVERY = frozenset(HostStatus)
_R, _F, _P = Trigger.REGISTER, Trigger.REFRESH, Trigger.PROGRESS

INFO_DISCOVERING = "Waiting for host to send hardware details"
INFO_DISCONNECTED = "Host has stopped communicating with the installation service"
INFO_MEDIA = "Unable to read from the discovery media"
INFO_INSUFFICIENT = "Host cannot be installed due to the following failing validation(s): {failing}"
INFO_KNOWN = "Host is ready to be installed"

TABLE: tuple[Row, ...] = (
    # RegisterHost
    Row(
        _R,
        PRE_INSTALL | _set(H.BINDING, H.RESETTING_PENDING_USER_ACTION, H.RESETTING, H.CANCELLED),
        H.DISCOVERING,
        INFO_DISCOVERING,
        effects=(Effect.CLEAR_INVENTORY,),
    ),
    Row(_R, PREPARE, H.KNOWN, INFO_KNOWN),
    Row(_R, _set(H.INSTALLING_PENDING_USER_ACTION), None, guards=(STAGE_REBOOTING,), effects=(Effect.STOP_AGENT,)),
    Row(_R, AFTER_REBOOT, H.INSTALLING_PENDING_USER_ACTION, "{wrong_boot}", (STAGE_REBOOTING,)),
    Row(_R, _set(H.ADDED_TO_EXISTING), H.INSTALLING_PENDING_USER_ACTION, "{wrong_boot}", (STAGE_DONE,)),
    Row(_R, INSTALLING, H.ERROR, "The host unexpectedly restarted during the installation"),
    Row(_R, _set(H.ERROR), None),
    Row(_R, _set(H.INSTALLED), None, effects=(Effect.STOP_AGENT,)),
    Row(_R, UNBOUND | UNBINDING, H.DISCOVERING_UNBOUND, INFO_DISCOVERING, effects=(Effect.CLEAR_INVENTORY,)),
    # RefreshHost of a host that belongs to no cluster
    Row(_F, UNBOUND, H.DISCONNECTED_UNBOUND, INFO_DISCONNECTED, (~CONNECTED,)),
    Row(_F, UNBOUND, H.DISCOVERING_UNBOUND, INFO_DISCOVERING, (~INVENTORY,)),
    Row(_F, UNBOUND, H.INSUFFICIENT_UNBOUND, INFO_INSUFFICIENT, (~UNBOUND_OK,)),
    Row(_F, UNBOUND, H.KNOWN_UNBOUND, "Host is ready to be bound to a cluster"),
    # RefreshHost before the installation. Nothing is known from an inventory that was dropped as too long, either.
    Row(_F, PRE_INSTALL, H.DISCONNECTED, INFO_MEDIA, (~CONNECTED, MEDIA_LOST)),
    Row(_F, PRE_INSTALL, H.DISCONNECTED, INFO_DISCONNECTED, (~CONNECTED,)),
    Row(_F, PRE_INSTALL, H.DISCOVERING, INFO_DISCOVERING, (~INVENTORY,)),
    Row(_F, _set(H.DISCOVERING, H.DISCONNECTED), H.DISCOVERING, INFO_DISCOVERING, (~INVENTORY_WHOLE,)),
    Row(_F, PRE_INSTALL, H.INSUFFICIENT, INFO_INSUFFICIENT, (~HARDWARE_OK,)),
    Row(_F, PRE_INSTALL, H.PENDING_FOR_INPUT, "Waiting for user input: {failing}", (~INPUT_OK,)),
    Row(_F, PRE_INSTALL, H.INSUFFICIENT, INFO_INSUFFICIENT, (~SUFFICIENT_OK,)),
    Row(
        _F,
        _set(H.KNOWN),
        H.PREPARING,
        "Host finished discovery and is preparing for installation",
        (CLUSTER_PREPARING, ROLE_VALID),
    ),
    Row(_F, PRE_INSTALL, H.KNOWN, INFO_KNOWN),
    # RefreshHost while preparing
    Row(_F, PREPARE, H.DISCONNECTED, INFO_DISCONNECTED, (~CONNECTED,)),
    Row(_F, PREPARE - _set(H.PREPARING_FAILED), H.INSUFFICIENT, "{disk_speed}", (DISK_SPEED_BAD,)),
    Row(
        _F,
        _set(H.PREPARING_SUCCESSFUL),
        H.INSTALLING,
        "Installation is in progress",
        (CLUSTER_INSTALLING,),
    ),
    Row(_F, PREPARE, H.KNOWN, INFO_KNOWN, (~CLUSTER_PREPARING_OR_INSTALLING,)),
    Row(_F, _set(H.PREPARING), H.PREPARING_FAILED, "{images}", (IMAGES_BAD,)),
    Row(
        _F,
        _set(H.PREPARING),
        H.PREPARING_SUCCESSFUL,
        "Host finished preparing for installation",
        (DISK_SPEED_OK, IMAGES_OK),
    ),
    Row(
        _F,
        _set(H.PREPARING),
        H.PREPARING_FAILED,
        "Preparing the host did not end within {prepare_timeout} s; still open: {open_checks}",
        (PREPARE_TIMEOUT,),
    ),
    # RefreshHost while installing
    Row(
        _F,
        INSTALLING | _set(H.INSTALLED),
        H.ERROR,
        "Host is part of a cluster that failed to install",
        (CLUSTER_ERROR,),
    ),
    Row(_F, _set(H.INSTALLING), H.ERROR, "The installation did not start within {status_age} s", (INSTALLING_TIMEOUT,)),
    Row(
        _F,
        _set(H.INSTALLING_IN_PROGRESS),
        H.INSTALLING_PENDING_USER_ACTION,
        "{wrong_boot}",
        (STAGE_TIMEOUT, STAGE_REBOOTING),
    ),
    Row(
        _F,
        _set(H.INSTALLING_IN_PROGRESS),
        H.ERROR,
        "Host failed to install because its installation stage {stage} took longer than expected ({stage_timeout} s)"
        "{stage_info}",
        (STAGE_TIMEOUT,),
    ),
    Row(_F, RUNNING, H.ERROR, "Host lost its connection to the service{at_stage}", (~CONNECTED,)),
    Row(
        _F,
        _set(H.INSTALLING_PENDING_USER_ACTION),
        H.ERROR,
        "Nobody answered to the pending user action within {status_age} s",
        (PENDING_TIMEOUT, EXPENDABLE),
    ),
    Row(_F, EVERY, None),
    # HostProgress (a Failed stage comes as Trigger.FAILED)
    Row(_P, INSTALLING, H.ADDED_TO_EXISTING, "Done", (STAGE_DONE, ADDED)),
    Row(_P, INSTALLING, H.INSTALLED, "Done", (STAGE_DONE,)),
    Row(_P, INSTALLING, H.INSTALLING_IN_PROGRESS, "{stage}"),
    # The rest
    Row(Trigger.INSTALL, _set(H.KNOWN), H.INSTALLING, "Installation is in progress", (ADDED,)),
    Row(Trigger.FAILED, INSTALLING, H.ERROR, "{failure}"),
    Row(Trigger.CANCEL, PREPARE, H.KNOWN, INFO_KNOWN),
    Row(Trigger.CANCEL, INSTALLING | _set(H.INSTALLED, H.ERROR), H.CANCELLED, "Installation was cancelled by user"),
    Row(Trigger.CANCEL, PRE_INSTALL | LEAVING | _set(H.CANCELLED, H.DISABLED), None),
    Row(Trigger.MEDIA, PRE_INSTALL | PREPARE, H.DISCONNECTED, INFO_MEDIA),
    Row(Trigger.MEDIA, RUNNING, H.ERROR, "{media}"),
    Row(Trigger.MEDIA, EVERY, None),
    Row(
        Trigger.RESET,
        INSTALLING | PREPARE | _set(H.INSTALLED, H.ADDED_TO_EXISTING, H.ERROR, H.CANCELLED),
        H.RESETTING_PENDING_USER_ACTION,
        "Host must be booted from the discovery media again to finish the reset",
        effects=(Effect.CLEAR_INVENTORY,),
    ),
    Row(Trigger.RESET, PRE_INSTALL | LEAVING | _set(H.RESETTING_PENDING_USER_ACTION), None),
    Row(Trigger.BIND, UNBOUND, H.BINDING, "Host is waiting to be bound to the cluster"),
    Row(Trigger.UNBIND, PRE_INSTALL | _set(H.BINDING), H.UNBINDING, "Host is waiting to be unbound from the cluster"),
    Row(
        Trigger.UNBIND,
        INSTALLING,
        H.UNBINDING_PENDING_USER_ACTION,
        "Host must be booted from the discovery media again to be unbound",
        (ADDED,),
    ),
    Row(
        Trigger.UNBIND,
        _set(H.INSTALLED, H.ERROR, H.CANCELLED, H.ADDED_TO_EXISTING, H.RESETTING_PENDING_USER_ACTION),
        H.UNBINDING_PENDING_USER_ACTION,
        "Host must be booted from the discovery media again to be unbound",
    ),
)


@dataclass(frozen=True)
class Outcome:
    """A host's next status, status info and effects, and whether the status changed."""

    status: HostStatus
    info: str | None
    effects: tuple[Effect, ...]
    changed: bool


def decide(trigger: Trigger, status: HostStatus, facts: HostFacts) -> Outcome:
    """Outcome of ``trigger``; ``info`` None means that the old text stays.

    Raises Conflict when no row takes the trigger from ``status``, Forbidden when a host in a final status registers.
    """
    for row in TABLE:
        if row.trigger is trigger and status in row.sources and all(guard(facts) for guard in row.guards):
            if row.to is None:
                return Outcome(status, None, row.effects, False)
            words = {
                "stage": facts.stage or "",
                "at_stage": f" at stage {facts.stage}" if facts.stage else "",
                "status_age": f"{facts.status_age:.0f}",
                **facts.texts,
            }
            return Outcome(row.to, filled(row.info, words), row.effects, row.to is not status)
    if trigger is Trigger.REGISTER:
        raise Forbidden(f"a host in status {status} cannot register")
    raise Conflict(f"a host in status {status} does not take {trigger}")

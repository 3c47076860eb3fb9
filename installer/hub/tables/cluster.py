"""AgentClusterInstall: from the service's cluster and its Agents to conditions, status and the decision to install.

To be held against hub.md §3 row by row. Nothing here reads or writes anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from installer.assisted.enums import ClusterStatus, HostStatus, PreparationStatus, Result, Role
from installer.hub.conditions import Condition
from installer.hub.tables.facts import (
    FALSE,
    TRUE,
    UNKNOWN,
    Facts,
    Json,
    debug_info,
    messages,
    spec_synced,
    validations,
)

C = ClusterStatus
KIND = "AgentClusterInstall"
TYPES = ("Validated", "RequirementsMet", "Completed", "Failed", "Stopped", "LastInstallationPreparationFailed")
# Seconds between a preparation that failed and the next one: doubled each time, up to half an hour.
FIRST_PAUSE, LONGEST_PAUSE = 15.0, 1800.0
ROLES = (Role.MASTER, Role.ARBITER, Role.WORKER)
Row = tuple[str, str, str]


class Member(NamedTuple):
    """An Agent of the cluster; ``role``: the chosen one, else the suggested."""

    name: str
    role: str
    status: str
    is_approved: bool = True
    is_synced: bool = True


class Numbers(NamedTuple):
    """Agents by role."""

    masters: int
    arbiters: int = 0
    workers: int = 0

    def __str__(self) -> str:
        return f"{self.masters} control plane, {self.arbiters} arbiter and {self.workers} worker agents"


@dataclass(frozen=True, kw_only=True)
class ClusterFacts(Facts):
    """All that the table looks at.

    ``cluster``: the service's, None while there is none; ``attempts``: installations started with this spec.
    """

    required: Numbers
    cluster: Json | None = field(default=None, repr=False)
    members: Sequence[Member] = ()
    is_held: bool = False
    attempts: int = 0

    @property
    def known(self) -> Json:
        """As Facts says."""
        return self.cluster or {}

    @property
    def preparation(self) -> Mapping[str, str]:
        """The last preparation: its status and, where it failed, the reason."""
        return (self.cluster or {}).get("last-installation-preparation") or {}


BEFORE = frozenset({C.INSUFFICIENT, C.PENDING_FOR_INPUT, C.READY})
RUNNING = frozenset({C.PREPARING, C.INSTALLING, C.INSTALLING_PENDING_USER_ACTION, C.FINALIZING})
DONE = frozenset({C.INSTALLED, C.ADDING_HOSTS})
#: States in which the installation is cancelled before the cluster is removed.
CANCELLABLE = RUNNING | {C.ERROR}
#: States in which the service gives the admin's kubeconfig; in DONE the password as well.
WITH_KUBECONFIG = (RUNNING - {C.PREPARING}) | DONE


def numbers(members: Sequence[Member]) -> Numbers:
    """Count Agents by role."""
    return Numbers(*(sum(1 for item in members if item.role == role) for role in ROLES))


def conditions(facts: ClusterFacts) -> list[Condition]:
    """Return all conditions of an AgentClusterInstall, each of them in every state."""
    synced = spec_synced(KIND, facts.name, facts.problem)
    if facts.cluster is None:
        text = f"{KIND} {facts.name}: the service has no cluster for it yet"
        return [synced, *(Condition(name, UNKNOWN, "NotAvailable", text) for name in TYPES)]
    rows = (_validated, _requirements, _completed, _failed, _stopped, _preparation)
    return [synced, *(Condition(name, *row(facts)) for name, row in zip(TYPES, rows, strict=True))]


def _unknown(facts: ClusterFacts) -> Row:
    return UNKNOWN, "UnknownStatus", f"cluster {facts.name} is in state {facts.status}: {facts.info}"


def _validated(facts: ClusterFacts) -> Row:
    found = validations(facts.cluster or {})
    if facts.status == C.INSUFFICIENT:
        bad = messages(found, Result.FAILURE, Result.ERROR) or facts.info
        return FALSE, "ValidationsFailing", f"cluster {facts.name} fails validations: {bad}"
    if facts.status == C.PENDING_FOR_INPUT:
        bad = messages(found, Result.FAILURE, Result.PENDING) or facts.info
        return FALSE, "ValidationsUserPending", f"cluster {facts.name} waits for input: {bad}"
    if not found and facts.status != C.ADDING_HOSTS:
        return UNKNOWN, "ValidationsUnknown", f"cluster {facts.name} has not been validated yet"
    return TRUE, "ValidationsPassing", f"cluster {facts.name} passes its validations"


def _shown(members: Sequence[Member]) -> str:
    names = ", ".join(item.name for item in members[:5])
    return names + (f" and {len(members) - 5} more" if len(members) > 5 else "")


def _surplus(facts: ClusterFacts) -> str:
    """Return the Agents of roles that have more than are required, to follow a sentence; empty where none has."""
    roles = zip(ROLES, numbers(facts.members), facts.required, strict=True)
    found = [
        f"{present - wanted} of {role} agents {_shown([item for item in facts.members if item.role == role])}"
        for role, present, wanted in roles
        if present > wanted
    ]
    return f"; too many: {', '.join(found)}" if found else ""


def lacking(facts: ClusterFacts) -> Row | None:
    """Return what keeps a ready cluster from being installed, apart from a hold and a pause; None: nothing.

    Upstream says UnapprovedAgents for a moment while approved hosts prepare; here only where one is not approved.
    """
    present = numbers(facts.members)
    if present != facts.required:
        text = f"cluster {facts.name} requires {facts.required}, and has {present}{_surplus(facts)}"
        return FALSE, "InsufficientAgents", text
    without = int((facts.cluster or {}).get("total_host_count") or 0) - len(facts.members)
    if without > 0:
        return FALSE, "InsufficientAgents", f"cluster {facts.name}: {without} of its hosts have no Agent yet"
    if unsynced := [item for item in facts.members if not item.is_synced]:
        text = f"specs that have not been passed on to the service: those of agents {_shown(unsynced)}"
        return FALSE, "UnsyncedAgents", text
    if unapproved := [item for item in facts.members if not item.is_approved]:
        return FALSE, "UnapprovedAgents", f"agents that are to be approved: {_shown(unapproved)}"
    if waiting := [item for item in facts.members if item.status != HostStatus.KNOWN]:
        text = f"agents of cluster {facts.name} that are not ready: {_shown(waiting)}"
        return FALSE, "InsufficientAgents", text
    return None


def _requirements(facts: ClusterFacts) -> Row:
    if facts.status == C.READY:
        ready = (TRUE, "ClusterIsReady", f"cluster {facts.name} is ready to be installed")
        return lacking(facts) or ready
    if facts.status in BEFORE:
        surplus = _surplus(facts)
        why = f"; it requires {facts.required}{surplus}" if surplus else ""
        return FALSE, "ClusterNotReady", f"cluster {facts.name} is not ready to be installed: {facts.info}{why}"
    if facts.status in RUNNING or facts.status == C.ADDING_HOSTS:
        return TRUE, "ClusterAlreadyInstalling", f"the installation of cluster {facts.name} has begun"
    if facts.status in (C.INSTALLED, C.ERROR):
        return TRUE, "ClusterInstallationStopped", f"the installation of cluster {facts.name} has stopped"
    return _unknown(facts)


def _operator(facts: ClusterFacts) -> str:
    """Return the cluster version operator's report, empty before there is any."""
    for item in (facts.cluster or {}).get("monitored_operators") or ():
        if item.get("name") == "cvo" and item.get("status"):
            return f"; cluster version operator: {item['status']}, {item.get('status_info') or 'no message'}"
    return ""


def _completed(facts: ClusterFacts) -> Row:
    if facts.status == C.READY and facts.is_held:
        text = f"holdInstallation of {KIND} {facts.name}, or hive.openshift.io/reconcile-pause of its ClusterDeployment"
        return FALSE, "InstallationOnHold", f"the installation is held by {text}"
    if facts.status in BEFORE:
        return FALSE, "InstallationNotStarted", f"the installation of cluster {facts.name} has not started"
    if facts.status in RUNNING:
        return (
            FALSE,
            "InstallationInProgress",
            f"cluster {facts.name} is being installed: {facts.info}{_operator(facts)}",
        )
    if facts.status in DONE:
        return TRUE, "InstallationCompleted", f"cluster {facts.name} is installed"
    if facts.status == C.ERROR:
        return FALSE, "InstallationFailed", f"the installation of cluster {facts.name} failed: {facts.info}"
    return _unknown(facts)


def _failed(facts: ClusterFacts) -> Row:
    if facts.status == C.ERROR:
        return TRUE, "InstallationFailed", f"the installation of cluster {facts.name} failed: {facts.info}"
    return FALSE, "InstallationNotFailed", f"the installation of cluster {facts.name} has not failed"


def _stopped(facts: ClusterFacts) -> Row:
    if facts.status == C.ERROR:
        return TRUE, "InstallationFailed", f"the installation of cluster {facts.name} stopped as it failed"
    if facts.status == C.CANCELLED:
        return TRUE, "InstallationCancelled", f"the installation of cluster {facts.name} was cancelled"
    if facts.status in DONE:
        return TRUE, "InstallationCompleted", f"the installation of cluster {facts.name} is complete"
    return FALSE, "InstallationNotStopped", f"the installation of cluster {facts.name} is to come or in progress"


def _preparation(facts: ClusterFacts) -> Row:
    """Return the last preparation's outcome; upstream's reasons are sentences, which the API's conventions forbid.

    The service's own record is of what it makes, not of hosts that could not prepare, which the number of starts tells.
    """
    status = facts.preparation.get("status") or PreparationStatus.NOT_STARTED
    ended = facts.attempts if facts.status in BEFORE else facts.attempts - 1 if facts.status == C.PREPARING else 0
    if status == PreparationStatus.FAILED or ended > 0:
        times = f" ({facts.attempts} starts with this spec)" if facts.attempts else ""
        reason = facts.preparation.get("reason") or "it came to no installation"
        return TRUE, "PreparationFailed", f"the last preparation of cluster {facts.name} failed{times}: {reason}"
    if status == PreparationStatus.SUCCESS:
        return FALSE, "PreparationSucceeded", f"the last preparation of cluster {facts.name} succeeded"
    return FALSE, "NeverPrepared", f"cluster {facts.name} has not been prepared for its installation yet"


def pause(facts: ClusterFacts) -> float:
    """Return the seconds that are to pass before a ready cluster is started again: it has been, and is ready again."""
    if not facts.attempts:
        return 0.0
    return min(FIRST_PAUSE * 2.0 ** min(facts.attempts - 1, 16), LONGEST_PAUSE)


def can_start(facts: ClusterFacts) -> bool:
    """Return whether the installation is to be started, apart from the pause after a failed preparation."""
    return facts.status == C.READY and not facts.is_held and facts.problem is None and lacking(facts) is None


def status(facts: ClusterFacts, events_url: str, logs_url: str) -> Json:
    """Return the status of an AgentClusterInstall without its conditions; URLs may be empty, they are always there."""
    cluster = facts.cluster or {}
    present = facts.members
    ready = [item for item in present if item.status == HostStatus.KNOWN and item.is_approved]
    found: Json = {
        "debugInfo": debug_info(facts, events_url, logs_url, "controller_logs_collected_at"),
        "progress": {"totalPercentage": int((cluster.get("progress") or {}).get("total_percentage") or 0)},
        "machineNetwork": [{"cidr": item["cidr"]} for item in cluster.get("machine_networks") or ()],
        "apiVIPs": [item["ip"] for item in cluster.get("api_vips") or ()],
        "ingressVIPs": [item["ip"] for item in cluster.get("ingress_vips") or ()],
        "connectivityMajorityGroups": cluster.get("connectivity_majority_groups") or "",
        "controlPlaneAgentsDiscovered": numbers(present).masters,
        "controlPlaneAgentsReady": numbers(ready).masters,
        "workerAgentsDiscovered": numbers(present).workers,
        "workerAgentsReady": numbers(ready).workers,
        "validationsInfo": validations(cluster),
        "platformType": PLATFORMS.get(str((cluster.get("platform") or {}).get("type")), ""),
        "userManagedNetworking": cluster.get("user_managed_networking"),
    }
    found["apiVIP"] = (found["apiVIPs"] or [""])[0]
    found["ingressVIP"] = (found["ingressVIPs"] or [""])[0]
    always = ("debugInfo", "progress", "userManagedNetworking")
    return {key: value for key, value in found.items() if value or (key in always and value is not None)}


#: Platforms of the service by their names in the custom resource.
PLATFORMS = {
    "baremetal": "BareMetal",
    "none": "None",
    "vsphere": "VSphere",
    "nutanix": "Nutanix",
    "external": "External",
}

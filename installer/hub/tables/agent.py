"""Agent: from the service's host to conditions and status, a row for each state of a host.

To be held against hub.md §6. Upstream says UnknownStatus of hosts that are reset, cancelled or reclaimed; here each
state that is known has a reason of its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from installer.assisted import inventory as inventories
from installer.assisted.enums import NEVER, HostStatus, Result, Role
from installer.common.formats import jsontext
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

H = HostStatus
KIND = "Agent"
TYPES = ("Connected", "RequirementsMet", "Validated", "Installed", "Bound")


@dataclass(frozen=True, kw_only=True)
class AgentFacts(Facts):
    """All that the table looks at. ``host``: the service's, None while there is none; ``cleanup``: why one failed."""

    host: Json | None = field(default=None, repr=False)
    is_approved: bool = False
    cluster: str = ""
    cleanup: str = ""

    @property
    def known(self) -> Json:
        """As Facts says."""
        return self.host or {}


class Verdict(NamedTuple):
    """A condition's status and reason, and a sentence about the agent, which may have ``{info}`` and ``{cluster}``."""

    status: str
    reason: str
    text: str


class Row(NamedTuple):
    """Conditions of an Agent whose host is in one state, apart from Connected and Validated."""

    requirements: Verdict
    installed: Verdict
    bound: Verdict


_READY = Verdict(TRUE, "AgentIsReady", "is ready to be installed")
_UNAPPROVED = Verdict(FALSE, "AgentIsNotApproved", "is to be approved: spec.approved is false")
_NOT_READY = Verdict(FALSE, "AgentNotReady", "is not ready to be installed: {info}")
_ALREADY = Verdict(TRUE, "AgentAlreadyInstalling", "is being installed")
_STOPPED = Verdict(TRUE, "AgentInstallationStopped", "is not being installed any more")
_NOT_STARTED = Verdict(FALSE, "InstallationNotStarted", "has not begun to be installed")
_IN_PROGRESS = Verdict(FALSE, "InstallationInProgress", "is being installed: {info}")
_COMPLETED = Verdict(TRUE, "InstallationCompleted", "is installed: {info}")
_FAILED = Verdict(FALSE, "InstallationFailed", "could not be installed: {info}")
_BOUND = Verdict(TRUE, "Bound", "is bound to ClusterDeployment {cluster}")
_UNBOUND = Verdict(FALSE, "Unbound", "is bound to no ClusterDeployment")
_BINDING = Verdict(FALSE, "Binding", "is being bound to ClusterDeployment {cluster}")
_UNBINDING = Verdict(FALSE, "Unbinding", "is leaving its cluster")
_REBOOT = Verdict(FALSE, "UnbindingPendingUserAction", "leaves its cluster when it boots its InfraEnv's image again")
_RECLAIMING = Verdict(FALSE, "Reclaiming", "is being rebooted out of its cluster into discovery: {info}")
_RESETTING = Verdict(FALSE, "Resetting", "is to boot its InfraEnv's image again, which ends its reset: {info}")
_CANCELLED = Verdict(FALSE, "InstallationCancelled", "was being installed until that was cancelled")
_DISABLED = Verdict(FALSE, "AgentDisabled", "takes part in no installation while it is disabled")
_UNKNOWN = Verdict(UNKNOWN, "UnknownStatus", "is in a state that is not known here: {info}")


def _same(verdict: Verdict, bound: Verdict) -> Row:
    return Row(verdict, verdict, bound)


_OPEN, _OPEN_UNBOUND = Row(_NOT_READY, _NOT_STARTED, _BOUND), Row(_NOT_READY, _NOT_STARTED, _UNBOUND)
_RUNNING = Row(_ALREADY, _IN_PROGRESS, _BOUND)
TABLE: Mapping[str, Row] = {
    H.DISCOVERING: _OPEN,
    H.INSUFFICIENT: _OPEN,
    H.DISCONNECTED: _OPEN,
    H.PENDING_FOR_INPUT: _OPEN,
    H.KNOWN: Row(_READY, _NOT_STARTED, _BOUND),
    H.DISABLED: Row(_DISABLED, _NOT_STARTED, _BOUND),
    H.PREPARING: _RUNNING,
    H.PREPARING_SUCCESSFUL: _RUNNING,
    H.PREPARING_FAILED: _RUNNING,
    H.INSTALLING: _RUNNING,
    H.INSTALLING_IN_PROGRESS: _RUNNING,
    H.INSTALLING_PENDING_USER_ACTION: _RUNNING,
    H.INSTALLED: Row(_STOPPED, _COMPLETED, _BOUND),
    H.ADDED_TO_EXISTING: Row(_STOPPED, _COMPLETED, _BOUND),
    H.ERROR: Row(_STOPPED, _FAILED, _BOUND),
    H.CANCELLED: _same(_CANCELLED, _BOUND),
    H.RESETTING: _same(_RESETTING, _BOUND),
    H.RESETTING_PENDING_USER_ACTION: _same(_RESETTING, _BOUND),
    H.BINDING: _same(_BINDING, _BINDING),
    H.UNBINDING: _same(_UNBINDING, _UNBINDING),
    H.UNBINDING_PENDING_USER_ACTION: _same(_UNBINDING, _REBOOT),
    H.RECLAIMING: _same(_RECLAIMING, _RECLAIMING),
    H.RECLAIMING_REBOOTING: _same(_RECLAIMING, _RECLAIMING),
    H.DISCOVERING_UNBOUND: _OPEN_UNBOUND,
    H.INSUFFICIENT_UNBOUND: _OPEN_UNBOUND,
    H.DISCONNECTED_UNBOUND: _OPEN_UNBOUND,
    H.KNOWN_UNBOUND: Row(_READY, _NOT_STARTED, _UNBOUND),
    H.DISABLED_UNBOUND: Row(_DISABLED, _NOT_STARTED, _UNBOUND),
}
UNKNOWN_ROW = Row(_UNKNOWN, _UNKNOWN, _UNKNOWN)
READY = frozenset({H.KNOWN, H.KNOWN_UNBOUND})
LEAVING = frozenset({H.UNBINDING, H.UNBINDING_PENDING_USER_ACTION, H.RECLAIMING, H.RECLAIMING_REBOOTING})
UNBOUND = frozenset(status for status, row in TABLE.items() if row.bound is _UNBOUND)
#: The cluster of a host may not change in these, as it is being installed; a day-2 host may leave all the same.
INSTALLING = frozenset(status for status, row in TABLE.items() if row.requirements is _ALREADY)
#: The service takes changes of a host in these.
EDITABLE = frozenset(s for s, row in TABLE.items() if row.requirements in (_READY, _NOT_READY)) | {H.BINDING}


def conditions(facts: AgentFacts) -> list[Condition]:
    """Return all conditions of an Agent, each of them in every state; Cleanup only where one failed."""
    found = [spec_synced(KIND, facts.name, facts.problem)]
    if facts.host is None:
        text = f"{KIND} {facts.name}: the service has no host for it"
        found += [Condition(name, UNKNOWN, "NotAvailable", text) for name in TYPES]
    else:
        row = TABLE.get(facts.status, UNKNOWN_ROW)
        requirements = row.requirements
        if facts.status in READY and not facts.is_approved:
            requirements = _UNAPPROVED
        verdicts = (_connected(facts), requirements, _validated(facts, row), row.installed, row.bound)
        words = {"info": facts.info or facts.status, "cluster": facts.cluster or "(none)"}
        for name, verdict in zip(TYPES, verdicts, strict=True):
            text = f"agent {facts.name} {verdict.text.format(**words)}"
            found.append(Condition(name, verdict.status, verdict.reason, text))
    if facts.cleanup:
        text = f"agent {facts.name} could not be removed from its cluster: {facts.cleanup}"
        found.append(Condition("Cleanup", FALSE, "CleanupFailed", text))
    return found


def _connected(facts: AgentFacts) -> Verdict:
    if facts.status in (H.DISCONNECTED, H.DISCONNECTED_UNBOUND):
        return Verdict(FALSE, "AgentIsDisconnected", "has stopped calling the service")
    return Verdict(TRUE, "AgentIsConnected", "is in touch with the service")


def _validated(facts: AgentFacts, row: Row) -> Verdict:
    if row.requirements in (_BINDING, _UNBINDING, _RECLAIMING):
        return row.requirements
    found = validations(facts.host or {})
    failing, pending = messages(found, Result.FAILURE, Result.ERROR), messages(found, Result.FAILURE, Result.PENDING)
    # What others say is no template.
    if facts.status in (H.INSUFFICIENT, H.INSUFFICIENT_UNBOUND):
        return Verdict(FALSE, "ValidationsFailing", f"fails validations: {_literal(failing or facts.info)}")
    if facts.status == H.PENDING_FOR_INPUT:
        return Verdict(FALSE, "ValidationsUserPending", f"waits for input: {_literal(pending or facts.info)}")
    if not found:
        return Verdict(UNKNOWN, "ValidationsUnknown", "has not been validated yet")
    return Verdict(TRUE, "ValidationsPassing", "passes its validations")


def _literal(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _set(values: Mapping[str, Any]) -> Json:
    """Return the members with a value, as Go omits empty ones."""
    return {key: value for key, value in values.items() if value not in (None, "", 0, False, [], {})}


def inventory(text: str) -> Json:
    """Return status.inventory from the service's inventory; empty if the text is invalid."""
    try:
        found = inventories.decode(text)
    except msgspec.DecodeError:
        return {}
    disks = [
        _set(
            {
                "id": disk.id, "driveType": disk.drive_type, "vendor": disk.vendor, "name": disk.name,
                "path": disk.path, "hctl": disk.hctl, "byPath": disk.by_path, "byID": disk.by_id, "model": disk.model,
                "wwn": disk.wwn, "serial": disk.serial, "sizeBytes": disk.size_bytes, "bootable": disk.bootable,
                "smart": disk.smart,
                "ioPerf": _set({"syncDurationMilliseconds": disk.io_perf.sync_duration if disk.io_perf else 0}),
            }
        )
        | {
            "id": disk.id,
            "installationEligibility": {
                **_set({"eligible": disk.installation_eligibility.eligible}),
                "notEligibleReasons": disk.installation_eligibility.not_eligible_reasons,
            },
        }
        for disk in found.disks
    ]  # fmt: skip
    interfaces = [
        _set(
            {
                "name": nic.name, "macAddress": nic.mac_address, "vendor": nic.vendor, "product": nic.product,
                "hasCarrier": nic.has_carrier, "mtu": nic.mtu, "biosDevName": nic.biosdevname,
                "clientID": nic.client_id, "speedMbps": max(nic.speed_mbps, 0),
            }
        )
        | {"ipV4Addresses": nic.ipv4_addresses, "ipV6Addresses": nic.ipv6_addresses, "flags": nic.flags}
        for nic in found.interfaces
    ]  # fmt: skip
    vendor, boot, cpu = found.system_vendor, found.boot, found.cpu
    return _set(
        {
            "hostname": found.hostname,
            "bmcAddress": found.bmc_address,
            "bmcV6Address": found.bmc_v6address,
            "memory": _set(
                {"physicalBytes": found.memory.physical_bytes, "usableBytes": found.memory.usable_bytes}
            ),
            "cpu": _set(
                {
                    "count": cpu.count, "clockMegahertz": int(cpu.frequency), "flags": cpu.flags,
                    "modelName": cpu.model_name, "architecture": cpu.architecture,
                }
            ),
            "boot": _set(
                {
                    "currentBootMode": boot.current_boot_mode, "pxeInterface": boot.pxe_interface,
                    "deviceType": boot.device_type,
                }
            ),
            "systemVendor": _set(
                {
                    "serialNumber": vendor.serial_number, "productName": vendor.product_name,
                    "manufacturer": vendor.manufacturer, "virtual": vendor.virtual,
                }
            ),
            "interfaces": interfaces,
            "disks": disks,
        }
    )  # fmt: skip


PREFIX = "inventory.agent-install.openshift.io/"
NAMESPACE_LABEL = "agent-install.openshift.io/clusterdeployment-namespace"
#: The annotation that has the version of this set of labels.
LABELS_VERSION = (f"{PREFIX}version", "0.1")
_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")


def _label(value: str) -> str | None:
    """Return a text as a label's value, without invalid characters; None if nothing is left."""
    text = re.sub(r"[^-A-Za-z0-9_.]+", "", value)[:63]
    return text if _VALUE.fullmatch(text) else None


def labels(found: Mapping[str, Any], cluster_namespace: str) -> dict[str, str]:
    """Return the labels that follow from status.inventory, once it is known, and from the cluster."""
    wanted: dict[str, str | None] = {NAMESPACE_LABEL: cluster_namespace}
    if found:
        cpu, vendor = found.get("cpu") or {}, found.get("systemVendor") or {}
        flags = set(cpu.get("flags") or ())
        solid = any(disk.get("driveType") == "SSD" for disk in found.get("disks") or ())
        wanted |= {
            f"{PREFIX}storage-hasnonrotationaldisk": str(solid).lower(),
            f"{PREFIX}cpu-architecture": _label(str(cpu.get("architecture") or "")),
            f"{PREFIX}cpu-virtenabled": str(bool(flags & {"vmx", "svm"})).lower(),
            f"{PREFIX}host-manufacturer": _label(str(vendor.get("manufacturer") or "")),
            f"{PREFIX}host-productname": _label(str(vendor.get("productName") or "")),
            f"{PREFIX}host-isvirtual": str(bool(vendor.get("virtual"))).lower(),
        }
    return {key: value for key, value in wanted.items() if value is not None}


def _progress(host: Mapping[str, Any]) -> Json:
    progress = host.get("progress") or {}
    if not progress.get("current_stage"):
        return {}
    times = {"stageStartTime": progress.get("stage_started_at"), "stageUpdateTime": progress.get("stage_updated_at")}
    return _set(
        {
            "currentStage": progress["current_stage"],
            "progressInfo": progress.get("progress_info"),
            "installationPercentage": progress.get("installation_percentage"),
            "progressStages": host.get("progress_stages"),
            **{key: _seconds(value) for key, value in times.items() if value and value != NEVER},
        }
    )


def _seconds(stamp: str) -> str:
    """Return a time as metav1.Time has it: in whole seconds."""
    return re.sub(r"\.\d+", "", stamp)


def status(facts: AgentFacts, events_url: str, logs_url: str) -> Json:
    """Return the status of an Agent without its conditions; ``role`` is always there, as its schema demands."""
    host = facts.host or {}
    role = host.get("role") or ""
    try:
        sources = jsontext.parsed(host.get("ntp_sources") or "[]")
    except ValueError:
        sources = []
    return _set(
        {
            "bootstrap": host.get("bootstrap"),
            "inventory": inventory(host["inventory"]) if host.get("inventory") else {},
            "progress": _progress(host),
            "ntpSources": [
                _set({"sourceName": item.get("source_name"), "sourceState": item.get("source_state")})
                for item in sources
            ],
            "validationsInfo": validations(host),
            "installation_disk_id": host.get("installation_disk_id"),
            "kind": host.get("kind"),
        }
    ) | {
        "role": host.get("suggested_role") or role if role == Role.AUTO else role,
        "debugInfo": _set(debug_info(facts, events_url, logs_url, "logs_collected_at")),
    }

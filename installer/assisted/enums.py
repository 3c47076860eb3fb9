"""Names of states, stages, roles and steps, as installer.md §5.2, §5.3, §5.5 and §5.6 list them."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar

E = TypeVar("E", bound=StrEnum)
# A time that has not come, in upstream's answers: Go has no empty one. Clients wait for another (aicli wait cluster).
NEVER = "0001-01-01T00:00:00.000Z"


def member(kind: type[E], text: str) -> E | str:
    """Return the member with this value; the text itself where a service of another version has one that is not known
    here."""
    try:
        return kind(text)
    except ValueError:
        return text


class HostStatus(StrEnum):
    """Statuses that a host can have."""

    DISCOVERING = "discovering"
    KNOWN = "known"
    DISCONNECTED = "disconnected"
    INSUFFICIENT = "insufficient"
    DISABLED = "disabled"
    PREPARING = "preparing-for-installation"
    PREPARING_FAILED = "preparing-failed"
    PREPARING_SUCCESSFUL = "preparing-successful"
    PENDING_FOR_INPUT = "pending-for-input"
    INSTALLING = "installing"
    INSTALLING_IN_PROGRESS = "installing-in-progress"
    INSTALLING_PENDING_USER_ACTION = "installing-pending-user-action"
    RESETTING_PENDING_USER_ACTION = "resetting-pending-user-action"
    INSTALLED = "installed"
    ERROR = "error"
    RESETTING = "resetting"
    ADDED_TO_EXISTING = "added-to-existing-cluster"
    CANCELLED = "cancelled"
    BINDING = "binding"
    UNBINDING = "unbinding"
    UNBINDING_PENDING_USER_ACTION = "unbinding-pending-user-action"
    KNOWN_UNBOUND = "known-unbound"
    DISCONNECTED_UNBOUND = "disconnected-unbound"
    INSUFFICIENT_UNBOUND = "insufficient-unbound"
    DISABLED_UNBOUND = "disabled-unbound"
    DISCOVERING_UNBOUND = "discovering-unbound"
    RECLAIMING = "reclaiming"
    RECLAIMING_REBOOTING = "reclaiming-rebooting"


class ClusterStatus(StrEnum):
    """Statuses that a cluster can have."""

    INSUFFICIENT = "insufficient"
    READY = "ready"
    ERROR = "error"
    PREPARING = "preparing-for-installation"
    PENDING_FOR_INPUT = "pending-for-input"
    INSTALLING = "installing"
    FINALIZING = "finalizing"
    INSTALLED = "installed"
    ADDING_HOSTS = "adding-hosts"
    CANCELLED = "cancelled"
    INSTALLING_PENDING_USER_ACTION = "installing-pending-user-action"
    UNMONITORED = "unmonitored"


class Stage(StrEnum):
    """Stages of one host's installation."""

    STARTING = "Starting installation"
    WAITING_CONTROL_PLANE = "Waiting for control plane"
    WAITING_BOOTKUBE = "Waiting for bootkube"
    WAITING_CONTROLLER = "Waiting for controller"
    INSTALLING = "Installing"
    WRITING = "Writing image to disk"
    COPYING = "Copying registry data to disk"
    REBOOTING = "Rebooting"
    WAITING_IGNITION = "Waiting for ignition"
    CONFIGURING = "Configuring"
    JOINED = "Joined"
    DONE = "Done"
    FAILED = "Failed"


class Role(StrEnum):
    """Roles of a host; ``bootstrap`` appears only in the install step."""

    AUTO = "auto-assign"
    MASTER = "master"
    ARBITER = "arbiter"
    WORKER = "worker"
    BOOTSTRAP = "bootstrap"


class StepType(StrEnum):
    """Kinds of work that the service asks an agent for."""

    CONNECTIVITY = "connectivity-check"
    EXECUTE = "execute"
    INVENTORY = "inventory"
    INSTALL = "install"
    FREE_ADDRESSES = "free-network-addresses"
    DHCP = "dhcp-lease-allocate"
    API_VIP = "api-vip-connectivity-check"
    TANG = "tang-connectivity-check"
    NTP = "ntp-synchronizer"
    DISK_SPEED = "installation-disk-speed-check"
    IMAGES = "container-image-availability"
    DOMAINS = "domain-resolution"
    STOP = "stop-installation"
    LOGS = "logs-gather"
    NEXT_STEP_RUNNER = "next-step-runner"
    UPGRADE = "upgrade-agent"
    DOWNLOAD_BOOT = "download-boot-artifacts"
    REBOOT_RECLAIM = "reboot-for-reclaim"
    VERIFY_VIPS = "verify-vips"


class Result(StrEnum):
    """Outcome of one validation (installer.md §5.4)."""

    SUCCESS = "success"
    FAILURE = "failure"
    PENDING = "pending"
    ERROR = "error"
    DISABLED = "disabled"
    SUPPRESSED = "success-suppress-output"


GOOD = frozenset({Result.SUCCESS, Result.SUPPRESSED, Result.DISABLED})


class ValidationCategory(StrEnum):
    """Subjects of validations: the keys of ``validations_info`` (installer.md §5.4)."""

    NETWORK = "network"
    HARDWARE = "hardware"
    HOSTS_DATA = "hosts-data"
    CONFIGURATION = "configuration"
    OPERATORS = "operators"


class MediaStatus(StrEnum):
    """The agent's finding on what it booted from: whether it can still be read."""

    CONNECTED = "connected"
    DISCONNECTED = "disconnected"


class LogsState(StrEnum):
    """States of the collection of logs (logs_state of the API)."""

    NONE = ""
    REQUESTED = "requested"
    COLLECTING = "collecting"
    COMPLETED = "completed"
    TIMEOUT = "timeout"


class PreparationStatus(StrEnum):
    """Results of the last generation of ignition (last-installation-preparation)."""

    NOT_STARTED = "not_started"
    FAILED = "failed"
    SUCCESS = "success"


class OperatorStatus(StrEnum):
    """Statuses of a cluster's operator."""

    FAILED = "failed"
    PROGRESSING = "progressing"
    AVAILABLE = "available"


class ImageResult(StrEnum):
    """Results of pulling an image (container-image-availability)."""

    SUCCESS = "success"
    FAILURE = "failure"


class VipVerification(StrEnum):
    """A host's findings at a virtual address (verify-vips)."""

    UNVERIFIED = "unverified"
    FAILED = "failed"
    SUCCEEDED = "succeeded"


class SourceState(StrEnum):
    """State of a time source (ntp-synchronizer), as far as it matters here."""

    SYNCED = "synced"


class Severity(StrEnum):
    """Severities of events (installer.md §5.7)."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"

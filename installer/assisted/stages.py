"""Order, percentage and time limits of installation stages (installer.md §5.6)."""

from __future__ import annotations

from collections.abc import Mapping

from installer.assisted.enums import Role, Stage

S = Stage

#: The only node of a cluster has an order of its own, whatever its role.
SNO = "sno"
STAGES: Mapping[str, tuple[Stage, ...]] = {
    Role.BOOTSTRAP: (
        S.STARTING,
        S.INSTALLING,
        S.WRITING,
        S.COPYING,
        S.WAITING_CONTROL_PLANE,
        S.WAITING_BOOTKUBE,
        S.WAITING_CONTROLLER,
        S.REBOOTING,
        S.CONFIGURING,
        S.JOINED,
        S.DONE,
    ),
    Role.MASTER: (S.STARTING, S.INSTALLING, S.WRITING, S.COPYING, S.REBOOTING, S.CONFIGURING, S.JOINED, S.DONE),
    Role.ARBITER: (S.STARTING, S.INSTALLING, S.WRITING, S.COPYING, S.REBOOTING, S.CONFIGURING, S.JOINED, S.DONE),
    Role.WORKER: (
        S.STARTING,
        S.INSTALLING,
        S.WRITING,
        S.WAITING_CONTROL_PLANE,
        S.REBOOTING,
        S.WAITING_IGNITION,
        S.CONFIGURING,
        S.JOINED,
        S.DONE,
    ),
    SNO: (S.STARTING, S.INSTALLING, S.WAITING_BOOTKUBE, S.WRITING, S.COPYING, S.REBOOTING, S.JOINED, S.DONE),
}

#: The beginning of a stage's info when it fails each time that it is tried, and is still tried again.
FAILS_AGAIN = "It fails again and again: "

MINUTE = 60.0
DEFAULT_TIMEOUT = 60 * MINUTE
TIMEOUTS: Mapping[Stage, float] = {
    S.STARTING: 30 * MINUTE,
    S.INSTALLING: 60 * MINUTE,
    S.WRITING: 30 * MINUTE,
    S.COPYING: 90 * MINUTE,
    S.WAITING_CONTROL_PLANE: 60 * MINUTE,
    S.WAITING_CONTROLLER: 60 * MINUTE,
    S.WAITING_BOOTKUBE: 60 * MINUTE,
    S.REBOOTING: 40 * MINUTE,
    S.WAITING_IGNITION: 24 * 60 * MINUTE,
    S.CONFIGURING: 60 * MINUTE,
    S.JOINED: 60 * MINUTE,
}
SNO_REBOOTING_TIMEOUT = 80 * MINUTE


def stages_of(role: Role, bootstrap: bool, sno: bool) -> tuple[Stage, ...]:
    """Return the ordered stages that a host of this role goes through."""
    if sno:
        return STAGES[SNO]
    if bootstrap:
        return STAGES[Role.BOOTSTRAP]
    return STAGES.get(role, STAGES[Role.WORKER])


def percentage(stages: tuple[Stage, ...], stage: Stage) -> int:
    """(index + 1) / length in percent; 0 for a stage that is not in the list."""
    return (stages.index(stage) + 1) * 100 // len(stages) if stage in stages else 0


def timeout_of(stage: Stage, sno: bool, overrides: Mapping[str, float]) -> float:
    """Seconds that a stage may take; ``overrides`` by upper-case name (HOST_STAGE_<NAME>_TIMEOUT)."""
    name = stage.value.upper().replace(" ", "_")
    if name in overrides:
        return overrides[name]
    if stage is S.REBOOTING and sno:
        return SNO_REBOOTING_TIMEOUT
    return TIMEOUTS.get(stage, DEFAULT_TIMEOUT)

"""The rows of a host's table (installer.md §5.2), with the texts that a user reads."""

from __future__ import annotations

from typing import Any

import pytest

from installer.assisted.enums import ClusterStatus as C
from installer.assisted.enums import HostStatus as H
from installer.assisted.enums import Result, Stage
from installer.rendezvous.states import host as hs
from installer.testing.engine.states_kit import GOOD, host_facts


def bad(*names: str) -> dict[str, Any]:
    return {"validations": {**GOOD, **dict.fromkeys(names, Result.FAILURE)}, "texts": {"failing": "no disk"}}


PREPARING: dict[str, Any] = {"cluster_status": C.PREPARING}
READY_HOST = {"images": Result.SUCCESS, "disk_speed": Result.SUCCESS}
R, F, P = hs.Trigger.REGISTER, hs.Trigger.REFRESH, hs.Trigger.PROGRESS
CLEAR, STOP = hs.Effect.CLEAR_INVENTORY, hs.Effect.STOP_AGENT
WAITING = "Waiting for host to send hardware details"
SILENT = "Host has stopped communicating with the installation service"
UNREAD = "Unable to read from the discovery media"
READY = "Host is ready to be installed"
FAILING = "Host cannot be installed due to the following failing validation(s): no disk"
LOST = {"connected": False}
NO_MEDIA = {"media_connected": False}
WRONG = {"texts": {"wrong_boot": "boot from the disk"}, "stage": Stage.REBOOTING}
DONE: dict[str, Any] = {"stage": Stage.DONE}
ADDED: dict[str, Any] = {"cluster_status": C.ADDING_HOSTS, "added": True}
LATE = "Preparing the host did not end within 480 s; still open: images"
FROM_MEDIA = "Host must be booted from the discovery media again to "
TEXTS: list[tuple[hs.Trigger, H, dict[str, Any], H, str | None, tuple[hs.Effect, ...]]] = [
    (R, H.KNOWN, {}, H.DISCOVERING, WAITING, (CLEAR,)),
    (R, H.BINDING, {}, H.DISCOVERING, WAITING, (CLEAR,)),
    (R, H.UNBINDING, {}, H.DISCOVERING_UNBOUND, WAITING, (CLEAR,)),
    (R, H.PREPARING, {}, H.KNOWN, READY, ()),
    (R, H.INSTALLING_IN_PROGRESS, WRONG, H.INSTALLING_PENDING_USER_ACTION, "boot from the disk", ()),
    (R, H.ADDED_TO_EXISTING, WRONG, H.INSTALLING_PENDING_USER_ACTION, "boot from the disk", ()),
    (R, H.INSTALLING_PENDING_USER_ACTION, WRONG, H.INSTALLING_PENDING_USER_ACTION, None, (STOP,)),
    (R, H.INSTALLING, WRONG, H.ERROR, "The host unexpectedly restarted during the installation", ()),
    (R, H.ERROR, {}, H.ERROR, None, ()),
    (R, H.INSTALLED, {}, H.INSTALLED, None, (STOP,)),
    # A host that is added to an installed cluster.
    (R, H.ADDED_TO_EXISTING, WRONG | DONE, H.INSTALLING_PENDING_USER_ACTION, "boot from the disk", ()),
    (hs.Trigger.INSTALL, H.KNOWN, ADDED, H.INSTALLING, "Installation is in progress", ()),
    (P, H.INSTALLING_IN_PROGRESS, ADDED | DONE, H.ADDED_TO_EXISTING, "Done", ()),
    (
        hs.Trigger.RESET,
        H.ADDED_TO_EXISTING,
        ADDED,
        H.RESETTING_PENDING_USER_ACTION,
        f"{FROM_MEDIA}finish the reset",
        (CLEAR,),
    ),
    (hs.Trigger.UNBIND, H.INSTALLING, ADDED, H.UNBINDING_PENDING_USER_ACTION, f"{FROM_MEDIA}be unbound", ()),
    # A host that belongs to no cluster.
    (F, H.KNOWN_UNBOUND, LOST, H.DISCONNECTED_UNBOUND, SILENT, ()),
    (F, H.KNOWN_UNBOUND, NO_MEDIA, H.DISCONNECTED_UNBOUND, SILENT, ()),
    (F, H.KNOWN_UNBOUND, {"has_inventory": False}, H.DISCOVERING_UNBOUND, WAITING, ()),
    (F, H.DISCOVERING_UNBOUND, bad("has-min-memory"), H.INSUFFICIENT_UNBOUND, FAILING, ()),
    (
        F,
        H.INSUFFICIENT_UNBOUND,
        bad("hostname-unique", "machine-cidr-defined"),
        H.KNOWN_UNBOUND,
        "Host is ready to be bound to a cluster",
        (),
    ),
    # Before the installation.
    (F, H.KNOWN, LOST, H.DISCONNECTED, SILENT, ()),
    (F, H.KNOWN, NO_MEDIA, H.DISCONNECTED, UNREAD, ()),
    (F, H.KNOWN, {**LOST, **NO_MEDIA}, H.DISCONNECTED, UNREAD, ()),
    (F, H.KNOWN, {"has_inventory": False}, H.DISCOVERING, WAITING, ()),
    (F, H.KNOWN, bad("has-min-cpu-cores"), H.INSUFFICIENT, FAILING, ()),
    (
        F,
        H.KNOWN,
        bad("machine-cidr-defined", "hostname-unique"),
        H.PENDING_FOR_INPUT,
        "Waiting for user input: no disk",
        (),
    ),
    (F, H.KNOWN, bad("hostname-unique"), H.INSUFFICIENT, FAILING, ()),
    (F, H.DISCONNECTED, {}, H.KNOWN, READY, ()),
    (F, H.INSUFFICIENT, PREPARING, H.KNOWN, READY, ()),
    (F, H.KNOWN, PREPARING, H.PREPARING, "Host finished discovery and is preparing for installation", ()),
    # While preparing.
    (F, H.PREPARING_SUCCESSFUL, {**PREPARING, **LOST}, H.DISCONNECTED, SILENT, ()),
    (F, H.PREPARING_FAILED, {**PREPARING, "disk_speed": Result.FAILURE}, H.PREPARING_FAILED, None, ()),
    (
        F,
        H.PREPARING_SUCCESSFUL,
        {**PREPARING, "disk_speed": Result.FAILURE, "texts": {"disk_speed": "slow"}},
        H.INSUFFICIENT,
        "slow",
        (),
    ),
    (F, H.PREPARING_SUCCESSFUL, PREPARING, H.PREPARING_SUCCESSFUL, None, ()),
    (F, H.PREPARING_SUCCESSFUL, {"cluster_status": C.INSTALLING}, H.INSTALLING, "Installation is in progress", ()),
    (
        F,
        H.PREPARING_SUCCESSFUL,
        {"cluster_status": C.INSTALLING_PENDING_USER_ACTION},
        H.INSTALLING,
        "Installation is in progress",
        (),
    ),
    (
        F,
        H.PREPARING,
        {"cluster_status": C.INSTALLING, **READY_HOST},
        H.PREPARING_SUCCESSFUL,
        "Host finished preparing for installation",
        (),
    ),
    (F, H.PREPARING, {"cluster_status": C.READY, **READY_HOST}, H.KNOWN, READY, ()),
    (
        F,
        H.PREPARING,
        {**PREPARING, **READY_HOST, "images": Result.FAILURE, "texts": {"images": "no route"}},
        H.PREPARING_FAILED,
        "no route",
        (),
    ),
    (
        F,
        H.PREPARING,
        {**PREPARING, **READY_HOST, "images": Result.DISABLED, "disk_speed": Result.SUPPRESSED},
        H.PREPARING_SUCCESSFUL,
        "Host finished preparing for installation",
        (),
    ),
    (F, H.PREPARING, {**PREPARING, "status_age": 480.0}, H.PREPARING, None, ()),
    (
        F,
        H.PREPARING,
        {**PREPARING, "status_age": 480.1, "texts": {"prepare_timeout": "480", "open_checks": "images"}},
        H.PREPARING_FAILED,
        LATE,
        (),
    ),
    # While installing.
    (
        F,
        H.INSTALLING_PENDING_USER_ACTION,
        {"cluster_status": C.ERROR},
        H.ERROR,
        "Host is part of a cluster that failed to install",
        (),
    ),
    (F, H.INSTALLED, {"cluster_status": C.INSTALLING}, H.INSTALLED, None, ()),
    (F, H.INSTALLING, {"status_age": 1200.0}, H.INSTALLING, None, ()),
    (F, H.INSTALLING, {"status_age": 1200.6}, H.ERROR, "The installation did not start within 1201 s", ()),
    (
        F,
        H.INSTALLING_IN_PROGRESS,
        {**WRONG, "stage_timed_out": True},
        H.INSTALLING_PENDING_USER_ACTION,
        "boot from the disk",
        (),
    ),
    (F, H.INSTALLING_IN_PROGRESS, WRONG, H.INSTALLING_IN_PROGRESS, None, ()),
    (
        F,
        H.INSTALLING_IN_PROGRESS,
        {"stage": Stage.WRITING, "stage_timed_out": True, "texts": {"stage_timeout": "1800", "stage_info": "; at 5 %"}},
        H.ERROR,
        "Host failed to install because its installation stage Writing image to disk took longer than expected "
        "(1800 s); at 5 %",
        (),
    ),
    (
        F,
        H.INSTALLING_IN_PROGRESS,
        {**LOST, "stage": Stage.WRITING},
        H.ERROR,
        "Host lost its connection to the service at stage Writing image to disk",
        (),
    ),
    (F, H.INSTALLING, LOST, H.ERROR, "Host lost its connection to the service", ()),
    (
        F,
        H.INSTALLING_PENDING_USER_ACTION,
        {"status_age": 3600.0, "expendable": True},
        H.INSTALLING_PENDING_USER_ACTION,
        None,
        (),
    ),
    (
        F,
        H.INSTALLING_PENDING_USER_ACTION,
        {"status_age": 3601.0, "expendable": True},
        H.ERROR,
        "Nobody answered to the pending user action within 3601 s",
        (),
    ),
    *((F, status, LOST, status, None, ()) for status in (H.INSTALLED, H.CANCELLED, H.ERROR, H.BINDING, H.DISABLED)),
    # What a host says of itself, and what a user asks for.
    (P, H.INSTALLING, {"stage": Stage.WRITING}, H.INSTALLING_IN_PROGRESS, "Writing image to disk", ()),
    (P, H.INSTALLING_IN_PROGRESS, {"stage": Stage.DONE}, H.INSTALLED, "Done", ()),
    (hs.Trigger.FAILED, H.INSTALLING, {"texts": {"failure": "it broke"}}, H.ERROR, "it broke", ()),
    (hs.Trigger.CANCEL, H.PREPARING, {}, H.KNOWN, READY, ()),
    (hs.Trigger.CANCEL, H.INSTALLED, {}, H.CANCELLED, "Installation was cancelled by user", ()),
    (hs.Trigger.CANCEL, H.KNOWN, {}, H.KNOWN, None, ()),
    (hs.Trigger.MEDIA, H.PREPARING, {}, H.DISCONNECTED, UNREAD, ()),
    (hs.Trigger.MEDIA, H.INSTALLING, {"texts": {"media": "the disc was ejected"}}, H.ERROR, "the disc was ejected", ()),
    (hs.Trigger.RESET, H.ERROR, {}, H.RESETTING_PENDING_USER_ACTION, f"{FROM_MEDIA}finish the reset", (CLEAR,)),
    (hs.Trigger.RESET, H.KNOWN, {}, H.KNOWN, None, ()),
    (hs.Trigger.BIND, H.KNOWN_UNBOUND, {}, H.BINDING, "Host is waiting to be bound to the cluster", ()),
    (hs.Trigger.UNBIND, H.KNOWN, {}, H.UNBINDING, "Host is waiting to be unbound from the cluster", ()),
    (hs.Trigger.UNBIND, H.ERROR, {}, H.UNBINDING_PENDING_USER_ACTION, f"{FROM_MEDIA}be unbound", ()),
]


@pytest.mark.parametrize(("trigger", "source", "facts", "status", "info", "effects"), TEXTS)
def test_what_a_host_is_told(
    trigger: hs.Trigger, source: H, facts: dict[str, Any], status: H, info: str | None, effects: tuple[hs.Effect, ...]
) -> None:
    outcome = hs.decide(trigger, source, host_facts(**facts))
    assert outcome == hs.Outcome(status, info, effects, status is not source)


def test_what_decides_of_a_host() -> None:
    for name in GOOD:
        for result in Result:
            validations = {"validations": {**GOOD, name: result}}
            passes = result.value in ("success", "success-suppress-output", "disabled")
            wrong = H.PENDING_FOR_INPUT if name == "machine-cidr-defined" else H.INSUFFICIENT
            assert hs.decide(F, H.KNOWN, host_facts(**validations)).status is (H.KNOWN if passes else wrong), name
            passes = passes or name not in hs.MIN_UNBOUND
            expected = H.KNOWN_UNBOUND if passes else H.INSUFFICIENT_UNBOUND
            assert hs.decide(F, H.KNOWN_UNBOUND, host_facts(**validations)).status is expected, name
        # What nobody has judged is not good.
        missing = {key: result for key, result in GOOD.items() if key != name}
        assert hs.decide(F, H.KNOWN, host_facts(validations=missing)).status is not H.KNOWN

"""The rows of a cluster's table (installer.md §5.3), with the texts that a user reads."""

from __future__ import annotations

from typing import Any

import pytest

from installer.assisted.enums import ClusterStatus as C
from installer.assisted.enums import HostStatus as H
from installer.assisted.enums import PreparationStatus, Result, Role
from installer.rendezvous.states import cluster as cs
from installer.testing.engine.states_kit import CGOOD, cluster_facts

M, W = Role.MASTER, Role.WORKER
CF = cs.Trigger.REFRESH
TEXTS = {"texts": {"hosts": "master-0: no disk", "failing": "no secret", "reason": "no program"}}
PENDING_ACTION = C.INSTALLING_PENDING_USER_ACTION
IN_ERROR = "Cluster has hosts in error: master-0: no disk"
UNPREPARED = "Failed to prepare the installation: "


def three(*workers: H) -> tuple[tuple[H, Role], ...]:
    return (*(((H.INSTALLED, M),) * 3), *((status, W) for status in workers))


CLUSTER_TEXTS: list[tuple[cs.Trigger, C, Any, dict[str, Any], C, str | None]] = [
    (
        CF,
        C.READY,
        (),
        {"validations": {**CGOOD, "pull-secret-set": Result.PENDING}},
        C.PENDING_FOR_INPUT,
        "User input required: no secret",
    ),
    (
        CF,
        C.READY,
        (),
        {"validations": {**CGOOD, "api-vips-valid": Result.PENDING}},
        C.INSUFFICIENT,
        "Cluster is not ready for install: no secret",
    ),
    (CF, C.PENDING_FOR_INPUT, (), {}, C.READY, "Cluster ready to be installed"),
    (cs.Trigger.INSTALL, C.READY, (), {}, C.PREPARING, "Preparing cluster for installation"),
    (
        CF,
        C.PREPARING,
        ((H.INSTALLING, M),),
        {"preparation": PreparationStatus.SUCCESS},
        C.INSTALLING,
        "Installation in progress",
    ),
    (
        CF,
        C.PREPARING,
        ((H.INSTALLING_IN_PROGRESS, M),),
        {"preparation": PreparationStatus.SUCCESS},
        C.INSTALLING,
        "Installation in progress",
    ),
    (
        CF,
        C.PREPARING,
        (),
        {"preparation": PreparationStatus.SUCCESS},
        C.INSUFFICIENT,
        "A host stopped preparing: master-0: no disk",
    ),
    (CF, C.PREPARING, ((H.PREPARING, M), (H.PREPARING_FAILED, M)), {}, C.READY, f"{UNPREPARED}master-0: no disk"),
    (
        CF,
        C.PREPARING,
        ((H.PREPARING, M),),
        {"preparation": PreparationStatus.FAILED},
        C.READY,
        f"{UNPREPARED}no program",
    ),
    (
        CF,
        C.PREPARING,
        ((H.PREPARING, M), (H.INSUFFICIENT, M)),
        {},
        C.INSUFFICIENT,
        "A host stopped preparing: master-0: no disk",
    ),
    *(
        (CF, C.PREPARING, ((status, M),), {}, C.PREPARING, None)
        for status in (H.KNOWN, H.PREPARING, H.PREPARING_SUCCESSFUL, H.INSTALLING)
    ),
    (CF, C.PREPARING, ((H.PREPARING, M),), {"status_age": 600.0}, C.PREPARING, None),
    (
        CF,
        C.PREPARING,
        ((H.PREPARING, M),),
        {"status_age": 601.0},
        C.READY,
        "Preparing the installation did not end within 600 s: master-0: no disk",
    ),
    (CF, C.INSTALLING, ((H.INSTALLED, M),) * 3, {}, C.FINALIZING, "Finalizing cluster installation"),
    # Two workers of several are enough; where there are one or two, all are needed.
    (CF, C.INSTALLING, three(H.INSTALLED, H.INSTALLED, H.ERROR), {}, C.FINALIZING, "Finalizing cluster installation"),
    (CF, C.INSTALLING, three(H.INSTALLED), {}, C.FINALIZING, "Finalizing cluster installation"),
    (CF, C.INSTALLING, three(H.INSTALLED, H.INSTALLING), {}, C.INSTALLING, None),
    (CF, C.INSTALLING, three(H.INSTALLED, H.ERROR), {}, C.ERROR, IN_ERROR),
    (CF, C.INSTALLING, three(H.ERROR), {}, C.ERROR, IN_ERROR),
    (CF, C.INSTALLING, three(H.INSTALLING, H.INSTALLING, H.ERROR), {}, C.INSTALLING, None),
    (CF, C.INSTALLING, ((H.INSTALLED, M), (H.INSTALLED, M), (H.INSTALLED, W)), {}, C.ERROR, IN_ERROR),
    *(
        (CF, C.INSTALLING, ((H.INSTALLED, M), (H.INSTALLED, M), (status, M)), {}, C.INSTALLING, None)
        for status in (H.PREPARING_SUCCESSFUL, H.INSTALLING, H.INSTALLING_IN_PROGRESS)
    ),
    (CF, C.INSTALLING, ((H.INSTALLING_PENDING_USER_ACTION, M),) * 3, {}, PENDING_ACTION, "master-0: no disk"),
    (CF, C.FINALIZING, three(H.INSTALLING_PENDING_USER_ACTION), {}, PENDING_ACTION, "master-0: no disk"),
    (CF, C.FINALIZING, three(H.ERROR), {}, C.FINALIZING, None),
    (CF, C.INSTALLING, ((H.INSTALLING, M),) * 3, {"status_age": 86400.0}, C.INSTALLING, None),
    (CF, C.INSTALLING, ((H.INSTALLING, M),) * 3, {"status_age": 86401.0}, C.ERROR, "Cluster installation timed out"),
    (CF, C.FINALIZING, three(), {"status_age": 18000.0}, C.FINALIZING, None),
    (CF, C.FINALIZING, three(), {"status_age": 18001.0}, C.ERROR, "Cluster finalizing timed out"),
    (CF, PENDING_ACTION, ((H.INSTALLING_PENDING_USER_ACTION, M),) * 3, {}, PENDING_ACTION, None),
    (CF, PENDING_ACTION, ((H.ERROR, M),) * 3, {}, C.ERROR, IN_ERROR),
    (CF, PENDING_ACTION, three(H.INSTALLING), {}, C.INSTALLING, "Installation in progress"),
    *((CF, status, (), {}, status, None) for status in (C.INSTALLED, C.ERROR, C.CANCELLED, C.ADDING_HOSTS)),
    (cs.Trigger.COMPLETE, C.FINALIZING, (), {}, C.INSTALLED, "Cluster is installed"),
    (cs.Trigger.ADD_HOSTS, C.INSTALLED, (), {}, C.ADDING_HOSTS, "Hosts can be added to the installed cluster"),
    (cs.Trigger.FAIL, C.FINALIZING, (), {}, C.ERROR, "no program"),
    (cs.Trigger.CANCEL, C.PREPARING, (), {}, C.CANCELLED, "Cancelled cluster installation"),
    (cs.Trigger.RESET, C.CANCELLED, (), {}, C.INSUFFICIENT, "Cluster was reset by user"),
]


@pytest.mark.parametrize(("trigger", "source", "hosts", "facts", "status", "info"), CLUSTER_TEXTS)
def test_what_a_cluster_is_told(
    trigger: cs.Trigger, source: C, hosts: Any, facts: dict[str, Any], status: C, info: str | None
) -> None:
    outcome = cs.decide(trigger, source, cluster_facts(*hosts, control_plane_count=3, **TEXTS, **facts))
    assert outcome == cs.Outcome(status, info, status is not source)
    # A missing text is left out rather than failing a transition.
    plain = cs.decide(trigger, source, cluster_facts(*hosts, control_plane_count=3, **facts))
    assert plain.status is status


def test_what_decides_of_a_cluster() -> None:
    for name in CGOOD:
        for result in Result:
            facts = cluster_facts(validations={**CGOOD, name: result})
            passes = result.value in ("success", "success-suppress-output", "disabled")
            wrong = C.PENDING_FOR_INPUT if name in cs.REQUIRED_INPUT else C.INSUFFICIENT
            assert cs.decide(CF, C.READY, facts).status is (C.READY if passes else wrong), name
        missing = {key: result for key, result in CGOOD.items() if key != name}
        assert cs.decide(CF, C.READY, cluster_facts(validations=missing)).status is not C.READY

"""The state machines against installer.md §5.2 and §5.3, and that no sequence of inputs leaves their tables."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from installer.assisted.enums import ClusterStatus as C
from installer.assisted.enums import HostStatus as H
from installer.assisted.enums import PreparationStatus, Result, Role, Stage, StepType
from installer.assisted.errors import Conflict, Forbidden
from installer.assisted.validation_ids import ClusterValidation
from installer.rendezvous.states import cluster as cs
from installer.rendezvous.states import host as hs
from installer.rendezvous.validations import host as hv
from installer.rendezvous.validations.cluster import table as cv
from installer.testing.engine.states_kit import CGOOD, GOOD, cluster_facts, host_facts


def bad(*names: str) -> dict[str, Result]:
    return {**GOOD, **dict.fromkeys(names, Result.FAILURE)}


R, F, P = hs.Trigger.REGISTER, hs.Trigger.REFRESH, hs.Trigger.PROGRESS
HOST_CASES = [
    (R, H.KNOWN, {}, H.DISCOVERING),
    (R, H.PREPARING, {}, H.KNOWN),
    (R, H.INSTALLING_IN_PROGRESS, {"stage": Stage.REBOOTING}, H.INSTALLING_PENDING_USER_ACTION),
    (R, H.INSTALLING_IN_PROGRESS, {"stage": Stage.WRITING}, H.ERROR),
    (R, H.INSTALLING, {}, H.ERROR),
    (R, H.ERROR, {}, H.ERROR),
    (F, H.KNOWN, {"connected": False}, H.DISCONNECTED),
    (F, H.KNOWN, {"media_connected": False}, H.DISCONNECTED),
    (F, H.DISCONNECTED, {"has_inventory": False}, H.DISCOVERING),
    (F, H.DISCOVERING, {"validations": bad("has-min-valid-disks")}, H.INSUFFICIENT),
    (F, H.KNOWN, {"validations": bad("machine-cidr-defined")}, H.PENDING_FOR_INPUT),
    (F, H.KNOWN, {"validations": bad("hostname-unique")}, H.INSUFFICIENT),
    (F, H.DISCOVERING, {"validations": bad("ntp-synced", "mtu-valid", "container-images-available")}, H.KNOWN),
    (F, H.DISCOVERING, {}, H.KNOWN),
    (F, H.KNOWN, {"cluster_status": C.PREPARING}, H.PREPARING),
    (F, H.KNOWN, {"cluster_status": C.PREPARING, "role": Role.AUTO}, H.KNOWN),
    (
        F,
        H.PREPARING,
        {"cluster_status": C.PREPARING, "images": Result.SUCCESS, "disk_speed": Result.SUCCESS},
        H.PREPARING_SUCCESSFUL,
    ),
    (F, H.PREPARING, {"cluster_status": C.PREPARING, "images": Result.SUCCESS}, H.PREPARING),
    (F, H.PREPARING, {"cluster_status": C.PREPARING, "images": Result.FAILURE}, H.PREPARING_FAILED),
    (F, H.PREPARING, {"cluster_status": C.PREPARING, "status_age": 481.0}, H.PREPARING_FAILED),
    (F, H.PREPARING, {"cluster_status": C.PREPARING, "disk_speed": Result.FAILURE}, H.INSUFFICIENT),
    (F, H.PREPARING_SUCCESSFUL, {"cluster_status": C.INSTALLING}, H.INSTALLING),
    (F, H.PREPARING_SUCCESSFUL, {"cluster_status": C.READY}, H.KNOWN),
    (F, H.PREPARING_FAILED, {"cluster_status": C.READY}, H.KNOWN),
    (F, H.INSTALLING, {"status_age": 1201.0, "cluster_status": C.INSTALLING}, H.ERROR),
    (F, H.INSTALLING_IN_PROGRESS, {"stage": Stage.WRITING, "stage_timed_out": True}, H.ERROR),
    (
        F,
        H.INSTALLING_IN_PROGRESS,
        {"stage": Stage.REBOOTING, "stage_timed_out": True},
        H.INSTALLING_PENDING_USER_ACTION,
    ),
    (F, H.INSTALLING_PENDING_USER_ACTION, {"status_age": 3601.0, "expendable": True}, H.ERROR),
    (F, H.INSTALLING_PENDING_USER_ACTION, {"status_age": 3601.0}, H.INSTALLING_PENDING_USER_ACTION),
    (F, H.INSTALLED, {"cluster_status": C.ERROR}, H.ERROR),
    (P, H.INSTALLING, {"stage": Stage.STARTING}, H.INSTALLING_IN_PROGRESS),
    (P, H.INSTALLING_PENDING_USER_ACTION, {"stage": Stage.JOINED}, H.INSTALLING_IN_PROGRESS),
    (P, H.INSTALLING_IN_PROGRESS, {"stage": Stage.DONE}, H.INSTALLED),
    (hs.Trigger.FAILED, H.INSTALLING_IN_PROGRESS, {}, H.ERROR),
    (hs.Trigger.CANCEL, H.INSTALLING, {}, H.CANCELLED),
    (hs.Trigger.CANCEL, H.PREPARING, {}, H.KNOWN),
    (hs.Trigger.MEDIA, H.KNOWN, {}, H.DISCONNECTED),
    (hs.Trigger.MEDIA, H.INSTALLING, {}, H.ERROR),
]


@pytest.mark.parametrize(("trigger", "source", "facts", "target"), HOST_CASES)
def test_host_row(trigger: hs.Trigger, source: H, facts: dict[str, Any], target: H) -> None:
    assert hs.decide(trigger, source, host_facts(**facts)).status is target


def test_host_in_the_wrong_place_is_refused() -> None:
    with pytest.raises(Conflict):
        hs.decide(P, H.KNOWN, host_facts(stage=Stage.STARTING))
    with pytest.raises(Forbidden):
        hs.decide(R, H.DISABLED, host_facts())


def test_repeated_wrong_boot_stops_the_agent() -> None:
    outcome = hs.decide(R, H.INSTALLING_PENDING_USER_ACTION, host_facts(stage=Stage.REBOOTING))
    assert outcome.effects == (hs.Effect.STOP_AGENT,)


def test_failing_validation_is_named() -> None:
    facts = host_facts(validations=bad("has-min-valid-disks"), texts={"failing": "found 5 GB"})
    assert "found 5 GB" in (hs.decide(F, H.DISCOVERING, facts).info or "")


FACTS = st.builds(
    hs.HostFacts,
    connected=st.booleans(),
    media_connected=st.booleans(),
    has_inventory=st.booleans(),
    validations=st.dictionaries(st.sampled_from(sorted(GOOD)), st.sampled_from(Result)).map(lambda d: {**GOOD, **d}),
    cluster_status=st.sampled_from(C),
    role=st.sampled_from(Role),
    stage=st.none() | st.sampled_from(Stage),
    stage_timed_out=st.booleans(),
    status_age=st.floats(0, 1e5),
    images=st.sampled_from(Result),
    disk_speed=st.sampled_from(Result),
    expendable=st.booleans(),
)


@given(st.lists(st.tuples(st.sampled_from(hs.Trigger), FACTS), max_size=30))
def test_no_sequence_leads_a_host_anywhere_undefined(inputs: list[Any]) -> None:
    status = H.DISCOVERING
    for trigger, facts in inputs:
        try:
            outcome = hs.decide(trigger, status, facts)
        except (Conflict, Forbidden):
            continue
        assert isinstance(outcome.status, H)
        assert outcome.changed is (outcome.status is not status)
        if trigger is F and outcome.status is H.KNOWN:
            assert status in hs.PREPARE or facts.connected
        status = outcome.status


@given(st.sampled_from(H), FACTS)
def test_refresh_is_always_taken_and_comes_to_rest(status: H, facts: hs.HostFacts) -> None:
    seen = [status]
    for _ in range(8):
        seen.append(hs.decide(F, seen[-1], facts).status)
    assert seen[-1] is seen[-2] or set(seen[-2:]) <= {
        H.KNOWN,
        H.PREPARING,
        H.PREPARING_FAILED,
        H.INSUFFICIENT,
        *hs.PREPARE,
    }


M = Role.MASTER
CF, CI = cs.Trigger.REFRESH, cs.Trigger.INSTALL
CLUSTER_CASES = [
    (
        CF,
        C.READY,
        cluster_facts(validations={**CGOOD, ClusterValidation.PULL_SECRET_SET: Result.FAILURE}),
        C.PENDING_FOR_INPUT,
    ),
    (
        CF,
        C.READY,
        cluster_facts(validations={**CGOOD, ClusterValidation.SUFFICIENT_MASTERS_COUNT: Result.FAILURE}),
        C.INSUFFICIENT,
    ),
    (CF, C.INSUFFICIENT, cluster_facts(), C.READY),
    (CI, C.READY, cluster_facts(), C.PREPARING),
    (CF, C.PREPARING, cluster_facts((H.PREPARING_SUCCESSFUL, M), preparation=PreparationStatus.SUCCESS), C.INSTALLING),
    (CF, C.PREPARING, cluster_facts((H.PREPARING_SUCCESSFUL, M)), C.PREPARING),
    (CF, C.PREPARING, cluster_facts((H.PREPARING, M), preparation=PreparationStatus.SUCCESS), C.PREPARING),
    (CF, C.PREPARING, cluster_facts((H.PREPARING_FAILED, M)), C.READY),
    (CF, C.PREPARING, cluster_facts((H.PREPARING, M), preparation=PreparationStatus.FAILED), C.READY),
    (CF, C.PREPARING, cluster_facts((H.DISCONNECTED, M)), C.INSUFFICIENT),
    (CF, C.PREPARING, cluster_facts((H.PREPARING, M), status_age=601.0), C.READY),
    (CF, C.INSTALLING, cluster_facts((H.INSTALLING_IN_PROGRESS, M)), C.INSTALLING),
    (CF, C.INSTALLING, cluster_facts((H.INSTALLED, M)), C.FINALIZING),
    (CF, C.INSTALLING, cluster_facts((H.ERROR, M)), C.ERROR),
    (CF, C.INSTALLING, cluster_facts((H.INSTALLING_PENDING_USER_ACTION, M)), C.INSTALLING_PENDING_USER_ACTION),
    (CF, C.INSTALLING_PENDING_USER_ACTION, cluster_facts((H.INSTALLING_IN_PROGRESS, M)), C.INSTALLING),
    (CF, C.FINALIZING, cluster_facts((H.INSTALLED, M), status_age=5 * 3600.0 + 1), C.ERROR),
    (cs.Trigger.COMPLETE, C.FINALIZING, cluster_facts((H.INSTALLED, M)), C.INSTALLED),
    (cs.Trigger.CANCEL, C.INSTALLING, cluster_facts((H.INSTALLING, M)), C.CANCELLED),
    (cs.Trigger.RESET, C.ERROR, cluster_facts((H.ERROR, M)), C.INSUFFICIENT),
]


@pytest.mark.parametrize(("trigger", "source", "facts", "target"), CLUSTER_CASES)
def test_cluster_row(trigger: cs.Trigger, source: C, facts: cs.ClusterFacts, target: C) -> None:
    assert cs.decide(trigger, source, facts).status is target


CFACTS = st.builds(
    cs.ClusterFacts,
    validations=st.dictionaries(st.sampled_from(sorted(CGOOD)), st.sampled_from(Result)).map(lambda d: {**CGOOD, **d}),
    hosts=st.lists(
        st.builds(cs.HostInCluster, st.sampled_from(H), st.sampled_from((Role.MASTER, Role.WORKER))), max_size=5
    ),
    control_plane_count=st.sampled_from((1, 3)),
    preparation=st.sampled_from(("not_started", "failed", "success")),
    status_age=st.floats(0, 1e5),
)


@given(st.lists(st.tuples(st.sampled_from(cs.Trigger), CFACTS), max_size=30))
def test_no_sequence_leads_a_cluster_anywhere_undefined(inputs: list[Any]) -> None:
    status = C.INSUFFICIENT
    for trigger, facts in inputs:
        try:
            outcome = cs.decide(trigger, status, facts)
        except Conflict:
            assert trigger is not CF
            continue
        assert isinstance(outcome.status, C)
        if outcome.status is C.PREPARING and status is not C.PREPARING:
            assert (trigger, status) == (CI, C.READY)
        status = outcome.status


def test_validation_ids_are_those_of_the_api() -> None:
    """The public client's own enumerations: nothing is missing, nothing invented."""
    from assisted_service_client.models import cluster_validation_id, host_validation_id

    def values(module: object, name: str) -> set[str]:
        kind = getattr(module, name)
        return {value for key, value in vars(kind).items() if key.isupper() and isinstance(value, str)}

    theirs = values(host_validation_id, "HostValidationId")
    assert len(theirs) > 40
    ours = {line.id for line in hv.TABLE}
    assert not theirs - ours - {item for item in theirs if item.endswith("requirements-satisfied")}
    theirs = values(cluster_validation_id, "ClusterValidationId")
    mine = {line.id for line in cv.TABLE}
    assert not theirs - mine - {item for item in theirs if item.endswith("requirements-satisfied")}


def test_statuses_stages_and_steps_are_those_of_the_api() -> None:
    import assisted_service_client as public

    def allowed(kind: type) -> set[str]:
        return {value for key, value in vars(kind).items() if key.isupper() and isinstance(value, str)}

    assert {item.value for item in Stage} == allowed(public.HostStage)
    assert {item.value for item in StepType} == allowed(public.StepType)
    source = Path(public.models.host.__file__).read_text()
    statuses = re.search(r'"discovering", "known"[^\]]*', source)
    assert statuses is not None
    assert {item.value for item in H} == set(re.findall(r'"([a-z-]+)"', statuses[0]))

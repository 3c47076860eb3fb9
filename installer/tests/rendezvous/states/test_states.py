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
from installer.assisted.enums import Result, Role, Stage, StepType
from installer.assisted.errors import Conflict, Forbidden
from installer.rendezvous.states import cluster as cs
from installer.rendezvous.states import host as hs
from installer.rendezvous.validations import host as hv
from installer.rendezvous.validations.cluster import table as cv
from installer.testing.engine.states_kit import CGOOD, GOOD, host_facts

R, F, P = hs.Trigger.REGISTER, hs.Trigger.REFRESH, hs.Trigger.PROGRESS


def test_host_in_the_wrong_place_is_refused() -> None:
    with pytest.raises(Conflict):
        hs.decide(P, H.KNOWN, host_facts(stage=Stage.STARTING))
    with pytest.raises(Forbidden):
        hs.decide(R, H.DISABLED, host_facts())


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


CF, CI = cs.Trigger.REFRESH, cs.Trigger.INSTALL


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

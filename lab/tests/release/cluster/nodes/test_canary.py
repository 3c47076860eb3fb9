"""The Deployment by which the probe of the controller manager sees whether it reconciles."""

import datetime as dt

from hypothesis import given
from hypothesis import strategies as st

from lab.release.cluster.kube.conditions import stamp
from lab.release.cluster.nodes.probes import kube_controller_manager as kcm

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def ago(seconds):
    return stamp(NOW - dt.timedelta(seconds=seconds))


def canary(generation, observed, asked):
    return {
        "metadata": {"generation": generation, "creationTimestamp": ago(9999), "annotations": {kcm.ASKED: ago(asked)}},
        "spec": {},
        "status": {"observedGeneration": observed} if observed else {},
    }


def test_a_controller_that_overlooks_a_change_is_found_when_its_time_is_up():
    assert kcm.overlooked(NOW, canary(7, 7, 9999)) == ""
    assert kcm.overlooked(NOW, canary(7, 6, kcm.ANSWER_SECONDS - 1)) == ""
    assert "generation 6 was the last" in kcm.overlooked(NOW, canary(7, 6, kcm.ANSWER_SECONDS))
    assert "generation 0 was the last" in kcm.overlooked(NOW, canary(1, 0, 1)), "it has never answered"
    assert kcm.overlooked(NOW, canary(7, 6, -60)), "a clock that was set back hides nothing"


@given(st.lists(st.integers(1, 3), max_size=5))
def test_each_change_of_the_canary_is_one(steps):
    """A patch that sets what is there already would make no new generation, and pass for an answer."""
    now = NOW
    spec: dict[str, int] = {}
    for seconds in steps:
        now += dt.timedelta(seconds=seconds)
        patch = kcm.canary_patch(now, {"spec": spec})
        assert patch["spec"]["minReadySeconds"] != spec.get("minReadySeconds", 0)
        assert patch["metadata"]["annotations"] == {kcm.ASKED: stamp(now)}
        spec = patch["spec"]

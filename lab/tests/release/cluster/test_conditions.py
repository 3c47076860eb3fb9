"""Conditions of ClusterVersion and ClusterOperator, held against reference/cluster.md §5."""

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.release.cluster.kube import conditions
from lab.release.cluster.kube.conditions import PATIENCE_SECONDS, VERSION_ORDER, Failure, Finding, Work

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
VERSION = "4.18.0-node0.abcdef12"


def step(status, work, seconds):
    return conditions.version_status(
        status,
        work,
        START + dt.timedelta(seconds=seconds),
        generation=1,
        capabilities=("Console", "Ingress"),
        version_hash="h",
    )


def message(status, kind):
    condition = conditions.find(status["conditions"], kind)
    return condition["status"], condition.get("reason", ""), condition.get("message", "")


def test_version_goes_through_an_installation():
    status = step({}, Work(version=VERSION, image="img", done=0, total=50), 0)
    assert [c["type"] for c in status["conditions"]] == list(VERSION_ORDER[:6])
    assert message(status, "Progressing") == ("True", "", f"Working towards {VERSION}")
    assert message(status, "Available") == ("False", "", "")
    assert status["history"][0]["state"] == "Partial"
    assert status["history"][0]["verified"] is False
    assert status["availableUpdates"] is None

    status = step(status, Work(version=VERSION, image="img", done=49, total=50, waiting=("etcd", "dns")), 10)
    assert (
        message(status, "Progressing")[2]
        == f"Working towards {VERSION}: 49 of 50 done (98% complete), waiting on dns, etcd"
    )

    status = step(
        status, Work(version=VERSION, image="img", done=49, total=50, failure=conditions.unavailable(["dns"])), 20
    )
    assert message(status, "Failing") == (
        "True",
        "ClusterOperatorNotAvailable",
        "Cluster operator dns is not available",
    )
    assert message(status, "Progressing")[2] == f"Unable to apply {VERSION}: the cluster operator dns is not available"

    status = step(status, Work(version=VERSION, image="img", done=50, total=50, complete=True), 30)
    assert message(status, "Available") == ("True", "", f"Done applying {VERSION}")
    assert message(status, "Failing")[0] == "False"
    assert message(status, "Progressing") == ("False", "", f"Cluster version is {VERSION}")
    assert status["history"][0]["state"] == "Completed"
    assert status["history"][0]["completionTime"] == "2026-01-01T00:00:30Z"
    assert len(status["history"]) == 1

    broken = step(
        status, Work(version=VERSION, image="img", done=49, total=50, failure=conditions.unavailable(["b", "a"])), 40
    )
    assert message(broken, "Available")[0] == "True"
    expected = f"Error while reconciling {VERSION}: some cluster operators are not available"
    assert message(broken, "Progressing") == ("False", "ClusterOperatorsNotAvailable", expected)
    assert message(broken, "Failing")[2] == "Cluster operators a, b are not available"


WORKS = st.builds(
    Work,
    version=st.just(VERSION),
    image=st.just("img"),
    done=st.integers(0, 50),
    total=st.just(50),
    waiting=st.lists(st.sampled_from(["a", "b"]), unique=True).map(tuple),
    failure=st.none() | st.just(Failure("R", "m", "s")),
    complete=st.booleans(),
)


@given(st.lists(WORKS, min_size=1, max_size=8))
def test_transition_times_move_only_with_the_status(works):
    status: dict = {}
    for index, work in enumerate(works):
        before = {c["type"]: c for c in status.get("conditions", [])}
        status = step(status, work, index)
        for condition in status["conditions"]:
            old = before.get(condition["type"])
            if old is not None and old["status"] == condition["status"]:
                assert condition["lastTransitionTime"] == old["lastTransitionTime"]
            else:
                assert condition["lastTransitionTime"] == conditions.stamp(START + dt.timedelta(seconds=index))
        assert step(status, work, index + 100) == status, "the same state again changes nothing"


VERSIONS = [{"name": "operator", "version": VERSION}]


def operator(status, good, failures=1, text="seen"):
    return conditions.operator_status(status, Finding(good, text), failures, START, versions=VERSIONS)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [("Available", "FFT"), ("Degraded", "FTT"), ("Progressing", "TTF")],
)
def test_an_operator_that_was_available_changes_the_condition_that_is_asked_for(changed, expected):
    finding = Finding(False, "m2: no answer", "Lacking", changed)

    def shown(status: conditions.Status, seconds: float) -> str:
        after = conditions.operator_status(status, finding, seconds, START, versions=VERSIONS)
        return "".join(message(after, kind)[0][0] for kind in ("Progressing", "Available", "Degraded"))

    assert shown({}, 60) == "TFF", "an operator that never was available waits, whatever the finding"
    good = operator({}, True)
    assert shown(good, conditions.PATIENCE_SECONDS - 1) == "FTF"
    assert shown(good, conditions.PATIENCE_SECONDS) == expected


def test_operator_progresses_first_and_then_is_available():
    waiting = operator({}, False)
    assert [c["type"] for c in waiting["conditions"]][:2] == ["Progressing", "Available"]
    assert message(waiting, "Progressing")[0] == "True"
    assert message(waiting, "Degraded")[0] == "False"
    assert "versions" not in waiting
    good = operator(waiting, True)
    assert message(good, "Available") == ("True", "AsExpected", "seen")
    assert message(good, "Progressing")[0] == "False"
    assert good["versions"] == VERSIONS


def test_operator_outlasts_a_stall_but_not_an_outage():
    good = operator({}, True)
    assert operator(good, False, PATIENCE_SECONDS - 1) == good
    bad = operator(good, False, PATIENCE_SECONDS)
    assert message(bad, "Available")[0] == "False"
    assert message(bad, "Degraded")[0] == "True"
    assert message(bad, "Progressing")[0] == "False"
    assert bad["versions"] == VERSIONS


def test_a_cluster_whose_updates_all_fail_has_still_been_installed():
    history = [{"state": "Completed", "version": "4.18.0", "image": "r@0", "completionTime": "t"}]
    status = {"history": history}
    for number in range(1, 150):
        work = Work(f"4.18.{number}", f"r@{number}", 1, 2)
        status = conditions.version_status(status, work, START, generation=1, capabilities=[], version_hash="h")
    assert len(status["history"]) == conditions.MAX_HISTORY
    assert status["history"][0]["version"] == "4.18.149"
    assert status["history"][-1] == history[0]

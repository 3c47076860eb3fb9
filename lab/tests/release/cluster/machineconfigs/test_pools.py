"""Pools: which nodes are whose, whose turn it is, and that a rollout of any course ends without more nodes away than
may be."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.release.cluster.ignition import machineconfig
from lab.release.cluster.machineconfigs import pools

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
ROLES = "node-role.kubernetes.io/"
INFRA = {
    "metadata": {"name": "infra"},
    "spec": {
        "machineConfigSelector": {
            "matchExpressions": [{"key": machineconfig.ROLE, "operator": "In", "values": ["worker", "infra"]}]
        },
        "nodeSelector": {"matchLabels": {f"{ROLES}infra": ""}},
    },
}


def pool(name: str = "worker", **spec: Any) -> dict[str, Any]:
    made = machineconfig.machine_config_pool(name)
    made["spec"] |= {"configuration": {"name": "new"}, **spec}
    return made


def node(name: str, current: str = "old", desired: str = "old", state: str = "Done", **more: Any) -> dict[str, Any]:
    notes = {pools.CURRENT: current, pools.DESIRED: desired, pools.STATE: state, **more}
    status = {"conditions": [{"type": "Ready", "status": "True"}]}
    return {"metadata": {"name": name, "labels": {}, "annotations": notes}, "spec": {}, "status": status}


@pytest.mark.parametrize(
    ("roles", "name"),
    [
        (["master", "worker"], "master"),
        (["worker"], "worker"),
        (["worker", "infra"], "infra"),
        (["master", "infra"], "master"),
        (["arbiter"], "arbiter"),
        ([], ""),
        (["worker", "infra", "gpu"], ""),
    ],
)
def test_a_node_is_in_one_pool(roles: list[str], name: str) -> None:
    gpu = {"metadata": {"name": "gpu"}, "spec": {"nodeSelector": {"matchLabels": {f"{ROLES}gpu": ""}}}}
    mine = node("n")
    mine["metadata"]["labels"] = {f"{ROLES}{role}": "" for role in roles}
    assert pools.primary(mine, [pool("worker"), pool("master"), pool("arbiter"), INFRA, gpu]) == name


def test_a_custom_pool_has_the_workers_configs_first() -> None:
    made = [
        machineconfig.machine_config(n, r, {}) for n, r in (("10-i", "infra"), ("99-w", "worker"), ("0-m", "master"))
    ]
    rendered = machineconfig.machine_config("rendered-worker-1", "", {})
    chosen = machineconfig.selected(INFRA, [*made, rendered])
    assert [config["metadata"]["name"] for config in chosen] == ["99-w", "10-i"]


@pytest.mark.parametrize(
    ("value", "count", "expected"), [(None, 5, 1), (2, 5, 2), ("40%", 5, 2), ("10%", 5, 1), (0, 5, 1), ("2", 5, 2)]
)
def test_how_many_may_be_away(value: object, count: int, expected: int) -> None:
    assert pools.max_unavailable(pool(maxUnavailable=value), count) == expected


@pytest.mark.parametrize("value", ["x", "-1", -1, "5%%", True])
def test_a_number_of_nodes_that_is_none_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="maxUnavailable"):
        pools.max_unavailable(pool(maxUnavailable=value), 3)


def test_nodes_that_failed_take_the_place_of_others_until_they_are_sent_elsewhere() -> None:
    stuck, idle = node("a", "old", "new", "Degraded"), node("b")
    assert pools.candidates(pool(), [stuck, idle]) == []
    mended = pool(configuration={"name": "newer"})
    assert pools.candidates(mended, [stuck, idle]) == [stuck]
    held = node("a", "old", "new", "Working", **{pools.DESIRED_DRAIN: "drain-new"})
    held["spec"]["unschedulable"] = True
    assert pools.candidates(mended, [held, idle]) == [held]
    held["metadata"]["annotations"][pools.APPLIED_DRAIN] = "drain-new"
    assert pools.candidates(mended, [held, idle]) == [], "it may be writing already"


@given(st.integers(1, 6), st.integers(1, 4), st.data())
def test_a_rollout_ends_and_never_takes_more_nodes_away_than_may_be(count: int, most: int, data: st.DataObject) -> None:
    nodes, mine = [node(f"n{i}") for i in range(count)], pool(maxUnavailable=most)
    for _ in range(8 * count):
        for chosen in pools.candidates(mine, nodes):
            chosen["metadata"]["annotations"][pools.DESIRED] = "new"
        moving = [n for n in nodes if not pools.done(n) or not pools.ready(n)]
        assert len(moving) <= most
        if not moving:
            break
        turn = data.draw(st.sampled_from(moving))
        own = turn["metadata"]["annotations"]
        # Cordoned and at work; away; back, and reporting; open again.
        if own[pools.STATE] == "Done" and own[pools.CURRENT] == "old":
            own[pools.STATE], turn["spec"]["unschedulable"] = "Working", True
        elif own[pools.STATE] == "Working" and pools.is_status(turn["status"]["conditions"], "Ready"):
            turn["status"]["conditions"][0]["status"], own[pools.STATE] = "False", "Rebooting"
        elif own[pools.STATE] == "Rebooting":
            turn["status"]["conditions"][0]["status"], own[pools.STATE] = "True", "Done"
            own[pools.CURRENT] = "new"
        else:
            turn["spec"].pop("unschedulable", None)
    status = pools.status(mine, nodes, NOW, render_error="")
    assert {c["type"]: c["status"] for c in status["conditions"]}["Updated"] == "True"
    assert status["configuration"] == {"name": "new"}
    assert status["updatedMachineCount"] == status["readyMachineCount"] == status["machineCount"] == count


def told(status: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {c["type"]: (c["status"], c.get("message", "")) for c in status["conditions"]}


def test_a_pool_says_what_holds_it_up() -> None:
    held = node("b", "old", "new", "Working", **{pools.HELD: "pod ns/p: Cannot evict pod"})
    bad = node("c", "old", "new", "Degraded", **{pools.REASON: "no space"})
    status = pools.status(pool(), [node("a", "new", "new"), held, bad], NOW, render_error="")
    says = told(status)
    assert says["Updating"] == (
        "True",
        "All nodes are updating to MachineConfig new; node b: pod ns/p: Cannot evict pod",
    )
    assert says["NodeDegraded"] == ("True", 'Node c is reporting: "no space"') == says["Degraded"]
    assert (status["updatedMachineCount"], status["degradedMachineCount"], status["machineCount"]) == (1, 1, 3)
    assert "configuration" not in status, "what all nodes have run last stays"
    paused = told(pools.status(pool(paused=True), [node("a")], NOW, render_error="a rule"))
    assert paused["Updating"] == ("False", "Pool is paused; will not update to MachineConfig new")
    assert paused["Degraded"] == ("True", "Failed to render configuration for pool worker: a rule")

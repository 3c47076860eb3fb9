"""Conditions of clusters, agents and deployments: none is absent in any state, each documented reason is reached."""

import json
from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from installer.assisted.enums import ClusterStatus, HostStatus
from installer.hub.conditions import Condition, set_conditions
from installer.hub.tables import agent, cluster, deployment
from installer.hub.tables.agent import AgentFacts
from installer.hub.tables.cluster import ClusterFacts, Member, Numbers
from installer.hub.tables.facts import SyncProblem
from installer.rendezvous.clock import now

FAILING = json.dumps({"network": [{"id": "api-vips-valid", "status": "failure", "message": "no address is free"}]})
PASSING = json.dumps({"network": [{"id": "api-vips-valid", "status": "success", "message": "fine"}]})
PROBLEMS = (None, SyncProblem("Secret ns/pull-secret does not exist", True), SyncProblem("no answer", False))
THREE = tuple(Member(f"agent-{n}", "master", "known") for n in range(3))
MEMBERS = (
    THREE,
    THREE[:2],
    (*THREE, Member("agent-4", "worker", "known")),
    (*THREE[:2], THREE[2]._replace(is_approved=False)),
    (*THREE[:2], THREE[2]._replace(is_synced=False)),
    (*THREE[:2], THREE[2]._replace(status="disconnected")),
)
CANNOT = "the release cannot be pulled"
PREPARATIONS: tuple[dict[str, str], ...] = (
    {},
    {"status": "success"},
    {"status": "failed", "reason": CANNOT},
)
# hub.md §3; the last one's reasons are words here.
CLUSTER = {
    "SpecSynced": {"True SyncOK", "False InputError", "False BackendError"},
    "Validated": {
        *("True ValidationsPassing", "False ValidationsFailing", "False ValidationsUserPending"),
        *("Unknown ValidationsUnknown", "Unknown NotAvailable"),
    },
    "RequirementsMet": {
        *("True ClusterIsReady", "False ClusterNotReady", "False InsufficientAgents", "False UnsyncedAgents"),
        *("False UnapprovedAgents", "True ClusterAlreadyInstalling", "True ClusterInstallationStopped"),
        *("Unknown UnknownStatus", "Unknown NotAvailable"),
    },
    "Completed": {
        *("False InstallationNotStarted", "False InstallationOnHold", "False InstallationInProgress"),
        *("True InstallationCompleted", "False InstallationFailed", "Unknown UnknownStatus", "Unknown NotAvailable"),
    },
    "Failed": {"True InstallationFailed", "False InstallationNotFailed", "Unknown NotAvailable"},
    "Stopped": {
        *("True InstallationFailed", "True InstallationCancelled", "True InstallationCompleted"),
        *("False InstallationNotStopped", "Unknown NotAvailable"),
    },
    "LastInstallationPreparationFailed": {
        *("False NeverPrepared", "False PreparationSucceeded", "True PreparationFailed", "Unknown NotAvailable"),
    },
}
# hub.md §6, and reasons for the states of which upstream says UnknownStatus.
OWN = {"False Resetting", "False Reclaiming", "False InstallationCancelled"}
MOVING = {"False Binding", "False Unbinding"}
AGENT = {
    "SpecSynced": CLUSTER["SpecSynced"],
    "Connected": {"True AgentIsConnected", "False AgentIsDisconnected", "Unknown NotAvailable"},
    "RequirementsMet": {
        *("True AgentIsReady", "True AgentAlreadyInstalling", "True AgentInstallationStopped", "False AgentNotReady"),
        *("False AgentIsNotApproved", "False AgentDisabled", "Unknown UnknownStatus", "Unknown NotAvailable"),
        *(OWN | MOVING),
    },
    "Validated": {*CLUSTER["Validated"], *MOVING, "False Reclaiming"},
    "Installed": {
        *("True InstallationCompleted", "False InstallationNotStarted", "False InstallationInProgress"),
        *("False InstallationFailed", "Unknown UnknownStatus", "Unknown NotAvailable", *OWN, *MOVING),
    },
    "Bound": {
        *("True Bound", "False Unbound", "False UnbindingPendingUserAction", "False Reclaiming"),
        *("Unknown UnknownStatus", "Unknown NotAvailable", *MOVING),
    },
}


def clusters():
    bodies = [None] + [
        {"status": status, "status_info": "{info}", "validations_info": found, "last-installation-preparation": last}
        for status, found, last in product(ClusterStatus, ("", FAILING, PASSING), PREPARATIONS)
    ]
    for body, members, is_held, problem in product(bodies, MEMBERS, (False, True), PROBLEMS):
        yield ClusterFacts(
            name="ns/c", required=Numbers(3), cluster=body, members=members, is_held=is_held, problem=problem
        )


def agents():
    bodies = [None] + [
        {"status": status, "status_info": "{info}", "validations_info": found}
        for status, found in product((*HostStatus, "of-tomorrow"), ("", FAILING, PASSING))
    ]
    for body, is_approved, problem in product(bodies, (False, True), PROBLEMS):
        yield AgentFacts(name="ns/a", host=body, is_approved=is_approved, problem=problem)


@pytest.mark.parametrize(
    ("every", "conditions", "documented"), [(clusters, cluster.conditions, CLUSTER), (agents, agent.conditions, AGENT)]
)
def test_every_state_has_each_condition_and_each_documented_reason_is_reached(every, conditions, documented):
    seen: dict[str, set[str]] = {name: set() for name in documented}
    for facts in every():
        found = conditions(facts)
        assert [item.type for item in found] == list(documented)
        for item in found:
            assert item.message
            seen[item.type].add(f"{item.status} {item.reason}")
    assert seen == documented


def test_states_that_are_known_are_never_unknown_and_disconnection_is_seen():
    for status in HostStatus:
        found = agent.conditions(AgentFacts(name="a", host={"status": status, "validations_info": PASSING}))
        assert not [item for item in found if item.status == "Unknown"], status
        connected = next(item for item in found if item.type == "Connected")
        assert (connected.status == "False") is status.startswith("disconnected")


def test_upstreams_false_alarm_is_not_repeated_and_a_real_one_names_the_agent():
    def requirements(status, members):
        facts = ClusterFacts(name="ns/c", required=Numbers(3), cluster={"status": status}, members=members)
        return next(item for item in cluster.conditions(facts) if item.type == "RequirementsMet")

    preparing = tuple(item._replace(status="preparing-for-installation") for item in THREE)
    assert requirements("ready", preparing).reason != "UnapprovedAgents"
    unapproved = requirements("ready", MEMBERS[3])
    assert unapproved.reason == "UnapprovedAgents"
    assert "agent-2" in unapproved.message
    numbers = requirements("ready", MEMBERS[2]).message
    assert "3 control plane, 0 arbiter and 0 worker" in numbers
    assert "3 control plane, 0 arbiter and 1 worker" in numbers
    for status in ("ready", "insufficient"):
        surplus = requirements(status, (*THREE, Member("agent-4", "master", "insufficient"))).message
        assert "requires 3 control plane, 0 arbiter and 0 worker agents" in surplus
        assert surplus.endswith("; too many: 1 of master agents agent-0, agent-1, agent-2, agent-4")


def test_a_host_without_an_agent_keeps_the_installation_from_starting():
    body = {"status": "ready", "total_host_count": 4}
    facts = ClusterFacts(name="ns/c", required=Numbers(3), cluster=body, members=THREE)
    assert not cluster.can_start(facts)
    assert "1 of its hosts" in cluster.conditions(facts)[2].message


def test_an_installation_starts_only_when_nothing_is_lacking():
    for facts in clusters():
        found = {item.type: item for item in cluster.conditions(facts)}
        wanted = facts.problem is None and not facts.is_held
        assert cluster.can_start(facts) is (wanted and found["RequirementsMet"].reason == "ClusterIsReady")


def test_failed_preparations_wait_longer_each_time_and_are_counted():
    def facts(attempts):
        last = {"status": "failed", "reason": CANNOT}
        body = {"status": "ready", "last-installation-preparation": last}
        return ClusterFacts(name="c", required=Numbers(3), cluster=body, members=THREE, attempts=attempts)

    pauses = [cluster.pause(facts(n)) for n in range(40)]
    assert pauses[:4] == [0.0, 15.0, 30.0, 60.0]
    assert all(after >= before for before, after in pairwise(pauses))
    assert pauses[-1] == 1800.0
    found = cluster.conditions(facts(3))[-1]
    assert "3" in found.message
    assert CANNOT in found.message


def as_status(found):
    return {"status": {"conditions": set_conditions((), found, now())}}


@given(st.lists(st.sampled_from([facts for facts in clusters() if facts.members == THREE]), min_size=1, max_size=8))
def test_hives_half_has_every_condition_after_any_order_of_states(states):
    old: list[dict[str, str]] = []
    for facts in states:
        wanted = deployment.conditions("ns/c", as_status(cluster.conditions(facts)))
        assert [item.type for item in wanted] == list(deployment.TYPES)
        found = {item.type: item for item in wanted}
        assert found["ProvisionFailed"].status == found["ClusterInstallFailed"].status
        assert (found["Provisioned"].status == "True") is (found["ClusterInstallCompleted"].status == "True")
        old = set_conditions(old, wanted, now())
        # Nothing flaps: the same again changes nothing, not even a time.
        assert set_conditions(old, wanted, now()) == old


def test_hives_half_of_failed_cancelled_installed_and_broken_ones():
    def provisioned(status, **options):
        facts = ClusterFacts(name="ns/c", required=Numbers(3), cluster={"status": status})
        found = deployment.conditions("ns/c", as_status(cluster.conditions(facts)), **options)
        return {item.type: (item.status, item.reason) for item in found}

    assert provisioned("error")["Provisioned"] == ("False", "ProvisionStopped")
    assert provisioned("error")["ProvisionStopped"] == ("True", "InstallAttemptsLimitReached")
    assert provisioned("error")["ProvisionFailed"] == ("True", "InstallationFailed")
    assert provisioned("cancelled")["ProvisionStopped"] == ("True", "InstallationCancelled")
    assert provisioned("installing")["Provisioned"] == ("False", "Provisioning")
    assert provisioned("installed")["Provisioned"] == ("True", "Provisioned")
    # spec.installed never goes back, whatever becomes of the resource that it was installed by.
    assert provisioned("insufficient", is_installed=True)["Provisioned"] == ("True", "Provisioned")
    assert deployment.conditions("ns/c", None, is_installed=True)[-1].status == "True"
    broken = as_status([Condition("Completed", "True", "InstallationCompleted")])
    assert deployment.conditions("ns/c", broken)[-1].reason == "Error"


def test_timestamps_are_those_of_the_first_change_to_true():
    def install(requirements, completed, time):
        rows = (("RequirementsMet", requirements), ("Completed", completed))
        return {"status": {"conditions": [{"type": t, "status": s, "lastTransitionTime": time} for t, s in rows]}}

    def step(old, requirements, completed, time):
        aci = install(requirements, completed, time)
        conditions = [
            {"type": f"ClusterInstall{t['type']}", "status": t["status"]} for t in aci["status"]["conditions"]
        ]
        return deployment.timestamps(old, aci) | {"conditions": conditions}

    first = step({}, "False", "False", "T1")
    started = step(first, "True", "False", "T2")
    assert started["installStartedTimestamp"] == "T2"
    later = step(started, "True", "False", "T3")
    assert later["installStartedTimestamp"] == "T2"
    done = step(later, "True", "True", "T4")
    assert (done["installStartedTimestamp"], done["installedTimestamp"]) == ("T2", "T4")
    again = step(step(later, "False", "False", "T5"), "True", "False", "T6")
    assert again["installStartedTimestamp"] == "T6"


def test_metadata_is_copied_only_when_it_is_whole():
    whole = {
        "clusterID": "a",
        "infraID": "b",
        "adminKubeconfigSecretRef": {"name": "k"},
        "adminPasswordSecretRef": {"name": "p"},
    }
    assert deployment.metadata({"spec": {"clusterMetadata": whole}}) == whole
    for key in whole:
        assert deployment.metadata({"spec": {"clusterMetadata": {k: v for k, v in whole.items() if k != key}}}) is None

"""Failures: preparations, installations, a service that is away, an operator that is killed and begins anew."""

import json
from datetime import datetime
from itertools import pairwise

import pytest

from installer.assisted.enums import Stage
from installer.hub.controllers.cluster import ATTEMPTS
from installer.hub.kube.kinds import (
    AGENT,
    AGENT_CLUSTER_INSTALL,
    CLUSTER_DEPLOYMENT,
    EVENT,
    INFRA_ENV,
    Key,
    annotations_of,
    uid_of,
)
from installer.hub.tables import cluster as table
from installer.testing.engine.fleet_kit import Machine, Network
from installer.testing.hub.world_kit import NAMESPACE, cluster_objects, wait_until
from installer.testing.service.service_kit import MARKS

pytestmark = [*MARKS, pytest.mark.slow]
ACI = AGENT_CLUSTER_INSTALL


def approved(world, name, number):
    key, machine = world.cluster(name), Machine(number, Network())
    world.change(ACI, key, holdInstallation=True)
    (agent,) = world.discovered(key, machine)
    world.change(AGENT, agent, approved=True)
    world.wait(ACI, key, "RequirementsMet", "True ClusterIsReady")
    return key, machine, agent


def test_a_preparation_that_fails_is_repeated_after_longer_and_longer_pauses(world, monkeypatch):
    monkeypatch.setattr(table, "FIRST_PAUSE", 1.0)
    key, machine, _ = approved(world, "unprepared", 21)
    machine.images = "failure"
    world.change(ACI, key, holdInstallation=False)

    def starts():
        notes = {annotations_of(obj).get(ATTEMPTS) for _, kind, _, obj in world.server.store.history if kind is ACI}
        found = sorted((json.loads(text) for text in notes if text), key=lambda note: note["count"])
        return [datetime.fromisoformat(note["at"]) for note in found]

    world.poll_until(key, [machine], lambda: len(starts()) >= 3)
    failed = world.wait(ACI, key, "LastInstallationPreparationFailed", "True PreparationFailed")
    assert " starts with this spec" in failed
    machine.images = "success"
    world.poll_until(key, [machine], lambda: "install" in world.steps[machine.id])
    pauses = [(after - before).total_seconds() for before, after in pairwise(starts())]
    assert [int(pause) >= least for pause, least in zip(pauses, (1, 2, 4), strict=False)] == [True] * len(pauses)
    assert len(pauses) >= 2
    world.api.delete(CLUSTER_DEPLOYMENT, key)
    world.gone((ACI, key))


def test_an_installation_that_fails_is_told_on_both_resources_and_can_be_begun_anew(world):
    key, machine, agent = approved(world, "failing", 22)
    world.change(ACI, key, holdInstallation=False)
    world.poll_until(key, [machine], lambda: "install" in world.steps[machine.id])
    world.progress(key, machine, Stage.STARTING, Stage.FAILED)
    world.wait(AGENT, agent, "Installed", "False InstallationFailed")
    world.wait(ACI, key, "Failed", "True InstallationFailed")
    world.wait(CLUSTER_DEPLOYMENT, key, "ProvisionFailed", "True InstallationFailed")
    world.wait(CLUSTER_DEPLOYMENT, key, "ProvisionStopped", "True InstallAttemptsLimitReached")
    world.wait(CLUSTER_DEPLOYMENT, key, "Provisioned", "False ProvisionStopped")
    assert not world.get(CLUSTER_DEPLOYMENT, key)["spec"].get("installed")
    # The documented way to try again: the AgentClusterInstall alone goes, and comes again.
    install = world.get(ACI, key)
    world.api.delete(ACI, key)
    world.gone((ACI, key), (AGENT, agent))
    world.apply((ACI, ACI.new(key, spec=install["spec"] | {"clusterMetadata": None})))
    world.wait(ACI, key, "SpecSynced", "True SyncOK")
    world.wait(CLUSTER_DEPLOYMENT, key, "Provisioned", "False Provisioning")


def test_a_hub_whose_service_is_away_says_why_it_waits_and_goes_on(world):
    key, _, agent = approved(world, "away", 23)
    before = world.get(CLUSTER_DEPLOYMENT, key)
    world.service.kill()
    world.change(AGENT, agent, hostname="later")
    world.wait(AGENT, agent, "SpecSynced", "False BackendError")
    world.change(ACI, key, mastersSchedulable=True)
    world.wait(ACI, key, "SpecSynced", "False BackendError")
    # What was seen last stays, and nobody takes a cluster for lost.
    assert world.reason(ACI, key, "RequirementsMet") == "True ClusterIsReady"
    assert world.reason(AGENT, agent, "Bound") == "True Bound"
    world.api.delete(CLUSTER_DEPLOYMENT, key)
    wait_until("why", lambda: "to be deleted" in world.message(ACI, key, "SpecSynced"), True)
    world.api.delete(INFRA_ENV, key)
    wait_until("why", lambda: "DeletionWaits" in {event["reason"] for event in world.api.list(EVENT)[0]}, True)
    world.service.start()
    world.gone((CLUSTER_DEPLOYMENT, key), (ACI, key), (AGENT, agent), (INFRA_ENV, key))
    assert world.user.find_cluster(uid_of(before)) is None


def test_a_deployment_that_names_anothers_install_neither_shows_nor_deletes_it(world):
    copy, objects = Key(NAMESPACE, "copied"), dict(cluster_objects("mine", "", world.service.pull_secret))
    world.apply((CLUSTER_DEPLOYMENT, CLUSTER_DEPLOYMENT.new(copy, spec=objects[CLUSTER_DEPLOYMENT]["spec"])))
    world.wait(CLUSTER_DEPLOYMENT, copy, "Provisioned", "False Provisioning")
    key = world.cluster("mine")
    cluster_id = uid_of(world.get(CLUSTER_DEPLOYMENT, key))
    text = world.wait(CLUSTER_DEPLOYMENT, copy, "Provisioned", "Unknown Error")
    assert text.endswith("AgentClusterInstall mine belongs to ClusterDeployment site/mine")
    world.api.delete(CLUSTER_DEPLOYMENT, copy)
    world.gone((CLUSTER_DEPLOYMENT, copy))
    assert "deletionTimestamp" not in world.get(ACI, key)["metadata"]
    # Another takes its place: what went before has no say in the cluster any more.
    following = Key(NAMESPACE, "following")
    world.apply((ACI, ACI.new(following, spec=world.get(ACI, key)["spec"])))
    world.change(CLUSTER_DEPLOYMENT, key, clusterInstallRef={"name": "following"})
    world.wait(ACI, following, "SpecSynced", "True SyncOK")
    began = world.user.cluster(cluster_id)["created_at"]
    world.api.delete(ACI, key)
    world.gone((ACI, key))
    assert world.user.cluster(cluster_id)["created_at"] == began


def test_operators_that_are_killed_at_any_time_finish_an_installation_between_them(world):
    """Each step of the way by another one, none of which has any memory."""
    key, machine, agent = approved(world, "killed", 24)

    def another():
        world.stop()
        world.start()

    another()
    world.change(ACI, key, holdInstallation=False)
    another()
    world.poll_until(key, [machine], lambda: "install" in world.steps[machine.id])
    another()
    world.progress(key, machine, Stage.STARTING, Stage.INSTALLING, Stage.WRITING, Stage.REBOOTING)
    another()
    world.progress(key, machine, Stage.JOINED, Stage.DONE)
    cluster_id = uid_of(world.get(CLUSTER_DEPLOYMENT, key))
    wait_until("finalizing", lambda: world.user.cluster(cluster_id)["status"], "finalizing")
    world.stop()
    world.complete(key)
    world.start()
    wait_until("installed", lambda: world.get(CLUSTER_DEPLOYMENT, key)["spec"].get("installed"), True)
    world.wait(AGENT, agent, "Installed", "True InstallationCompleted")
    # At rest nothing is written, whoever begins anew; the first day's cluster is the second's by then.
    wait_until("day 2", lambda: world.get(ACI, key)["status"]["debugInfo"]["state"], "adding-hosts")
    wait_until("rest", lambda: all(len(runner.queue) == 0 for runner in world.manager.runners), True)
    world.stop()
    written = len([method for method, _ in world.server.requests if method != "GET"])
    world.start()
    world.wait(ACI, key, "Stopped", "True InstallationCompleted")
    wait_until("rest", lambda: all(len(runner.queue) == 0 for runner in world.manager.runners), True)
    now = [path for method, path in world.server.requests if method != "GET"]
    assert now[written:] == []

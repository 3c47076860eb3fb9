"""A cluster of one node from its resources to Installed, with a real service and all controllers."""

import base64
import json

import pytest

from installer.assisted.enums import Stage
from installer.hub.kube.kinds import (
    AGENT,
    AGENT_CLUSTER_INSTALL,
    CLUSTER_DEPLOYMENT,
    EVENT,
    INFRA_ENV,
    SECRET,
    Key,
    labels_of,
    uid_of,
)
from installer.testing.engine.fleet_kit import Machine, Network
from installer.testing.hub.world_kit import CANARY, NAMESPACE, wait_until
from installer.testing.service.service_kit import MARKS

pytestmark = [*MARKS, pytest.mark.slow]


def test_one_node_from_its_resources_to_installed(world):
    key, machine = world.cluster("one"), Machine(1, Network())
    (agent,) = world.discovered(key, machine)
    assert agent.name in world.wait(AGENT_CLUSTER_INSTALL, key, "RequirementsMet", "False UnapprovedAgents")
    found = world.get(AGENT, agent)
    assert found["status"]["inventory"]["hostname"] == "host-1"
    assert labels_of(found)["inventory.agent-install.openshift.io/cpu-architecture"] == "x86_64"
    assert labels_of(found)["infraenvs.agent-install.openshift.io"] == "one"
    world.change(AGENT, agent, approved=True, hostname="renamed", role="master", nodeLabels={"a.example/b": "c"})
    world.poll_until(key, [machine], lambda: "install" in world.steps[machine.id])
    world.progress(key, machine, Stage.STARTING, Stage.INSTALLING, Stage.WRITING, Stage.REBOOTING)
    world.wait(AGENT_CLUSTER_INSTALL, key, "Completed", "False InstallationInProgress")
    world.wait(CLUSTER_DEPLOYMENT, key, "Provisioned", "False Provisioning")
    assert "InstallationStarted" in {event["reason"] for event in world.api.list(EVENT, key.namespace)[0]}
    host = world.user.hosts(uid_of(world.get(INFRA_ENV, key)))[0]
    assert (host["requested_hostname"], json.loads(host["node_labels"])) == ("renamed", {"a.example/b": "c"})
    world.reached(agent, Stage.REBOOTING)
    world.progress(key, machine, Stage.JOINED, Stage.DONE)
    wait_until(
        "finalizing", lambda: world.user.cluster(uid_of(world.get(CLUSTER_DEPLOYMENT, key)))["status"], "finalizing"
    )
    world.complete(key)
    world.wait(AGENT_CLUSTER_INSTALL, key, "Stopped", "True InstallationCompleted")
    wait_until("installed", lambda: world.get(CLUSTER_DEPLOYMENT, key)["spec"].get("installed"), True)
    world.wait(CLUSTER_DEPLOYMENT, key, "Provisioned", "True Provisioned")
    deployment = world.get(CLUSTER_DEPLOYMENT, key)
    assert deployment["status"]["installedTimestamp"] >= deployment["status"]["installStartedTimestamp"]
    metadata = deployment["spec"]["clusterMetadata"]
    kubeconfig = world.get(SECRET, Key(NAMESPACE, metadata["adminKubeconfigSecretRef"]["name"]))
    assert base64.b64decode(kubeconfig["data"]["kubeconfig"]).startswith(b"clusters")
    password = world.get(SECRET, Key(NAMESPACE, metadata["adminPasswordSecretRef"]["name"]))
    assert base64.b64decode(password["data"]["password"]) == b"aaaaa-bbbbb-ccccc-ddddd"
    # Nothing of the pull secret, nor of the password, is anywhere but in Secrets.
    for kind, objects in world.server.store.objects.items():
        text = json.dumps(list(objects.values()))
        assert kind is SECRET or (CANARY not in text and "aaaaa-bbbbb" not in text), kind
    # A Secret that somebody deletes is made again.
    world.api.delete(SECRET, Key(NAMESPACE, "one-admin-password"))
    wait_until("Secret", lambda: world.api.get(SECRET, Key(NAMESPACE, "one-admin-password")) is not None, True)
    world.api.delete(CLUSTER_DEPLOYMENT, key)
    world.gone((CLUSTER_DEPLOYMENT, key), (AGENT_CLUSTER_INSTALL, key), (AGENT, agent))
    assert world.user.find_cluster(uid_of(deployment)) is None

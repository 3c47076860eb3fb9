"""A worker that a hub adds to a cluster that somebody else has installed, to its Node."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from installer.assisted.enums import Stage
from installer.hub import spoke
from installer.hub.controllers import agent as agents
from installer.hub.controllers import infraenv, joining
from installer.hub.kube.kinds import AGENT, CLUSTER_DEPLOYMENT, INFRA_ENV, SECRET, Key, labels_of
from installer.testing.engine.fleet_kit import Machine, Network
from installer.testing.hub.apiserver import ApiServer, Store
from installer.testing.hub.world_kit import NAMESPACE, HubWorld, cluster_objects, hub_world, secret, wait_until
from installer.testing.service.service_kit import MARKS, Standalone, standalone

pytestmark = MARKS
VERSION = "4.18.0"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with standalone(tmp_path_factory.mktemp("hub"), versions=(VERSION,)) as running:
        yield running


@pytest.fixture
def world(service: Standalone, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubWorld]:
    monkeypatch.setattr(infraenv, "QUIET", 0.2)
    monkeypatch.setattr(joining, "LOOK_SECONDS", 0.2)
    with hub_world(service) as running:
        yield running


@pytest.fixture
def installed() -> Iterator[ApiServer]:
    server = ApiServer(Store((spoke.CSR, spoke.NODE)))
    yield server
    server.close()


def kubeconfig(server: ApiServer) -> str:
    entry: dict[str, Any] = {"name": "x", "cluster": {"server": server.url}}
    context = {"name": "x", "context": {"cluster": "x", "user": "x"}}
    users = [{"name": "x", "user": {"token": "t"}}]
    return json.dumps({"clusters": [entry], "contexts": [context], "users": users, "current-context": "x"})


def test_a_worker_is_added_to_an_imported_cluster_and_taken_out_of_it(
    world: HubWorld, installed: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, machine = Key(NAMESPACE, "there"), Machine(3, Network())
    image = world.service.releases[VERSION]
    world.user.put_release(image, world.service.pull_secret)
    objects = dict(cluster_objects("there", image, world.service.pull_secret))
    metadata = {"adminKubeconfigSecretRef": {"name": "theirs"}, "clusterID": str(uuid.uuid4()), "infraID": "x"}
    objects[CLUSTER_DEPLOYMENT]["spec"] |= {"installed": True, "clusterMetadata": metadata}
    theirs = secret("theirs", x=kubeconfig(installed))
    theirs["data"] = {"kubeconfig": theirs["data"][".x"]}
    world.apply(*objects.items())
    world.api.create(SECRET, theirs)
    world.wait(INFRA_ENV, key, "ImageCreated", "True InfraEnvAvailable")
    agent = world.register(key, machine)
    world.change(AGENT, agent, approved=True, nodeLabels={"rack": "r1"})
    world.poll_until(key, [machine], lambda: "install" in world.steps.get(machine.id, ()))
    world.progress(key, machine, Stage.STARTING, Stage.REBOOTING)

    def stage() -> str:
        return str(world.get(AGENT, agent)["status"]["progress"].get("currentStage"))

    wait_until("the hub's look", lambda: bool(installed.requests), True)
    assert stage() == "Rebooting"
    spoken = installed.api()
    node = spoken.create(spoke.NODE, spoke.NODE.new(Key("", "host-3"), status={"conditions": []}))
    wait_until("the Node", stage, "Joined")
    node["status"] = {"conditions": [{"type": "Ready", "status": "True"}]}
    spoken.update(spoke.NODE, node)
    world.wait(AGENT, agent, "Installed", "True InstallationCompleted")
    assert labels_of(spoken.get(spoke.NODE, Key("", "host-3")) or {"metadata": {}}) == {"rack": "r1"}
    asked = len(installed.requests)
    assert stage() == "Done"
    assert world.user.find_host(world.get(INFRA_ENV, key)["metadata"]["uid"], machine.id) is not None
    # Nobody looks any more.
    world.change(AGENT, agent, role="worker")
    world.wait(AGENT, agent, "SpecSynced", "True SyncOK")
    assert len(installed.requests) == asked
    # Its Node goes with it: a cluster that does not answer is waited for, which the Agent says.
    monkeypatch.setattr(agents, "PATIENCE", 0.2)
    installed.close()
    world.api.delete(AGENT, agent)
    assert "skip-spoke-cleanup" in world.wait(AGENT, agent, "Cleanup", "False CleanupFailed")
    back = ApiServer(installed.store, installed.port)
    world.gone((AGENT, agent))
    assert spoken.get(spoke.NODE, Key("", "host-3")) is None
    spoken.close()
    back.close()

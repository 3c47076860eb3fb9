"""A worker that a hub adds to a cluster that somebody else has installed, to its Node."""

from __future__ import annotations

import base64
import json
import ssl
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from installer.agent.checks import webchecks
from installer.assisted.enums import Stage, StepType
from installer.assisted.steparguments import ApiVipRequest
from installer.common.certificates import SERVER, authority, leaf
from installer.common.formats import jsontext
from installer.hub import spoke
from installer.hub.controllers import agent as agents
from installer.hub.controllers import infraenv, joining
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
from installer.testing.hub.apiserver import ApiServer, Store
from installer.testing.hub.world_kit import (
    NAMESPACE,
    HubWorld,
    cluster_objects,
    hub_world,
    wait_for_input_error,
    wait_until,
)
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


def imported(world: HubWorld, installed: ApiServer, name: str, *, is_late: bool = False, **install: Any) -> Key:
    """Apply a cluster that somebody else has installed; its key. ``is_late``: its InfraEnv is bound to no cluster."""
    image = world.service.releases[VERSION]
    world.user.put_release(image, world.service.pull_secret)
    objects = dict(cluster_objects(name, image, world.service.pull_secret))
    metadata = {"adminKubeconfigSecretRef": {"name": f"{name}-theirs"}, "clusterID": str(uuid.uuid4()), "infraID": "x"}
    objects[CLUSTER_DEPLOYMENT]["spec"] |= {"installed": True, "clusterMetadata": metadata}
    objects[AGENT_CLUSTER_INSTALL]["spec"] |= install
    if is_late:
        del objects[INFRA_ENV]["spec"]["clusterRef"]
    world.apply(*objects.items())
    put_secret(world, f"{name}-theirs", "kubeconfig", kubeconfig(installed))
    return Key(NAMESPACE, name)


def put_secret(world: HubWorld, name: str, entry: str, text: str) -> None:
    data = {entry: base64.b64encode(text.encode()).decode()}
    if world.api.get(SECRET, Key(NAMESPACE, name)):
        world.api.patch(SECRET, Key(NAMESPACE, name), {"data": data})
    else:
        world.api.create(SECRET, SECRET.new(Key(NAMESPACE, name), data=data))


def test_a_worker_is_added_to_an_imported_cluster_and_taken_out_of_it(
    world: HubWorld, installed: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, machine = imported(world, installed, "there"), Machine(3, Network())
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


def test_a_cluster_that_does_not_answer_holds_neither_an_agent_that_leaves_nor_for_ever_one_that_is_deleted(
    world: HubWorld, installed: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agents, "PATIENCE", 0.2)
    key = imported(world, installed, "silent", is_late=True)
    world.wait(INFRA_ENV, key, "ImageCreated", "True InfraEnvAvailable")
    spoken = installed.api()
    added = []

    def is_asked(machine: Machine) -> bool:
        return "install" in world.steps.get(machine.id, ())

    for number in (4, 5):
        machine = Machine(number, Network())
        agent = world.register(key, machine)
        world.change(AGENT, agent, approved=True, clusterDeploymentName={"name": "silent", "namespace": NAMESPACE})
        world.wait(AGENT, agent, "Bound", "False Binding")
        world.register(key, machine)
        world.poll_until(key, [machine], partial(is_asked, machine))
        world.progress(key, machine, Stage.STARTING, Stage.REBOOTING)
        status = {"conditions": [{"type": "Ready", "status": "True"}]}
        spoken.create(spoke.NODE, spoke.NODE.new(Key("", f"host-{number}"), status=status))
        world.wait(AGENT, agent, "Installed", "True InstallationCompleted")
        added.append(agent)
    spoken.close()
    installed.close()

    def reasons(name: str) -> set[str]:
        found = world.api.list(EVENT, NAMESPACE)[0]
        return {event["reason"] for event in found if event["involvedObject"]["name"] == name}

    leaving, deleted = added
    assert "HostRegistered" in reasons("silent")
    world.api.delete(AGENT, deleted)
    world.wait(AGENT, deleted, "Cleanup", "False CleanupFailed")
    monkeypatch.setattr(agents, "LONGEST_CLEANUP", 0.0)
    world.gone((AGENT, deleted))
    assert "CleanupGivenUp" in reasons(deleted.name)
    world.change(AGENT, leaving, clusterDeploymentName=None)
    world.wait(AGENT, leaving, "Bound", "False UnbindingPendingUserAction")
    assert "NodeNotRemoved" in reasons(leaving.name)


class Curious(Machine):
    """A machine whose agent really fetches the Ignition that it is asked about."""

    def answer(self, kind: str, args: list[str]) -> Any:
        if kind == StepType.API_VIP:
            return json.loads(webchecks.ignition(jsontext.typed(args[0], ApiVipRequest)))
        return super().answer(kind, args)


@contextmanager
def ignition_server(folder: Path, headers: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Provide a server of configs over TLS that wants these headers: its URL, and its certificate as PEM."""
    config = json.dumps({"ignition": {"version": "3.2.0"}}).encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            is_good = self.path == "/acme/worker" and all(self.headers[name] == headers[name] for name in headers)
            self.send_response(200 if is_good else 401)
            self.send_header("Content-Length", str(len(config)))
            self.end_headers()
            self.wfile.write(config)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    ca = authority("configs")
    pair = leaf(ca, "server", names=["127.0.0.1"], usages=SERVER)
    (folder / "pair.pem").write_text(pair.certificate + pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "pair.pem")
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"https://127.0.0.1:{server.server_port}/acme", ca.certificate
        server.shutdown()


@pytest.mark.slow
def test_a_worker_gets_its_ignition_from_the_endpoint_with_its_token(
    world: HubWorld, installed: ApiServer, tmp_path: Path
) -> None:
    wanted = {"Authorization": "Bearer dG9rZW4tY2FuYXJ5", "X-Pool": "canary-header"}
    machine = Curious(4, Network())
    with ignition_server(tmp_path, wanted) as (url, pem):
        key = imported(world, installed, "far", ignitionEndpoint={"url": f"{url}?pool=worker"})
        wait_for_input_error(world, AGENT_CLUSTER_INSTALL, key, "spec.ignitionEndpoint.url: must have no login, query")
        reference = {"name": "far-ca", "namespace": "elsewhere"}
        world.change(AGENT_CLUSTER_INSTALL, key, ignitionEndpoint={"url": url, "caCertificateReference": reference})
        wait_for_input_error(world, AGENT_CLUSTER_INSTALL, key, "namespace: 'elsewhere': must be 'site'")
        world.change(AGENT_CLUSTER_INSTALL, key, ignitionEndpoint={"caCertificateReference": {"namespace": NAMESPACE}})
        wait_for_input_error(world, AGENT_CLUSTER_INSTALL, key, "Secret site/far-ca, which spec.ignitionEndpoint.ca")
        put_secret(world, "far-ca", "tls.crt", "no certificate")
        wait_for_input_error(world, AGENT_CLUSTER_INSTALL, key, "ignition_endpoint.ca_certificate: must be PEM")
        put_secret(world, "far-ca", "tls.crt", pem)
        world.wait(AGENT_CLUSTER_INSTALL, key, "SpecSynced", "True SyncOK")

        world.wait(INFRA_ENV, key, "ImageCreated", "True InfraEnvAvailable")
        agent = world.register(key, machine)
        refused = f"{url}/worker: HTTP 401"
        world.poll_until(key, [machine], lambda: refused in world.message(AGENT, agent, "Validated"))
        token = {"name": "far-token", "namespace": "elsewhere"}
        headers = {"X-Pool": wanted["X-Pool"]}
        world.change(AGENT, agent, ignitionEndpointTokenReference=token, ignitionEndpointHTTPHeaders=headers)
        wait_for_input_error(world, AGENT, agent, "namespace: 'elsewhere': must be 'site', as the Agent's")
        world.change(AGENT, agent, ignitionEndpointTokenReference={"namespace": NAMESPACE})
        wait_for_input_error(world, AGENT, agent, "Secret site/far-token, which spec.ignitionEndpointTokenReference")
        put_secret(world, "far-token", "ignition-token", "dG9rZW4tY2FuYXJ5\n")
        wait_for_input_error(world, AGENT, agent, "ignition_endpoint_token must be letters")
        put_secret(world, "far-token", "ignition-token", "dG9rZW4tY2FuYXJ5")
        ready = "False AgentIsNotApproved"
        world.poll_until(key, [machine], lambda: world.reason(AGENT, agent, "RequirementsMet") == ready)
        # The service loses the host; the one that registers again gets the token, too.
        infra_env = uid_of(world.get(INFRA_ENV, key))
        world.user.delete_host(infra_env, machine.id)
        world.register(key, machine)
        world.change(AGENT, agent, approved=True)
        world.poll_until(key, [machine], lambda: "install" in world.steps.get(machine.id, ()))
    path = f"/clusters/{uid_of(world.get(CLUSTER_DEPLOYMENT, key))}/downloads/files"
    pointer = json.loads(world.user.download(path, {"file_name": f"worker-{machine.id}.ign"}))["ignition"]
    [source] = pointer["config"]["merge"]
    assert source["source"] == f"{url}/worker"
    assert {item["name"]: item["value"] for item in source["httpHeaders"]} == wanted
    [authority] = pointer["security"]["tls"]["certificateAuthorities"]
    assert authority["source"].startswith("data:,-----BEGIN%20CERTIFICATE")
    host = world.user.find_host(infra_env, machine.id)
    assert host
    assert host["ignition_endpoint_token_set"] is True
    shown = json.dumps([host, world.get(AGENT, agent)["status"], world.get(AGENT_CLUSTER_INSTALL, key)["status"]])
    assert "dG9rZW4tY2FuYXJ5" not in shown
    assert "canary-header" not in shown

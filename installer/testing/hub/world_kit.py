"""A hub at work in this process: all controllers over the API server in memory and a service, hosts that are data."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from installer.assisted.enums import Stage, StepType
from installer.assisted.errors import ClientError
from installer.hub.conditions import condition
from installer.hub.kube.api import Api
from installer.hub.kube.kinds import (
    AGENT,
    AGENT_CLUSTER_INSTALL,
    CLUSTER_DEPLOYMENT,
    CLUSTER_IMAGE_SET,
    INFRA_ENV,
    SECRET,
    Json,
    Key,
    Kind,
    uid_of,
)
from installer.hub.kube.manager import Manager
from installer.hub.operator import CONTROLLERS, KINDS
from installer.hub.service import CONFLICT
from installer.testing.engine.fleet_kit import Machine
from installer.testing.hub.apiserver import ApiServer, api_server
from installer.testing.service.service_kit import Standalone

NAMESPACE = "site"
#: A release that the service of a test can install.
VERSION = "4.18.0"
#: The word by which a pull secret is found where none may be.
CANARY = "c2VjcmV0OmNhbmFyeQ=="


def secret(name: str, **entries: str) -> Json:
    """Return a Secret in NAMESPACE; the names of entries have no leading dot."""
    data = {f".{key}": base64.b64encode(value.encode()).decode() for key, value in entries.items()}
    return SECRET.new(Key(NAMESPACE, name), data=data)


def cluster_objects(name: str, image: str, pull_secret: str, masters: int = 1) -> list[tuple[Kind, Json]]:
    """Return what a user applies for a cluster that its own InfraEnv's hosts install."""
    key = Key(NAMESPACE, name)
    parsed = json.loads(pull_secret)
    parsed["auths"]["canary.example"] = {"auth": CANARY}
    networking: Json = {"machineNetwork": [{"cidr": "192.168.111.0/24"}]}
    if masters == 1:
        networking["userManagedNetworking"] = True
    reference = {"group": AGENT_CLUSTER_INSTALL.group, "version": "v1beta1", "kind": AGENT_CLUSTER_INSTALL.name}
    install = {
        "clusterDeploymentRef": {"name": name},
        "imageSetRef": {"name": f"{name}-release"},
        "networking": networking,
        "provisionRequirements": {"controlPlaneAgents": masters},
        **({} if masters == 1 else {"apiVIPs": ["192.168.111.5"], "ingressVIPs": ["192.168.111.4"]}),
    }
    deployment = {
        "baseDomain": "test.node0.example",
        "clusterName": name,
        "clusterInstallRef": {**reference, "name": name},
        "pullSecretRef": {"name": f"{name}-pull-secret"},
        "platform": {"agentBareMetal": {"agentSelector": {}}},
    }
    infra_env = {"clusterRef": key._asdict(), "pullSecretRef": {"name": f"{name}-pull-secret"}}
    release = CLUSTER_IMAGE_SET.new(Key("", f"{name}-release"), spec={"releaseImage": image})
    return [
        (SECRET, secret(f"{name}-pull-secret", dockerconfigjson=json.dumps(parsed))),
        (CLUSTER_IMAGE_SET, release),
        (CLUSTER_DEPLOYMENT, CLUSTER_DEPLOYMENT.new(key, spec=deployment)),
        (AGENT_CLUSTER_INSTALL, AGENT_CLUSTER_INSTALL.new(key, spec=install)),
        (INFRA_ENV, INFRA_ENV.new(key, spec=infra_env)),
    ]


class HubWorld:
    """Controllers that run, and what a user, a machine and a test do meanwhile."""

    def __init__(self, service: Standalone, server: ApiServer) -> None:
        self.service, self.server = service, server
        self.api: Api = server.api()
        self.agents = service.agent()
        self.user = service.hub()
        self._versions: dict[str, str] = {}
        #: Types of all steps so far, by machine.
        self.steps: dict[str, set[str]] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.manager: Manager

    def start(self) -> None:
        """Begin to reconcile."""
        self._stop = threading.Event()
        self._client = self.service.hub()
        self.manager = Manager(self.server.api(), self._client, KINDS)
        self._thread = threading.Thread(
            target=self.manager.run, args=([make(self.manager.hub) for make in CONTROLLERS], self._stop)
        )
        self._thread.start()

    def stop(self) -> None:
        """End the controllers; objects and service stay."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(30)
            assert not self._thread.is_alive()
            self._client.close()

    def apply(self, *objects: tuple[Kind, Json]) -> None:
        """Create objects."""
        for kind, obj in objects:
            self.api.create(kind, obj)

    def get(self, kind: Kind, key: Key) -> Json:
        """Return an object that must be there."""
        found = self.api.get(kind, key)
        assert found is not None, (kind.name, key)
        return found

    def change(self, kind: Kind, key: Key, **spec: Any) -> None:
        """Change members of an object's spec, as `kubectl patch` does."""
        self.api.patch(kind, key, {"spec": spec})

    def reason(self, kind: Kind, key: Key, name: str) -> str:
        """Return status and reason of a condition, as "True SyncOK"; empty while there is none."""
        found = condition(self.api.get(kind, key) or {"status": {}}, name)
        return f"{found['status']} {found['reason']}" if found else ""

    def message(self, kind: Kind, key: Key, name: str) -> str:
        """Return the message of a condition."""
        return str(condition(self.api.get(kind, key) or {"status": {}}, name).get("message"))

    def wait(self, kind: Kind, key: Key, name: str, wanted: str) -> str:
        """Wait until a condition has this status and reason; its message."""
        event = f"{kind.name} {key}: {name} {wanted}"
        wait_until(event, lambda: self.reason(kind, key, name), wanted, last=lambda: self.message(kind, key, name))
        return self.message(kind, key, name)

    def reached(self, agent: Key, stage: Stage) -> None:
        """Wait until an Agent says that its host is at a stage."""

        def seen() -> Any:
            return (self.get(AGENT, agent)["status"].get("progress") or {}).get("currentStage")

        wait_until(f"Agent {agent} at {stage}", seen, stage)

    def gone(self, *objects: tuple[Kind, Key]) -> None:
        """Wait until these objects are gone."""
        for kind, key in objects:
            wait_until(f"end of {kind.name} {key}", partial(self.api.get, kind, key), None)

    def cluster(self, name: str, masters: int = 1) -> Key:
        """Apply a cluster of VERSION, and wait until its own InfraEnv's hosts may boot; its key."""
        key = Key(NAMESPACE, name)
        self.apply(*cluster_objects(name, self.service.releases[VERSION], self.service.pull_secret, masters))
        self.wait(INFRA_ENV, key, "ImageCreated", "True InfraEnvAvailable")
        return key

    def discovered(self, infra_env: Key, *machines: Machine) -> list[Key]:
        """Have machines register and answer until their Agents are ready, apart from an approval; the Agents' keys."""
        keys = [self.register(infra_env, machine) for machine in machines]

        def ready() -> bool:
            wanted = ("False AgentIsNotApproved", "True AgentIsReady")
            return all(self.reason(AGENT, key, "RequirementsMet") in wanted for key in keys)

        self.poll_until(infra_env, [*machines], ready)
        return keys

    # Machines

    def register(self, infra_env: Key, machine: Machine) -> Key:
        """Have a machine register as one that booted the InfraEnv's image; its Agent's key, once that is there."""
        identity = uid_of(self.get(INFRA_ENV, infra_env))
        self.agents.register_host(identity, machine.id, self._versions.get(machine.id, ""))
        key = Key(infra_env.namespace, machine.id)
        wait_until(f"Agent {key}", lambda: self.api.get(AGENT, key) is not None, True)
        return key

    def poll(self, infra_env: Key, machine: Machine) -> None:
        """Poll once as a machine's agent, and answer the steps; ``steps`` has their types."""
        identity = uid_of(self.get(INFRA_ENV, infra_env))
        version = self._versions.get(machine.id, "")
        for step in self.agents.instructions(identity, machine.id, version)["instructions"]:
            self.steps.setdefault(machine.id, set()).add(step["step_type"])
            if step["step_type"] == StepType.UPGRADE:  # the release's own agent, of which only the service knows
                self._versions[machine.id] = version = json.loads(step["args"][0])["agent_image"]
                self.agents.register_host(identity, machine.id, version)
            output = machine.answer(step["step_type"], step["args"])
            if output is not None:
                body = {"step_type": step["step_type"], "step_id": step["step_id"], "exit_code": 0}
                try:
                    self.agents.reply(
                        identity, machine.id, version, {**body, "output": json.dumps(output), "error": ""}
                    )
                except ClientError as error:
                    if error.status != CONFLICT:  # a step of a state that is over by now
                        raise

    def poll_until(self, infra_env: Key, machines: list[Machine], seen: Callable[[], bool]) -> None:
        """Poll as all machines' agents until something is so."""
        deadline = time.monotonic() + 60
        while not seen():
            hosts = self.user.hosts(uid_of(self.get(INFRA_ENV, infra_env)))
            assert time.monotonic() < deadline, [(host["status"], host["status_info"]) for host in hosts]
            for machine in machines:
                self.poll(infra_env, machine)
            time.sleep(0.2)

    def progress(self, infra_env: Key, machine: Machine, *stages: Stage) -> None:
        """Report stages as a machine that is being installed."""
        identity = uid_of(self.get(INFRA_ENV, infra_env))
        for stage in stages:
            self.agents.report_progress(identity, machine.id, stage)

    def complete(self, cluster: Key, *, is_success: bool = True) -> None:
        """Report the end of the installation, as the cluster's own controller does."""
        identity = uid_of(self.get(CLUSTER_DEPLOYMENT, cluster))
        path = f"/clusters/{identity}/actions/complete-installation"
        self.agents.call("POST", path, {"is_success": is_success, "error_info": "" if is_success else "it broke"})


def wait_until(event: str, seen: Callable[[], Any], wanted: Any, *, last: Callable[[], str] = str) -> None:
    """Wait until something is as wanted; ``last`` has more to say of it if it never is."""
    deadline, found = time.monotonic() + 60, None
    while time.monotonic() < deadline:
        found = seen()
        if found == wanted:
            return
        time.sleep(0.1)
    raise AssertionError(f"{event}: not within a minute, last seen {found!r} {last()}")


def wait_for_input_error(world: HubWorld, kind: Kind, key: Key, text: str) -> None:
    """Wait until SpecSynced is False for an input error whose message has this text."""

    def seen() -> bool:
        found = condition(world.get(kind, key), "SpecSynced")
        return found.get("reason") == "InputError" and text in found["message"]

    wait_until(f"{kind.name} {key} to say {text!r}", seen, True)


@contextmanager
def hub_world(service: Standalone) -> Iterator[HubWorld]:
    """Provide a hub over a running service for the block."""
    with api_server() as server:
        world = HubWorld(service, server)
        world.start()
        try:
            yield world
        finally:
            world.stop()
            world.agents.close()
            world.user.close()
            world.api.close()

"""A running service with clusters of one node, for tests that drive it from outside."""

from __future__ import annotations

import json

from installer.assisted.enums import Stage
from installer.testing.engine.fleet_kit import Machine, Network
from installer.testing.service.rendezvous_kit import CLUSTER, PULL_SECRET, Running


class World:
    """Clusters of single nodes on a running service; hosts answer as described."""

    def __init__(self, service: Running) -> None:
        self.service = service
        self.network = Network()

    def cluster(self, name: str) -> tuple[str, str]:
        """Register a cluster and its infra-env; their ids."""
        user = self.service.client()
        cluster = user.register_cluster({**CLUSTER, "name": name})
        body = {"name": name, "pull_secret": PULL_SECRET, "cluster_id": cluster["id"]}
        return cluster["id"], user.register_infra_env(body)["id"]

    def register(self, infra_env: str, machine: Machine) -> None:
        """Register a machine, as its agent."""
        self.service.client("agentAuth").register_host(infra_env, machine.id, "")

    def poll(self, infra_env: str, machine: Machine) -> None:
        """Poll once as a machine's agent, and answer the steps that it can."""
        agent = self.service.client("agentAuth")
        for step in agent.instructions(infra_env, machine.id, "")["instructions"]:
            output = machine.answer(step["step_type"], step["args"])
            if output is not None:
                body = {"step_type": step["step_type"], "step_id": step["step_id"], "exit_code": 0}
                agent.reply(infra_env, machine.id, "", {**body, "output": json.dumps(output), "error": ""})

    def progress(self, infra_env: str, machine: Machine, stage: str, info: str = "") -> None:
        """Report a stage, as a machine's host."""
        self.poll(infra_env, machine)  # nobody installs before being told to
        self.service.client("agentAuth").report_progress(infra_env, machine.id, Stage(stage), info)

    def status(self, cluster: str) -> str:
        """Return the status of a cluster."""
        return str(self.service.client().cluster(cluster)["status"])

"""Many clusters of a hub whose hosts are simulated: what a user applies for them, and how far they have come."""

from __future__ import annotations

from pathlib import Path

from installer.hub.conditions import condition
from installer.hub.kube.api import Api
from installer.hub.kube.kinds import AGENT, AGENT_CLUSTER_INSTALL, INFRA_ENV, NAMESPACE, Key, uid_of
from installer.testing.hub.world_kit import NAMESPACE as SITE
from installer.testing.hub.world_kit import VERSION, cluster_objects
from installer.testing.service.service_kit import Standalone

MASTERS = 3


class Clusters:
    """Held clusters of so many hosts each, of which MASTERS are control plane."""

    def __init__(self, kubeconfig: Path, count: int, hosts: int) -> None:
        self._api = Api.connect(kubeconfig)
        self._count, self._hosts = count, hosts

    def apply(self, service: Standalone) -> None:
        """Create their resources, with the release of a service of VERSION."""
        self._api.create(NAMESPACE, NAMESPACE.new(Key("", SITE)))
        for number in range(self._count):
            release, secret = service.releases[VERSION], service.pull_secret
            for kind, obj in cluster_objects(f"edge-{number}", release, secret, MASTERS):
                if kind is AGENT_CLUSTER_INSTALL:
                    obj["spec"]["provisionRequirements"]["workerAgents"] = self._hosts - MASTERS
                    obj["spec"]["holdInstallation"] = True
                self._api.create(kind, obj)

    def infra_envs(self) -> list[str]:
        """Return the ids, in the service, of the InfraEnvs whose images are there."""
        found = self._api.list(INFRA_ENV)[0]
        return [uid_of(env) for env in found if (env.get("status") or {}).get("isoDownloadURL")]

    def bound(self) -> int:
        """Return the number of Agents that are bound to their clusters."""
        return sum(condition(agent, "Bound").get("status") == "True" for agent in self._api.list(AGENT)[0])

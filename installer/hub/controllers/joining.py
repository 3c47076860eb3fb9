"""Agents of hosts that are added to an installed cluster, from their reboot to a Node that is ready.

The host is not heard of after its reboot, so the hub looks into the cluster, approves the requests for certificates of
the host's kubelet, and reports to the service what it sees of the Node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from installer.assisted import inventory
from installer.assisted.enums import HostStatus, Stage
from installer.errors import ConfigError
from installer.hub import spoke
from installer.hub.controllers.cluster import cluster_of, secret_names
from installer.hub.controllers.inputs import Inputs
from installer.hub.kube.api import KubeError
from installer.hub.kube.kinds import AGENT, CLUSTER_DEPLOYMENT, Json, Key, Kind, is_deleted, key_of
from installer.hub.kube.manager import Hub, Retry
from installer.hub.tables.clusterspec import SpecError, spec_of
from installer.rendezvous.validations import networks

# Seconds between two looks at a cluster that a host joins.
LOOK_SECONDS = 5.0
_ADDED = "AddToExistingClusterHost"
# A host that was away for too long may still come.
_WAITING = frozenset({HostStatus.INSTALLING_IN_PROGRESS, HostStatus.INSTALLING_PENDING_USER_ACTION})
_AWAY = frozenset({Stage.REBOOTING, Stage.WAITING_IGNITION, Stage.CONFIGURING, Stage.JOINED})


class JoiningController:
    """Follows hosts that have rebooted into a cluster until their Nodes are ready."""

    kind = AGENT

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._inputs = Inputs(hub)

    def watches(self) -> Mapping[Kind, Callable[[Json], Iterable[Key]]]:
        """Return nothing: an Agent's own status says when its host has rebooted."""
        return {}

    def reconcile(self, key: Key) -> float | None:
        """Look once after a host that joins its cluster."""
        agent = self._hub.caches[AGENT].get(key)
        deployment = self._hub.caches[CLUSTER_DEPLOYMENT].get(cluster_of(agent) or key) if agent else None
        if agent is None or deployment is None or is_deleted(agent) or not _joins(agent):
            return None
        host = self._hub.service.find_host(_infra_env(agent), key.name)
        if host is None or host.get("status") not in _WAITING:
            return None
        try:
            stage = self._look(deployment, host, spec_of(agent).get("nodeLabels") or {})
        except (KubeError, ConfigError, SpecError) as error:
            raise Retry(f"{key_of(deployment)}: {error}", LOOK_SECONDS) from None
        if stage is not None:
            self._hub.service.report_host_joined(host["infra_env_id"], host["id"], stage.value)
        return None if stage is Stage.DONE else LOOK_SECONDS

    def _look(self, deployment: Json, host: Json, labels: Mapping[str, str]) -> Stage | None:
        secret = Key(key_of(deployment).namespace, secret_names(deployment)[0])
        field = f"spec.clusterMetadata.adminKubeconfigSecretRef of ClusterDeployment {key_of(deployment)}"
        with spoke.reached(self._inputs.secret(secret, "kubeconfig", field)) as api:
            return spoke.follow(api, _joining(host), labels, self._hub.now())


def _joins(agent: Json) -> bool:
    status = agent.get("status") or {}
    return status.get("kind") == _ADDED and (status.get("progress") or {}).get("currentStage") in _AWAY


def _infra_env(agent: Json) -> str:
    owners = agent["metadata"].get("ownerReferences") or []
    return next((str(owner["uid"]) for owner in owners if owner.get("kind") == "InfraEnv"), "")


def _joining(host: Json) -> spoke.Joining:
    found = inventory.decode(host.get("inventory") or "{}")
    addresses = frozenset(str(item.ip) for item in networks.interfaces_of(found))
    return spoke.Joining(str(host.get("requested_hostname") or ""), addresses)

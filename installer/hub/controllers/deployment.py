"""ClusterDeployment: Hive's half. Its conditions, spec.installed and times follow from its AgentClusterInstall."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from installer.hub.conditions import set_conditions
from installer.hub.kube.kinds import (
    AGENT_CLUSTER_INSTALL,
    CLUSTER_DEPLOYMENT,
    Json,
    Key,
    Kind,
    is_deleted,
    key_of,
    uid_of,
)
from installer.hub.kube.manager import Hub
from installer.hub.tables import deployment as table
from installer.hub.tables.clusterspec import spec_of

FINALIZER = "clusterdeployments.agent-install.openshift.io/ai-deprovision"


class DeploymentController:
    """Reconciles ClusterDeployments that an AgentClusterInstall installs; others are left to their own controllers."""

    kind = CLUSTER_DEPLOYMENT

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        hub.caches[CLUSTER_DEPLOYMENT].index(
            "install", lambda obj: [str(Key(key_of(obj).namespace, install_name(obj)))]
        )

    def watches(self) -> Mapping[Kind, Callable[[Json], Iterable[Key]]]:
        """Return the deployment of an AgentClusterInstall, and others that name it."""
        naming = self._hub.caches[CLUSTER_DEPLOYMENT]
        return {
            AGENT_CLUSTER_INSTALL: lambda install: {
                deployment_key(install),
                *map(key_of, naming.by("install", str(key_of(install)))),
            }
        }

    def reconcile(self, key: Key) -> float | None:
        """Copy what the AgentClusterInstall says; delete it before its ClusterDeployment goes."""
        deployment = self._hub.caches[CLUSTER_DEPLOYMENT].get(key)
        name = install_name(deployment) if deployment is not None else ""
        if deployment is None or not (name or is_deleted(deployment)):
            return None
        install, others = self._hub.caches[AGENT_CLUSTER_INSTALL].get(Key(key.namespace, name)), ""
        if install is not None and (owner := deployment_key(install)) != key:
            install, others = None, f"AgentClusterInstall {name} belongs to ClusterDeployment {owner}"
        if is_deleted(deployment):
            if install is None:
                self._hub.remove_finalizer(CLUSTER_DEPLOYMENT, deployment, FINALIZER)
            elif not is_deleted(install):
                self._hub.api.delete(AGENT_CLUSTER_INSTALL, key_of(install), uid=uid_of(install))
            return None
        deployment = self._hub.add_finalizer(CLUSTER_DEPLOYMENT, deployment, FINALIZER)
        before = deployment.get("status") or {}
        spec = self._spec(deployment, install)
        if spec:
            deployment = self._hub.patch(CLUSTER_DEPLOYMENT, deployment, {"spec": spec})
        is_installed = bool(spec_of(deployment).get("installed"))
        wanted = table.conditions(str(key), install, is_installed=is_installed, problem=others)
        times = table.timestamps(before, install)
        conditions = set_conditions(before.get("conditions") or [], wanted, self._hub.now())
        self._hub.write_status(CLUSTER_DEPLOYMENT, deployment, {**before, **times, "conditions": conditions})
        return None

    def _spec(self, deployment: Json, install: Json | None) -> Json:
        """Return the members of spec that follow from the installation, where they differ."""
        found: Json = {}
        metadata = table.metadata(install) if install is not None else None
        if metadata is not None and spec_of(deployment).get("clusterMetadata") != metadata:
            found["clusterMetadata"] = metadata
        # Never before its kubeconfig can be had: clients go on as soon as they see it.
        if metadata is not None and table.is_complete(install) and not spec_of(deployment).get("installed"):
            found["installed"] = True
        return found


def deployment_key(install: Mapping[str, Any]) -> Key:
    """Return the key of an AgentClusterInstall's ClusterDeployment."""
    name = (spec_of(install).get("clusterDeploymentRef") or {}).get("name")
    return Key(key_of(install).namespace, str(name or ""))


def install_name(deployment: Mapping[str, Any]) -> str:
    """Return the name of the AgentClusterInstall that installs it; empty where another kind does, or none."""
    reference = spec_of(deployment).get("clusterInstallRef") or {}
    is_ours = (
        reference.get("group") == AGENT_CLUSTER_INSTALL.group and reference.get("kind") == AGENT_CLUSTER_INSTALL.name
    )
    return str(reference.get("name") or "") if is_ours else ""

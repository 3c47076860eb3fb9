"""Machines and clusters of a hub beyond one installation: added, dealt out, unbound, held, cancelled."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from installer.common.secretfiles import write_private
from lab.lab import Lab
from lab.waiting import wait_until
from scenarios.testing.cluster import output_of
from scenarios.testing.hub import INSTALL_SECONDS, Hub
from scenarios.testing.hubresources import BMC_SECRET, Json

BMH_LABEL = "agent-install.openshift.io/bmh"
ROLE, INSTALLER_ARGS = (f"bmac.agent-install.openshift.io/{name}" for name in ("role", "installer-args"))
SAYS_SECONDS = 300
_CLUSTER = ("ClusterDeployment", "AgentClusterInstall")


def shared(documents: Iterable[Json], *, is_bound: bool = False) -> list[Json]:
    """Return the namespace, the pull secret, the release, and the InfraEnv, of no cluster unless `is_bound`."""
    own = [copy.deepcopy(item) for item in documents if item["kind"] not in (*_CLUSTER, "BareMetalHost")]
    for item in own:
        if item["kind"] == "InfraEnv" and not is_bound:
            del item["spec"]["clusterRef"]
    return [item for item in own if item["kind"] != "NMStateConfig" and not _is_login(item)]


def _is_login(item: Json) -> bool:
    return item["kind"] == "Secret" and str(item["metadata"]["name"]).startswith(f"{BMC_SECRET}-")


def machine(documents: Iterable[Json], name: str, role: str = "") -> list[Json]:
    """Return a machine's BareMetalHost, of another role where one is named, its BMC's login, and its network."""
    kinds = {"BareMetalHost": name, "NMStateConfig": name, "Secret": f"{BMC_SECRET}-{name}"}
    own = [copy.deepcopy(item) for item in documents if kinds.get(item["kind"]) == item["metadata"]["name"]]
    for item in own:
        if item["kind"] == "BareMetalHost" and role:
            item["metadata"]["annotations"][ROLE] = role
    return own


def one_node(documents: Iterable[Json], name: str, cluster_name: str, **install: object) -> list[Json]:
    """Return the resources, called `name`, of a cluster of one node, unless `install`, which is more of
    AgentClusterInstall's spec, says otherwise."""
    deployment, cluster = (
        copy.deepcopy(item) for kind in _CLUSTER for item in documents if item["kind"] == kind
    )  # fmt: skip
    for item in (deployment, cluster):
        item["metadata"]["name"] = name
    deployment["spec"]["clusterName"] = cluster_name
    deployment["spec"]["clusterInstallRef"]["name"] = name
    cluster["spec"] |= {"clusterDeploymentRef": {"name": name}, "provisionRequirements": {"controlPlaneAgents": 1}}
    cluster["spec"] |= install
    return [deployment, cluster]


def resolve(lab: Lab, clusters: Mapping[str, str]) -> None:
    """Have the lab's DNS name these clusters alone, each by the address of its node."""
    domain, path = lab.topology.base_domain, lab.layout.root / "dnsmasq.conf"
    text = re.sub(r"(?m)^(host-record=api(-int)?\.|address=/apps\.).*\n", "", path.read_text())
    for name, address in clusters.items():
        text += "".join(f"host-record={host}.{name}.{domain},{address}\n" for host in ("api", "api-int"))
        text += f"address=/apps.{name}.{domain}/{address}\n"
    path.write_text(text)
    lab.services.stop("dnsmasq")
    lab.services.start("dnsmasq")


class Life:
    """A person's use of kubectl in the namespace of a hub's machines."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.namespace = hub.lab.topology.cluster_name

    def apply(self, *documents: Json) -> None:
        """Apply these resources."""
        self.hub.apply(documents)

    def get(self, kind: str, name: str) -> Json:
        """Return a resource; empty where there is none."""
        text = self.hub.kubectl("get", kind, name, "-n", self.namespace, "--ignore-not-found", "-o", "json")
        found: Json = json.loads(text or "{}")
        return found

    def patch(self, kind: str, name: str, change: Json) -> None:
        """Merge a change into a resource."""
        words = ("-n", self.namespace, "--type=merge", "-p", json.dumps(change))
        self.hub.kubectl("patch", kind, name, *words)

    def agent(self, machine: str) -> Json:
        """Return the Agent that is paired with a machine; empty where there is none."""
        items = self.hub.get("agents", "-n", self.namespace, "-l", f"{BMH_LABEL}={machine}")["items"]
        assert len(items) < 2, f"{machine} has {len(items)} Agents"
        return items[0] if items else {}

    def reached(self, machine: str, *states: str, seconds: float = INSTALL_SECONDS) -> Json:
        """Wait until the Agent of a machine is in one of the service's states of a host, and return it."""

        def seen() -> str:
            return str((self.agent(machine).get("status") or {}).get("debugInfo"))

        def there() -> bool:
            info = (self.agent(machine).get("status") or {}).get("debugInfo") or {}
            return info.get("state") in states

        wait_until(there, seconds, f"the Agent of {machine} to be {' or '.join(states)}", seen, poll=2)
        return self.agent(machine)

    def bind(self, machine: str, cluster: str) -> None:
        """Have the Agent of a machine belong to a ClusterDeployment; to none where the name is empty."""
        reference = {"name": cluster, "namespace": self.namespace} if cluster else None
        name = self.agent(machine)["metadata"]["name"]
        self.patch("agent", name, {"spec": {"clusterDeploymentName": reference}})

    def conditions(self, kind: str, name: str) -> dict[str, tuple[str, str]]:
        """Return the status and reason of a resource's conditions by type."""
        found = (self.get(kind, name).get("status") or {}).get("conditions") or ()
        return {item["type"]: (item["status"], item["reason"]) for item in found}

    def says(self, kind: str, name: str, condition: str, wanted: tuple[str, str]) -> None:
        """Wait until a resource has a condition with this status and reason."""

        def seen() -> tuple[str, str] | None:
            return self.conditions(kind, name).get(condition)

        wait_until(lambda: seen() == wanted, SAYS_SECONDS, f"{kind}/{name}: {condition} {wanted}", seen, poll=1)

    def nodes(self, cluster: str) -> dict[str, bool]:
        """Return whether the Nodes of an installed cluster are ready, by name, as its own kubeconfig shows them."""
        path = self.hub.directory / f"{cluster}.kubeconfig"
        metadata = self.get("clusterdeployment", cluster)["spec"]["clusterMetadata"]
        secret = self.hub.secret(self.namespace, metadata["adminKubeconfigSecretRef"]["name"])
        write_private(path, secret["kubeconfig"])
        argv = ["kubectl", "--kubeconfig", str(path), "get", "nodes", "-o", "json"]
        result = self.hub.lab.run(argv, name=f"kubectl-{cluster}", timeout=90)
        assert result.returncode == 0, output_of(result)[-2000:]
        items: list[Any] = json.loads(result.stdout)["items"]
        return {
            item["metadata"]["name"]: any(
                c["type"] == "Ready" and c["status"] == "True" for c in item["status"]["conditions"]
            )
            for item in items
        }

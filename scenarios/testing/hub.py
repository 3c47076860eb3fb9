"""A cluster installed through a hub: custom resources applied with kubectl, node0's operator, and nothing else."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from installer.common.secretfiles import write_private
from lab.cleanup import afterwards
from lab.deploy import Deployment
from lab.hub.controlplane import ADMIN
from lab.lab import Lab
from lab.layout import bracketed
from lab.waiting import wait_until
from scenarios.testing.cluster import Installation, output_of
from scenarios.testing.hubresources import Json, booted_by_hand, bound_late, resources
from scenarios.testing.page import SERVICE_PORT
from scenarios.testing.service import DISCOVER_SECONDS, Service, release_environment, write_mirrors

# The operator's namespace and account (installer/hub/crds/data/operator).
OPERATOR = "node0-hub"
_KUBECONFIG = "operator.kubeconfig"
# The hub's daemons that hold what was applied; the controllers of Kubernetes follow by themselves.
DAEMONS = ("hub-api", "hub-etcd")
# Where the operator says what the API server may store.
WEBHOOK_PORT = 9443
TOKEN_SECONDS, INSTALL_SECONDS = 60, 3600


@dataclass
class Hub:
    """The lab's API server with node0's definitions, and the folder of the operator."""

    deployment: Deployment
    directory: Path
    _operator: ExitStack = field(default_factory=ExitStack)
    _process: subprocess.Popen[str] | None = None

    @property
    def lab(self) -> Lab:
        """The lab that it runs in."""
        return self.deployment.lab

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        return self.lab.layout.hub / ADMIN

    def kubectl(self, *words: str) -> str:
        """Return the output of the unmodified kubectl, run in the lab; an error fails the test."""
        argv = ["kubectl", "--kubeconfig", str(self.kubeconfig), *words]
        result = self.lab.run(argv, name="kubectl-hub", timeout=90)
        assert result.returncode == 0, f"kubectl {' '.join(words)}: {output_of(result)[-2000:]}"
        return result.stdout

    def apply(self, documents: Iterable[Json]) -> None:
        """Apply these resources."""
        file = self.directory / "applied.yaml"
        write_private(file, yaml.safe_dump_all(documents, sort_keys=False))
        self.kubectl("apply", "-f", str(file))

    def get(self, *words: str) -> Any:
        """Return kubectl's `get ... -o json`, decoded."""
        return json.loads(self.kubectl("get", *words, "-o", "json"))

    def secret(self, namespace: str, name: str) -> dict[str, str]:
        """Return a Secret's texts by key."""
        data = self.get("secret", name, "-n", namespace)["data"]
        return {key: base64.b64decode(value).decode() for key, value in data.items()}

    def states(self, group: str, version: str, plural: str) -> list[Json]:
        """Return the statuses of a cluster's resources by the official Python client."""
        from kubernetes import client, config

        namespace = self.lab.topology.cluster_name
        with config.new_client_from_config(str(self.kubeconfig)) as api:
            ask = client.CustomObjectsApi(api).list_namespaced_custom_object
            found = self.lab.inside(ask, group, version, namespace, plural)
        return [item.get("status") or {} for item in found["items"]]

    def waited(self, resource: str, seconds: float = INSTALL_SECONDS) -> subprocess.CompletedProcess[str]:
        """Return the end of `node0 hub wait-for`, given so many seconds."""
        words = [*("-n", self.lab.topology.cluster_name), *("--timeout", str(seconds))]
        argv = [*self.deployment.installer, "hub", "wait-for", resource, *words, "--kubeconfig", str(self.kubeconfig)]
        return self.lab.run(argv, name="hub-wait-for", timeout=seconds + 60)

    def wait_for(self, resource: str) -> None:
        """Run `node0 hub wait-for`; fails unless the resource is done."""
        result = self.waited(resource)
        assert result.returncode == 0, output_of(result)[-3000:]

    @property
    def listen(self) -> str:
        """Address and port of the operator's service."""
        return f"{bracketed(self.lab.topology.gateway)}:{SERVICE_PORT}"

    def rest(self, path: str) -> Any:
        """Return the answer of the operator's service, as Deployment.rest does."""
        service = self.directory / "service"
        token, ca = ((service / name).read_text() for name in ("auth/watcher-token", "tls/ca.crt"))
        return self.deployment.rest_of(self.listen, path, token=token.strip(), ca=ca)

    def console_log(self, host: str) -> Path:
        """Return the file with a host's console."""
        return self.deployment.console_log(host)

    def start(self) -> None:
        """Run the operator and its service, with the rights of the operator's account."""
        kubeconfig = self.directory / _KUBECONFIG
        argv = [
            *(*self.deployment.installer, "hub", "run", "--kubeconfig", str(kubeconfig), "--dir", str(self.directory)),
            *("--listen", self.listen, "--webhook", f"{bracketed(self.lab.topology.gateway)}:{WEBHOOK_PORT}"),
        ]
        running = self.lab.running(argv, env=release_environment(self.deployment), name="hub-run")
        self._process = self._operator.enter_context(running)

    def stop(self) -> None:
        """End the operator and its service."""
        self._operator.close()

    def kill_everything(self) -> None:
        """SIGKILL operator, service, API server and etcd, and start them again."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGKILL)
        for name in DAEMONS:
            self.lab.services.stop(name)
        for name in reversed(DAEMONS):
            self.lab.services.start(name)
        self.stop()
        self.start()

    def write_operators_kubeconfig(self) -> None:
        """Write a kubeconfig of the operator's own account, whose roles are all that it may do."""
        words = ("secrets", "-n", OPERATOR, "--field-selector", "type=kubernetes.io/service-account-token")

        def token() -> str:
            found = [item for item in self.get(*words)["items"] if item["metadata"]["name"].startswith(OPERATOR)]
            return base64.b64decode(found[0]["data"]["token"]).decode() if found else ""

        wait_until(token, TOKEN_SECONDS, f"a token of service account {OPERATOR}")
        config = yaml.safe_load(self.kubeconfig.read_text())
        [user] = config["users"]
        user["user"] = {"token": token()}
        write_private(self.directory / _KUBECONFIG, yaml.safe_dump(config))


@dataclass(kw_only=True)
class HubInstalled(Installation):
    """A cluster that its ClusterDeployment in the namespace of its name calls installed."""

    hub: Hub

    @property
    def namespace(self) -> str:
        """The namespace of all its resources."""
        return self.topology.cluster_name


@contextmanager
def operator(deployment: Deployment) -> Iterator[Hub]:
    """Install node0's definitions and roles into the lab's API server, and run the operator with its service in the
    lab for the length of the block."""
    lab = deployment.lab
    hub = Hub(deployment, lab.layout.root / "operator")
    hub.directory.mkdir(mode=0o700)
    install = [*deployment.installer, "hub", "install", "--kubeconfig", str(hub.kubeconfig)]
    with lab.phase("hub install"):
        result = lab.run(install, name="hub-install", timeout=300)
    assert result.returncode == 0, output_of(result)[-2000:]
    write_mirrors(deployment, hub.directory / "service")
    hub.write_operators_kubeconfig()
    hub.start()
    with afterwards(("end the operator", hub.stop)):
        yield hub


def _bmh_state(hub: Hub) -> str:
    [host] = hub.states("metal3.io", "v1alpha1", "baremetalhosts")
    return str(host["provisioning"]["state"])


def _install_state(hub: Hub) -> str:
    [install] = hub.states("extensions.hive.openshift.io", "v1beta1", "agentclusterinstalls")
    return str(install["debugInfo"]["state"])


#: Moments at which all is killed, as what is seen then: the machine is given its image, registers, is installed, and
#: starts its cluster.
MOMENTS: tuple[tuple[str, Callable[[Hub], bool]], ...] = (
    ("the machine to be given its image", lambda hub: _bmh_state(hub) in ("provisioning", "provisioned")),
    ("an Agent", lambda hub: bool(hub.states("agent-install.openshift.io", "v1beta1", "agents"))),
    ("the installation to begin", lambda hub: _install_state(hub) in ("installing", "finalizing")),
    ("the cluster to start", lambda hub: _install_state(hub) == "finalizing"),
)


def _boot_by_hand(deployment: Deployment, hub: Hub) -> None:
    """Boot the machines from the InfraEnv's image, and approve the Agents that they become, as a person does."""
    name, lab = deployment.topology.cluster_name, deployment.lab
    hub.wait_for(f"infraenv/{name}")
    url = f"https://{bracketed(lab.topology.gateway)}:{SERVICE_PORT}"
    [env] = hub.states("agent-install.openshift.io", "v1beta1", "infraenvs")
    service = Service(deployment, hub.directory / "service", url)
    deployment.boot(image=service.download(env["isoDownloadURL"], lab.layout.root / "discovery.iso"))

    def found() -> dict[str, str]:
        """Return the names of Agents by MAC address."""
        agents = hub.get("agents", "-n", name)["items"]
        nics = ((a, nic) for a in agents for nic in a.get("status", {}).get("inventory", {}).get("interfaces", ()))
        return {nic["macAddress"]: agent["metadata"]["name"] for agent, nic in nics}

    macs = {node.mac for node in deployment.topology.nodes}
    wait_until(lambda: found().keys() >= macs, DISCOVER_SECONDS, "an Agent for each machine", poll=2)
    for node in deployment.topology.nodes:
        spec = {"approved": True, "hostname": node.name, "role": node.role, "installation_disk_path": node.root_device}
        patch = json.dumps({"spec": spec})
        hub.kubectl("patch", "agent", found()[node.mac], "-n", name, "--type=merge", "-p", patch)


def install_by_hub(deployment: Deployment, hub: Hub, variants: Collection[str] = ()) -> HubInstalled:
    """Apply the resources and wait until the ClusterDeployment says that the cluster is installed.

    Variants: `killed` has everything of the hub killed at each of MOMENTS; `late_binding`, `by_hand`.
    """
    lab, name = deployment.lab, deployment.topology.cluster_name
    documents = resources(deployment)
    if "late_binding" in variants:
        documents = bound_late(documents)
    if "by_hand" in variants:
        documents = booted_by_hand(documents)
    with lab.phase("apply to installed"):
        hub.apply(documents)
        for what, reached in MOMENTS if "killed" in variants else ():
            wait_until(partial(reached, hub), INSTALL_SECONDS, what)
            hub.kill_everything()
        if "by_hand" in variants:
            _boot_by_hand(deployment, hub)
        hub.wait_for(f"clusterdeployment/{name}")
    return installed_by_hub(deployment, hub)


def installed_by_hub(deployment: Deployment, hub: Hub) -> HubInstalled:
    """Return the cluster that is installed, and leave its kubeconfig where an installer would."""
    namespace = name = deployment.topology.cluster_name
    reference = hub.get("clusterdeployment", name, "-n", namespace)["spec"]["clusterMetadata"]
    target = deployment.directory / "auth"
    target.mkdir(mode=0o700, exist_ok=True)
    secret = hub.secret(namespace, reference["adminKubeconfigSecretRef"]["name"])
    write_private(target / "kubeconfig", secret["kubeconfig"])
    return HubInstalled(deployment=deployment, hub=hub)

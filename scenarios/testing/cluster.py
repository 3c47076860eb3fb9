"""An installation's end: an installed cluster, or an installation that has stopped."""

from __future__ import annotations

import base64
import json
import re
import socket
import ssl
import subprocess
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from lab.deploy import Deployment
    from lab.lab import Lab
    from lab.subject import Subject
    from lab.topology import Topology

BOOTSTRAP_SECONDS = 3600  # the documented limit: a busy machine is slow, not broken
INSTALL_SECONDS = 3600
STOPPED_SECONDS = 600
WAIT_FOR_FAILED = 5  # installer.md §8.3: bootstrap failed


def output_of(result: subprocess.CompletedProcess[str]) -> str:
    """Return a command's whole output, stdout and stderr."""
    return result.stdout + result.stderr


def state_of(deployment: Deployment) -> dict[str, str]:
    """Return the installer's state for waiting commands, which has the service's CA and the watcher's token."""
    state: dict[str, str] = json.loads((deployment.directory / ".openshift_install_state.json").read_text())["node0"]
    return state


def install(deployment: Deployment, seconds: float = INSTALL_SECONDS) -> Installation:
    """Install, up to a working cluster; each command that waits has so many seconds. Raises InstallFailedError with the
    last lines of what failed."""
    deployment.create_image()
    deployment.boot()
    deployment.wait(seconds)
    return Installation(deployment)


def stop(deployment: Deployment) -> Stopped:
    """Install until `wait-for bootstrap-complete` gives up; fails if it does not, or not as documented."""
    deployment.create_image()
    deployment.boot()
    result = deployment.wait_for("bootstrap-complete", STOPPED_SECONDS)
    assert result.returncode == WAIT_FOR_FAILED, output_of(result)[-2000:]
    return Stopped(deployment, result)


@dataclass
class Stopped:
    """An installation that `wait-for bootstrap-complete` has given up on; its live hosts are still up."""

    deployment: Deployment
    result: subprocess.CompletedProcess[str]

    @property
    def lab(self) -> Lab:
        """The lab that it runs in."""
        return self.deployment.lab

    def validation_message(self, host: str, validation: str) -> str:
        """wait-for's message about a host's failed validation."""
        messages = [
            match["message"].replace('\\"', '"')
            for line in output_of(self.result).splitlines()
            if "level=error" in line
            and (match := re.search(rf"Host {host} validation {validation} failed: (?P<message>.*?)\"?$", line))
        ]
        assert messages, f"no error line names {host} and {validation}:\n{output_of(self.result)[-3000:]}"
        return messages[0]


@dataclass
class Installation:
    """A cluster that `wait-for install-complete` has called complete."""

    deployment: Deployment

    @property
    def lab(self) -> Lab:
        """The lab that it runs in."""
        return self.deployment.lab

    @property
    def topology(self) -> Topology:
        """The lab's topology."""
        return self.deployment.topology

    @property
    def release(self) -> Subject:
        """The release that was installed."""
        return self.deployment.release

    def kubectl(self, *words: str) -> str:
        """Return the output of the unmodified kubectl, run in the lab; an error fails the test."""
        result = self.lab.run(
            ["kubectl", "--kubeconfig", str(self.deployment.kubeconfig), *words], name="kubectl", timeout=90
        )
        assert result.returncode == 0, f"kubectl {' '.join(words)}: {output_of(result)[-2000:]}"
        return result.stdout

    def kubectl_json(self, *words: str) -> Any:
        """kubectl's output with `-o json`, decoded."""
        return json.loads(self.kubectl(*words, "-o", "json"))

    def api_client(self) -> Any:
        """Return an ApiClient of the official Python client for the user's kubeconfig; use it inside `lab.inside`."""
        from kubernetes import config

        return config.new_client_from_config(str(self.deployment.kubeconfig))

    def api_ready(self) -> bool:
        """Return whether kube-apiserver reports that it is ready."""
        return self.kubectl("get", "--raw", "/readyz") == "ok"

    def nodes_ready(self) -> bool:
        """Return whether every node's condition Ready is True."""
        return len(self.ready_boots()) == len(self.topology.nodes)

    def ready_boots(self) -> dict[str, str]:
        """Return the boot ids of the nodes whose condition Ready is True, by name."""
        return {
            node["metadata"]["name"]: node["status"]["nodeInfo"]["bootID"]
            for node in self.kubectl_json("get", "nodes")["items"]
            if any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"]["conditions"])
        }

    def pods(self, namespace: str, prefix: str) -> dict[str, Any]:
        """Return the running pods of a namespace whose names begin with a prefix, by node."""
        pods = self.kubectl_json("-n", namespace, "get", "pods")["items"]
        return {
            pod["spec"]["nodeName"]: pod
            for pod in pods
            if pod["metadata"]["name"].startswith(prefix) and pod["status"]["phase"] == "Running"
        }

    def pods_of(self, node: str) -> list[Any]:
        """Return a node's running pods, of every namespace."""
        words = ("get", "pods", "--all-namespaces", "--field-selector", f"spec.nodeName={node},status.phase=Running")
        return list(self.kubectl_json(*words)["items"])

    def unavailable_operators(self) -> list[str]:
        """Return the ClusterOperators that are not Available."""
        return self._operators_not(Available="True")

    def unwell_operators(self) -> list[str]:
        """Return the ClusterOperators that are not Available, or Degraded: all of a cluster with a part that lacks."""
        return self._operators_not(Available="True", Degraded="False")

    def _operators_not(self, **wanted: str) -> list[str]:
        found = []
        for operator in self.kubectl_json("get", "clusteroperators")["items"]:
            states = {c["type"]: c["status"] for c in operator.get("status", {}).get("conditions") or []}
            if any(states.get(kind) != status for kind, status in wanted.items()):
                found.append(str(operator["metadata"]["name"]))
        return found

    def holder(self, vip: str, port: int) -> str:
        """Return the node that holds a virtual IP, by the MAC address that ARP resolves it to now."""
        self.lab.run(["ip", "neighbour", "flush", "to", vip], timeout=10)
        self.lab.inside(lambda: socket.create_connection((vip, port), timeout=10).close())
        [entry] = json.loads(self.lab.run(["ip", "-json", "neighbour", "show", "to", vip], timeout=10).stdout)
        return next(spec.name for spec in self.topology.nodes if spec.mac == entry["lladdr"])

    def write(self, timeout: float = 5) -> bool:
        """Create and delete a ConfigMap through a new connection; raises on the first error, without a retry."""

        def exercise() -> bool:
            from kubernetes import client

            with self.api_client() as connection:
                connection.rest_client.pool_manager.connection_pool_kw["retries"] = False
                api = client.CoreV1Api(connection)
                body = client.V1ConfigMap(metadata=client.V1ObjectMeta(generate_name="scenario-"))
                created = api.create_namespaced_config_map("default", body, _request_timeout=timeout)
                api.delete_namespaced_config_map(created.metadata.name, "default", _request_timeout=timeout)
            return True

        return self.lab.inside(exercise)

    def restarts(self, namespace: str) -> int:
        """Return the total number of restarts of the containers of a namespace's pods."""
        pods = self.kubectl_json("-n", namespace, "get", "pods")["items"]
        return sum(c["restartCount"] for pod in pods for c in pod["status"].get("containerStatuses", []))

    @property
    def ca_bundle(self) -> str:
        """The CAs of the user's kubeconfig, as PEM."""
        [cluster] = yaml.safe_load(self.deployment.kubeconfig.read_text())["clusters"]
        return base64.b64decode(cluster["cluster"]["certificate-authority-data"]).decode()

    def get(self, url: str, timeout: float = 30) -> tuple[int, str]:
        """Status and body of an https URL, verified against the CAs of the user's kubeconfig; `timeout` in seconds."""
        bundle = self.ca_bundle

        def fetch() -> tuple[int, str]:
            context = ssl.create_default_context(cadata=bundle)
            with urllib.request.urlopen(url, context=context, timeout=timeout) as response:
                return response.status, response.read().decode()

        return self.lab.inside(fetch)

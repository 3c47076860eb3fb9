"""What scenarios hold in their hands: a deployment that they drive, and a cluster that is installed."""

from __future__ import annotations

import base64
import json
import re
import shutil
import socket
import ssl
import subprocess
import urllib.request
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

import yaml

from lab.configs import Access, write_configs
from lab.lab import Lab
from lab.release.build import Release
from lab.topology import Topology
from lab.waiting import wait_until
from scenarios.ids import edit_agent_config

CREATE_IMAGE_SECONDS = 300
BOOTSTRAP_SECONDS = 3600  # the documented limit: a busy machine is slow, not broken
INSTALL_SECONDS = 3600
STOPPED_SECONDS = 600
WAIT_FOR_FAILED = 5  # installer.md §8.3: bootstrap failed


def said(result: subprocess.CompletedProcess[str]) -> str:
    """All that a command said, output and errors."""
    return result.stdout + result.stderr


@dataclass
class Deployment:
    """A lab that is up, and a directory with both config files; nothing has booted.

    `scenario_id` is what it was made for; `installer` is the command line of the installer under test; `directory` its
    `--dir`.
    """

    scenario_id: str
    lab: Lab
    directory: Path
    installer: list[str]
    release: Release
    access: Access

    @property
    def topology(self) -> Topology:
        """What the lab was made from."""
        return self.lab.topology

    def write_configs(self) -> None:
        """Write the two config files of the topology, as the scenario's variant wants them."""
        write_configs(self.directory, self.topology, self.access, partial(edit_agent_config, self.scenario_id))

    def agent(self, *words: str, timeout: float) -> subprocess.CompletedProcess[str]:
        """Run `<installer> agent WORDS --dir DIR` in the lab; its output is kept as evidence."""
        return self.lab.run(
            [*self.installer, "agent", *words, "--dir", str(self.directory), "--log-level", "debug"],
            env={"OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE": self.release.pullspec},
            name="-".join(takewhile(lambda word: not word.startswith("-"), words)),
            timeout=timeout,
        )

    def create_image(self) -> Path:
        """`agent create image`; the path of the ISO."""
        with self.lab.phase("create image"):
            result = self.agent("create", "image", timeout=CREATE_IMAGE_SECONDS)
        assert result.returncode == 0, f"create image ended with {result.returncode}:\n{said(result)[-3000:]}"
        return self.directory / "agent.x86_64.iso"

    def boot(self, *names: str) -> None:
        """Insert the ISO into these machines (default: all) through Redfish and power them on."""
        iso = self.directory / "agent.x86_64.iso"
        nodes = [self.lab.nodes[name] for name in names or self.lab.nodes]
        with self.lab.phase("insert media"):
            for node in nodes:
                node.media.insert(iso)
        with self.lab.phase("power on"):
            for node in nodes:
                node.power.on()

    def wait_for(self, target: str, timeout: float, *options: str) -> subprocess.CompletedProcess[str]:
        """`agent wait-for TARGET OPTIONS`, whatever it ends with."""
        # What a command says is kept as evidence, and no evidence may hold a secret.
        words = [target, "--skip-password-print"] if target == "install-complete" else [target]
        with self.lab.phase(f"wait-for {target}"):
            return self.agent("wait-for", *words, *options, timeout=timeout)

    def disk_is_written(self, name: str, seconds: float, mib: int = 64) -> None:
        """Wait until this much of a machine's disk is allocated: its image is being written. Raises WaitTimeout."""
        disk = self.lab.layout.disk(self.lab.nodes[name].spec)

        def written() -> int:
            return disk.stat().st_blocks * 512 >> 20

        with self.lab.phase(f"{name} writes its disk"):
            wait_until(lambda: written() >= mib, seconds, f"{mib} MiB of the disk of {name}", written, poll=0.2)

    def keep_evidence(self) -> None:
        """Copy what the installer left that holds no secrets: its log, the REST events, hosts, logs of a failure."""
        target = self.lab.artifacts / "installer"
        target.mkdir(parents=True, exist_ok=True)
        for name in (".openshift_install.log", "rendezvousIP"):
            if (self.directory / name).is_file():
                shutil.copyfile(self.directory / name, target / name.lstrip("."))
        if (self.directory / "logs").is_dir():
            shutil.copytree(self.directory / "logs", target / "logs", dirs_exist_ok=True)

    def install(self) -> Installation:
        """Everything, to a working cluster; fails with the last lines of what failed."""
        self.create_image()
        self.boot()
        for target, seconds in (("bootstrap-complete", BOOTSTRAP_SECONDS), ("install-complete", INSTALL_SECONDS)):
            result = self.wait_for(target, seconds)
            assert result.returncode == 0, f"wait-for {target} ended with {result.returncode}:\n{said(result)[-4000:]}"
        return Installation(self)

    def stop(self) -> Stopped:
        """Everything, to where `wait-for bootstrap-complete` gives up; fails when it does not, or not as documented."""
        self.create_image()
        self.boot()
        result = self.wait_for("bootstrap-complete", STOPPED_SECONDS)
        assert result.returncode == WAIT_FOR_FAILED, said(result)[-2000:]
        return Stopped(self, result)


@dataclass
class Stopped:
    """An installation that `wait-for bootstrap-complete` has given up on; its live hosts are still up."""

    deployment: Deployment
    result: subprocess.CompletedProcess[str]

    @property
    def lab(self) -> Lab:
        """The lab that it runs in."""
        return self.deployment.lab

    def told(self, host: str, validation: str) -> str:
        """What wait-for said of a host's validation that failed."""
        found = [
            match["message"].replace('\\"', '"')
            for line in said(self.result).splitlines()
            if "level=error" in line
            and (match := re.search(rf"Host {host} validation {validation} failed: (?P<message>.*?)\"?$", line))
        ]
        assert found, f"no error line names {host} and {validation}:\n{said(self.result)[-3000:]}"
        return found[0]


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
        """What the lab was made from."""
        return self.deployment.topology

    @property
    def release(self) -> Release:
        """The release that was installed."""
        return self.deployment.release

    @property
    def kubeconfig(self) -> Path:
        """The user's kubeconfig, as the installer left it."""
        return self.deployment.directory / "auth/kubeconfig"

    @property
    def console_url(self) -> str:
        """Where the console must be."""
        return f"https://console-openshift-console.apps.{self.topology.cluster_domain}"

    def kubectl(self, *words: str) -> str:
        """What the unmodified kubectl prints, run in the lab; an error of it fails the test."""
        result = self.lab.run(["kubectl", "--kubeconfig", str(self.kubeconfig), *words], name="kubectl", timeout=90)
        assert result.returncode == 0, f"kubectl {' '.join(words)}: {said(result)[-2000:]}"
        return result.stdout

    def kubectl_json(self, *words: str) -> Any:
        """What kubectl prints with `-o json`, decoded."""
        return json.loads(self.kubectl(*words, "-o", "json"))

    def api_client(self) -> Any:
        """An ApiClient of the official Python client for the user's kubeconfig; use it inside `lab.inside`."""
        from kubernetes import config

        return config.new_client_from_config(str(self.kubeconfig))

    def api_ready(self) -> bool:
        """Whether kube-apiserver says that it is ready."""
        return self.kubectl("get", "--raw", "/readyz") == "ok"

    def nodes_ready(self) -> bool:
        """Whether every node's condition Ready is True."""
        return len(self.ready_boots()) == len(self.topology.nodes)

    def ready_boots(self) -> dict[str, str]:
        """The boot ids of the nodes whose condition Ready is True, by name."""
        return {
            node["metadata"]["name"]: node["status"]["nodeInfo"]["bootID"]
            for node in self.kubectl_json("get", "nodes")["items"]
            if any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"]["conditions"])
        }

    def pods(self, namespace: str, prefix: str) -> dict[str, Any]:
        """The running pods of a namespace whose names begin so, by the node that they are on."""
        pods = self.kubectl_json("-n", namespace, "get", "pods")["items"]
        return {
            pod["spec"]["nodeName"]: pod
            for pod in pods
            if pod["metadata"]["name"].startswith(prefix) and pod["status"]["phase"] == "Running"
        }

    def unavailable_operators(self) -> list[str]:
        """The ClusterOperators that are not Available."""
        return [
            operator["metadata"]["name"]
            for operator in self.kubectl_json("get", "clusteroperators")["items"]
            if not any(c["type"] == "Available" and c["status"] == "True" for c in operator["status"]["conditions"])
        ]

    def holder(self, vip: str, port: int) -> str:
        """The node that answers for a virtual IP, by the hardware address that ARP finds for it now."""
        self.lab.run(["ip", "neighbour", "flush", "to", vip], timeout=10)
        self.lab.inside(lambda: socket.create_connection((vip, port), timeout=10).close())
        [entry] = json.loads(self.lab.run(["ip", "-json", "neighbour", "show", "to", vip], timeout=10).stdout)
        return next(spec.name for spec in self.topology.nodes if spec.mac == entry["lladdr"])

    def write(self, timeout: float = 5) -> bool:
        """Make and delete a ConfigMap through a new connection; raises what stands in the way, without a retry."""

        def exercise() -> bool:
            from kubernetes import client

            with self.api_client() as connection:
                connection.rest_client.pool_manager.connection_pool_kw["retries"] = False
                api = client.CoreV1Api(connection)
                body = client.V1ConfigMap(metadata=client.V1ObjectMeta(generate_name="scenario-"))
                made = api.create_namespaced_config_map("default", body, _request_timeout=timeout)
                api.delete_namespaced_config_map(made.metadata.name, "default", _request_timeout=timeout)
            return True

        return self.lab.inside(exercise)

    def restarts(self, namespace: str) -> int:
        """How often containers of a namespace's pods were restarted, in all."""
        pods = self.kubectl_json("-n", namespace, "get", "pods")["items"]
        return sum(c["restartCount"] for pod in pods for c in pod["status"].get("containerStatuses", []))

    def get(self, url: str, timeout: float = 30) -> tuple[int, str]:
        """Status and body of an https URL, verified against the CAs of the user's kubeconfig; `timeout` in seconds."""
        [cluster] = yaml.safe_load(self.kubeconfig.read_text())["clusters"]
        bundle = base64.b64decode(cluster["cluster"]["certificate-authority-data"]).decode()

        def fetch() -> tuple[int, str]:
            context = ssl.create_default_context(cadata=bundle)
            with urllib.request.urlopen(url, context=context, timeout=timeout) as response:
                return response.status, response.read().decode()

        return self.lab.inside(fetch)

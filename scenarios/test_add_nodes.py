"""Hosts that are added to a running cluster by an image of their own."""

import subprocess

import pytest
import yaml

from installer.common.secretfiles import write_private
from lab.deploy import Deployment
from lab.inputs.configs import agent_config
from lab.waiting import wait_until
from scenarios.testing.cluster import INSTALL_SECONDS, Installation, output_of
from scenarios.testing.hublife import resolve

pytestmark = pytest.mark.nightly

CREATE_SECONDS = 600
#: From power-on to Ready, on a machine that does other things as well.
ADDED_SECONDS = 900
#: The version operator gives nodes their roles each 40 s.
ROLE_SECONDS = 120
REFUSED = 1


def add_nodes(deployment: Deployment, *words: str, timeout: float = CREATE_SECONDS) -> subprocess.CompletedProcess[str]:
    """Run `agent add-nodes WORDS` with the administrator's kubeconfig; any exit code is a result."""
    where = ("--kubeconfig", str(deployment.kubeconfig))
    return deployment.agent("add-nodes", *words, *where, timeout=timeout, directory=deployment.directory / "nodes")


def installed(deployment: Deployment) -> Installation:
    """Install the cluster on all machines but the last."""
    *members, _ = deployment.topology.nodes
    if deployment.topology.platform == "none":
        resolve(deployment.lab, {deployment.topology.cluster_name: members[0].ip})
    deployment.create_image()
    deployment.boot(*(node.name for node in members))
    deployment.wait(INSTALL_SECONDS)
    return Installation(deployment)


def described(deployment: Deployment, **changes: object) -> None:
    """Write nodes-config.yaml for the last machine."""
    host = agent_config(deployment.topology)["hosts"][-1]
    folder = deployment.directory / "nodes"
    folder.mkdir(mode=0o700, exist_ok=True)
    document = {"additionalNTPSources": [deployment.topology.gateway], "hosts": [host | changes]}
    write_private(folder / "nodes-config.yaml", yaml.safe_dump(document, sort_keys=False))


@pytest.mark.parametrize("deployment", ["sno-ipv4-static-uefi-added", "compact-ipv4-static-uefi-added"], indirect=True)
def test_a_machine_becomes_a_node_of_a_running_cluster(deployment: Deployment) -> None:
    """A description of a node that is there is refused. The machine installs itself from the image; its kubelet's
    request waits until the administrator has the command approve it, and pods run on its node."""
    cluster = installed(deployment)
    first, later = deployment.topology.nodes[0], deployment.topology.nodes[-1]
    described(deployment, hostname=first.name)
    result = add_nodes(deployment, "create", "image")
    assert result.returncode == REFUSED, output_of(result)[-2000:]
    assert "a node of the cluster has this name" in output_of(result)
    assert not [*(deployment.directory / "nodes").glob("*.iso")]

    described(deployment)
    with deployment.lab.phase("add-nodes create image"):
        result = add_nodes(deployment, "create", "image")
    assert result.returncode == 0, output_of(result)[-3000:]
    with deployment.lab.phase("power on to requested"):
        deployment.boot(later.name, image=deployment.directory / "nodes/node.x86_64.iso")
        wait_until(lambda: waiting(cluster), ADDED_SECONDS, "its kubelet to ask for a certificate", poll=2)
    assert later.name not in names(cluster)
    with deployment.lab.phase("approved to ready"):
        result = add_nodes(deployment, "monitor", later.ip, "--approve", timeout=ADDED_SECONDS)
    assert result.returncode == 0, output_of(result)[-3000:]
    assert f"Node {later.ip}: Node is Ready" in output_of(result)
    assert cluster.nodes_ready()
    wait_until(lambda: later.name in workers(cluster), ROLE_SECONDS, "its node to have its role", poll=2)
    wait_until(
        lambda: not cluster.unavailable_operators(), ADDED_SECONDS, "all operators", cluster.unavailable_operators
    )
    wait_until(
        lambda: {"openshift-dns", "openshift-network-diagnostics"} <= namespaces(cluster, later.name),
        ADDED_SECONDS,
        "its pods to run",
        lambda: sorted(namespaces(cluster, later.name)),
        poll=2,
    )

    with deployment.lab.phase("removed"):
        cluster.kubectl("drain", later.name, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=80s")
        deployment.lab.nodes[later.name].power.off()
        cluster.kubectl("delete", "node", later.name)
    wait_until(
        lambda: not cluster.unavailable_operators(), ADDED_SECONDS, "all operators", cluster.unavailable_operators
    )
    assert later.name not in names(cluster)


def names(cluster: Installation, *options: str) -> set[str]:
    """Return the names of the cluster's nodes."""
    return {node["metadata"]["name"] for node in cluster.kubectl_json("get", "nodes", *options)["items"]}


def workers(cluster: Installation) -> set[str]:
    """Return the names of its workers."""
    return names(cluster, "-l", "node-role.kubernetes.io/worker")


def namespaces(cluster: Installation, node: str) -> set[str]:
    """Return the namespaces of a node's running pods."""
    return {pod["metadata"]["namespace"] for pod in cluster.pods_of(node)}


def waiting(cluster: Installation) -> list[str]:
    """Return the requests for certificates that nobody has answered."""
    requests = cluster.kubectl_json("get", "csr")["items"]
    return [item["metadata"]["name"] for item in requests if not item["status"].get("conditions")]

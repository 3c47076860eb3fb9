"""Hosts that node0 itself boots by their BMCs: `node0 agent boot`, and `node0 create cluster` (docs/ipi.md)."""

import json
import os
import signal
from typing import Any

import pytest
import yaml

from drivers.protocols import PowerState
from installer.common.formats import yamltext
from installer.common.secretfiles import write_private
from lab.deploy import Deployment
from lab.lab import Lab
from lab.topology import NodeSpec
from lab.waiting import wait_until
from scenarios.testing.cluster import Installation

pytestmark = pytest.mark.nightly
IPI = "compact-ipv4-dhcp-uefi-ipi"
COMPACT = "compact-ipv4-static-uefi-agent_boot"
BOOT_SECONDS = 1500.0
CREATE_SECONDS = 2400.0
#: The machine that is the bootstrap of a cluster that is created, and a worker of it afterwards.
SPARE = "worker-0"


def entry(deployment: Deployment, node: NodeSpec) -> dict[str, Any]:
    """Return a machine as platform.baremetal.hosts names it."""
    [access] = [bmc for bmc in deployment.lab.access.bmcs if bmc.host == node.name]
    bmc = {
        "address": access.address.replace("redfish+", "redfish-virtualmedia+"),
        "username": access.username,
        "password": access.password,
        "disableCertificateVerification": True,
    }
    return {"name": node.name, "role": node.role, "bootMACAddress": node.mac, "bmc": bmc}


def with_bmcs(deployment: Deployment) -> None:
    """Name the machines' BMCs in install-config.yaml."""
    path = deployment.directory / "install-config.yaml"
    config = yamltext.load(path.read_text())
    platform = config["platform"]["baremetal"]
    platform |= {
        "provisioningNetwork": "Disabled",
        "hosts": [entry(deployment, node) for node in deployment.topology.nodes],
    }
    path.write_text(yaml.safe_dump(config))


def options_of(deployment: Deployment) -> list[str]:
    """Return the options for BMCs that read a network share alone."""
    [image] = deployment.directory.glob("agent.*.iso")
    return ["--image-url", deployment.lab.serve(image, "nfs")]


def switched_on(lab: Lab, name: str) -> int:
    """Count the requests by which a machine's BMC has switched it on."""
    lines = (lab.layout.log / "bmc-requests.jsonl").read_text().splitlines()
    asked = [entry for entry in map(json.loads, lines) if entry.get("bmc") == name and entry["method"] == "POST"]
    resets = [entry for entry in asked if entry["path"].endswith("ComputerSystem.Reset") and entry["status"] < 300]
    return len([entry for entry in resets if entry["body"].get("ResetType") == "On"])


@pytest.mark.parametrize("deployment", [COMPACT], indirect=True)
def test_a_cluster_is_installed_by_one_agent_boot(deployment: Deployment) -> None:
    with_bmcs(deployment)
    deployment.create_image()
    options = options_of(deployment)
    planned = deployment.agent("boot", "--plan", *options, timeout=60)
    assert planned.returncode == 0
    assert len(planned.stdout.splitlines()) == len(deployment.topology.nodes)
    assert all(node.power.state() is PowerState.OFF for node in deployment.lab.nodes.values())
    with deployment.lab.phase("agent boot"):
        booted = deployment.agent("boot", *options, timeout=BOOT_SECONDS)
    assert booted.returncode == 0, booted.stderr[-4000:]
    assert [node.media.inserted() for node in deployment.lab.nodes.values()] == [None] * len(deployment.lab.nodes)
    secrets = [bmc.password for bmc in deployment.lab.access.bmcs]
    log = (deployment.directory / ".openshift_install.log").read_text()
    assert not [secret for secret in secrets if secret in log + planned.stdout + booted.stderr]
    deployment.wait()


@pytest.mark.parametrize("deployment", [IPI], indirect=True)
def test_a_cluster_is_created_and_destroyed_by_its_bmcs(deployment: Deployment) -> None:
    lab, directory = deployment.lab, deployment.directory
    with_bmcs(deployment)
    (directory / "agent-config.yaml").unlink()
    spare = next(node for node in deployment.topology.nodes if node.name == SPARE)
    bootstrap = directory.parent / "bootstrap.yaml"
    write_private(bootstrap, yaml.safe_dump({"bmc": entry(deployment, spare)["bmc"], "bootMACAddress": spare.mac}))

    def run(*words: str, timeout: float) -> None:
        done = deployment.node0(*words, "--bootstrap", str(bootstrap), timeout=timeout)
        assert done.returncode == 0, done.stderr[-4000:]
        assert not [bmc.password for bmc in lab.access.bmcs if bmc.password in done.stdout + done.stderr]

    argv = deployment.argv("create", "cluster", "--bootstrap", str(bootstrap))
    with (
        lab.phase("create cluster, killed"),
        lab.running(argv, env=deployment.environment(), name="create-cluster-killed") as killed,
    ):
        log = directory / ".openshift_install.log"
        wait_until(lambda: log.exists() and "for the Kubernetes API" in log.read_text(), 900, "all to be started")
        os.killpg(killed.pid, signal.SIGKILL)
        killed.wait(30)
    with lab.phase("create cluster"):
        run("create", "cluster", timeout=CREATE_SECONDS)
    for name in lab.nodes:
        assert switched_on(lab, name) == (2 if name == SPARE else 1), f"{name}: the bootstrap and each host start once"
    nodes = Installation(deployment).kubectl_json("get", "nodes")["items"]
    assert {node["metadata"]["name"] for node in nodes} == {node.name for node in deployment.topology.nodes}
    assert [node.media.inserted() for node in lab.nodes.values()] == [None] * len(lab.nodes)
    log_text = log.read_text()
    assert not [bmc.password for bmc in lab.access.bmcs if bmc.password in log_text]
    with lab.phase("destroy cluster"):
        run("destroy", "cluster", timeout=600)
    assert {node.power.state() for node in lab.nodes.values()} == {PowerState.OFF}

"""Hosts that node0 itself boots by their BMCs: `node0 agent boot` (docs/ipi.md)."""

from typing import Any

import pytest
import yaml

from drivers.protocols import PowerState
from lab.deploy import Deployment
from lab.topology import NodeSpec

pytestmark = pytest.mark.nightly
COMPACT = "compact-ipv4-static-uefi-agent_boot"
BOOT_SECONDS = 1500.0


def with_bmcs(deployment: Deployment, **changed: dict[str, Any]) -> None:
    """Name the machines' BMCs in install-config.yaml; `changed` are fields of a host's BMC, by its name."""
    path = deployment.directory / "install-config.yaml"
    config = yaml.safe_load(path.read_text())
    access = {bmc.host: bmc for bmc in deployment.lab.access.bmcs}

    def host(node: NodeSpec) -> dict[str, Any]:
        bmc = {
            "address": access[node.name].address.replace("redfish+", "redfish-virtualmedia+"),
            "username": access[node.name].username,
            "password": access[node.name].password,
            "disableCertificateVerification": True,
        }
        bmc |= changed.get(node.name.replace("-", "_"), {})
        return {"name": node.name, "role": node.role, "bootMACAddress": node.mac, "bmc": bmc}

    platform = config["platform"]["baremetal"]
    platform |= {"provisioningNetwork": "Disabled", "hosts": [host(node) for node in deployment.topology.nodes]}
    path.write_text(yaml.safe_dump(config))


def options_of(deployment: Deployment) -> list[str]:
    """Return the options for BMCs that read a network share alone."""
    [image] = deployment.directory.glob("agent.*.iso")
    return ["--image-url", deployment.lab.serve(image, "nfs")]


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

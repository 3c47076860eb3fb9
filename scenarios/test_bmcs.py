"""One node is installed through each vendor's BMC (docs/bmcs.md); what a BMC does not do is told at once."""

import json
from typing import Any

import pytest

from drivers.errors import MediaError
from drivers.protocols import PowerState
from lab.bmcs.profile import profile
from lab.deploy import Deployment
from lab.lab import Lab
from scenarios.catalogue.matrix import params
from scenarios.catalogue.variants import BMCS, BROKEN_BMCS
from scenarios.testing.cluster import Installation

through = pytest.mark.parametrize(
    "installation", params(lambda row: any(bmc in row.variants for bmc in BMCS)), indirect=True
)


def requests_of(lab: Lab, node: str) -> list[dict[str, Any]]:
    """List the requests to a machine's BMC, in order."""
    lines = (lab.layout.log / "bmc-requests.jsonl").read_text().splitlines()
    return [entry for entry in map(json.loads, lines) if entry.get("bmc") == node]


@through
def test_a_cluster_is_installed_through_it(installation: Installation) -> None:
    lab = installation.lab
    [node] = lab.nodes.values()
    assert installation.api_ready()
    assert node.media.inserted(), "nobody has taken the image out"
    bmc_profile = profile(installation.topology.bmc_of(node.spec))
    asked = requests_of(lab, node.name)
    assert any(f"/Systems/{bmc_profile.system}/Actions/ComputerSystem.Reset" in entry["path"] for entry in asked)
    assert not [entry for entry in asked if entry["path"].endswith(node.uuid)], "it knows one machine, by its own name"


@pytest.mark.parametrize(
    "deployment", [pytest.param(f"sno-ipv4-static-uefi-{bmc}", marks=pytest.mark.nightly) for bmc in BROKEN_BMCS],
    indirect=True,
)  # fmt: skip
def test_a_bmc_that_does_not_insert_is_told_at_once(deployment: Deployment) -> None:
    deployment.create_image()
    with pytest.raises(MediaError) as caught:
        deployment.boot()
    [node] = deployment.lab.nodes.values()
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(f"{node.name}: BMC {deployment.lab.layout.bmc_url_of(node.spec)}: insert http")
    assert "the drive holds nothing" in message or "no virtual CD drive" in message
    assert node.power.state() is PowerState.OFF

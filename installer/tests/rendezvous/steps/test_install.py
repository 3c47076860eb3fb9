"""The install step and the check of images, held against assisted-service's install_cmd.go and
container_image_availability_cmd.go."""

from __future__ import annotations

import json
from typing import Any

import pytest

from installer.assisted.enums import StepType
from installer.rendezvous.steps import instructions
from installer.testing.engine.verdict_kit import host_view

IMAGES = {"installer_image": "r/i", "mco_image": "r/mco", "must_gather_image": "r/mg", "release_image": "r/release"}


@pytest.mark.parametrize("bootstrap", [True, False])
@pytest.mark.parametrize(
    ("settings", "own", "images"),
    [
        (IMAGES, "", ["r/release", "r/mco", "r/mg", "r/i"]),
        (IMAGES, "mirror/release", ["mirror/release", "r/mco", "r/mg", "r/i"]),
        ({"installer_image": "r/i", "release_image": "r/release"}, "", ["r/release", "r/i"]),
        ({**IMAGES, "mco_image": "r/i"}, "", ["r/release", "r/i", "r/mg"]),
    ],
)
def test_every_host_must_be_able_to_pull_what_it_runs(
    settings: dict[str, str], own: str, images: list[str], bootstrap: bool
) -> None:
    view = host_view({"bootstrap": bootstrap}, {"ocp_release_image": own}, settings=settings)
    [text] = instructions.MAKERS[StepType.IMAGES](view) or []
    assert json.loads(text)["images"] == images


def request(cluster: dict[str, Any], settings: dict[str, str] | None = None) -> dict[str, Any]:
    view = host_view(
        {"installation_disk_id": "/dev/vda", "installation_disk_path": "/dev/vda"}, cluster, settings=settings
    )
    [text] = instructions.MAKERS[StepType.INSTALL](view) or []
    sent: dict[str, Any] = json.loads(text)
    return sent


def test_the_install_step_names_the_payloads_images() -> None:
    sent = request({}, IMAGES)
    assert (sent["mco_image"], sent["must_gather_image"], sent["installer_image"]) == ("r/mco", "r/mg", "r/i")
    assert not {"mco_image", "must_gather_image"} & request({}).keys()
    assert (sent["notify_num_reboots"], sent["enable_skip_mco_reboot"]) == (True, True)


OWN = "127.0.0.1,localhost,.svc,.cluster.local,api-int.ostest.test.example"


@pytest.mark.parametrize(
    ("cluster", "proxy"),
    [
        ({}, None),
        ({"no_proxy": "a.example"}, None),
        ({"http_proxy": "http://p:1"}, {"http_proxy": "http://p:1", "no_proxy": OWN}),
        (
            {"https_proxy": "http://p:1", "no_proxy": "a.example,localhost"},
            {"https_proxy": "http://p:1", "no_proxy": "a.example,localhost," + OWN.replace("localhost,", "")},
        ),
        ({"http_proxy": "http://p:1", "no_proxy": " * "}, {"http_proxy": "http://p:1", "no_proxy": "*"}),
    ],
)
def test_the_installer_reaches_the_cluster_past_its_proxy(cluster: dict[str, Any], proxy: Any) -> None:
    assert request({"name": "ostest", "base_dns_domain": "test.example", **cluster}).get("proxy") == proxy

"""Machines come to their live system by the way that was asked for; test_install.py has what is installed by each."""

import re

import pytest

from lab.deploy import Deployment
from lab.waiting import wait_until
from scenarios.catalogue.matrix import params
from scenarios.testing.cluster import Installation
from scenarios.testing.service import Discovered

# Emulated, on a busy host.
REGISTERED_SECONDS = 2400


def _served(installation: Installation) -> list[str]:
    """List the files fetched whole or in part from the lab's HTTP server, in order."""
    log = (installation.lab.layout.log / "http.log").read_text()
    return re.findall(r'"GET (\S+) HTTP/[\d.]+" 20[06]', log)


@pytest.mark.parametrize("installation", params(lambda row: row.boot != "iso"), indirect=True)
def test_machines_came_by_the_way_that_was_asked_for(installation: Installation) -> None:
    """By what the lab's servers gave out and what lies in the drives: a machine has no other way to a live system."""
    boot_way, nodes = installation.topology.boot, installation.lab.nodes
    fetched = _served(installation)
    count = {name: sum(path.endswith(name) for path in fetched) for name in ("-vmlinuz", "-initrd.img", "-rootfs.img")}
    inserted = [node.media.inserted() or "" for node in nodes.values()]
    if boot_way == "pxe":
        assert count == dict.fromkeys(count, len(nodes))
        assert sum(path.endswith(".ipxe") for path in fetched) == len(nodes)
        assert inserted == [""] * len(nodes)
    elif boot_way in ("minimal-iso", "http-boot"):
        assert count == {"-vmlinuz": 0, "-initrd.img": 0, "-rootfs.img": len(nodes)}
        assert all(inserted) is (boot_way == "minimal-iso")
        assert any(path == "/boot/agent.x86_64.iso" for path in fetched) is (boot_way == "http-boot")
    elif boot_way == "discovery-iso":
        assert all(inserted)
        assert set(count.values()) == {0}
    elif boot_way == "config-image":
        assert all("agentconfig.noarch.iso" in url for url in inserted)
        assert set(count.values()) == {0}
    else:
        assert boot_way == "usb"
        assert inserted == [""] * len(nodes)
        assert set(count.values()) == {0}


@pytest.mark.parametrize(
    "installation", params(lambda row: row.boot == "discovery-iso" and "hub" not in row.variants), indirect=True
)
def test_several_hosts_are_discovered_and_become_one_cluster(installation: Installation) -> None:
    """One image for all of them; each has the name, role and disk that it was given afterwards."""
    assert isinstance(installation, Discovered)
    assert set(installation.ready_boots()) == set(installation.hosts.values()) == set(installation.lab.nodes)
    hosts = installation.service.call("v2_list_hosts", installation.infra_env_id)
    assert {host["status"] for host in hosts} == {"installed"}


@pytest.mark.nightly
@pytest.mark.vm("its firmware, iPXE and udev are what is looked at")
@pytest.mark.parametrize(
    "deployment",
    [
        "sno-ipv4-static-uefi-pxe-agent_only",
        "sno-ipv4-dhcp-bios-pxe-agent_only",
        "sno-ipv4-static-uefi-http_boot-agent_only",
        "sno-ipv4-static-uefi-usb-agent_only",
        "sno-ipv4-static-bios-usb-agent_only",
        "sno-ipv4-static-uefi-config_image-agent_only",
    ],
    indirect=True,
)
def test_a_firmware_of_its_own_brings_up_the_agent(deployment: Deployment) -> None:
    """SeaBIOS or EDK II with iPXE, up to the host's registration; from there on all ways are one."""
    deployment.create_image()
    deployment.boot()

    def registered() -> bool:
        infra_envs = deployment.rest("infra-envs")
        return any(host.get("inventory") for env in infra_envs for host in _hosts(deployment, env["id"]))

    with deployment.lab.phase("up to the agent"):
        wait_until(registered, REGISTERED_SECONDS, "the host to register and send its inventory")


def _hosts(deployment: Deployment, infra_env: str) -> list[dict[str, str]]:
    hosts: list[dict[str, str]] = deployment.rest(f"infra-envs/{infra_env}/hosts")
    return hosts

"""Installations that must fail, and say why."""

import re

import pytest

from lab.layout import BRIDGE
from scenarios.cluster import Deployment, said

WAIT_FOR_FAILED = 5  # installer.md §8.3: bootstrap failed


@pytest.mark.parametrize("deployment", ["sno-ipv4-static-uefi-small_disk"], indirect=True)
def test_a_disk_too_small_is_named_with_what_was_found_and_needed(deployment: Deployment):
    deployment.create_image()
    deployment.boot()
    result = deployment.wait_for("bootstrap-complete", timeout=600)
    assert result.returncode == WAIT_FOR_FAILED, said(result)[-2000:]
    host = deployment.topology.nodes[0]
    [line] = [
        text
        for text in said(result).splitlines()
        if "level=error" in text and "has-min-valid-disks" in text and host.name in text
    ][:1] or [""]
    assert line, f"no error line names {host.name} and has-min-valid-disks:\n{said(result)[-3000:]}"
    sizes = re.findall(r"(\d+(?:\.\d+)?) ?Gi?B", line)
    assert len(sizes) >= 2, f"found and needed size are not both in: {line}"
    logs = list(deployment.directory.glob("logs/**/*"))
    assert any(path.is_file() and path.stat().st_size for path in logs), "wait-for left no logs"


@pytest.mark.nightly
@pytest.mark.parametrize("deployment", ["compact-ipv4-static-uefi-node0_alone"], indirect=True)
def test_hosts_that_never_come_and_a_vip_that_is_taken_are_told(deployment: Deployment):
    """Two of three machines stay without power, and something else on the network has the API's address."""
    [vip] = deployment.topology.api_addresses
    taken = deployment.lab.run(["ip", "address", "add", f"{vip}/32", "dev", BRIDGE], timeout=10)
    assert taken.returncode == 0, said(taken)
    deployment.create_image()
    node0, *absent = deployment.topology.nodes
    deployment.boot(node0.name)
    result = deployment.wait_for("bootstrap-complete", 900, "--timeout=480")
    lines = said(result).splitlines()
    assert result.returncode == WAIT_FOR_FAILED, said(result)[-2000:]
    assert any("timed out after 8m0s" in line for line in lines), said(result)[-2000:]
    for spec in absent:
        assert any("level=error" in line and spec.name in line and "never registered" in line for line in lines)
    assert any(vip in line and "already in use" in line for line in lines), said(result)[-3000:]


@pytest.mark.nightly
@pytest.mark.parametrize("deployment", ["compact-ipv4-dhcp-uefi-same_hostname"], indirect=True)
def test_two_hosts_with_one_name_are_both_told(deployment: Deployment):
    deployment.create_image()
    deployment.boot()
    result = deployment.wait_for("bootstrap-complete", timeout=1200)
    assert result.returncode == WAIT_FOR_FAILED, said(result)[-2000:]
    name = deployment.topology.nodes[1].name
    found = [x for x in said(result).splitlines() if "level=error" in x and "hostname-unique" in x and name in x]
    assert len(found) == 2, said(result)[-3000:]

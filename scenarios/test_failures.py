"""Installations that must fail, and say why."""

import re

import pytest

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

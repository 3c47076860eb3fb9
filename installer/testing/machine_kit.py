"""A host to install on, for flows from end to end."""

from __future__ import annotations

import json
from typing import Any

import pytest

from installer.testing.orchestrator_kit import Site, data

DONE = "opt/openshift/.bootkube.done"
EMPTY = {"ignition": {"version": "3.2.0"}}
OWN = {**EMPTY, "storage": {"files": [{"path": "/etc/hostname", "contents": data("chosen")}]}}
BOOTSTRAP = {
    **EMPTY,
    "storage": {"files": [{"path": "/opt/openshift/auth/kubeconfig", "contents": data("k")}]},
    "systemd": {"units": [{"name": "bootkube.service", "contents": "x"}]},
}
QUIET = ("systemctl", "hostname", "dd", "vgremove", "wipefs", "sync", "systemd-run", "journalctl", "podman", "dmesg")


@pytest.fixture
def machine(site: Site) -> Site:
    """Provide a host with an install disk that is known by a link, and the service's files for it."""
    for name in (*QUIET, "mount", "ip"):
        site.programs.add(name)
    site.programs.says("lsblk", '{"blockdevices": [{"name": "/dev/vdc", "type": "disk", "fstype": null}]}')
    site.programs.add("realpath", "[ $2 = /dev/disk/by-id/wanted ] && echo /dev/vdc\n")
    ignition = f"cat {site.root}$4 > {site.root}/written; ls -l {site.root}$4 > {site.root}/mode\n"
    site.programs.add("coreos-installer", f"{ignition}echo 'Read disk (50%)'; echo 'Read disk (100%)'\n")
    site.service.files["bootstrap.ign"] = json.dumps(BOOTSTRAP).encode()
    site.service.host_ignition = json.dumps(OWN).encode()
    return site


def written(site: Site, name: str) -> dict[str, Any]:
    """Return the ignition that coreos-installer was given; also that it was once, for the right disk."""
    assert site.timeline.argv("coreos-installer") == [["install", "--insecure", "-i", name, "/dev/vdc"]]
    written: dict[str, Any] = json.loads((site.root / "written").read_text())
    return written
